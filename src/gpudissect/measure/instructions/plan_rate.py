"""Rate of an instruction: operations of an SM per cycle (VV16 table 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import RATE
from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.instructions.infer_issue import Lifetimes, issue_rate, issue_rate_difference
from gpudissect.measure.instructions.instructions import (
    ALL_SMS,
    KINDS,
    LONG_BODY,
    ONE_SM,
    RATE_CAVEATS,
    Kind,
    block_size_of,
    in_warps,
    issue_bound,
    pattern_of,
    registers_suffice,
    shorter,
    warp_counts,
    why_unsupported,
)
from gpudissect.measure.instructions.plan_latency import instruction_latency_of
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.shared_memory.plan_shared import BANK_LAYOUT
from gpudissect.measure.throughput.infer_throughput import FAR, NEAR, Throughput
from gpudissect.measure.throughput.rate_estimates import Surface, members_to_repeat, plateau_estimate
from gpudissect.trace import Trace
from gpudissect.workload import SHARED_INSTRUCTIONS, Access, Instruction, Mix
from gpudissect.workload.digest import digest

MIN_WARP_CYCLES = 16384  # warps begin a few hundred cycles apart
MAX_ITERATIONS = 8
STREAMING_ITERATIONS = 8
"""On an H200 about a millisecond. Runs of an eighth of that differ by up to 3 %, with equal warps and chains."""
REPETITIONS = 3  # of the best configurations
MEMORY_SAMPLES = 3  # of each configuration: a single run may be off by a hundredth
METHOD = (
    "first warp's begin to last one's end on an SM; median of the configurations of warps and independent chains that "
    "are indistinguishable from the best, measured again"
)


@dataclass(frozen=True)
class InstructionRate:
    """The rate of an instruction: its surface, the mix that was run, and the estimate."""

    surface: Surface
    pattern: Mix
    estimate: Estimate


def instruction_rate_of(element: str) -> Key[InstructionRate | None]:
    """Rate of an instruction; None if it was not found."""
    return Key(f"rate.{element}", (InstructionRate, NoneType))


def instruction_rate_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Operations per cycle of one SM."""
    reason = why_unsupported(kind.instruction, bench.info)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "rate"))
    layout, latency = known.get(BANK_LAYOUT), known[instruction_latency_of(kind.element)]
    pattern, caveats = pattern_of(kind, bench, layout)
    if pattern is None or latency is None:
        return Outcome(without(Status.NOT_FOUND, kind.element, "".join(caveats[:1]), "rate"))
    pattern = replace(pattern, iterations=_iterations(kind, latency))
    surface = yield from _surface(kind, pattern, 0.0 if kind.resident else latency.cycles, bench)
    caveats = (*caveats, ONE_SM if kind.resident else ALL_SMS, *RATE_CAVEATS.get(kind.element, ()))
    if kind.instruction is Instruction.BARRIER:
        caveats = (*caveats, _block_sizes(surface, bench))
    bound = issue_bound(kind, pattern.stride, bench.info, layout)
    estimate = plateau_estimate(kind.element, "rate", surface, bound, caveats, METHOD, RATE)
    series = surface.series(kind.element, "rate against warps and chains", "ops/cycle", {})
    return Outcome((estimate,), InstructionRate(surface, pattern, estimate), (series,))


def _iterations(kind: Kind, latency: Latency) -> int:
    if kind.access is Access.STREAMING:
        return STREAMING_ITERATIONS
    return max(1, min(MAX_ITERATIONS, round(MIN_WARP_CYCLES / (LONG_BODY * max(latency.cycles, 1.0)))))


def _block_sizes(surface: Surface, bench: Bench) -> str:
    """The block sizes of the plateau, which the rate of a barrier depends on."""
    sizes = sorted({block_size_of(int(surface.columns["warps"][i]), bench.info) or 0 for i in surface.counted})
    listed = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"in blocks of {listed} threads: the rate depends on the block size"


def rate_of(kind: Kind, mix: Mix, trace: Trace, idle: float = 0.0) -> Throughput:
    """Operations per cycle of one SM, the cost of loops included; the bracket allows for `idle` cycles."""
    return issue_rate(Lifetimes.of(trace), kind.operations * mix.instructions, idle)


def _surface(kind: Kind, pattern: Mix, idle: float, bench: Bench) -> Ask[Surface]:
    """Rates over warps and chains; the best ones again, without the cost of loops where mixes are resident."""
    shapes = [
        (warps, chains)
        for chains in kind.chains
        for warps in warp_counts(bench.info)
        if registers_suffice(warps, kind.registers(chains), bench.info)
    ]
    mixes = [in_warps(pattern, warps, chains, bench.info) for warps, chains in shapes]
    samples = 1 if kind.resident else MEMORY_SAMPLES
    first_mixes = [replace(mix, repetition=sample) for mix in mixes for sample in range(samples)]
    traces = yield first_mixes
    rates = [rate_of(kind, mix, trace) for mix, trace in zip(first_mixes, traces, strict=True)]
    first = tuple(_median(rates[i : i + samples]) for i in range(0, len(rates), samples))
    near = members_to_repeat(first, NEAR if kind.resident else FAR)
    repetitions = range(samples, samples + REPETITIONS)
    long = [replace(mixes[i], repetition=repetition) for i in near for repetition in repetitions]
    if kind.resident:
        mixes_again = [mix for each in long for mix in (each, shorter(each))]
        traces = yield mixes_again
        triples = zip(long, traces[::2], traces[1::2], strict=True)
        rates = [_rate_without_loops(kind, mix, long_trace, short_trace) for mix, long_trace, short_trace in triples]
    else:  # the L2 might hold all of a shorter body
        traces = yield (mixes_again := long)
        rates = [rate_of(kind, mix, trace, idle) for mix, trace in zip(long, traces, strict=True)]
    again = {i: _median(rates[n * REPETITIONS : (n + 1) * REPETITIONS]) for n, i in enumerate(near)}
    columns = {"warps": tuple(float(warps) for warps, _ in shapes), "chains": tuple(float(n) for _, n in shapes)}
    in_flight = tuple(float(warps * chains) for warps, chains in shapes)
    return Surface(columns, in_flight, first, again, tuple(map(digest, (*first_mixes, *mixes_again))))


def _rate_without_loops(kind: Kind, mix: Mix, long: Trace, short: Trace) -> Throughput:
    operations = kind.operations * (mix.instructions - shorter(mix).instructions)
    difference = issue_rate_difference(Lifetimes.of(long), Lifetimes.of(short), operations)
    return difference or rate_of(kind, mix, long)


def _median(rates: Sequence[Throughput]) -> Throughput:
    middle = sorted(rate.rate for rate in rates)[len(rates) // 2]
    return Throughput(middle, min(rate.low for rate in rates), max(rate.high for rate in rates))


EXPERIMENTS = tuple(
    Experiment(
        instruction_rate_of(kind.element),
        partial(instruction_rate_plan, kind),
        ("rate",),
        needs=(
            instruction_latency_of(kind.element),
            *([BANK_LAYOUT] if kind.instruction in SHARED_INSTRUCTIONS else []),
        ),
    )
    for kind in KINDS
)
