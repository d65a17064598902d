"""The mixes of latency hiding: accesses and additions, at every occupancy that an SM can have (VV16 ch 5)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpudissect.catalogue.compute_capability import max_block_threads, min_blocks_per_sm, schedulers
from gpudissect.device_info import DeviceInfo
from gpudissect.measure.instructions.instructions import max_warps
from gpudissect.measure.latency_hiding.infer_loops import Pace
from gpudissect.measure.plan import Ask
from gpudissect.measure.throughput.stream_search import MAX_MEMORY_SHARE, UNCACHED_BYTES
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix, Path, Step

L2_MULTIPLE = 32  # footprint of accesses to memory, in L2 capacities
MAX_LINK_REACH_BYTES = 1984 << 20  # of links on whose lower half additions work
WARP_CYCLES = 150_000  # of a mix: warps begin within a few cycles of each other
MIN_ITERATIONS, MAX_ITERATIONS = 24, 1 << 16
ADDITIONS_ALONE = 64  # of an iteration without accesses
FULL_CLOCK = 0.97  # of the fastest observed clock: what ran below it is repeated
MAX_CLOCK_REPETITIONS = 2
WAVES = 5  # of blocks, where warps run at unequal paces


@dataclass(frozen=True)
class Kind:
    """What stands between additions."""

    element: str  # of the findings
    name: str  # in `gpudissect.models.Machine.units`
    instruction: Instruction
    access: Access = Access.RESIDENT
    stride: int = 1  # operands between lanes

    @property
    def of_memory(self) -> bool:
        """Whether it accesses DRAM, which all SMs share."""
        return self.access is not Access.RESIDENT


STREAMING = Kind("hiding", "ldg_streaming", Instruction.LDG, Access.STREAMING)
KINDS = (
    STREAMING,
    Kind("hiding_stride2", "ldg_stride2", Instruction.LDG, Access.STREAMING, 2),
    Kind("hiding_random", "ldg_random", Instruction.LDG, Access.RANDOM),
    Kind("hiding_rsq", "rsq", Instruction.RSQ),
    Kind("hiding_lds", "lds", Instruction.LDS),
)
"""VV16 s5.1, 5.2, 6.7: the primary mix and the others."""


@dataclass(frozen=True)
class Grid:
    """Which mixes are run."""

    alphas: tuple[float, ...]  # additions per access; infinite for additions alone
    all_occupancies: bool = True  # for accesses alone and additions alone, in several block sizes
    warps_per_scheduler: tuple[int, ...] | None = None  # at which the others run; None for each number


SQRT2_STEPS = tuple(float(round(2 ** (k / 2))) for k in range(19) if k != 1)
"""1 to 512 in steps of sqrt 2 (VV16 s7.9), rounded: 1.4 is left out."""
FULL = Grid((0.0, 0.25, 0.5, *SQRT2_STEPS, math.inf))
QUICK = Grid((0.0, 1.0, 8.0, 32.0, 64.0, 128.0, 512.0, math.inf), False, (2, 4, 6, 8, 10, 12, 14, 16))


def block_sizes(warps: int, info: DeviceInfo) -> list[int]:
    """Threads of the equal blocks that give an SM exactly these warps, falling; empty if no size does (VV16 s5.7)."""
    max_blocks, largest = min_blocks_per_sm(info.facts), max_block_threads(info.facts) // WARP_SIZE
    sizes = [n for n in range(min(largest, warps), 0, -1) if warps % n == 0 and warps // n <= max_blocks]
    return [WARP_SIZE * size for size in sizes] if warps <= max_warps(info) else []


def possible_warps(info: DeviceInfo) -> list[int]:
    """Numbers of warps that an SM can be given, rising."""
    return [warps for warps in range(1, max_warps(info) + 1) if block_sizes(warps, info)]


def occupancies(grid: Grid, info: DeviceInfo) -> list[int]:
    """Warps at which all mixes run: one, equally many for every scheduler (VV16 s5.8), and the maximum."""
    count = schedulers(info.facts)
    most = max_warps(info) // count
    per_scheduler = (*(n for n in grid.warps_per_scheduler or range(1, most) if n < most), most)
    return [warps for warps in dict.fromkeys((1, *(count * n for n in per_scheduler))) if block_sizes(warps, info)]


def body(kind: Kind, alpha: float) -> tuple[Step, ...]:
    """One iteration: accesses, then additions; for an alpha below 1 several accesses and one addition."""
    if math.isinf(alpha):
        return (Step(Instruction.FADD, ADDITIONS_ALONE),)
    accesses = Step(kind.instruction, 1 if alpha == 0 or alpha >= 1 else round(1 / alpha))
    return (accesses, Step(Instruction.FADD, max(1, round(alpha)))) if alpha else (accesses,)


def counts(mix: Mix) -> tuple[int, int]:
    """Accesses and additions of one iteration."""
    additions = sum(step.count for step in mix.body if step.instruction is Instruction.FADD)
    return sum(step.count for step in mix.body) - additions, additions


def mix_of(
    kind: Kind, alpha: float, warps: int, info: DeviceInfo, pace: Pace, width: int = 4, chains: int = 1, block: int = 0
) -> Mix:
    """A mix that takes about `WARP_CYCLES`, in blocks of `block` threads, by default the smallest possible."""
    plain = Mix(
        body=body(kind, alpha),
        warps=warps,
        block_size=block or block_sizes(warps, info)[-1],
        iterations=1,
        ilp=chains,
        per_sm=True,
    )
    accesses, additions = counts(plain)
    waiting = accesses * pace.access_latency + additions * pace.arithmetic_latency
    working = warps * chains * max(accesses / pace.access_rate, (additions + accesses) / pace.arithmetic_rate)
    iterations = min(MAX_ITERATIONS, max(MIN_ITERATIONS, round(WARP_CYCLES / max(waiting, working))))
    mix = replace(plain, iterations=iterations)
    if not (accesses and kind.of_memory):
        return mix
    words = width // 4 if kind.access is Access.STREAMING else 1
    return replace(mix, access=kind.access, footprint=footprint(info), width=4 * words, stride=words * kind.stride)


def footprint(info: DeviceInfo) -> int:
    """Bytes over which accesses to memory spread."""
    l2 = info.facts.get("l2_size")
    span = min(L2_MULTIPLE * l2, MAX_LINK_REACH_BYTES) if isinstance(l2, int) and l2 else UNCACHED_BYTES
    return min(span, int(MAX_MEMORY_SHARE * info.limit(Path.GLOBAL))) // 4096 * 4096


def run_at_full_clock(mixes: Sequence[Mix], fastest: float = 0.0) -> Ask[tuple[list[Mix], list[Trace]]]:
    """Run mixes, and those below the full clock again (VV16 s5.4); returns the final mixes and their traces.

    `fastest`: the fastest clock of earlier mixes, Hz.
    """
    mixes, traces = list(mixes), list((yield mixes))
    for _ in range(MAX_CLOCK_REPETITIONS):
        clocks = [trace.context.clock_hz for trace in traces]
        fastest = max([fastest, *(clock for clock in clocks if clock is not None)])
        slow = [n for n, clock in enumerate(clocks) if clock is not None and clock < FULL_CLOCK * fastest]
        if not slow:
            break
        repeated = [replace(mixes[n], repetition=mixes[n].repetition + 1) for n in slow]
        for n, mix, trace in zip(slow, repeated, (yield repeated), strict=True):
            mixes[n], traces[n] = mix, trace
    return mixes, traces
