"""One workload of the user's own on one device: run it, keep it if asked to, give its raw trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated

import typer

from gpudissect.cli.say import note_line
from gpudissect.errors import UsageError

if TYPE_CHECKING:
    from gpudissect.device.base import DeviceInfo
    from gpudissect.report.trace import RawTrace
    from gpudissect.trace import Trace
    from gpudissect.workload import Workload

DeviceOption = Annotated[
    str | None, typer.Option("--device", "-d", metavar="DEV", help="cuda:0, sim:gtx980, sim:my.toml, rec:folder.")
]
OutputOption = Annotated[
    FilePath | None,
    typer.Option("--output", "-o", metavar="FILE", help="Trace as .csv, .json, .npz, .parquet or .txt."),
]
RecordOption = Annotated[
    FilePath | None, typer.Option(metavar="DIR", help="Keep it in a new folder, to replay as rec:DIR.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the trace as JSON.")]


def check_output(output: FilePath | None) -> None:
    """Raise `UsageError` for a file that could not be written, before anything runs."""
    from gpudissect.report.files import check_writable
    from gpudissect.report.trace import FORMATS

    if output is None:
        return
    if output.suffix not in FORMATS:
        raise UsageError(f"cannot write {output}: the name must end in {', '.join(FORMATS)}")
    check_writable(output)


def run_one(
    device: str | None, kind: str, make: Callable[[DeviceInfo], Workload], seed: int, record: FilePath | None
) -> tuple[DeviceInfo, Workload, Trace]:
    """Open the device, make the workload for it and run it. `kind` names it in messages: ``a chase``.

    Whatever `make` raises comes before anything is run or recorded. Raises `UsageError` for more than one device.
    """
    from gpudissect.device.find import choose, open_device
    from gpudissect.device.recorded import Recorder

    choice = choose(device)
    if choice.note:
        note_line(choice.note)
    if len(choice.specs) > 1:
        raise UsageError(f"{kind} runs on one device; name one, such as {choice.specs[0]}")
    with ExitStack() as stack:
        opened = stack.enter_context(open_device(choice.specs[0], seed=seed))
        workload = make(opened.info)
        if record is not None:
            opened = stack.enter_context(Recorder(opened, record))
        return opened.info, workload, opened.run([workload])[0]


def give(given: RawTrace, output: FilePath | None, *, as_json: bool) -> None:
    """The trace to `output` and the summary to stdout; without, the trace to stdout and the summary to stderr."""
    from gpudissect.report.files import write_bytes
    from gpudissect.report.trace import FORMATS, summary, to_json, to_table

    if output is None:
        typer.echo(to_json(given) if as_json else to_table(given), nl=False)
        note_line(summary(given))
        return
    content = FORMATS[output.suffix](given)
    write_bytes(output, content.encode() if isinstance(content, str) else content)
    typer.echo(to_json(given) if as_json else summary(given), nl=not as_json)
