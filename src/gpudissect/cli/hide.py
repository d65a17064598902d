"""``gpudissect hide``: how many warps this GPU needs to hide latency, and whether models know."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpudissect.cli.say import error_line, note_line
from gpudissect.cli.signals import check, uninterrupted
from gpudissect.errors import DeviceError, RecordingError, UsageError
from gpudissect.estimate import Status

if TYPE_CHECKING:
    from gpudissect.report.result import Options, Result

DONE, IN_PART, INTERRUPTED = 0, 4, 130


class Accesses(StrEnum):
    """What stands between additions."""

    STREAMING = "streaming"
    STRIDE2 = "stride2"
    RANDOM = "random"
    RSQ = "rsq"
    LDS = "lds"
    ALL = "all"

    @property
    def elements(self) -> tuple[str, ...]:
        """Elements of the findings."""
        if self is Accesses.ALL:
            return tuple(element for each in Accesses if each is not Accesses.ALL for element in each.elements)
        return ("hiding",) if self is Accesses.STREAMING else (f"hiding_{self.value}",)


def hide(
    device: Annotated[
        str | None,
        typer.Option("--device", "-d", metavar="DEV", help="cuda:0, sim:gtx980, sim:my.toml, rec:folder."),
    ] = None,
    access: Annotated[
        list[Accesses] | None,
        typer.Option(help="What stands between additions (streaming); may be repeated.", show_default=False),
    ] = None,
    quick: Annotated[
        bool | None, typer.Option("--quick/--full", help="Fewer mixes: seconds.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the result as JSON, for predict.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep everything measured in a new folder, to replay as rec:DIR.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Measure how throughput depends on occupancy, and say how many warps hide latency.

    Every warp runs a chain of loads and alpha additions between two of them. Exit codes: 0 done, 4 done in part, 130
    interrupted.
    """
    from gpudissect.device.find import choose
    from gpudissect.report.files import check_apart, check_writable, write_text
    from gpudissect.report.hiding import lines
    from gpudissect.report.table import console, print_result

    if output is not None:
        check_writable(output)
        check_apart(output, _own_files(device, record))
    choice = choose(device)
    if choice.note:
        note_line(choice.note)
    if len(choice.specs) > 1:
        raise UsageError(f"latency hiding is measured on one device; name one, such as {choice.specs[0]}")
    wanted = tuple(dict.fromkeys(element for each in access or () for element in each.elements)) or None
    result = _measure(choice.specs[0], wanted, quick, record)
    if output is not None:
        with uninterrupted():
            write_text(output, result.to_json())
    with uninterrupted():
        if as_json:
            typer.echo(result.to_json(), nl=False)
        else:
            import sys

            print_result(console(sys.stdout), result)
            if any(each.attribute == "access_rate" and each.status is Status.FOUND for each in result.findings):
                for line in lines(result):
                    typer.echo(line)
    return _exit_code(result)


def _own_files(device: str | None, record: Path | None) -> list[Path]:
    from gpudissect.device.recording import ARRAYS, INDEX

    kind, _, rest = (device or "").partition("?")[0].partition(":")
    folders = [*([Path(rest)] if kind == "rec" else []), *([record] if record is not None else [])]
    return [
        *(folder / name for folder in folders for name in (INDEX, ARRAYS)),
        *([Path(rest)] if kind == "sim" else []),
    ]


def _measure(spec: str, elements: tuple[str, ...] | None, quick: bool | None, record: Path | None) -> Result:
    from gpudissect.cli.progress import progress_on_stderr
    from gpudissect.device.find import open_device
    from gpudissect.device.recorded import Recorder
    from gpudissect.report.build import build
    from gpudissect.survey.run import run_hiding

    with ExitStack() as stack:
        device = stack.enter_context(open_device(spec, seed=0))
        options = _options(elements, quick, getattr(device, "options", {}))
        recorder = None
        if record is not None:
            device = recorder = stack.enter_context(Recorder(device, record, options=options.model_dump()))
        with progress_on_stderr() as progress:

            def step(done: int, total: int, what: str) -> None:
                check()
                progress(done, total, what)

            survey = run_hiding(device, elements=options.elements or (), quick=options.quick, progress=step)
        if recorder is not None:
            with uninterrupted():
                recorder.close(interrupted=survey.interrupted)
        return build(device.info, survey, options, None)


def _options(elements: tuple[str, ...] | None, quick: bool | None, recorded: Any) -> Options:
    """What the user asked for, else what a recording was made with, else the defaults."""
    from gpudissect.report.result import Options
    from gpudissect.vocabulary import HIDING

    own = recorded.get("elements")
    if recorded and not (isinstance(own, list | tuple) and own and set(own) <= set(HIDING)):
        raise RecordingError("this recording is not of latency hiding: replay it with 'gpudissect discover'")
    before = tuple(own) if own else ("hiding",)
    hurry = bool(recorded.get("quick", False)) if quick is None else quick
    return Options(elements=before if elements is None else elements, quick=hurry)


def _exit_code(result: Result) -> int:
    if result.interrupted:
        note_line("interrupted; what was measured until then is kept")
        return INTERRUPTED
    if not result.failures:
        return DONE
    first = result.failures[0]
    error_line(f"{len(result.failures)} experiments failed, the first, {first.experiment}: {first.reason}")
    found = any(finding.status is Status.FOUND for finding in result.findings)
    return IN_PART if found else DeviceError.exit_code
