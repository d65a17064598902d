"""``gpudissect predict``: the throughput of a mix at an occupancy, from a result file, without a GPU."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from gpudissect.cli import completion
from gpudissect.errors import UsageError, unknown_name
from gpudissect.units import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpudissect.models.base import Machine

DEFAULT_BLOCKS_PER_SM = 32
MAX_BLOCK_WARPS = 32  # of any GPU
MIN_COUNT, MAX_COUNT = 1e-9, 1e9  # of an instruction


def predict(
    file: Annotated[Path, Argument(metavar="FILE", help="A result of 'gpudissect hide -o FILE'.")],
    warps: Annotated[int, Option(help="Warps of an SM.")],
    run: Annotated[
        str | None,
        Option(
            metavar="MIX",
            autocompletion=completion.known_instructions,
            help="Instructions of a warp, such as ldg_streaming:1,fadd:32.",
        ),
    ] = None,
    alpha: Annotated[float | None, Option(metavar="A", help="Instead of --run: fadd per access.")] = None,
    access: Annotated[
        str, Option(metavar="KIND", autocompletion=completion.known_accesses, help="The access of --alpha, as in hide.")
    ] = "ldg_streaming",
    as_json: Annotated[bool, Option("--json", help="Print the prediction as JSON.")] = False,
) -> None:
    """Predict the throughput of a mix of dependent instructions, and what limits it.

    The worksheet of VV16 tables 3.2 to 3.4: bounds by latency, by functional units, by memory, and by issue.
    """
    from gpudissect.results.files import load
    from gpudissect.results.machine import machine_of
    from gpudissect.views.terminal.worksheet import predict_mix, to_json, to_text

    result = load(file)
    machine = machine_of(result)
    _check_warps(warps, machine, result.device.facts)
    prediction = predict_mix(machine, _counts(run, alpha, access, machine), warps)
    typer.echo(to_json(prediction) if as_json else to_text(prediction), nl=False)


def _check_warps(warps: int, machine: Machine, facts: Mapping[str, object]) -> None:
    """Raise `UsageError` unless equal blocks make up these warps: an SM runs only whole blocks, and so many at most."""
    blocks, threads = facts.get("blocks_per_sm"), facts.get("threads_per_block")
    max_blocks = blocks if isinstance(blocks, int) else DEFAULT_BLOCKS_PER_SM
    max_warps = min(threads // WARP_SIZE, MAX_BLOCK_WARPS) if isinstance(threads, int) else MAX_BLOCK_WARPS
    if not 1 <= warps <= machine.warps:
        raise UsageError(f"an SM of {machine.name} holds 1 to {machine.warps} warps, got {warps}")

    def possible(count: int) -> bool:
        return any(count % size == 0 and count // size <= max_blocks for size in range(1, min(count, max_warps) + 1))

    if not possible(warps):
        below = next((n for n in range(warps - 1, max(0, warps - 65), -1) if possible(n)), None)
        above = next((n for n in range(warps + 1, min(machine.warps, warps + 64) + 1) if possible(n)), None)
        nearest = " or ".join(str(n) for n in (below, above) if n is not None)
        raise UsageError(
            f"no configuration makes {warps} warps of an SM: it holds at most {max_blocks} blocks of at most "
            f"{max_warps} warps, all alike; take {nearest or 'another result'}"
        )


def _counts(run: str | None, alpha: float | None, access: str, machine: Machine) -> dict[str, float]:
    """Instructions of a warp, by kind."""
    if (run is None) == (alpha is None):
        raise UsageError("name a mix with --run ldg_streaming:1,fadd:32, or with --alpha 32, and not with both")
    if alpha is not None:
        if not alpha >= 0:
            raise UsageError(f"alpha is 0 or more, got {alpha:g}")
        if alpha >= MAX_COUNT:
            raise UsageError(f"alpha is below {MAX_COUNT:g}, got {alpha:g}; for additions alone: --run fadd:1")
        kind = _known(f"ldg_{access}" if f"ldg_{access}" in machine.units else access, machine)
        if kind == "fadd":
            raise UsageError("--access is an instruction other than fadd, got fadd; for additions alone: --run fadd:1")
        return {kind: 1.0} | ({"fadd": alpha} if alpha >= MIN_COUNT else {})
    counts: dict[str, float] = {}
    for part in (run or "").split(","):
        name, colon, text = part.strip().partition(":")
        kind = _known(name, machine)
        try:
            count = float(text) if colon else 1.0
        except ValueError:
            count = math.nan
        if not MIN_COUNT <= count < MAX_COUNT:
            raise UsageError(f"--run takes instructions with counts such as ldg_streaming:1,fadd:32, got {part[:40]!r}")
        counts[kind] = counts.get(kind, 0.0) + count
    return counts


def _known(name: str, machine: Machine) -> str:
    if name not in machine.units:
        raise unknown_name("instruction of this result", name, sorted(machine.units))
    return name
