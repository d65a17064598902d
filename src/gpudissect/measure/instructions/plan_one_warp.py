"""One warp alone: independent instructions, loads in flight, and latency by consumer (VV16 s3.7, s4.7)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.infer_confidence import TIMED, UNTRIED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT
from gpudissect.measure.instructions.infer_issue import LoadsInFlight, in_flight, loads_in_flight, median_duration
from gpudissect.measure.instructions.instructions import KINDS, Kind, in_warps, pattern_of, shorter, why_unsupported
from gpudissect.measure.instructions.plan_latency import ERROR_AMPLIFICATION, MIN_ERROR_CYCLES, instruction_latency_of
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Step
from gpudissect.workload.digest import digest

I = Instruction  # noqa: E741
INDEPENDENT = (I.FADD, I.FFMA, I.IMAD, I.SHIFT, I.DFMA, I.I2F, I.RSQ, I.SHUFFLE, I.LDS, I.STS, I.LDG, I.STG)
CHAINS = 32
MIN_HIDDEN = 1.1  # time of one instruction of each chain, relative to the latency, if the latency is hidden
PRODUCERS = (I.IMAD, I.I2F, I.RSQ, I.POPC, I.SHUFFLE, I.LDS, I.LDG)
CONSUMER = I.FADD
LONG, SHORT = 256, 64  # iterations: whole loops of either, so that one kernel runs both
LOAD_CHAINS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
REPETITIONS = 3
ILP_METHOD = f"one warp of {CHAINS} independent chains, long bodies less short ones; VV16 s3.7"
CONSUMER_METHOD = f"one warp that alternates with {CONSUMER}, less the latency of {CONSUMER}, VV16 s4.7"
LOADS_METHOD = f"one warp of 1 to {LOAD_CHAINS[-1]} chains of loads from memory: chains times latency by their time"


def ilp_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Cycles from an instruction to the next independent one of the same warp."""
    attribute = "ilp_latency"
    if (reason := why_unsupported(kind.instruction, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, attribute))
    pattern, _ = pattern_of(kind, bench, None)
    latency = known[instruction_latency_of(kind.element)]
    if pattern is None or latency is None:
        return Outcome(without(Status.NOT_FOUND, kind.element, "its latency was not found", attribute))
    mix = in_warps(pattern, 1, CHAINS, bench.info)
    (cycles,), (error,), evidence = yield from _differences([(mix, shorter(mix))])
    if cycles <= 0:
        reason = "more instructions took no longer"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, attribute, evidence=evidence))
    low, high = max(cycles - error, 0.0), cycles + error
    if CHAINS * cycles < MIN_HIDDEN * latency.cycles:
        reason = f"{CHAINS} chains do not hide the latency of {latency.cycles:.3g} cycles"
        answer = without(Status.AMBIGUOUS, kind.element, reason, attribute, evidence=evidence, method=ILP_METHOD)
        return Outcome((replace(answer[0], high=high),))
    return Outcome((found(kind.element, attribute, cycles, low, high, TIMED, ILP_METHOD, evidence),))


def consumer_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Latency of an instruction, in cycles, if an addition needs its result."""
    attribute = "latency_to_fadd"
    for instruction in (kind.instruction, CONSUMER):
        if (reason := why_unsupported(instruction, bench.info)) is not None:
            return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, attribute))
    bodies = ((Step(kind.instruction), Step(CONSUMER)), (Step(CONSUMER, 2),))
    plain = Mix(body=bodies[0], warps=1, block_size=WARP_SIZE, iterations=LONG, sms=1)
    pairs = [tuple(replace(plain, body=body, iterations=count) for count in (LONG, SHORT)) for body in bodies]
    (both, additions), errors, evidence = yield from _differences(pairs)
    latency, error = 2 * both - additions, 2 * errors[0] + errors[1]
    if additions <= 0 or latency <= 0:
        reason = "more instructions took no longer"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, attribute, evidence=evidence))
    caveats = (f"if the latency of {CONSUMER}, {additions:.3g} cycles, does not depend on the instruction after it",)
    low, high = max(latency - error, 0.0), latency + error
    return Outcome((found(kind.element, attribute, latency, low, high, TIMED, CONSUMER_METHOD, evidence, caveats),))


def loads_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Largest number of loads from memory that one warp keeps in flight."""
    attribute = "loads_in_flight"
    if (reason := why_unsupported(kind.instruction, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, attribute))
    pattern, _ = pattern_of(kind, bench, None)
    assert pattern is not None
    alone = replace(pattern, sms=1)
    longer = [in_warps(alone, 1, chains, bench.info) for chains in LOAD_CHAINS]
    each, _, evidence = yield from _differences([(mix, shorter(mix)) for mix in longer])
    if min(each) <= 0:
        reason = "more loads took no longer"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, attribute, evidence=evidence))
    cycles = {chains: chains * time for chains, time in zip(LOAD_CHAINS, each, strict=True)}
    columns = {
        "chains": tuple(map(float, LOAD_CHAINS)),
        "cycles": tuple(cycles.values()),
        "in flight": tuple(in_flight(cycles).values()),
    }
    series = Series(kind.element, "loads in flight of one warp", columns, {"cycles": "cycles"}, evidence)
    return Outcome((_loads_estimate(kind, loads_in_flight(cycles), evidence),), series=(series,))


def _loads_estimate(kind: Kind, loads: LoadsInFlight, evidence: tuple[str, ...]) -> Estimate:
    attribute = "loads_in_flight"
    if loads.limit is None:
        (estimate,) = without(
            Status.NOT_FOUND, kind.element, loads.reason, attribute, evidence=evidence, method=LOADS_METHOD
        )
        return replace(estimate, low=float(int(loads.low)))
    return found(kind.element, attribute, loads.limit, loads.low, loads.high, UNTRIED, LOADS_METHOD, evidence)


def _differences(pairs: Sequence[tuple[Mix, ...]]) -> Ask[tuple[list[float], list[float], tuple[str, ...]]]:
    """Cycles per instruction from each pair of a long and a short mix, their errors, and the evidence."""
    mixes = [replace(mix, repetition=k) for pair in pairs for mix in pair for k in range(REPETITIONS)]
    traces = yield mixes
    durations = np.reshape([median_duration(trace.begin, trace.end) for trace in traces], (len(pairs), 2, REPETITIONS))
    cycles, errors = [], []
    for (long, short), times in zip(pairs, durations, strict=True):
        more = long.instructions - short.instructions
        after, before = np.median(times, axis=1).tolist()
        estimate = (after - before) / more
        spread = float(np.ptp(times, axis=1).sum()) / more
        cycles.append(estimate)
        errors.append(MIN_ERROR_CYCLES + spread + ERROR_AMPLIFICATION * MAX_CLOCK_DRIFT * abs(estimate))
    return cycles, errors, tuple(map(digest, mixes))


_KINDS = {kind.element: kind for kind in KINDS}
EXPERIMENTS = (
    *(
        Experiment(
            Key(f"ilp.{name}"), partial(ilp_plan, _KINDS[name]), ("ilp_latency",), needs=(instruction_latency_of(name),)
        )
        for name in INDEPENDENT
    ),
    *(Experiment(Key(f"consumer.{n}"), partial(consumer_plan, _KINDS[n]), ("latency_to_fadd",)) for n in PRODUCERS),
    Experiment(Key("in_flight.ldg_streaming"), partial(loads_plan, _KINDS["ldg_streaming"]), ("loads_in_flight",)),
)
