"""The mixes of latency hiding: accesses and additions, at every occupancy that an SM can be given (VV16 ch 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpudissect.catalogue.capabilities import max_block_threads, min_blocks_per_sm, schedulers
from gpudissect.device_info import DeviceInfo
from gpudissect.measure.instructions.instructions import max_warps
from gpudissect.measure.plan import Ask, Bench
from gpudissect.measure.throughput.stream_search import MAX_MEMORY_SHARE, UNCACHED_BYTES
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix, Path, Step

BEYOND_L2 = 32  # footprint of accesses to memory, in L2 capacities
LINKS_REACH = 1984 << 20  # bytes over which links lead whose lower half additions work on
CYCLES = 150_000
"""How long a warp should take: it begins within some cycles of the others."""
FEWEST, MOST_ITERATIONS = 24, 1 << 16
ALONE = 64  # additions of an iteration where there is nothing else
FULL_CLOCK = 0.97  # of the fastest clock seen: what was measured below is measured again
AGAIN = 2  # times, at most
ROUNDS = 5  # of blocks, where warps go at unequal paces


@dataclass(frozen=True)
class Kind:
    """What stands between additions.

    Attributes:
        element: under which findings stand.
        name: the kind, as `gpudissect.models.Machine.units` calls it.
        instruction: one access.
        access: how it spreads; `stride` in operands between lanes.

    """

    element: str
    name: str
    instruction: Instruction
    access: Access = Access.RESIDENT
    stride: int = 1

    @property
    def of_memory(self) -> bool:
        """Whether it is about DRAM, which all SMs share."""
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
    """Which mixes are run.

    Attributes:
        alphas: additions per access; infinite for additions alone.
        every: whether accesses alone and additions alone run at every occupancy, in several block sizes.
        evenly: warps of a scheduler at which the others run; None for each number.

    """

    alphas: tuple[float, ...]
    every: bool = True
    evenly: tuple[int, ...] | None = None


STEPS = tuple(float(round(2 ** (k / 2))) for k in range(19) if k != 1)
"""1 to 512 in steps of sqrt 2 (VV16 s7.9), whole: of 1.4 there is none."""
FULL = Grid((0.0, 0.25, 0.5, *STEPS, math.inf))
QUICK = Grid((0.0, 1.0, 8.0, 32.0, 64.0, 128.0, 512.0, math.inf), every=False, evenly=(2, 4, 6, 8, 10, 12, 14, 16))


def blocks_of(warps: int, info: DeviceInfo) -> list[int]:
    """Sizes of blocks, in threads, in which an SM can be given so many warps and no more, falling; none: it cannot be.

    It holds no more blocks than its generation's fewest; a block no more warps than its most (VV16 s5.7).
    """
    blocks, largest = min_blocks_per_sm(info.facts), max_block_threads(info.facts) // WARP_SIZE
    fitting = [each for each in range(min(largest, warps), 0, -1) if warps % each == 0 and warps // each <= blocks]
    return [WARP_SIZE * each for each in fitting] if warps <= max_warps(info) else []


def reachable(info: DeviceInfo) -> list[int]:
    """Warps that an SM can be given, rising."""
    return [warps for warps in range(1, max_warps(info) + 1) if blocks_of(warps, info)]


def occupancies(grid: Grid, info: DeviceInfo) -> list[int]:
    """Warps at which all mixes run: equally many for every scheduler (VV16 s5.8), one alone, all that there can be."""
    each, most = schedulers(info.facts), max_warps(info)
    all_of_one = most // each
    some = grid.evenly or range(1, all_of_one)
    wanted = (*(n for n in some if n < all_of_one), all_of_one)
    return [warps for warps in dict.fromkeys((1, *(each * n for n in wanted))) if blocks_of(warps, info)]


def body(kind: Kind, alpha: float) -> tuple[Step, ...]:
    """One iteration: accesses first. Of an alpha below 1 several accesses and one addition."""
    if math.isinf(alpha):
        return (Step(Instruction.FADD, ALONE),)
    accesses = Step(kind.instruction, 1 if alpha == 0 or alpha >= 1 else round(1 / alpha))
    return (accesses, Step(Instruction.FADD, max(1, round(alpha)))) if alpha else (accesses,)


@dataclass(frozen=True)
class Paces:
    """How fast a mix will go, as far as known, to choose how often it runs: cycles, instructions a cycle of an SM."""

    access: float = 500.0
    access_rate: float = 0.05
    arithmetic: float = 6.0
    arithmetic_rate: float = 4.0


def mix_of(
    kind: Kind, alpha: float, warps: int, block: int, bench: Bench, paces: Paces, *, width: int = 4, ilp: int = 1
) -> Mix:
    """A mix that takes about `CYCLES`."""
    steps = body(kind, alpha)
    adds = sum(step.count for step in steps if step.instruction is Instruction.FADD)
    accesses = sum(step.count for step in steps) - adds
    waiting = accesses * paces.access + adds * paces.arithmetic
    working = warps * ilp * max(accesses / paces.access_rate, (adds + accesses) / paces.arithmetic_rate)
    iterations = min(MOST_ITERATIONS, max(FEWEST, round(CYCLES / max(waiting, working))))
    plain = Mix(body=steps, warps=warps, block_size=block, iterations=iterations, ilp=ilp)
    if not (accesses and kind.of_memory):
        return plain
    words = width // 4 if kind.access is Access.STREAMING else 1
    return replace(plain, access=kind.access, footprint=footprint(bench.info), width=4 * words,
                   stride=words * kind.stride)  # fmt: skip


def footprint(info: DeviceInfo) -> int:
    """Bytes over which accesses to memory spread."""
    l2 = info.facts.get("l2_size")
    wanted = min(BEYOND_L2 * l2, LINKS_REACH) if isinstance(l2, int) and l2 else UNCACHED_BYTES
    return min(wanted, int(MAX_MEMORY_SHARE * info.limit(Path.GLOBAL))) // 4096 * 4096


def at_full_clock(mixes: Sequence[Mix], fastest: float = 0.0) -> Ask[tuple[list[Mix], list[Trace]]]:
    """Run mixes; those that ran below the fastest clock seen, again (VV16 s5.4). What ran for good, and its traces.

    `fastest`: of what ran before, Hz.
    """
    ran, traces = list(mixes), list((yield mixes))
    for _ in range(AGAIN):
        clocks = [trace.context.clock_hz for trace in traces]
        fastest = max([fastest, *(clock for clock in clocks if clock is not None)])
        slow = [n for n, clock in enumerate(clocks) if clock is not None and clock < FULL_CLOCK * fastest]
        if not slow:
            break
        anew = [replace(ran[n], repetition=ran[n].repetition + 1) for n in slow]
        for n, mix, trace in zip(slow, anew, (yield anew), strict=True):
            ran[n], traces[n] = mix, trace
    return ran, traces


def slow_ones(traces: Sequence[Trace]) -> int:
    """How many still ran below the fastest clock seen."""
    clocks = [trace.context.clock_hz for trace in traces if trace.context.clock_hz is not None]
    return sum(clock < FULL_CLOCK * max(clocks) for clock in clocks)
