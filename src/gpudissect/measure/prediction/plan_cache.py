"""Hold what was inferred of a cache against random accesses to it that nothing was inferred from."""

from __future__ import annotations

from functools import partial
from types import NoneType

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_policy import UNKNOWN, outcomes
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.cache.plan_policy import replacement_of
from gpudissect.measure.cache.plan_sets import structure_of
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan
from gpudissect.measure.prediction.infer_disagreement import Unforetold, first_of
from gpudissect.measure.prediction.infer_prediction import Tally, foretell, tally
from gpudissect.simulation.cache.check import check_cache
from gpudissect.simulation.cache.geometry import Cache
from gpudissect.trace import Trace
from gpudissect.vocabulary import CACHES
from gpudissect.workload import Chase, Explicit, Timing

FOOTPRINTS = (0.6, 1.0, 1.4)  # of what the cache holds
VISITS = 3  # of each line in a lap, through words of any part of it
LAPS = 2
MOST_ACCESSES = 1 << 18  # of one sequence
SHORTFALL = 0.005  # by which the share may stay below what is possible: misread accesses
DRAWN_SHORTFALL = 0.03  # the same where victims are drawn, and what is possible is itself an estimate
METHOD = "random accesses that nothing was inferred from, against the cache simulated as inferred"


def prediction_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Knowledge: the `Tally` of `element`, or why it is `Unforetold`, or None if there is no such cache.

    A policy that foretells too little becomes ambiguous.
    """
    levels = known[levels_of(element)]
    level = levels.level(element)
    if level is None:
        return Outcome()
    structure = known[structure_of(element)]
    replacement = known[replacement_of(element)]
    if structure is None or level.bounds is None:
        return Outcome(knowledge=Unforetold(element, "its sets are not known"))
    if replacement is None:
        return Outcome(knowledge=Unforetold(element, "its replacement policy is not known"))
    if level.homes is not None:
        return Outcome(knowledge=Unforetold(element, "it may be one of two parts: what the other answers is not known"))
    fetch = level.fetch.fetch or structure.line
    cache = Cache(structure.ways, structure.line, fetch, structure.index, replacement.policy)
    try:
        check_cache(cache)
    except UsageError as error:  # the policy of most sets is none for all of them
        return Outcome(knowledge=Unforetold(element, str(error)))
    found, wrong, evidence = yield from _foretold(level, structure, cache, bench)
    shortfall = SHORTFALL if found.possible == 1 else DRAWN_SHORTFALL
    if not replacement.sure or found.agreement >= found.possible - shortfall:
        return Outcome(knowledge=found)
    reason = (
        f"{replacement.policy.kind} foretells only {found.agreement:.1%} of {found.accesses} random accesses: "
        f"{found.hits_wrong} hits were foretold as misses, {found.misses_wrong} misses as hits; {wrong}"
    )
    estimate = Estimate(element=element, attribute="replacement_policy", status=Status.AMBIGUOUS, reason=reason,
                        method=METHOD, evidence=evidence)  # fmt: skip
    return Outcome((estimate,), found)


def _foretold(
    level: Level, structure: Structure, cache: Cache, bench: Bench
) -> Ask[tuple[Tally, str, tuple[str, ...]]]:
    """How much of three sequences was foretold, which accesses were not, and the evidence."""
    rings = [_ring(level, structure, cache.sector, share, bench) for share in FOOTPRINTS]
    traces: list[Trace] = yield [
        Chase(path=level.path, order=Explicit(ring), timing=Timing.EACH, warmup=0, laps=LAPS, alone=level.alone,
              flush=level.alone)
        for ring in rings
    ]  # fmt: skip
    assert level.bounds is not None
    parts, wrong = [], []
    for ring, trace in zip(rings, traces, strict=True):
        offsets = np.tile(ring, LAPS)
        told, seen = foretell(cache, offsets), outcomes(trace.cycles, level.bounds)
        parts.append((told, seen))
        wrong.append((offsets, told.again & (seen != UNKNOWN) & (seen != told.misses)))
    return tally(level.element, parts), first_of(wrong), tuple(trace.workload for trace in traces)


def _ring(level: Level, structure: Structure, fetch: int, share: float, bench: Bench) -> NDArray[np.int64]:
    """Random lines, each visited several times at random moments, every time through another of its words."""
    rng = bench.rng("unseen", level.element, str(share))
    words = structure.line // level.path.word
    visits = min(VISITS, words)
    count = min(max(2, round(share * sum(structure.ways))), structure.lines, MOST_ACCESSES // visits)
    lines = rng.choice(structure.lines, size=count, replace=False)
    own = np.stack([rng.permutation(words)[:visits] for _ in range(count)])
    return rng.permutation((lines[:, None] * structure.line + own * level.path.word).ravel())


EXPERIMENTS = tuple(
    Experiment(
        key=Key(f"prediction.{element}", (Tally, Unforetold, NoneType)),
        element=element,
        plan=partial(prediction_plan, element),
        revises=(f"{element}.replacement_policy",),
        needs=(levels_of(element), structure_of(element), replacement_of(element)),
    )
    for element in CACHES
)
