"""Rate of an instruction: how many operations an SM makes in a cycle (VV16 table 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import RATE
from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.instructions.infer_issue import rate, rate_beyond
from gpudissect.measure.instructions.instructions import (
    ALL_SMS,
    KINDS,
    LONG,
    OF_RATES,
    ONE_SM,
    Kind,
    in_warps,
    pattern_of,
    shorter,
)
from gpudissect.measure.instructions.issue_bound import issue_bound
from gpudissect.measure.instructions.mixes import block_of, enough_registers, warp_counts, why_no_mix
from gpudissect.measure.instructions.plan_latency import instruction_latency_of
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.shared_memory.plan_banks import BANK_LAYOUT
from gpudissect.measure.throughput.infer_surface import FAR, NEAR
from gpudissect.measure.throughput.infer_throughput import Throughput
from gpudissect.measure.throughput.surface import Surface, members_to_repeat, plateau_found
from gpudissect.trace import Trace
from gpudissect.workload import SHARED_INSTRUCTIONS, Access, Instruction, Mix
from gpudissect.workload.digest import digest

LONG_ENOUGH = 16384  # cycles that one warp should take at least: warps begin a few hundred apart
MOST_ITERATIONS = 8
STREAMED = 8
"""Iterations of what all SMs stream from memory: of an H200 about a millisecond. Runs of an eighth of that lie up to
3 % apart, warps and chains the same."""
REPEATS_AGAIN = 3
LOOKS = 3  # at each number of warps and chains, of what memory gives: one run alone may be off by a hundredth
METHOD = (
    "first warp's begin to last one's end on an SM; over warps and independent chains the median of those "
    "that cannot be told from the best, measured anew"
)


@dataclass(frozen=True)
class Rated:
    """What is known of an instruction once its rate was measured: over what, of which mix, and what was found."""

    surface: Surface
    pattern: Mix
    found: Estimate


def instruction_rate_of(element: str) -> Key[Rated | None]:
    """Rate of an instruction; None if it was not found."""
    return Key(f"rate.{element}", (Rated, NoneType))


def issue_rate_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Operations a cycle of one SM. Its knowledge is `Rated`, None if it cannot be measured."""
    reason = why_no_mix(kind.instruction, bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "rate"))
    pattern, caveats = pattern_of(kind, bench, known)
    latency = known[instruction_latency_of(kind.element)]
    if pattern is None or latency is None:
        return Outcome(without(Status.NOT_FOUND, kind.element, "".join(caveats[:1]), "rate"))
    pattern = replace(pattern, iterations=_iterations(kind, latency))
    surface = yield from _surface(kind, pattern, 0.0 if kind.resident else latency.cycles, bench)
    caveats = (*caveats, ONE_SM if kind.resident else ALL_SMS, *OF_RATES.get(kind.element, ()))
    if kind.instruction is Instruction.BARRIER:
        caveats = (*caveats, _of_barriers(surface, bench))
    bound = issue_bound(kind, pattern.stride, bench.info, known)
    found = plateau_found(kind.element, "rate", surface, bound, caveats, METHOD, RATE)
    series = surface.series(kind.element, "rate against warps and chains", "ops/cycle", {})
    return Outcome((found,), Rated(surface, pattern, found), (series,))


def _iterations(kind: Kind, latency: Latency) -> int:
    if kind.access is Access.STREAMING:
        return STREAMED
    return max(1, min(MOST_ITERATIONS, round(LONG_ENOUGH / (LONG * max(latency.cycles, 1.0)))))


def _of_barriers(surface: Surface, bench: Bench) -> str:
    """In which blocks: a barrier is one of a block."""
    warps = {int(surface.columns["warps"][i]) for i in surface.counted}
    sizes = sorted({block_of(each, bench.info) or 0 for each in warps})
    which = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"in blocks of {which} threads: in blocks of another size another rate"


def rate_of(kind: Kind, mix: Mix, trace: Trace, idle: float = 0.0) -> Throughput:
    """Operations a cycle of one SM, loops and all; `idle` cycles may be taken off."""
    return rate(trace.begin, trace.end, trace.sm, kind.operations * mix.instructions, idle)


def _surface(kind: Kind, pattern: Mix, idle: float, bench: Bench) -> Ask[Surface]:
    """Rates over warps and chains, and those near the best again."""
    shapes = [(warps, ilp) for ilp in kind.chains for warps in warp_counts(bench.info)
              if enough_registers(warps, kind.registers(ilp), bench.info)]  # fmt: skip
    mixes = [in_warps(pattern, warps, ilp, bench.info) for warps, ilp in shapes]
    looks = 1 if kind.resident else LOOKS
    seen = [replace(mix, repetition=look) for mix in mixes for look in range(looks)]
    traces = yield seen
    rates = [rate_of(kind, mix, trace) for mix, trace in zip(seen, traces, strict=True)]
    first = tuple(_of_several(rates[i : i + looks]) for i in range(0, len(rates), looks))
    flying = tuple(float(warps * ilp) for warps, ilp in shapes)
    near = members_to_repeat(first, NEAR if kind.resident else FAR)
    anew = [each for i in near for turn in range(REPEATS_AGAIN) for each in _both(kind, mixes[i], looks + turn)]
    traces = yield anew
    step = len(anew) // (len(near) * REPEATS_AGAIN)
    every = [_rate_again(kind, anew[k : k + step], traces[k : k + step], idle) for k in range(0, len(anew), step)]
    again = {i: _of_several(every[n * REPEATS_AGAIN : (n + 1) * REPEATS_AGAIN]) for n, i in enumerate(near)}
    columns = {"warps": tuple(float(each[0]) for each in shapes), "chains": tuple(float(each[1]) for each in shapes)}
    return Surface(columns, flying, first, again, tuple(digest(mix) for mix in (*seen, *anew)))


def _both(kind: Kind, mix: Mix, repetition: int) -> tuple[Mix, ...]:
    """A mix, and one with a fraction of its body; of memory only the first, for of little the L2 might hold all."""
    bodies = (mix, shorter(mix)) if kind.resident else (mix,)
    return tuple(replace(each, repetition=repetition) for each in bodies)


def _rate_again(kind: Kind, mixes: Sequence[Mix], traces: Sequence[Trace], idle: float) -> Throughput:
    """The rate, without what loops cost if there are a long and a short mix."""
    if len(mixes) == 1:
        return rate_of(kind, mixes[0], traces[0], idle)
    more = kind.operations * (mixes[0].instructions - mixes[1].instructions)
    return rate_beyond(traces[0], traces[1], more) or rate_of(kind, mixes[0], traces[0])


def _of_several(rates: Sequence[Throughput]) -> Throughput:
    middle = sorted(each.rate for each in rates)[len(rates) // 2]
    return Throughput(middle, min(each.low for each in rates), max(each.high for each in rates))


EXPERIMENTS = tuple(
    Experiment(
        key=instruction_rate_of(kind.element),
        element=kind.element,
        plan=partial(issue_rate_plan, kind),
        emits=("rate",),
        needs=(
            instruction_latency_of(kind.element),
            *([BANK_LAYOUT] if kind.instruction in SHARED_INSTRUCTIONS else []),
        ),
    )
    for kind in KINDS
)
