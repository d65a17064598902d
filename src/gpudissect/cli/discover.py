"""``gpudissect discover``: the main job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpudissect.cli.say import error_line, note_line
from gpudissect.cli.signals import check, uninterrupted
from gpudissect.errors import DeviceError, GpudissectError, RecordingError, UsageError
from gpudissect.estimate import Status

if TYPE_CHECKING:
    from gpudissect.catalogue import Gpu
    from gpudissect.device.base import DeviceInfo
    from gpudissect.device.kept import Keeper
    from gpudissect.report.result import Options, Result

DONE, IN_PART, INTERRUPTED = 0, 4, 130
ALL = "cuda:all"


@dataclass(frozen=True)
class _Wish:
    """What the user asked for; None where a recording's own options, or else the defaults, are meant."""

    elements: tuple[str, ...] | None
    quick: bool | None
    seed: int | None
    compare_methods: bool | None


def discover(
    device: Annotated[
        str | None,
        typer.Option("--device", "-d", metavar="DEV", help="cuda:0, cuda:all, sim:gtx980, sim:my.toml, rec:folder."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the result as JSON; one file a GPU with cuda:all."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the result as a page, with what was seen; one file a GPU with cuda:all."
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep everything measured in a new folder, to replay as rec:DIR."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ELEMENT", help="Only this element, such as l1; may be repeated.")
    ] = None,
    quick: Annotated[
        bool | None,
        typer.Option(
            "--quick/--full",
            help="Leave out what takes longest: structure, policies, TLBs, sharing, the L2's size and map, code.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Seed of every random choice (0).")] = None,
    compare_methods: Annotated[
        bool | None,
        typer.Option("--compare-methods", help="Also read the caches with older methods.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, a list with cuda:all.")] = False,
    details: Annotated[bool, typer.Option("--all", "-a", help="Also print how each value was found.")] = False,
) -> int:
    """Find the whole memory hierarchy of a GPU.

    With cuda:all, FILE.json becomes FILE.cuda0.json, FILE.cuda1.json, ... and DIR gets a folder for each GPU.
    Ctrl-C keeps what was measured. Exit codes: 0 done, 4 done in part, 130 interrupted.
    """
    wish = _Wish(_known(only), quick, seed, compare_methods)
    from gpudissect.device.find import choose
    from gpudissect.report.files import check_apart, check_writable, write_text

    several = device == ALL
    for written in (output, html):
        if written is not None:
            check_apart(written, [*_own_files(device, record), *([output] if output and written is html else [])])
            check_writable(written)
    choice = choose(device)
    if choice.note:
        note_line(choice.note)
    results: list[Result] = []
    troubles: list[GpudissectError] = []
    for spec in choice.specs:
        suffix = spec.replace(":", "") if several else ""
        try:
            result, page, trouble = _take_apart(
                spec, wish, record / suffix if record is not None else None, html is not None
            )
        except DeviceError as error:
            if not several:
                raise
            troubles.append(error)  # the other GPUs can still be measured
            continue
        results.append(result)
        troubles += [trouble] if trouble is not None else []
        for path, text in ((output, result.to_json), (html, page)):
            if path is None:
                continue
            try:
                with uninterrupted():
                    write_text(_with_suffix(path, suffix), text())
            except UsageError as error:
                troubles.append(error)  # the table still comes out
        if result.interrupted:
            break
    with uninterrupted():
        _print(results, as_json=as_json, as_list=several, details=details)
    return _exit_code(results, troubles)


def _own_files(device: str | None, record: Path | None) -> list[Path]:
    """Files of the device and of the recording that is made: a result must not take their place."""
    from gpudissect.device.recording import ARRAYS, INDEX

    kind, _, rest = (device or "").partition("?")[0].partition(":")
    folders = [*([Path(rest)] if kind == "rec" else []), *([record] if record is not None else [])]
    inside = [folder / name for folder in folders for name in (INDEX, ARRAYS)]
    return [*inside, *([Path(rest)] if kind == "sim" else [])]


