"""``gpudissect predict``: the throughput of a mix at an occupancy, from a result file, without a GPU."""

from __future__ import annotations

import difflib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpudissect.cli import complete
from gpudissect.errors import UsageError
from gpudissect.units import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpudissect.models.base import Machine

LARGEST = 32  # warps of a block of any GPU
NEAR = 64  # warps, within which others are proposed
LEAST, MOST = 1e-9, 1e9  # counts of an instruction


def predict(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A result of 'gpudissect hide -o FILE'.")],
    warps: Annotated[int, typer.Option(help="Warps of an SM.")],
    run: Annotated[
        str | None,
        typer.Option(
            metavar="MIX",
            autocompletion=complete.known_instructions,
            help="Instructions of a warp, such as ldg_streaming:1,fadd:32.",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(metavar="A", help="So many fadd per access instead.", show_default=False)
    ] = None,
    access: Annotated[
        str,
        typer.Option(metavar="KIND", autocompletion=complete.known_accesses, help="The access of --alpha, as in hide."),
    ] = "ldg_streaming",
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Predict the throughput of a mix of instructions, each dependent on the one before, and what limits it.

    The worksheet of VV16 tables 3.2 to 3.4: bounds by latency, by functional units, by memory, and by issue.
    """
    from gpudissect.results.files import load
    from gpudissect.results.machine import machine_of
    from gpudissect.views.terminal.worksheet import Forecast, as_text, forecast, to_json

    result = load(file)
    machine = machine_of(result)
    _check_warps(warps, machine, result.device.facts)
    counts = _counts(run, alpha, access, machine)
    found: Forecast = forecast(machine, counts, warps)
    typer.echo(to_json(found) if as_json else as_text(found), nl=False)


def _check_warps(warps: int, machine: Machine, facts: Mapping[str, object]) -> None:
    """An SM is given whole blocks, all alike, as many as there are places for."""
    told, threads = facts.get("blocks_per_sm"), facts.get("threads_per_block")
    blocks = told if isinstance(told, int) else 32
    largest = min(threads // WARP_SIZE, LARGEST) if isinstance(threads, int) else LARGEST
    if not 1 <= warps <= machine.warps:
        raise UsageError(f"an SM of {machine.name} holds 1 to {machine.warps} warps, got {warps}")
    if not _reached(warps, blocks, largest):
        near = [each for each in range(max(1, warps - NEAR), min(machine.warps, warps + NEAR) + 1)
                if _reached(each, blocks, largest)]  # fmt: skip
        below, above = [n for n in near if n < warps], [n for n in near if n > warps]
        others = " or ".join(str(n) for n in (below[-1:] + above[:1]))
        raise UsageError(f"no configuration makes {warps} warps of an SM: it holds at most {blocks} blocks of at most "
                         f"{largest} warps, all alike; take {others or 'another result'}")  # fmt: skip


def _reached(warps: int, blocks: int, largest: int) -> bool:
    return any(warps % each == 0 and warps // each <= blocks for each in range(1, min(warps, largest) + 1))


def _counts(run: str | None, alpha: float | None, access: str, machine: Machine) -> dict[str, float]:
    """Instructions of a warp, by kind."""
    if (run is None) == (alpha is None):
        raise UsageError("name a mix with --run ldg_streaming:1,fadd:32, or with --alpha 32, and not with both")
    if alpha is not None:
        if not alpha >= 0:
            raise UsageError(f"alpha is 0 or more, got {alpha:g}")
        if alpha >= MOST:
            raise UsageError(f"alpha is below {MOST:g}, got {alpha:g}; for additions alone: --run fadd:1")
        kind = _known(access if f"ldg_{access}" not in machine.units else f"ldg_{access}", machine)
        if kind == "fadd":
            raise UsageError("--alpha counts fadd per access: --access is another instruction; "
                             "for additions alone: --run fadd:1")  # fmt: skip
        return {kind: 1.0} | ({"fadd": alpha} if alpha >= LEAST else {})
    counts: dict[str, float] = {}
    for part in (run or "").split(","):
        name, colon, text = part.strip().partition(":")
        kind = _known(name, machine)
        try:
            count = float(text) if colon else 1.0
        except ValueError:
            count = math.nan
        if not LEAST <= count < MOST:
            raise UsageError(f"--run takes instructions with counts such as ldg_streaming:1,fadd:32, got {part[:40]!r}")
        counts[kind] = counts.get(kind, 0.0) + count
    return counts


def _known(name: str, machine: Machine) -> str:
    if name in machine.units:
        return name
    close = difflib.get_close_matches(name.lower(), list(machine.units), n=2)
    hint = f"did you mean {' or '.join(close)}?" if close else f"this result knows {', '.join(sorted(machine.units))}"
    raise UsageError(f"no such instruction: {name[:40]!r}; {hint}")
