"""``gpudissect discover``: the main job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpudissect.cli import complete
from gpudissect.cli.ending import exit_code
from gpudissect.cli.say import note_line
from gpudissect.errors import DeviceError, GpudissectError

if TYPE_CHECKING:
    from gpudissect.api.hierarchy import Hierarchy
    from gpudissect.api.take import Taken
    from gpudissect.results.model import Result

ALL = "cuda:all"


def discover(
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            "-d",
            metavar="DEV",
            autocompletion=complete.devices,
            help="cuda:0, cuda:all, sim:gtx980, sim:my.toml, rec:folder.",
        ),
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
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every trace as one table, .csv or .parquet; one file a GPU."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep everything measured in a new folder, to replay as rec:DIR."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ELEMENT", autocompletion=complete.elements, help="Only this element, such as l1; may be repeated."
        ),
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
    from gpudissect.api.hierarchy import Hierarchy, known_elements
    from gpudissect.api.saving import uninterrupted
    from gpudissect.api.take import check_outputs
    from gpudissect.device.find import choose

    study = Hierarchy(elements=known_elements(only), quick=quick, seed=seed, compare_methods=compare_methods)
    several = device == ALL
    check_outputs(output, html, traces, device, record)
    choice = choose(device)
    if choice.note:
        note_line(choice.note)
    results: list[Result] = []
    troubles: list[GpudissectError] = []
    for spec in choice.specs:
        suffix = spec.replace(":", "") if several else ""
        keep = html is not None or traces is not None
        try:
            taken = _take_apart(spec, study, record / suffix if record is not None else None, keep)
        except DeviceError as error:
            if not several:
                raise
            troubles.append(error)  # the other GPUs can still be measured
            continue
        results.append(taken.result)
        troubles += [taken.trouble] if taken.trouble is not None else []
        troubles += taken.save(*(_with_suffix(path, suffix) for path in (output, html, traces)))
        if taken.result.interrupted:
            break
    with uninterrupted():
        _print(results, as_json=as_json, as_list=several, details=details)
    return exit_code(results, troubles)


def _take_apart(spec: str, study: Hierarchy, record: Path | None, keep: bool) -> Taken:
    from gpudissect.api.take import take_apart
    from gpudissect.cli.progress import progress_on_stderr

    with progress_on_stderr() as progress:
        return take_apart(spec, study, record=record, keep=keep, progress=progress)


def _with_suffix(path: Path | None, suffix: str) -> Path | None:
    return path.with_name(f"{path.stem}.{suffix}{path.suffix}") if path is not None and suffix else path


def _print(results: Sequence[Result], *, as_json: bool, as_list: bool, details: bool) -> None:
    import sys

    from gpudissect.views.terminal.table import console, print_result

    if as_json:
        texts = [result.to_json().rstrip() for result in results]
        typer.echo("[" + ",\n".join(texts) + "]" if as_list else "\n".join(texts))
        return
    out = console(sys.stdout)
    for number, result in enumerate(results):
        if number:
            out.print()
        print_result(out, result, details=details)
