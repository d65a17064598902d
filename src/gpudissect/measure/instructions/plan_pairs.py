"""Pairs of instructions in many warps: which units they share, and what special functions cost loads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from gpudissect.catalogue.compute_capability import schedulers
from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.infer_confidence import UNTRIED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT
from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.instructions.infer_pairs import (
    Pair,
    issue_interval,
    losses,
    median_and_range,
    shared_units,
    undecided,
)
from gpudissect.measure.instructions.instructions import block_size_of, why_unsupported
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Step
from gpudissect.workload.digest import digest

INSTRUCTIONS = (
    *(Instruction.FADD, Instruction.FFMA, Instruction.IMAD, Instruction.SHIFT, Instruction.FMNMX, Instruction.I2F),
    *(Instruction.RSQ, Instruction.POPC, Instruction.SHUFFLE),
)
"""Of every kind of unit; of ALUs those with few operands, because reading registers takes time too."""
WARPS, CHAINS = 16, 4
LONG, SHORT = 256, 64  # iterations: whole loops of either, so that one kernel runs both
REPETITIONS = 3
MIN_ERROR = 0.01  # relative
FEW = (1, 4)  # so few special functions that the others are the bottleneck
RATIOS = ((1, 1), (1, 2), FEW, (2, 1), (4, 1))  # special functions : others
PAIR_ATTRIBUTES = ("instructions_per_cycle", "units", "pair_loss")
QUEUE_ATTRIBUTES = ("special_with_shuffle", "special_with_store")
METHOD = f"{WARPS} warps of {CHAINS} chains that alternate between two instructions, {LONG} iterations less {SHORT}"
OPERANDS = "includes the reading of registers: two instructions with many operands in one bank wait for it"


@dataclass(frozen=True)
class Mixture:
    """Two mixes that differ in their iterations, and cycles of an SM of one iteration of a chain, by repetition."""

    mixes: tuple[Mix, ...]
    cycles: tuple[float, ...]

    @property
    def value(self) -> float:
        """Median of the repetitions."""
        return float(np.median(self.cycles))

    @property
    def evidence(self) -> tuple[str, ...]:
        """Digests of the mixes."""
        return tuple(map(digest, self.mixes))


Body = tuple[Step, ...]


def _measure(bodies: Sequence[Body], bench: Bench) -> Ask[dict[Body, Mixture]]:
    """The mixtures with these bodies."""
    plain = {body: _mix(body, bench.info) for body in bodies}
    batches = {
        body: [replace(mix, iterations=n, repetition=k) for k in range(REPETITIONS) for n in (LONG, SHORT)]
        for body, mix in plain.items()
    }
    traces = iter((yield [mix for batch in batches.values() for mix in batch]))
    measured = {}
    for body, batch in batches.items():
        spans = [_span(next(traces)) for _ in batch]
        scale = WARPS * CHAINS * (LONG - SHORT)
        cycles = tuple((long - short) / scale for long, short in zip(spans[::2], spans[1::2], strict=True))
        measured[body] = Mixture(tuple(batch), cycles)
    return measured


def _mix(body: Body, info: DeviceInfo) -> Mix:
    block_size = block_size_of(WARPS, info) or WARP_SIZE
    return Mix(body=body, warps=WARPS, block_size=block_size, iterations=LONG, ilp=CHAINS, sms=1)


def _span(trace: Trace) -> float:
    return float(np.median(SmTotals.of(trace).spans))


def pairs_plan(bench: Bench, known: Known) -> Plan:
    """Units of a scheduler from pairs of instructions, cycles of a scheduler."""
    supported = [each for each in INSTRUCTIONS if why_unsupported(each, bench.info) is None]
    if len(supported) < 2:
        reason = why_unsupported(INSTRUCTIONS[0], bench.info) or "it has fewer than two of the instructions"
        return Outcome(without(Status.NOT_SUPPORTED, "issue", reason, *PAIR_ATTRIBUTES))
    alone = {each: (Step(each),) for each in supported}
    both = {(a, b): (Step(a), Step(b)) for a, b in combinations(supported, 2)}
    measured = yield from _measure([*alone.values(), *both.values()], bench)
    count = schedulers(bench.info.facts)
    times = {body: mixture.value * count for body, mixture in measured.items()}
    if min(times.values()) <= 0:
        reason = "more instructions took no longer"
        return Outcome(without(Status.NOT_FOUND, "issue", reason, *PAIR_ATTRIBUTES))
    pairs = [Pair((a, b), (times[alone[a]], times[alone[b]]), times[body]) for (a, b), body in both.items()]
    evidence = tuple(each for mixture in measured.values() for each in mixture.evidence)
    columns: dict[str, tuple[float | str, ...]] = {
        "first": tuple(pair.names[0] for pair in pairs),
        "second": tuple(pair.names[1] for pair in pairs),
        "first alone": tuple(pair.alone[0] for pair in pairs),
        "second alone": tuple(pair.alone[1] for pair in pairs),
        "both": tuple(pair.together for pair in pairs),
    }
    units = dict.fromkeys(("first alone", "second alone", "both"), "cycles")
    series = Series("issue", "cycles of a scheduler for a pair", columns, units, evidence)
    return Outcome(_pair_estimates([str(each) for each in supported], times, pairs, evidence), series=(series,))


def _pair_estimates(
    names: Sequence[str], times: Mapping[Body, float], pairs: Sequence[Pair], evidence: tuple[str, ...]
) -> tuple[Estimate, ...]:
    issue = issue_interval((time for body, time in times.items() if len(body) == 1), pairs)
    rate, error = 1 / issue, MIN_ERROR / issue
    groups = shared_units(names, pairs)
    listed = "; ".join(", ".join(group) for group in groups)
    most = len(groups) + len(undecided(groups, pairs))
    lost = losses(groups, pairs, issue)
    best = found(
        "issue", "instructions_per_cycle", rate, rate - error, rate + error, UNTRIED, f"{METHOD}; the fastest", evidence
    )
    caveats = (f"of the instructions measured; those that share one: {listed}",)
    unit_count = found("issue", "units", len(groups), len(groups), most, UNTRIED, METHOD, evidence, caveats)
    if not lost:
        return (best, unit_count, *without(Status.NOT_FOUND, "issue", "no pair has separate units", "pair_loss"))
    middle, low, high = median_and_range(lost.values())
    worst = max(lost, key=lambda names: lost[names])
    where = (f"greatest for {worst[0]} with {worst[1]}", OPERANDS)
    loss = found("issue", "pair_loss", middle, low, high, UNTRIED, f"{METHOD}; median and range", evidence, where)
    return best, unit_count, loss


def queue_plan(bench: Bench, known: Known) -> Plan:
    """Cycles of an SM that a special function adds to shuffles and to stores to shared memory, which share its way."""
    needed = (Instruction.RSQ, Instruction.SHUFFLE, Instruction.STS)
    if reason := next(filter(None, (why_unsupported(each, bench.info) for each in needed)), None):
        return Outcome(without(Status.NOT_SUPPORTED, "issue", reason, *QUEUE_ATTRIBUTES))
    special, *others = needed
    ratios = {(n, ratio): (Step(special, ratio[0]), Step(n, ratio[1])) for n in others for ratio in RATIOS}
    alone = {other: (Step(other),) for other in others}
    measured = yield from _measure([*ratios.values(), *alone.values()], bench)
    estimates = tuple(
        _added(attribute, measured[ratios[other, FEW]], measured[alone[other]])
        for other, attribute in zip(others, QUEUE_ATTRIBUTES, strict=True)
    )
    series = tuple(_of_ratios(other, [measured[ratios[other, ratio]] for ratio in RATIOS]) for other in others)
    return Outcome(estimates, series=series)


def _added(attribute: str, both: Mixture, alone: Mixture) -> Estimate:
    """Cycles that a special function adds to several others."""
    second = both.mixes[0].body[1]
    added = both.value - second.count * alone.value
    error = max(MAX_CLOCK_DRIFT, MIN_ERROR) * both.value + float(np.ptp(both.cycles) + np.ptp(alone.cycles))
    method = f"{METHOD}: one rsq and {second.count} {second.instruction}, less those alone"
    evidence = (*both.evidence, *alone.evidence)
    return found("issue", attribute, added, added - error, added + error, UNTRIED, method, evidence)


def _of_ratios(other: Instruction, mixtures: Sequence[Mixture]) -> Series:
    columns = {
        "special": tuple(float(special) for special, _ in RATIOS),
        "others": tuple(float(count) for _, count in RATIOS),
        "cycles": tuple(mixture.value for mixture in mixtures),
    }
    evidence = tuple(each for mixture in mixtures for each in mixture.evidence)
    return Series(
        "issue", f"cycles of an SM for special functions with {other}", columns, {"cycles": "cycles"}, evidence
    )


EXPERIMENTS = (
    Experiment(Key("pairs.issue"), pairs_plan, PAIR_ATTRIBUTES, element="issue"),
    Experiment(Key("queue.issue"), queue_plan, QUEUE_ATTRIBUTES, element="issue"),
)
