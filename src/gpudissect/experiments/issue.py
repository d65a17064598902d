"""An instruction: its latency, how many an SM runs in a cycle, and how many warps that takes (VV16 ch 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Ask, Bench, Known, Outcome, Plan, without
from gpudissect.experiments.memory_bandwidth import MOST, WITHOUT_L2, past_the_l1
from gpudissect.experiments.mixes import block_of, enough_registers, steps_between, warp_counts, why_no_mix
from gpudissect.experiments.surface import Surface, members_to_repeat, plateau_found, said
from gpudissect.inference.banks import Layout, stride_of
from gpudissect.inference.confidence import LATENCY, RATE
from gpudissect.inference.issue import Needed, mean_duration, needed, rate, rate_beyond
from gpudissect.inference.latency import Latency, lap_latency
from gpudissect.inference.throughput import Throughput
from gpudissect.trace import Array, Trace
from gpudissect.workload import Access, Instruction, Mix, Path, Step, Stream, Transfer
from gpudissect.workload.digest import digest
from gpudissect.workload.instruction import PRODUCTS
from gpudissect.workload.mix import WARP

ATTRIBUTES = ("latency", "rate", "warps_needed")
LONG, SHORT = 512, 320
"""Instructions of an iteration: what the loop costs beside them cancels. More than half, so that a device that unrolls
loops up to some length unrolls both alike."""
ITERATIONS = 2
REPEATS = 5
ILPS = (1, 2, 4)
REGISTERS_OF_CHAIN, REGISTERS_OF_SUMS = 2, 6  # of a thread: a double; sums of a matrix instruction
WIDE, REGISTERS_OF_WIDE = (Instruction.F2F, Instruction.MMA_F64), 16  # which need more besides
LONG_ENOUGH = 16384  # cycles that one warp should take at least: warps begin a few hundred apart
MOST_ITERATIONS = 8
REPEATS_AGAIN = 3
FLUSH_THREADS, FLUSH_WIDTH = 512, 16
SHARE = 0.95  # of the plateau, for `warps_needed`
SHARE_OF_MEMORY = 0.90  # memory saturates slowly (VV16 table 6.3)
LEAST = 0.02  # cycles of a latency that nobody believes to know better
LEAST_OF_MEMORY = 0.01  # of the latency, of memory
BEYOND_L2 = 32  # footprint of accesses to memory, in L2 capacities
LINKS_REACH = 1984 << 20  # bytes over which links of 4 bytes lead
FLUSH = 4  # L2 capacities that are read so that nothing of what was loaded before is left
LATENCY_METHOD = f"one warp, {LONG} dependent instructions an iteration less {SHORT}; lower quartile of {REPEATS}"
RATE_METHOD = "first warp's begin to last one's end on an SM; plateau over warps and independent chains, measured anew"
STORES = "stores give no result: the time from one to the next of the same warp"
PRODUCTS_COUNTED = "multiplications and additions of a matrix instruction, not instructions"
NO_BANKS = "two words between lanes; the banks were not found"
ALL_SMS = "all SMs at once"


@dataclass(frozen=True)
class Kind:
    """What is measured under the name of an element: an instruction, and where its operands lie.

    Attributes:
        element: its name.
        instruction: what runs.
        access: how operands in global memory spread; what is not resident runs on all SMs, who share the memory.
        turns: of an access to shared memory, beside those without conflicts.
    """

    element: str
    instruction: Instruction
    access: Access = Access.RESIDENT
    turns: int = 1

    @property
    def share(self) -> float:
        """Share of the rate for which warps are counted."""
        return SHARE if self.access is Access.RESIDENT else SHARE_OF_MEMORY

    @property
    def operations(self) -> int:
        """Operations of one instruction of a warp: one a thread, or the products of a matrix instruction."""
        return PRODUCTS.get(self.instruction, WARP)


KINDS = (
    *(Kind(each.value, each) for each in Instruction),
    Kind("lds_2way", Instruction.LDS, turns=2),
    Kind("ldg_streaming", Instruction.LDG, Access.STREAMING),
    Kind("ldg_random", Instruction.LDG, Access.RANDOM),
)


def issue_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Latency (cycles), rate (operations a cycle of one SM) and warps needed for it, of one instruction."""
    reason = why_no_mix(kind.instruction, bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, *ATTRIBUTES))
    pattern, caveats = _pattern(kind, bench, known)
    if pattern is None:
        return Outcome(without(Status.NOT_FOUND, kind.element, caveats[0], *ATTRIBUTES))
    latency, of_latency = yield from _latency(kind, pattern, bench)
    pattern = replace(pattern, iterations=_iterations(latency))
    idle = 0.0 if kind.access is Access.RESIDENT else latency.cycles
    surface = yield from _surface(kind, pattern, idle, bench)
    if kind.instruction in PRODUCTS:
        caveats = (*caveats, PRODUCTS_COUNTED)
    fast = plateau_found(kind.element, "rate", surface, None, caveats, method=RATE_METHOD)
    if fast.confidence is not None:
        fast = replace(fast, confidence=RATE)
    warps = yield from _warps(kind, pattern, surface, fast, bench)
    series = surface.series(kind.element, "rate against warps and chains", "ops/cycle", {})
    slow = (*caveats, STORES) if kind.instruction is Instruction.STS else caveats
    return Outcome((_latency_found(kind, latency, of_latency, slow), fast, warps), series=(series,))


