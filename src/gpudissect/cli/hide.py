"""``gpudissect hide``: how many warps this GPU needs to hide latency, and how well models predict it."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

import typer

from gpudissect.cli.console import finish, print_note, progress_on_stderr
from gpudissect.cli.options import DeviceOption, HtmlOption, RecordOption, ResultOption, TracesOption
from gpudissect.cli.results import print_results
from gpudissect.errors import UsageError
from gpudissect.vocabulary import HIDING

Access = StrEnum("Access", "STREAMING STRIDE2 RANDOM RSQ LDS ALL")


def hide(
    device: DeviceOption = None,
    access: Annotated[
        list[Access] | None,
        typer.Option(help="What stands between additions (streaming); may be repeated.", show_default=False),
    ] = None,
    quick: Annotated[
        bool | None, typer.Option("--quick/--full", help="Fewer mixes: seconds.", show_default=False)
    ] = None,
    output: ResultOption = None,
    html: HtmlOption = None,
    traces: TracesOption = None,
    record: RecordOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Measure throughput against occupancy, and report how many warps hide latency.

    Every warp runs a chain of loads with alpha additions between two of them. Ctrl-C keeps what was measured: the quick
    grid comes first. Exit codes: 0 done, 4 done in part, 130 interrupted.
    """
    from gpudissect.device.find import choose
    from gpudissect.interrupts import uninterrupted
    from gpudissect.study import Request, check_outputs, run_study

    check_outputs(output, html, traces, device, record)
    choice = choose(device)
    if choice.note:
        print_note(choice.note)
    if len(choice.specs) > 1:
        raise UsageError(f"latency hiding is measured on one device; name one, such as {choice.specs[0]}")
    request = Request(hiding=True, elements=_elements(access or ()), quick=quick)
    keep = html is not None or traces is not None
    with progress_on_stderr() as progress:
        outcome = run_study(choice.specs[0], request, record=record, keep=keep, progress=progress)
    errors = [*([outcome.error] if outcome.error is not None else []), *outcome.save(output, html, traces)]
    with uninterrupted():
        print_results([outcome.result], as_json=as_json)
    return finish([outcome.result], errors)


def _elements(accesses: Collection[Access]) -> tuple[str, ...] | None:
    """Elements of the findings; None for the default."""
    if Access.ALL in accesses:
        return HIDING
    names = ("hiding" if access is Access.STREAMING else f"hiding_{access}" for access in accesses)
    return tuple(dict.fromkeys(names)) or None
