"""A study on one device, or on every GPU of this machine at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from socket import SHUT_RDWR, socket
from time import monotonic
from typing import TYPE_CHECKING, Any

from gpudissect.child_processes import collect_rarely, die_with_parent
from gpudissect.device.child import started_early
from gpudissect.errors import DeviceError, GpudissectError
from gpudissect.interrupts import STOP_SIGNALS, catch_stop_signals, uninterrupted

if TYPE_CHECKING:
    from gpudissect.cli.console import Progress
    from gpudissect.device.base import Device
    from gpudissect.device_info import DeviceInfo
    from gpudissect.link_study import StopReason
    from gpudissect.results.links import LinkReport
    from gpudissect.results.model import Result
    from gpudissect.study import Request
    from gpudissect.survey.links import LinkValues

MAX_GPUS = 16  # started early
DEVICES = Path("/dev")
CLOSE_S = 25.0  # until a process that was dismissed is killed; longer than its device takes
WAIT_S = 0.2  # between looks for a stop signal
HEALTH_LINKS_S = 30.0  # in a check between jobs, no links are started after this


@dataclass(frozen=True)
class Job:
    """A study on the device `spec`.

    `outputs` are the files of the result, the HTML report, the traces and the picture; they and the folder `record` get
    `suffix` in their names if there is one. `kept_bytes`: see `run_study`. With `measures_links`, the device stays open
    for the links to other GPUs.
    """

    spec: str
    suffix: str
    request: Request
    record: Path | None
    outputs: tuple[Path | None, ...]
    kept_bytes: int
    measures_links: bool = False

    def run(self, progress: Progress, opened: Device | None = None) -> tuple[Result, list[GpudissectError]]:
        """Measure, and write the files; the result, and why a file could not be written. Raises as `run_study`."""
        from gpudissect.study import run_study

        folder = self.record / self.suffix if self.record is not None else None
        outcome = run_study(
            self.spec, self.request, record=folder, kept_bytes=self.kept_bytes, progress=progress, opened=opened
        )
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
class _Outcome:
    """Results and errors of a job; `info` describes its device, None if that is closed."""

    results: list[Result]
    errors: list[GpudissectError]
    info: DeviceInfo | None = None


class SurveyProcess:
    """A process that runs a job on the device `spec`, which it opens at once; after the survey a `LinkGpu`.

    Attributes:
        step: progress of the survey; None before it starts.
        outcome: results and errors; None until it ends.

    """

    def __init__(self, spec: str, seed: int) -> None:
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        self.spec = spec
        self.step: _Step | None = None
        self.outcome: _Outcome | None = None
        self.connection, other = context.Pipe()
        arguments = (spec, seed, os.getpid(), other)
        self._process: BaseProcess = context.Process(target=_run_here, args=arguments, daemon=True)
        resource_tracker.ensure_running()  # its start would unblock signals
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # a signal would end it with a traceback
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other.close()
        self._is_busy = self._is_stopped = False

    def begin(self, job: Job) -> None:
        """Let it run a job on its device."""
        with suppress(OSError):  # the process has ended; its outcome reports it
            self.connection.send(job)

    def take_message(self) -> _Step | None:
        """Take a message of the survey; a step is returned."""
        message = self._receive()
        if isinstance(message, _Step):
            self.step = message
            return message
        if message is None:
            self._process.join(CLOSE_S)
            message = _Outcome([], [DeviceError(f"{self.spec}: its process ended with code {self._process.exitcode}")])
        self.outcome = message
        return None

    def stop(self) -> None:
        """Stop the survey and keep what it has measured.

        One that has not started, or was stopped before, is killed; its outcome is empty.
        """
        if self.outcome is not None:
            return
        if self.step is None or self._is_stopped:
            self.outcome = _Outcome([], [])
            self._process.kill()
        elif self._process.pid is not None:
            self._is_stopped = True
            os.kill(self._process.pid, signal.SIGINT)

    def measure(self, target: str, names: Collection[str] | None, pairs_at_once: int) -> LinkValues:
        """See `LinkGpu`."""
        values: LinkValues | None = self._ask("measure", target, names, pairs_at_once)
        if values is None:
            from gpudissect.survey.links import failed_link

            self._process.join(CLOSE_S)
            lost = f"its process ended with code {self._process.exitcode}; run 'gpudissect links'"
            values = failed_link(self.spec, target, lost)
        return values

    def reopen(self) -> None:
        """See `LinkGpu`; without effect once the process itself has ended."""
        self._ask("reopen")

    def _ask(self, *order: object) -> Any:
        self._is_busy = True
        with suppress(OSError):
            self.connection.send(order)
        answer = self._receive()
        self._is_busy = False
        return answer

    def _receive(self) -> Any:
        """The next message, None if its sender is gone."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return None

    def dismiss(self) -> None:
        """Let the process end, without waiting for that."""
        if self._is_busy or self.outcome is None:
            self._process.kill()
        with suppress(OSError), socket(fileno=os.dup(self.connection.fileno())) as end:
            end.shutdown(SHUT_RDWR)  # a thread that waits for an answer gets none

    def close(self) -> None:
        """See `LinkGpu`."""
        self.dismiss()
        self._process.join(CLOSE_S)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()