def _pattern(kind: Kind, bench: Bench, known: Known) -> tuple[Mix | None, tuple[str, ...]]:
    """The mix with one warp, and what to say of it; None with the reason if there is no such mix."""
    plain = Mix(body=(Step(kind.instruction, LONG),), warps=1, block_size=WARP, iterations=ITERATIONS, sms=1)
    if kind.turns > 1:
        layout: Layout | None = known["banks.shared"]
        if layout is None:
            return replace(plain, stride=kind.turns), (NO_BANKS,)
        stride = stride_of(layout, kind.turns)
        if stride is None:
            return None, (f"no stride makes {kind.turns} lanes want the same bank",)
        return replace(plain, stride=stride), (f"{stride} words between lanes",)
    if kind.access is Access.RESIDENT:
        return plain, ()
    l2 = bench.info.facts.get("l2_size")
    wanted = min(BEYOND_L2 * l2, LINKS_REACH) if isinstance(l2, int) and l2 else WITHOUT_L2
    span = min(wanted, int(MOST * bench.info.limit(Path.GLOBAL))) // 4096 * 4096
    return replace(plain, access=kind.access, footprint=span, sms=None), (ALL_SMS,)


def _run(kind: Kind, mixes: Sequence[Mix], bench: Bench) -> Ask[list[Trace]]:
    """Traces of mixes. Those of memory run one by one, after the L2 was filled with something else."""
    if not mixes:
        return []
    size = bench.info.facts.get("l2_size")
    path = past_the_l1(bench.info)
    if kind.access is Access.RESIDENT or path not in bench.info.streams or not isinstance(size, int):
        return (yield mixes)
    blocks = bench.info.sm_count
    tile = FLUSH_THREADS * FLUSH_WIDTH
    footprint = -(-FLUSH * size // (tile * blocks)) * tile * blocks
    flush = Stream(path=path, transfer=Transfer.READ, footprint=footprint, blocks=blocks, threads=FLUSH_THREADS,
                   width=FLUSH_WIDTH)  # fmt: skip
    traces: list[Trace] = []
    for mix in mixes:
        yield [flush]
        traces += yield [mix]
    return traces


def _latency(kind: Kind, pattern: Mix, bench: Bench) -> Ask[tuple[Latency, tuple[str, ...]]]:
    """Cycles from one instruction to the next that depends on it."""
    short = replace(pattern, body=(replace(pattern.body[0], count=SHORT),))
    mixes = [replace(each, repetition=turn) for each in (pattern, short) for turn in range(REPEATS)]
    traces = yield from _run(kind, mixes, bench)
    took: list[Array] = []
    for part in (traces[:REPEATS], traces[REPEATS:]):
        took.append(np.array([round(mean_duration(trace.begin, trace.end)) for trace in part], np.int64))
    least = LEAST
    if kind.access is not Access.RESIDENT:
        least = LEAST_OF_MEMORY * float(np.median(took[0])) / pattern.instructions
    found = lap_latency(took[0], pattern.instructions, took[1], short.instructions, least)
    return found, tuple(digest(mix) for mix in mixes)


def _iterations(latency: Latency) -> int:
    return max(1, min(MOST_ITERATIONS, round(LONG_ENOUGH / (LONG * max(latency.cycles, 1.0)))))


def _latency_found(kind: Kind, latency: Latency, evidence: tuple[str, ...], caveats: tuple[str, ...]) -> Estimate:
    if latency.cycles <= 0:
        reason = "more instructions took no longer"
        return without(Status.NOT_FOUND, kind.element, reason, "latency")[0]
    return Estimate(
        element=kind.element, attribute="latency", status=Status.FOUND, value=latency.cycles,
        low=max(latency.low, 0.0), high=latency.high, confidence=LATENCY, method=LATENCY_METHOD, evidence=evidence,
        caveats=caveats,
    )  # fmt: skip


def _at(pattern: Mix, warps: int, ilp: int, bench: Bench) -> Mix:
    """The same instructions of each warp, in so many warps with so many chains each."""
    count = pattern.body[0].count // ilp
    return replace(pattern, body=(replace(pattern.body[0], count=count),), warps=warps, ilp=ilp,
                   block_size=block_of(warps, bench.info) or WARP)  # fmt: skip


def _rate(kind: Kind, mix: Mix, trace: Trace, idle: float = 0.0) -> Throughput:
    return rate(trace.begin, trace.end, trace.sm, kind.operations * mix.instructions, idle)


def _surface(kind: Kind, pattern: Mix, idle: float, bench: Bench) -> Ask[Surface]:
    """Rates over warps and chains, and those near the best again."""
    chain = REGISTERS_OF_SUMS if kind.instruction in PRODUCTS else REGISTERS_OF_CHAIN
    more = REGISTERS_OF_WIDE if kind.instruction in WIDE or kind.access is not Access.RESIDENT else 0
    shapes = [(warps, ilp) for ilp in ILPS for warps in warp_counts(bench.info)
              if enough_registers(warps, ilp * chain + more, bench.info)]  # fmt: skip
    mixes = [_at(pattern, warps, ilp, bench) for warps, ilp in shapes]
    traces = yield from _run(kind, mixes, bench)
    first = tuple(_rate(kind, mix, trace) for mix, trace in zip(mixes, traces, strict=True))
    flying = tuple(float(warps * ilp) for warps, ilp in shapes)
    near = members_to_repeat(flying, first)
    anew = [each for i in near for turn in range(REPEATS_AGAIN) for each in _both(kind, mixes[i], 1 + turn)]
    traces = yield from _run(kind, anew, bench)
    step = len(anew) // (len(near) * REPEATS_AGAIN)
    every = [_rate_again(kind, anew[k : k + step], traces[k : k + step], idle) for k in range(0, len(anew), step)]
    again = {i: _of_several(every[n * REPEATS_AGAIN : (n + 1) * REPEATS_AGAIN]) for n, i in enumerate(near)}
    columns = {"warps": tuple(float(each[0]) for each in shapes), "chains": tuple(float(each[1]) for each in shapes)}
    return Surface(columns, flying, first, again, tuple(digest(mix) for mix in (*mixes, *anew)))


def _both(kind: Kind, mix: Mix, repetition: int) -> tuple[Mix, ...]:
    """A mix, and one with a fraction of its body; of memory only the first, for of little the L2 might hold all."""
    if kind.access is not Access.RESIDENT:
        return (replace(mix, repetition=repetition),)
    (step,) = mix.body
    short = replace(mix, body=(replace(step, count=step.count * SHORT // LONG),))
    return replace(mix, repetition=repetition), replace(short, repetition=repetition)


def _rate_again(kind: Kind, mixes: Sequence[Mix], traces: Sequence[Trace], idle: float) -> Throughput:
    """The rate, without what loops cost if there are a long and a short mix."""
    if len(mixes) == 1:
        return _rate(kind, mixes[0], traces[0], idle)
    more = kind.operations * (mixes[0].instructions - mixes[1].instructions)
    return rate_beyond(traces[0], traces[1], more) or _rate(kind, mixes[0], traces[0])


def _of_several(rates: Sequence[Throughput]) -> Throughput:
    middle = sorted(each.rate for each in rates)[len(rates) // 2]
    return Throughput(middle, min(each.low for each in rates), max(each.high for each in rates))


def _warps(kind: Kind, pattern: Mix, surface: Surface, fast: Estimate, bench: Bench) -> Ask[Estimate]:
    """The fewest warps with one chain each that come near the plateau."""
    if not isinstance(fast.value, int | float):
        reason = "without a plateau nobody knows what has to be reached"
        return without(Status.NOT_FOUND, kind.element, reason, "warps_needed")[0]
    alone = {
        int(warps): each.rate
        for warps, chains, each in zip(*surface.columns.values(), surface.first, strict=True) if chains == 1
    }  # fmt: skip
    top = float(np.median([surface.first[i].rate for i in surface.again]))  # loops and all, as the others
    reached = needed(alone, top, kind.share)
    evidence = surface.evidence
    if reached.warps is not None:
        below = max((count for count in alone if count < reached.warps), default=0)
        between = steps_between(below, reached.warps, bench.info)
        mixes = [_at(pattern, warps, 1, bench) for warps in between]
        traces = yield from _run(kind, mixes, bench)
        alone |= {warps: _rate(kind, mix, trace).rate
                  for warps, mix, trace in zip(between, mixes, traces, strict=True)}  # fmt: skip
        reached = needed(alone, top, kind.share)
        evidence += tuple(digest(mix) for mix in mixes)
    return _warps_found(kind, reached, alone, top, evidence)


def _warps_found(
    kind: Kind, reached: Needed, alone: Mapping[int, float], plateau: float, evidence: tuple[str, ...]
) -> Estimate:  # fmt: skip
    most = max(alone)
    if reached.warps is None:
        best = max(alone, key=lambda warps: alone[warps])
        reason = (f"of up to {most} warps with one chain each {best} come nearest, with {reached.best:.0%} of "
                  f"{said(plateau, 'ops/cycle')}: it takes more than one chain a warp")  # fmt: skip
        return Estimate(element=kind.element, attribute="warps_needed", status=Status.NOT_FOUND, low=most,
                        reason=reason, evidence=evidence)  # fmt: skip
    return Estimate(
        element=kind.element, attribute="warps_needed", status=Status.FOUND, value=reached.warps,
        low=reached.low, high=reached.high if reached.high is not None else most, confidence=RATE,
        method=f"fewest warps of one chain each whose rate is {kind.share:.0%} of the plateau (VV16 table 6.3)",
        evidence=evidence,
    )  # fmt: skip