def _take_apart(
    spec: str, wish: _Wish, record: Path | None, watched: bool
) -> tuple[Result, Callable[[], str], GpudissectError | None]:
    """Survey one device: the result, who writes its page, what went wrong with the recording, to be said at the end.

    Only where it is `watched` does the page have the traces.
    """
    from gpudissect.cli.progress import progress_on_stderr
    from gpudissect.device.find import open_device
    from gpudissect.device.kept import Keeper
    from gpudissect.device.recorded import Recorder
    from gpudissect.report.build import build
    from gpudissect.survey.run import run_survey

    trouble: GpudissectError | None = None
    with ExitStack() as stack:
        device = stack.enter_context(open_device(spec, seed=wish.seed or 0))
        options = _options(wish, getattr(device, "options", {}))
        recorder = None
        if record is not None:
            device = recorder = stack.enter_context(Recorder(device, record, options=options.model_dump()))
        keeper = Keeper(device) if watched else None
        with progress_on_stderr() as progress:

            def step(done: int, total: int, what: str) -> None:
                check()
                progress(done, total, what)

            survey = run_survey(device if keeper is None else keeper, **options.model_dump(), progress=step)
        if recorder is not None:
            try:
                with uninterrupted():
                    recorder.close(interrupted=survey.interrupted)
            except UsageError as error:
                trouble = error
        result = build(device.info, survey, options, _known_as(device.info))
        return result, lambda: _page(result, keeper), trouble


def _page(result: Result, keeper: Keeper | None) -> str:
    from gpudissect.report.page.write import page

    return page(result, keeper)


def _known(elements: Sequence[str] | None) -> tuple[str, ...] | None:
    """Check element names before anything is opened or written."""
    if not elements:
        return None
    import difflib

    from gpudissect.survey.registry import MEASURED

    for element in elements:
        if element not in MEASURED:
            close = difflib.get_close_matches(element.lower(), MEASURED, n=2)
            hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(MEASURED)}"
            raise UsageError(f"no such element: {element!r}; {hint}")
    return tuple(dict.fromkeys(elements))


def _options(wish: _Wish, recorded: Mapping[str, Any]) -> Options:
    """What the user asked for, else what a recording was made with, else the defaults."""
    from pydantic import ValidationError

    from gpudissect.report.result import Options

    asked = {name: recorded[name] for name in Options.model_fields if name in recorded}
    if wish.seed is not None and asked.get("seed", wish.seed) != wish.seed:
        raise RecordingError(f"recorded with --seed {asked['seed']}, it holds nothing for another; leave --seed away")
    asked |= {name: value for name, value in vars(wish).items() if value is not None}
    if isinstance(asked.get("elements"), list):
        asked["elements"] = tuple(asked["elements"])
    try:
        return Options.model_validate(asked)
    except ValidationError:
        raise RecordingError(f"the recording's options make no sense: {dict(recorded)}") from None


def _known_as(info: DeviceInfo) -> Gpu | None:
    """The GPU of the catalogue to hold the findings against. A simulation of somebody's own file has none."""
    from gpudissect.catalogue import for_name, load, names
    from gpudissect.device.base import Origin

    if info.catalogue in names():
        return load(info.catalogue)
    return for_name(info.name) if Origin.MEASURED in (info.origin, info.recorded_origin) else None


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.stem}.{suffix}{path.suffix}") if suffix else path


def _print(results: Sequence[Result], *, as_json: bool, as_list: bool, details: bool) -> None:
    import sys

    from gpudissect.report.table import console, print_result

    if as_json:
        texts = [result.to_json().rstrip() for result in results]
        typer.echo("[" + ",\n".join(texts) + "]" if as_list else "\n".join(texts))
        return
    out = console(sys.stdout)
    for number, result in enumerate(results):
        if number:
            out.print()
        print_result(out, result, details=details)


def _exit_code(results: Sequence[Result], troubles: Sequence[GpudissectError]) -> int:
    """The exit code; troubles that were put off are said here, behind the results they must not cost."""
    for trouble in troubles:
        error_line(str(trouble))
    if any(result.interrupted for result in results):
        note_line("interrupted; what was measured until then is kept")
        return INTERRUPTED
    failures = [failure for result in results for failure in result.failures]
    if failures:
        error_line(f"{len(failures)} experiments failed, the first, {failures[0].experiment}: {failures[0].reason}")
        if not any(finding.status is Status.FOUND for result in results for finding in result.findings):
            return DeviceError.exit_code  # nothing at all came out of this device
    if not results and troubles:
        return troubles[0].exit_code
    if usage := [trouble.exit_code for trouble in troubles if isinstance(trouble, UsageError)]:
        return usage[0]
    return IN_PART if troubles or failures else DONE
