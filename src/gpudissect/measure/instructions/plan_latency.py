"""Latency of an instruction: from one to the next that depends on it (VV16 table 6.2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_home_partition import DISTANCE
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import DRIFT, Latency, lap_latency
from gpudissect.measure.instructions.infer_issue import Ways, latency_by_way, mean_duration
from gpudissect.measure.instructions.instructions import (
    ALL_SMS,
    KINDS,
    LONG,
    OF_LATENCIES,
    SHORT,
    Kind,
    pattern_of,
    shorter,
)
from gpudissect.measure.instructions.mixes import why_no_mix
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.shared_memory.plan_banks import BANK_LAYOUT
from gpudissect.trace import Trace
from gpudissect.workload import SHARED_INSTRUCTIONS, Access, Instruction, Mix
from gpudissect.workload.digest import digest

REPEATS = 5
AMPLIFIED = (LONG + SHORT) / (LONG - SHORT)
"""By so much more than either of two mixes their difference may be off, relative, if the clock is another in each."""
LEAST = 0.02  # cycles of a latency that nobody believes to know better
LEAST_OF_MEMORY = 0.01  # of the latency, of memory
METHOD = f"one warp, {LONG} dependent instructions an iteration less {SHORT}; lower quartile of {REPEATS}"
METHOD_OF_WAYS = (
    f"one warp on every SM, at addresses of its own, median of {REPEATS}; half way between near and far ones if there "
    "are two kinds, else the median; the bracket holds every one"
)


def instruction_latency_of(element: str) -> Key[Latency | None]:
    """Latency of an instruction; None if it was not found."""
    return Key(f"latency.{element}", (Latency, NoneType))


def issue_latency_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Latency of one instruction, cycles. Its knowledge is the `Latency`, None if it cannot be measured."""
    reason = why_no_mix(kind.instruction, bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "latency"))
    pattern, caveats = pattern_of(kind, bench, known)
    if pattern is None:
        return Outcome(without(Status.NOT_FOUND, kind.element, caveats[0], "latency"))
    caveats = (*caveats, *OF_LATENCIES.get(kind.element, ()))
    if kind.instruction is Instruction.ATOMG:
        return (yield from _of_ways(kind, pattern))
    if kind.access is Access.RANDOM:
        pattern = replace(pattern, sms=1)
    if pattern.sms is None:
        caveats = (*caveats, ALL_SMS)
    latency, evidence = yield from _of_warps(kind, pattern)
    return Outcome((_found(kind, latency, evidence, METHOD, caveats),), latency)


def _of_warps(kind: Kind, pattern: Mix) -> Ask[tuple[Latency, tuple[str, ...]]]:
    """Of the typical warp of those that run: long bodies less short ones."""
    bodies = (pattern, shorter(pattern))
    mixes = [replace(each, repetition=turn) for each in bodies for turn in range(REPEATS)]
    traces = yield mixes
    long, short = (_durations(part) for part in (traces[:REPEATS], traces[REPEATS:]))
    about = float(np.median(long)) / pattern.instructions
    least = (LEAST if kind.resident else LEAST_OF_MEMORY * about) + (AMPLIFIED - 1) * DRIFT * about
    found = lap_latency(long, bodies[0].instructions, short, bodies[1].instructions, least)
    return found, tuple(digest(mix) for mix in mixes)


def _durations(traces: list[Trace]) -> np.ndarray:
    return np.array([round(mean_duration(trace.begin, trace.end)) for trace in traces], np.int64)


def _of_ways(kind: Kind, pattern: Mix) -> Plan:
    """Of all SMs and as many addresses, which lie nearer to each other or farther apart."""
    mixes = [replace(pattern, sms=None, repetition=turn) for turn in range(REPEATS)]
    traces = yield mixes
    ways = latency_by_way([(each.begin, each.end, each.sm) for each in traces], pattern.instructions)
    caveats = (f"each of {np.unique(traces[0].sm).size} SMs counts at 32 words of its own: {_near_and_far(ways)}",)
    evidence = tuple(digest(mix) for mix in mixes)
    return Outcome((_found(kind, ways.latency, evidence, METHOD_OF_WAYS, caveats),), ways.latency)


def _near_and_far(ways: Ways) -> str:
    if ways.near is None or ways.far is None:
        apart = ways.latency.high - ways.latency.low > DISTANCE * ways.latency.cycles
        return "some lie nearer and some farther, in no two groups" if apart else "all lie about as far"
    return (f"{ways.share:.0%} of them in a near part of the L2, {ways.near:.1f} cycles, the others in a far one, "
            f"{ways.far:.1f} cycles")  # fmt: skip


def _found(
    kind: Kind, latency: Latency, evidence: tuple[str, ...], method: str, caveats: tuple[str, ...]
) -> Estimate:  # fmt: skip
    if latency.cycles <= 0:
        return without(Status.NOT_FOUND, kind.element, "more instructions took no longer", "latency")[0]
    return Estimate(
        element=kind.element, attribute="latency", status=Status.FOUND, value=latency.cycles,
        low=max(latency.low, 0.0), high=latency.high, confidence=TIMED, method=method, evidence=evidence,
        caveats=caveats,
    )  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=instruction_latency_of(kind.element),
        element=kind.element,
        plan=partial(issue_latency_plan, kind),
        emits=("latency",),
        needs=(BANK_LAYOUT,) if kind.instruction in SHARED_INSTRUCTIONS and kind.turns > 1 else (),
    )
    for kind in KINDS
)
