"""Latency of an instruction: from one to the next that depends on it (VV16 table 6.2)."""

from dataclasses import replace
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_l2_partitions import MIN_RELATIVE_DISTANCE
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import Latency, lap_latency
from gpudissect.measure.instructions.infer_issue import Lifetimes, NearFarLatency, median_duration, near_far_latency
from gpudissect.measure.instructions.instructions import (
    ALL_SMS,
    ITERATIONS,
    KINDS,
    LATENCY_CAVEATS,
    LONG_BODY,
    SHORT_BODY,
    Kind,
    pattern_of,
    shorter,
    why_unsupported,
)
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.shared_memory.infer_banks import WORD
from gpudissect.measure.shared_memory.plan_shared import BANK_LAYOUT
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix, Step
from gpudissect.workload.digest import digest

REPETITIONS = 5
ERROR_AMPLIFICATION = (LONG_BODY + SHORT_BODY) / (LONG_BODY - SHORT_BODY)
"""Relative error of the difference of two mixes over that of either, if their clocks differ."""
MIN_ERROR_CYCLES = 0.02
WIDTHS = {"latency_64": 8, "latency_128": 16}  # bytes of a lane
LOGIC_ITERATIONS, LOGIC_ERROR_CYCLES = 1024, 0.3  # the cost of loops does not cancel
MIN_MEMORY_ERROR = 0.01  # of the latency
METHOD = (
    f"one warp, {LONG_BODY} dependent instructions per iteration less {SHORT_BODY}; "
    f"lower quartile of {REPETITIONS} runs"
)
METHOD_BY_SM = (
    f"one warp on every SM, at separate addresses, median of {REPETITIONS} runs; midway between near and far SMs "
    "if there are two groups, otherwise the median; the bracket holds every SM"
)


def instruction_latency_of(element: str) -> Key[Latency | None]:
    """Latency of an instruction; None if it was not found."""
    return Key(f"latency.{element}", (Latency, NoneType))