@contextmanager
def surveyed_at_once(jobs: Sequence[Job], progress: Progress, held: set[int]) -> Iterator[list[SurveyProcess]]:
    """Run jobs, each in a process of its own; inside the block all have outcomes; on exit they end.

    `held` are the stop signals that came, as `uninterrupted` gives them. The first one stops the surveys, a second one
    ends the processes; they are taken from the set.
    """
    processes: list[SurveyProcess] = []
    try:
        for job in jobs:
            processes.append(_started(job.spec, job.request.seed or 0))
            processes[-1].begin(job)
        while _early:
            _early.popitem()[1].close()
        if any(job.measures_links for job in jobs):
            from gpudissect import link_study  # noqa: F401 (needed later; the processes are still opening the devices)
        while running := [each for each in processes if each.outcome is None]:
            ready = wait([each.connection for each in running], WAIT_S)
            for process in running:
                if process.connection in ready and (step := process.take_message()):
                    steps = [each.step for each in processes if each.step]
                    with suppress(KeyboardInterrupt):  # after a stop signal, which is held
                        progress(sum(each.done for each in steps), sum(each.total for each in steps), step.experiment)
            if held:
                held.clear()  # so that the same signal is noticed again
                for each in processes:
                    each.stop()
        yield processes
    finally:
        for each in processes:
            each.dismiss()
        for each in processes:
            each.close()


def measure_pairs(
    surveys: Sequence[SurveyProcess], request: Request, outputs: Sequence[Path | None], progress: Progress
) -> tuple[LinkReport, list[GpudissectError]]:
    """Measure links between GPUs; write JSON and page next to `outputs`. Returns the report and the errors."""
    from gpudissect.link_study import links_between, never_stop, save_links

    gpus = {each.spec: (each, each.outcome.info) for each in surveys if each.outcome and each.outcome.info}
    stop_reason = never_stop if request.profile is None else _stop_condition_of_health(len(gpus))
    report = links_between(gpus, request.seed or 0, progress, stop_reason)
    report = report if request.host else report.without_host()
    failures: list[GpudissectError] = [*map(GpudissectError, report.failures)]
    if any(link.values for link in report.links):
        output, html = (path and path.with_name(f"{path.stem}.links{path.suffix}") for path in outputs)
        failures += save_links(report, output, html)
    return report, failures


def _stop_condition_of_health(own: int) -> StopReason:
    """Ends the link measurements of a health check after `HEALTH_LINKS_S`, or if more than its `own` processes run."""
    from gpudissect.device.cuda.info import count_processes

    end = monotonic() + HEALTH_LINKS_S

    def stop_reason() -> str | None:
        if monotonic() > end:
            return f"not measured within {HEALTH_LINKS_S:g} s"
        return "not measured: another process uses a GPU of this machine" if count_processes() > own else None

    return stop_reason


def start_early(seed: int) -> None:
    """Start the processes of each GPU that seems present, before slow imports; `surveyed_at_once` takes them."""
    count = len([*DEVICES.glob("nvidia[0-9]*")])
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        count = min(count, sum(name.strip() not in ("", "-1") for name in visible.split(",")))
    with suppress(OSError):  # it is reported when the survey starts them
        for number in range(min(count, MAX_GPUS)):
            spec = f"cuda:{number}"
            _early[spec, seed] = SurveyProcess(spec, seed)


_early: dict[tuple[str, int], SurveyProcess] = {}


def _started(spec: str, seed: int) -> SurveyProcess:
    return _early.pop((spec, seed), None) or SurveyProcess(spec, seed)


def _run_here(spec: str, seed: int, parent: int, connection: Connection) -> None:
    """In a process of its own: open the device while modules are imported, then do what is requested."""
    die_with_parent()
    if os.getppid() != parent:  # it has ended already
        return
    os.setpgrp()  # Ctrl-C of a terminal reaches the parent alone, which passes it on
    catch_stop_signals()
    collect_rarely()
    with uninterrupted():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        with started_early(spec, seed):
            from gpudissect import link_study, study  # noqa: F401

            requests = _requests(connection)
            if (job := next(requests, None)) is not None:
                _serve(job, requests, connection)


def _requests(connection: Connection) -> Iterator[Any]:
    """A job, then requests of links, until the process is dismissed."""
    with suppress(EOFError, OSError):
        while True:
            yield connection.recv()


def _serve(job: Job, requests: Iterator[Any], connection: Connection) -> None:
    """Run a job, send its progress and outcome, then measure links on request."""
    from gpudissect.link_study import OpenGpu

    gpu = OpenGpu(job.spec, job.request.seed or 0)
    try:
        if job.measures_links:
            gpu.reopen()
            gpu.opened()
        result, errors = job.run(lambda *step: connection.send(_Step(*step)), gpu.device)
    except KeyboardInterrupt:  # before the survey began
        connection.send(_Outcome([], []))
        return
    except GpudissectError as error:
        connection.send(_Outcome([], [error]))
        return
    except Exception as error:
        connection.send(_Outcome([], [DeviceError(f"{job.spec}: {type(error).__name__}: {error}")]))
        return
    info = gpu.device.info if gpu.device is not None else None
    if job.measures_links and result.failures:  # the device may be lost
        gpu.reopen()
    connection.send(_Outcome([result], errors, info))
    if job.measures_links:
        for name, *arguments in requests:
            connection.send(getattr(gpu, name)(*arguments))
    gpu.close()
