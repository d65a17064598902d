"""One workload of the user's own on one device: run it, keep it if asked to, give its raw trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gpudissect.cli import complete
from gpudissect.cli.say import note_line
from gpudissect.errors import UsageError

if TYPE_CHECKING:
    from gpudissect.device_info import DeviceInfo
    from gpudissect.trace import Trace
    from gpudissect.views.traces.trace import RawTrace
    from gpudissect.workload import Workload

W = TypeVar("W", bound="Workload")

DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        "-d",
        metavar="DEV",
        autocompletion=complete.devices,
        help="cuda:0, sim:gtx980, sim:my.toml, rec:folder.",
    ),
]
OutputOption = Annotated[
    FilePath | None,
    typer.Option("--output", "-o", metavar="FILE", help="Trace as .csv, .json, .npz, .parquet or .txt."),
]
RecordOption = Annotated[
    FilePath | None, typer.Option(metavar="DIR", help="Keep it in a new folder, to replay as rec:DIR.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the trace as JSON.")]


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What these commands have in common: on which device, where the trace goes, whether the run is kept."""

    device: str | None
    output: FilePath | None
    record: FilePath | None
    as_json: bool
    seed: int = 0


def _check_output(wishes: Wishes) -> None:
    """Raise `UsageError` for a file that must not or cannot be written, before anything runs."""
    from gpudissect.results.files import check_apart_from_run, check_ending, check_writable
    from gpudissect.views.traces.trace import FORMATS

    if wishes.output is None:
        return
    check_ending(wishes.output, "of a trace", FORMATS)
    check_apart_from_run(wishes.output, wishes.device, wishes.record)
    check_writable(wishes.output)


def run_and_give(
    make: Callable[[DeviceInfo], W], shape: Callable[[DeviceInfo, W, Trace], RawTrace], wishes: Wishes
) -> None:
    """Make a workload for the device that is wished for, run it and give its raw trace.

    The trace goes to the output and the summary to stdout; without an output the trace to stdout, the summary to
    stderr. Whatever `make` raises comes before anything is run or recorded. Raises `UsageError` for more than one
    device or an output that cannot be written or is read, `UnsupportedWorkload` if the device cannot run the workload.
    """
    _check_output(wishes)
    _give(shape(*_run_one(make, wishes)), wishes)


def _run_one(make: Callable[[DeviceInfo], W], wishes: Wishes) -> tuple[DeviceInfo, W, Trace]:
    from gpudissect.device.find import choose, open_device
    from gpudissect.device.recording.device import Recorder

    choice = choose(wishes.device)
    if choice.note:
        note_line(choice.note)
    if len(choice.specs) > 1:
        raise UsageError(f"one workload runs on one device; name one, such as {choice.specs[0]}")
    with ExitStack() as stack:
        opened = stack.enter_context(open_device(choice.specs[0], seed=wishes.seed))
        workload = make(opened.info)
        if wishes.record is not None:
            opened = stack.enter_context(Recorder(opened, wishes.record))
        return opened.info, workload, opened.run([workload])[0]


def _give(given: RawTrace, wishes: Wishes) -> None:
    from gpudissect.results.files import write_bytes
    from gpudissect.views.traces.trace import FORMATS, summary, to_json, to_table

    output, as_json = wishes.output, wishes.as_json
    if output is None:
        typer.echo(to_json(given) if as_json else to_table(given), nl=False)
        note_line(summary(given))
        return
    content = FORMATS[output.suffix](given)
    write_bytes(output, content.encode() if isinstance(content, str) else content)
    typer.echo(to_json(given) if as_json else summary(given), nl=not as_json)
