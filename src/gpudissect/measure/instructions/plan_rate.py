"""Rate of an instruction, operations of an SM per cycle, and how many warps come near it (VV16 tables 6.1, 6.3)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import RATE, WARPS
from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.instructions.infer_issue import (
    SHARE_ERROR,
    SmTotals,
    WarpsNeeded,
    issue_rate,
    issue_rate_difference,
    warps_needed,
)
from gpudissect.measure.instructions.instructions import (
    ALL_SMS,
    KINDS,
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
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.shared_memory.plan_shared import BANK_LAYOUT
from gpudissect.measure.throughput.infer_throughput import FAR, NEAR, Throughput
from gpudissect.measure.throughput.rate_estimates import Surface, format_rate, members_to_repeat, plateau_estimate
from gpudissect.trace import Trace
from gpudissect.workload import SHARED_INSTRUCTIONS, Access, Instruction, Mix
from gpudissect.workload.digest import digest

MIN_WARP_CYCLES = 16384  # warps begin a few hundred cycles apart
MAX_ITERATIONS = 8
STREAMING_ITERATIONS = 8
"""On an H200 about a millisecond. Runs of an eighth of that differ by up to 3 %, with equal warps and chains."""
REPETITIONS = 3  # of the best configurations, and of rates that decide how many warps are needed
MEMORY_SAMPLES = 3  # of each configuration: a single run may be off by a hundredth
METHOD = (
    "from the first warp's start to the last one's end on an SM; median of the configurations of warps and independent "
    "chains that are indistinguishable from the best, measured again"
)
SHARE = 0.95
"""Of the plateau. VV16 (s6.1) says "within a small threshold" and means more than the 92 % of 24 warps, where it lists
32; it considers whole warps per scheduler only, so that its numbers may be rounded up."""
NEARLY_ALL = 0.99
"""Share that 32 warps exceed where VV16 (s6.1) lists them, reported as a caveat. It is not the value: near it the rate
grows little with warps, by about its own error."""
MEMORY_SHARE = 0.90  # memory saturates slowly (VV16 table 6.3, "at 90% of peak throughput")
CLOSE = 0.03  # of the plateau: rates this close to the share are decisive, and are medians of several
FIRST_REPETITION = 16  # smaller numbers belong to the rate


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
    if (reason := why_unsupported(kind.instruction, bench.info)) is not None:
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
    return max(1, min(MAX_ITERATIONS, round(MIN_WARP_CYCLES / (kind.count * max(latency.cycles, 1.0)))))


def _block_sizes(surface: Surface, bench: Bench) -> str:
    """The block sizes of the plateau, which the rate of a barrier depends on."""
    sizes = sorted({block_size_of(int(surface.columns["warps"][i]), bench.info) or 0 for i in surface.counted})
    listed = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"in blocks of {listed} threads: the rate depends on the block size"


def rate_of(kind: Kind, mix: Mix, trace: Trace, idle: float = 0.0) -> Throughput:
    """Operations per cycle of one SM, the cost of loops included; the bracket allows for `idle` cycles."""
    return issue_rate(SmTotals.of(trace), kind.operations * mix.instructions, idle)


def _surface(kind: Kind, pattern: Mix, idle: float, bench: Bench) -> Ask[Surface]:
    """Rates over warps and chains; the best ones again, without the cost of loops where mixes are resident."""
    sms, footprint = bench.info.sm_count, pattern.footprint
    by_shape = {
        (warps, chains): mix
        for chains in kind.chains
        for warps in warp_counts(bench.info)
        if registers_suffice(warps, kind.registers(chains), bench.info)
        and (mix := in_warps(pattern, warps, chains, bench.info)).min_footprint(sms) <= footprint
    }
    shapes, mixes = [*by_shape], [*by_shape.values()]
    samples = 1 if kind.resident else MEMORY_SAMPLES
    first_mixes = [replace(mix, repetition=sample) for mix in mixes for sample in range(samples)]
    traces = yield first_mixes
    rates = [rate_of(kind, mix, trace) for mix, trace in zip(first_mixes, traces, strict=True)]
    first = tuple(_median(rates[i : i + samples]) for i in range(0, len(rates), samples))
    near = members_to_repeat(first, NEAR if kind.resident else FAR)
    repetitions = range(samples, samples + REPETITIONS)
    long = [replace(mixes[i], repetition=repetition) for i in near for repetition in repetitions]
    if kind.resident:
        short = [shorter(each) for each in long]
        traces = yield (mixes_again := [mix for both in zip(long, short, strict=True) for mix in both])
        pairs = zip(long, short, traces[::2], traces[1::2], strict=True)
        rates = [_rate_without_loops(kind, *each) for each in pairs]
    else:  # the L2 might hold all of a shorter body
        traces = yield (mixes_again := long)
        rates = [rate_of(kind, mix, trace, idle) for mix, trace in zip(long, traces, strict=True)]
    again = {i: _median(rates[n * REPETITIONS : (n + 1) * REPETITIONS]) for n, i in enumerate(near)}
    columns = {"warps": tuple(float(warps) for warps, _ in shapes), "chains": tuple(float(n) for _, n in shapes)}
    in_flight = tuple(float(warps * chains) for warps, chains in shapes)
    return Surface(columns, in_flight, first, again, tuple(map(digest, (*first_mixes, *mixes_again))))


def _rate_without_loops(kind: Kind, long: Mix, short: Mix, of_long: Trace, of_short: Trace) -> Throughput:
    operations = kind.operations * (long.instructions - short.instructions)
    difference = issue_rate_difference(SmTotals.of(of_long), SmTotals.of(of_short), operations)
    return difference or rate_of(kind, long, of_long)


def _median(rates: Sequence[Throughput]) -> Throughput:
    middle = sorted(rate.rate for rate in rates)[len(rates) // 2]
    return Throughput(middle, min(rate.low for rate in rates), max(rate.high for rate in rates))


def warps_needed_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """The minimum number of warps of an SM, with one chain each, that reach a share of the rate."""
    if (reason := why_unsupported(kind.instruction, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "warps_needed"))
    rate = known[instruction_rate_of(kind.element)]
    best = None if rate is None else rate.surface.plateau
    if rate is None or rate.estimate.value is None or best is None:
        reason = "the rate has no plateau of which a share could be reached"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, "warps_needed"))
    surface, share = rate.surface, SHARE if kind.resident else MEMORY_SHARE
    columns = zip(surface.columns["warps"], surface.columns["chains"], surface.first, strict=True)
    samples = {int(warps): [first.rate] for warps, chains, first in columns if chains == 1}
    # Rates with one chain include the cost of loops, and so does this plateau.
    plateau = float(np.median([surface.first[i].rate for i in best.members]))
    evidence = surface.evidence
    while True:  # further samples may change the answer, and with it what is still to be measured
        rates = {warps: float(np.median(sampled)) for warps, sampled in samples.items()}
        needed = warps_needed(rates, plateau, share)
        runs = [(warps, FIRST_REPETITION) for warps in _unmeasured(needed.warps, samples, bench)]
        close = [n for n, sampled in samples.items() if abs(rates[n] / plateau - share) <= CLOSE and len(sampled) == 1]
        runs += [(warps, FIRST_REPETITION + 1 + n) for warps in close for n in range(REPETITIONS)]
        if not runs:
            break
        mixes = [replace(in_warps(rate.pattern, warps, 1, bench.info), repetition=n) for warps, n in runs]
        traces = yield mixes
        for (warps, _), mix, trace in zip(runs, mixes, traces, strict=True):
            samples.setdefault(warps, []).append(rate_of(kind, mix, trace).rate)
        evidence += tuple(map(digest, mixes))
    return Outcome((_warps_estimate(kind, share, needed, rates, plateau, evidence),))


def _unmeasured(warps: int | None, measured: Iterable[int], bench: Bench) -> list[int]:
    """Possible numbers of warps between the present answer and the next smaller one measured."""
    if warps is None:
        return []
    below = max((count for count in measured if count < warps), default=0)
    return [count for count in range(below + 1, warps) if block_size_of(count, bench.info)]


def _warps_estimate(
    kind: Kind, share: float, needed: WarpsNeeded, rates: Mapping[int, float], plateau: float, evidence: tuple[str, ...]
) -> Estimate:
    element, peak, largest = kind.element, format_rate(plateau, "ops/cycle"), max(rates)
    method = (
        f"minimum number of warps, with one chain each, that reaches {share:.0%} of the plateau, cost of loops included"
    )
    indistinguishable = needed.high is None and needed.best >= share - SHARE_ERROR
    if needed.warps is not None and not indistinguishable:
        high = needed.high if needed.high is not None else largest
        caveats = (_nearly_all(needed.warps, rates, plateau),) if kind.resident else ()
        return found(element, "warps_needed", needed.warps, needed.low, high, WARPS, method, evidence, caveats)
    reason = f"{needed.nearest} warps of one chain each reach {needed.best:.1%} of {peak}, "
    if indistinguishable:
        reason += f"indistinguishable from the {share:.0%} target, and no number reaches more"
    else:
        reason += f"and no number up to {largest} reaches more: one chain per warp is not enough"
    status = Status.AMBIGUOUS if indistinguishable else Status.NOT_FOUND
    (estimate,) = without(status, element, reason, "warps_needed")
    return replace(estimate, low=needed.low if indistinguishable else largest, method=method, evidence=evidence)


def _nearly_all(warps: int, rates: Mapping[int, float], plateau: float) -> str:
    """How many of the measured warps reach `NEARLY_ALL`."""
    needed = warps_needed(rates, plateau, NEARLY_ALL)
    if needed.warps is None:
        return f"no number of warps of one chain reaches {NEARLY_ALL:.0%}, {needed.nearest} reach {needed.best:.1%}"
    if needed.warps == warps:
        return f"this number also reaches {NEARLY_ALL:.0%}"
    below = max((count for count in rates if count < needed.warps), default=0)
    share = rates.get(below, 0.0) / plateau
    return f"{NEARLY_ALL:.0%} takes {needed.warps} (of those measured; {below} reach {share:.1%})"


EXPERIMENTS = tuple(
    Experiment(
        instruction_rate_of(kind.element),
        partial(instruction_rate_plan, kind),
        ("rate",),
        needs=(
            instruction_latency_of(kind.element),
            *([BANK_LAYOUT] if kind.instruction in SHARED_INSTRUCTIONS else []),
        ),
        quick=kind.quick,
    )
    for kind in KINDS
) + tuple(
    Experiment(
        Key(f"warps.{kind.element}"),
        partial(warps_needed_plan, kind),
        ("warps_needed",),
        needs=(instruction_rate_of(kind.element),),
        quick=kind.quick,
    )
    for kind in KINDS
)
