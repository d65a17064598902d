"""Validate an inferred cache on random accesses to it that nothing was inferred from."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import NoneType
from typing import TypeVar

import numpy as np

from gpudissect.errors import UsageError
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_policy import UNKNOWN, classify
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.cache.plan_policy import replacement_of
from gpudissect.measure.cache.plan_sets import structure_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan
from gpudissect.measure.prediction import infer_agreement
from gpudissect.measure.prediction.infer_agreement import CacheCounts, NotPredicted, name_accesses
from gpudissect.simulation.cache.check import check_cache
from gpudissect.trace import Array
from gpudissect.vocabulary import CACHES
from gpudissect.workload import Chase, Explicit, Timing

Prediction = TypeVar("Prediction")
FOOTPRINTS = (0.6, 1.0, 1.4)  # relative to the capacity
VISITS = 3  # of each line in a lap, through random words of it
LAPS = 2
MAX_ACCESSES = 1 << 18  # of a sequence
MISREAD_SHORTFALL = 0.005  # by which the agreement may stay below what is possible: misread accesses
METHOD = "random accesses that no inference used, compared with the cache simulated as inferred"


def prediction_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Knowledge: `CacheCounts`, `NotPredicted`, or None if there is no such cache. May refute the policy."""
    level = known[levels_of(element)].level(element)
    if level is None:
        return Outcome()
    structure, replacement = known[structure_of(element)], known[replacement_of(element)]
    if structure is None or level.bounds is None or replacement is None:
        missing = "sets are" if structure is None or level.bounds is None else "replacement policy is"
        return Outcome(knowledge=NotPredicted(element, f"its {missing} not known"))
    if level.home_partition is not None:
        return Outcome(knowledge=NotPredicted(element, "it has two partitions: which hits in the other is not known"))
    fetch = level.fetch.fetch or structure.line
    cache = structure.cache(fetch, replacement.policy)
    try:
        check_cache(cache)
    except UsageError as error:  # the policy of most sets may be impossible for all of them
        return Outcome(knowledge=NotPredicted(element, str(error)))
    orders = [_order(level, structure, share, bench) for share in FOOTPRINTS]
    chase = partial(Chase, path=level.path, timing=Timing.EACH, warmup=0, laps=LAPS, alone=level.alone)
    traces = yield [chase(order=Explicit(order), flush=level.alone) for order in orders]
    offsets, lines = [np.tile(order, LAPS) for order in orders], structure.predictable_lines(replacement.policy)
    predicted = predict_each(partial(infer_agreement.predict_misses, cache, lines), offsets)
    pairs = list(zip(predicted, [classify(trace.cycles, level.bounds) for trace in traces], strict=True))
    counts = infer_agreement.count_misses(element, pairs)
    shortfall = MISREAD_SHORTFALL if counts.possible == 1 else infer_agreement.RANDOM_SHORTFALL
    if not replacement.sure or counts.agreement >= counts.possible - shortfall:
        return Outcome(knowledge=counts)
    wrong = [one.counted & (other != UNKNOWN) & (other != one.misses) for one, other in pairs]
    reason = (
        f"{replacement.policy.kind} predicts only {counts.agreement:.1%} of {counts.accesses} random accesses: "
        f"{counts.hits_wrong} hits were predicted as misses, {counts.misses_wrong} misses as hits; "
        f"{name_accesses(list(zip(offsets, wrong, strict=True)))}"
    )
    ambiguous = partial(Estimate, element=element, attribute="replacement_policy", status=Status.AMBIGUOUS)
    evidence = tuple(trace.workload for trace in traces)
    return Outcome((ambiguous(reason=reason, method=METHOD, evidence=evidence),), counts)


def _order(level: Level, structure: Structure, share: float, bench: Bench) -> Array:
    """Random lines, each visited several times at random moments, each time through another of its words."""
    rng = bench.rng("unseen", level.element, str(share))
    words = structure.line // level.path.word
    visits = min(VISITS, words)
    count = min(max(2, round(share * sum(structure.ways))), structure.lines, MAX_ACCESSES // visits)
    lines = rng.choice(structure.lines, size=count, replace=False)
    chosen = rng.permuted(np.tile(np.arange(words), (count, 1)), axis=1)[:, :visits]
    return rng.permutation((lines[:, None] * structure.line + chosen * level.path.word).ravel())


def predict_each(predict: Callable[[Array], Prediction], sequences: Sequence[Array]) -> list[Prediction]:
    """The predictions for some sequences, each in a thread: simulators run without the GIL."""
    with ThreadPoolExecutor(max(1, min(len(sequences), os.cpu_count() or 1))) as pool:
        return list(pool.map(predict, sequences))


EXPERIMENTS = tuple(
    Experiment(
        Key(f"prediction.{element}", (CacheCounts, NotPredicted, NoneType)),
        partial(prediction_plan, element),
        revises=(f"{element}.replacement_policy",),
        needs=(levels_of(element), structure_of(element), replacement_of(element)),
        simulates=True,
    )
    for element in CACHES
)
