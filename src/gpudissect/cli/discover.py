"""``gpudissect discover``, which measures the memory hierarchy, and ``gpudissect devices``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpudissect.cli import completion
from gpudissect.cli.console import finish, print_note, progress_on_stderr
from gpudissect.cli.options import DeviceOption, HtmlOption, RecordOption, ResultOption, TracesOption
from gpudissect.cli.results import print_results
from gpudissect.errors import DeviceError, GpudissectError

if TYPE_CHECKING:
    from gpudissect.results.model import Result

ALL_GPUS = "cuda:all"


def devices(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False) -> None:
    """List real, simulated and recorded devices, and why a real one cannot be used."""
    from gpudissect.device.find import list_devices

    listings = list_devices()
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps([asdict(item) for item in listings], indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    from gpudissect.results.text import clean
    from gpudissect.views.terminal.table import console, print_table

    table = Table("device", "GPU", "origin", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for item in listings:
        name = Text(clean(item.name))
        if item.why_not is not None:
            name.append(f"{' ' if item.name else ''}cannot be used: {clean(item.why_not)}", "yellow")
        table.add_row(Text(clean(item.spec)), name, Text(item.origin))
    print_table(console(sys.stdout), table)


def discover(
    device: DeviceOption = None,
    output: ResultOption = None,
    html: HtmlOption = None,
    traces: TracesOption = None,
    record: RecordOption = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ELEMENT",
            autocompletion=completion.elements,
            help="Only this element, such as l1; may be repeated.",
        ),
    ] = None,
    quick: Annotated[
        bool | None,
        typer.Option(
            "--quick/--full",
            help="Skip what takes longest: structure, policies, TLBs, sharing, the L2's size and map, code.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Seed of every random choice (0).")] = None,
    compare_methods: Annotated[
        bool | None,
        typer.Option("--compare-methods", help="Also measure the caches with older methods.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, a list with cuda:all.")] = False,
    details: Annotated[bool, typer.Option("--all", "-a", help="Also print how each value was found.")] = False,
) -> int:
    """Find the whole memory hierarchy of a GPU.

    With cuda:all, FILE.json becomes FILE.cuda0.json, FILE.cuda1.json, ... and DIR gets a folder for each GPU.
    Ctrl-C keeps what was measured. Exit codes: 0 done, 4 done in part, 130 interrupted.
    """
    from gpudissect.device.find import choose
    from gpudissect.interrupts import uninterrupted
    from gpudissect.study import Request, check_elements, check_outputs, run_study

    request = Request(elements=check_elements(only), quick=quick, seed=seed, compare_methods=compare_methods)
    several = device == ALL_GPUS
    check_outputs(output, html, traces, device, record)
    choice = choose(device)
    if choice.note:
        print_note(choice.note)
    keep = html is not None or traces is not None
    results: list[Result] = []
    errors: list[GpudissectError] = []
    for spec in choice.specs:
        suffix = spec.replace(":", "") if several else ""
        folder = record / suffix if record is not None else None
        try:
            with progress_on_stderr() as progress:
                outcome = run_study(spec, request, record=folder, keep=keep, progress=progress)
        except DeviceError as error:
            if not several:
                raise
            errors.append(error)  # the other GPUs can still be measured
            continue
        results.append(outcome.result)
        errors += [outcome.error] if outcome.error is not None else []
        errors += outcome.save(*(_with_suffix(path, suffix) for path in (output, html, traces)))
        if outcome.result.interrupted:
            break
    with uninterrupted():
        print_results(results, as_json=as_json, as_list=several, details=details)
    return finish(results, errors)


def _with_suffix(path: Path | None, suffix: str) -> Path | None:
    return path.with_name(f"{path.stem}.{suffix}{path.suffix}") if path is not None and suffix else path
