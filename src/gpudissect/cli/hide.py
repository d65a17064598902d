"""``gpudissect hide``: how many warps this GPU needs to hide latency, and whether models know."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpudissect.cli.ending import exit_code
from gpudissect.cli.raw import DeviceOption
from gpudissect.cli.say import note_line
from gpudissect.errors import UsageError

if TYPE_CHECKING:
    from gpudissect.results.model import Result


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
    device: DeviceOption = None,
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
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the result as a page, with what was seen.")
    ] = None,
    traces: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every trace as one table, .csv or .parquet.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep everything measured in a new folder, to replay as rec:DIR.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Measure how throughput depends on occupancy, and say how many warps hide latency.

    Every warp runs a chain of loads and alpha additions between two of them. Ctrl-C keeps what was measured: the quick
    grid comes first. Exit codes: 0 done, 4 done in part, 130 interrupted.
    """
    from gpudissect.api.hiding import Hiding
    from gpudissect.api.saving import uninterrupted
    from gpudissect.api.take import check_outputs, take_apart
    from gpudissect.cli.progress import progress_on_stderr
    from gpudissect.device.find import choose

    check_outputs(output, html, traces, device, record)
    choice = choose(device)
    if choice.note:
        note_line(choice.note)
    if len(choice.specs) > 1:
        raise UsageError(f"latency hiding is measured on one device; name one, such as {choice.specs[0]}")
    wanted = tuple(dict.fromkeys(element for each in access or () for element in each.elements)) or None
    study = Hiding(elements=wanted, quick=quick)
    keep = html is not None or traces is not None
    with progress_on_stderr() as progress:
        taken = take_apart(choice.specs[0], study, record=record, keep=keep, progress=progress)
    troubles = [*([taken.trouble] if taken.trouble is not None else []), *taken.save(output, html, traces)]
    with uninterrupted():
        _print(taken.result, as_json=as_json)
    return exit_code([taken.result], troubles)


def _print(result: Result, *, as_json: bool) -> None:
    if as_json:
        typer.echo(result.to_json(), nl=False)
        return
    import sys

    from gpudissect.views.terminal.hiding import is_answered, lines
    from gpudissect.views.terminal.table import console, print_result

    out = console(sys.stdout)
    print_result(out, result)
    if is_answered(result):
        for line in lines(result, out.width):
            typer.echo(line)