def instruction_latency_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Latency of one instruction, cycles."""
    if (reason := why_unsupported(kind.instruction, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "latency"))
    pattern, caveats = pattern_of(kind, bench, known.get(BANK_LAYOUT))
    if pattern is None:
        return Outcome(without(Status.NOT_FOUND, kind.element, caveats[0], "latency"))
    if kind.instruction is Instruction.ATOMG:
        return (yield from _latency_by_sm(kind, pattern))
    caveats += LATENCY_CAVEATS.get(kind.element, ())
    if kind.access is Access.RANDOM:
        pattern = replace(pattern, sms=1)
    if pattern.sms is None:
        caveats = (*caveats, ALL_SMS)
    latency, evidence = yield from _latency_of_difference(kind, pattern)
    return Outcome((_estimate(kind, latency, evidence, METHOD, caveats),), latency)


def _latency_of_difference(kind: Kind, pattern: Mix) -> Ask[tuple[Latency, tuple[str, ...]]]:
    """Latency from the median warp of long and of short bodies."""
    bodies = (pattern, shorter(pattern))
    mixes = [replace(body, repetition=repetition) for body in bodies for repetition in range(REPETITIONS)]
    traces = yield mixes
    durations = np.array([round(median_duration(trace.begin, trace.end)) for trace in traces], np.int64)
    long, short = durations[:REPETITIONS], durations[REPETITIONS:]
    estimate = float(np.median(long)) / pattern.instructions
    min_error = MIN_ERROR_CYCLES if kind.resident else MIN_MEMORY_ERROR * estimate
    latency = lap_latency(long, bodies[0].instructions, short, bodies[1].instructions, min_error)
    return latency, tuple(map(digest, mixes))


def _latency_by_sm(kind: Kind, pattern: Mix) -> Plan:
    """Latency from all SMs and as many addresses, which are nearer to some SMs than to others."""
    mixes = [replace(pattern, sms=None, repetition=repetition) for repetition in range(REPETITIONS)]
    traces = yield mixes
    latencies = near_far_latency([Lifetimes.of(trace) for trace in traces], pattern.instructions)
    sms = np.unique(traces[0].sm).size
    caveats = (f"each of {sms} SMs counts at 32 words of its own: {_distribution(latencies)}",)
    evidence = tuple(map(digest, mixes))
    return Outcome((_estimate(kind, latencies.latency, evidence, METHOD_BY_SM, caveats),), latencies.latency)


def _distribution(latencies: NearFarLatency) -> str:
    if latencies.near is None or latencies.far is None:
        spread = latencies.latency.high - latencies.latency.low
        varies = spread > MIN_RELATIVE_DISTANCE * latencies.latency.cycles
        return "latencies vary, without two groups" if varies else "latencies agree"
    near, far = (f"in the {part} partition of the L2" for part in ("near", "far"))
    return f"{latencies.near_share:.0%} of them {near}, {latencies.near:.1f} cycles, others {far}, {latencies.far:.1f}"


def _estimate(
    kind: Kind, latency: Latency, evidence: tuple[str, ...], method: str, caveats: tuple[str, ...]
) -> Estimate:
    if latency.cycles <= 0:
        return without(Status.NOT_FOUND, kind.element, "more instructions took no longer", "latency")[0]
    low = max(latency.low, 0.0)
    return found(kind.element, "latency", latency.cycles, low, latency.high, TIMED, method, evidence, caveats)


def width_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Latency of loads of 64 and 128 bits of each lane, side by side, cycles."""
    if (reason := why_unsupported(kind.instruction, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, *WIDTHS))
    plain = Mix(body=(Step(kind.instruction, LONG_BODY),), warps=1, block_size=WARP_SIZE, iterations=ITERATIONS, sms=1)
    estimates: list[Estimate] = []
    for attribute, width in WIDTHS.items():
        is_wide_load = kind.instruction is Instruction.LDG and attribute == "latency_128"
        if is_wide_load and (reason := why_unsupported(Instruction.LOP, bench.info)) is not None:
            estimates += without(Status.NOT_SUPPORTED, kind.element, f"it needs lop: {reason}", attribute)
            continue
        latency, evidence = yield from _latency_of_difference(kind, replace(plain, width=width, stride=width // WORD))
        method, caveats = METHOD, (f"{width} bytes of each lane, side by side",)
        if is_wide_load:
            added, more = yield from _logic_between_loads(plain)
            lower = latency.low - added - LOGIC_ERROR_CYCLES
            latency = Latency(latency.cycles - added, lower, latency.high - added + LOGIC_ERROR_CYCLES)
            method, evidence = f"{METHOD}; less the two LOP3 between them", (*evidence, *more)
        estimates.append(replace(_estimate(kind, latency, evidence, method, caveats), attribute=attribute))
    return Outcome(tuple(estimates))


def _logic_between_loads(plain: Mix) -> Ask[tuple[float, tuple[str, ...]]]:
    """Cycles that two logical operations on the address add to the latency of a load."""
    load, logic = Step(Instruction.LDG), Step(Instruction.LOP, 2)
    bodies = [replace(plain, body=body, iterations=LOGIC_ITERATIONS) for body in ((load, logic), (load,))]
    mixes = [replace(body, repetition=repetition) for body in bodies for repetition in range(REPETITIONS)]
    traces = yield mixes
    durations = np.reshape([median_duration(trace.begin, trace.end) for trace in traces], (2, REPETITIONS))
    both, alone = np.median(durations, axis=1).tolist()
    return (both - alone) / LOGIC_ITERATIONS, tuple(map(digest, mixes))


EXPERIMENTS = tuple(
    Experiment(
        instruction_latency_of(kind.element),
        partial(instruction_latency_plan, kind),
        ("latency",),
        needs=(BANK_LAYOUT,) if kind.bank_passes > 1 else (),
        quick=kind.quick,
    )
    for kind in KINDS
) + tuple(
    Experiment(Key(f"widths.{kind.element}"), partial(width_plan, kind), tuple(WIDTHS))
    for kind in KINDS
    if kind.element in (Instruction.LDS, Instruction.LDG)
)
