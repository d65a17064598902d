"""The throughput of a mix of instructions at an occupancy, predicted from a result of latency hiding."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral

from gpudissect.errors import UsageError, unknown_name
from gpudissect.models.base import Loop, Machine
from gpudissect.models.volkov import Refined
from gpudissect.models.worksheet import Sheet, worksheet
from gpudissect.results.machine import machine_of
from gpudissect.results.model import Result
from gpudissect.units import WARP_SIZE

DEFAULT_ACCESS = "ldg_streaming"
DEFAULT_BLOCKS_PER_SM = 32
MAX_BLOCK_WARPS = 32  # of any GPU
MIN_COUNT, MAX_COUNT = 1e-9, 1e9  # of an instruction
EXAMPLE = "ldg_streaming:1,fadd:32"


@dataclass(frozen=True)
class MixPrediction:
    """Predicted throughput of a mix."""

    counts: Mapping[str, float]
    """Instructions of a warp by kind."""
    sheet: Sheet
    """Every bound, throughput in warps per cycle, and the binding limit (VV16 tables 3.2 to 3.4)."""
    refined: float | None
    """Warps per cycle with latency under load (VV16 s6.5); None unless one kind of access alternates with one other."""

    @property
    def instructions(self) -> float:
        """Instructions of a warp."""
        return sum(self.counts.values())

    @property
    def instructions_per_cycle(self) -> float:
        """Throughput of one SM."""
        return self.sheet.throughput * self.instructions

    @property
    def bytes_per_second(self) -> float:
        """Memory throughput of the whole GPU."""
        return self.sheet.bytes_per_second()

    @property
    def limit(self) -> str:
        """What limits the throughput: latency, issue, memory or another functional unit."""
        return self.sheet.limit.value

    @property
    def warps_needed(self) -> float:
        """Warps per SM from which on latency does not limit."""
        return self.sheet.needed


def predict(
    result: Result,
    warps: int | None,
    run: str | Mapping[str, float] | None = None,
    alpha: float | None = None,
    access: str = DEFAULT_ACCESS,
) -> MixPrediction:
    """Fill in the worksheet for `warps` per SM and a mix of dependent instructions.

    The mix is `run`, counts per warp by instruction as a text or a mapping, or else `alpha` additions per `access`.
    Raises `UsageError` for a result without parameters of latency hiding, an impossible occupancy, or a wrong mix; one
    error names everything that is missing.
    """
    missing = []
    if warps is None:
        missing.append("name the warps per SM with --warps 32")
    if (run in (None, {})) == (alpha is None):
        missing.append(f"name a mix with either --run {EXAMPLE} or --alpha 32")
    try:
        machine = machine_of(result)
    except UsageError as error:
        raise UsageError("; ".join([str(error), *missing])) from None
    if missing or warps is None:
        raise UsageError("; ".join(missing))
    _check_warps(warps, machine, result.device.facts)
    return predict_mix(machine, _counts(run, alpha, access, machine), warps)


def predict_mix(machine: Machine, counts: Mapping[str, float], warps: int) -> MixPrediction:
    """Fill in the worksheet. Raises `ValueError` for what `models.worksheet.worksheet` refuses."""
    accesses = [kind for kind in counts if kind in machine.contention]
    others = [kind for kind in counts if kind not in machine.contention] or ["fadd"]
    refined = None
    if len(accesses) == len(others) == 1:
        alpha = counts.get(others[0], 0.0) / counts[accesses[0]]
        loop = Loop(alpha=alpha, arithmetic=others[0], access=accesses[0])
        refined = float(Refined().throughput(machine, loop, warps)) / sum(counts.values())
    return MixPrediction(dict(counts), worksheet(machine, counts, warps), refined)


def _check_warps(warps: int, machine: Machine, facts: Mapping[str, object]) -> None:
    """Raise `UsageError` unless equal blocks make up these warps: an SM runs only whole blocks, and so many at most."""
    blocks, threads = facts.get("blocks_per_sm"), facts.get("threads_per_block")
    max_blocks = blocks if isinstance(blocks, int) else DEFAULT_BLOCKS_PER_SM
    max_warps = min(threads // WARP_SIZE, MAX_BLOCK_WARPS) if isinstance(threads, int) else MAX_BLOCK_WARPS
    if not isinstance(warps, Integral):
        raise UsageError(f"warps is a whole number, got {warps!r:.40}")
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


def _counts(
    run: str | Mapping[str, float] | None, alpha: float | None, access: str, machine: Machine
) -> dict[str, float]:
    """Instructions of a warp, by kind."""
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
    for name, text in run.items() if isinstance(run, Mapping) else map(_split, (run or "").split(",")):
        kind = _known(name, machine)
        try:
            count = float(text)
        except (TypeError, ValueError):
            count = math.nan
        if not MIN_COUNT <= count < MAX_COUNT:
            raise UsageError(f"--run takes instructions with counts such as {EXAMPLE}, got {f'{name}:{text}'[:40]!r}")
        counts[kind] = counts.get(kind, 0.0) + count
    return counts


def _split(part: str) -> tuple[str, str]:
    name, colon, count = part.strip().partition(":")
    return name, count if colon else "1"


def _known(name: str, machine: Machine) -> str:
    if name not in machine.units:
        raise unknown_name("instruction of this result", name, sorted(machine.units))
    return name
