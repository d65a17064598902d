"""A study on one device, or on every GPU of this machine at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

from gpudissect.errors import DeviceError, GpudissectError
from gpudissect.interrupts import catch_stop_signals, uninterrupted

if TYPE_CHECKING:
    from gpudissect.cli.console import Progress
    from gpudissect.results.model import Result
    from gpudissect.study import Request

WAIT_S = 0.2  # between looks for a stop signal


@dataclass(frozen=True)
class Job:
    """A study on the device `spec`.

    `outputs` are the files of the result, the HTML report, the traces and the picture; they and the folder `record` get
    `suffix` in their names if there is one. `kept_bytes`: see `run_study`.
    """

    spec: str
    suffix: str
    request: Request
    record: Path | None
    outputs: tuple[Path | None, ...]
    kept_bytes: int

    def run(self, progress: Progress) -> tuple[Result, list[GpudissectError]]:
        """Measure, and write the files; the result, and why a file could not be written. Raises as `run_study`."""
        from gpudissect.study import run_study

        folder = self.record / self.suffix if self.record is not None else None
        outcome = run_study(self.spec, self.request, record=folder, kept_bytes=self.kept_bytes, progress=progress)
        return outcome.result, [*filter(None, [outcome.error]), *outcome.save(*map(self._named, self.outputs))]

    def _named(self, path: Path | None) -> Path | None:
        return path and path.with_name(".".join(filter(None, (path.stem, self.suffix))) + path.suffix)


@dataclass(frozen=True)
class _Step:
    """How far a job is: experiments that ended, all of them, and the name of one that runs."""

    done: int
    total: int
    experiment: str


@dataclass(frozen=True)
class _End:
    """What a job gave."""

    results: list[Result]
    errors: list[GpudissectError]


def run_at_once(jobs: Sequence[Job], progress: Progress, held: Set[int]) -> tuple[list[Result], list[GpudissectError]]:
    """Run jobs, each in a process of its own; all results and errors, in the order of the jobs.

    `held` are the stop signals that came, as `uninterrupted` gives them; the processes get them too.
    """
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    children: dict[Connection, BaseProcess] = {}
    for job in jobs:
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_run_here, args=(job, sender), daemon=True)
        child.start()
        sender.close()
        children[receiver] = child
    ends: dict[Connection, _End] = {}
    steps: dict[Connection, _Step] = {}
    is_stopped = False
    while open_pipes := [receiver for receiver in children if receiver not in ends]:
        wait(open_pipes, WAIT_S)
        for receiver in filter(Connection.poll, open_pipes):
            message = _receive(receiver)
            if isinstance(message, _Step):
                steps[receiver] = message
                with suppress(KeyboardInterrupt):  # after a stop signal, which is held
                    done, total = (sum(getattr(step, name) for step in steps.values()) for name in ("done", "total"))
                    progress(done, total, message.experiment)
            elif message is None:
                children[receiver].join()
                spec, code = jobs[list(children).index(receiver)].spec, children[receiver].exitcode
                lost = DeviceError(f"{spec}: its process ended with code {code}")
                ends[receiver] = _End([], [] if is_stopped else [lost])
            else:
                ends[receiver] = message
        if held and not is_stopped:
            is_stopped = True
            for receiver, process in children.items():
                with suppress(ProcessLookupError):
                    os.kill(process.pid or 0, signal.SIGINT if receiver in steps else signal.SIGKILL)
    for process in children.values():
        process.join()
    every = [ends[receiver] for receiver in children]
    return [each for end in every for each in end.results], [each for end in every for each in end.errors]


def _receive(receiver: Connection) -> _Step | _End | None:
    """The next message, None if its sender is gone."""
    try:
        message: _Step | _End = receiver.recv()
    except (EOFError, OSError):
        return None
    return message


def _run_here(job: Job, sender: Connection) -> None:
    """In a process of its own: run a job, and send how far it is and what it gave."""
    os.setpgrp()  # Ctrl-C of a terminal reaches the parent alone, which passes it on
    catch_stop_signals()
    with uninterrupted():
        try:
            result, errors = job.run(lambda *step: sender.send(_Step(*step)))
        except GpudissectError as error:
            sender.send(_End([], [error]))
        else:
            sender.send(_End([result], errors))
