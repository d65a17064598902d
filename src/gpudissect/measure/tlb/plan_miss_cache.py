"""A miss cache beside a TLB: a fully associative buffer of the pages that missed last (Jouppi 1990, section 3.1).

It matters to pages that return soon after their set lost them, which is rare among many pages. So pages of a few sets,
more than these hold, are visited in random order.
"""

from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_policy import (
    MIN_LEAD_NATS,
    MIN_MISREAD_SHARE,
    Outcomes,
    agreement,
    log_likelihood,
)
from gpudissect.measure.infer_confidence import UNTRIED
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.tlb.page_accesses import PageAccesses, Pages, random_visits
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.measure.tlb.plan_policy import LAPS, WELL_PREDICTED, predict_misses, tlb_caches_to
from gpudissect.measure.tlb.plan_sets import TlbSets, tlb_sets_of
from gpudissect.simulation.cache.models import TranslationModel
from gpudissect.vocabulary import TLBS

ATTRIBUTE = "miss_cache"
SETS = (2, 4)  # whose pages are visited, in turn: a larger miss cache shows in more of them
MIN_PAGES_PER_WAY, MAX_PAGES_PER_WAY = 1.5, 1.75  # of a set
MAX_ENTRIES = 64
SEQUENCES, HELD_OUT = 12, 4  # visits of a lap are few; held-out sequences are not used to choose
MAX_ERROR_SHARE = 0.3  # of the visits that are predicted wrongly without a miss cache
METHOD = "likelihood of observed misses in a few sets, TLBs simulated with a miss cache of every size"
ONE_SET = "the TLB has one set: a miss cache beside it cannot be distinguished from its own entries"
BANKED = "if it has banks, this is what pages of a few neighbouring sets share"
FEW_PAGES = "too few pages are known to share a set"


def miss_cache_of(element: str) -> Key[int | None]:
    """Entries of the miss cache beside a TLB, 0 for none; None if that is not known."""
    return Key(f"miss_cache.{element}", (int, NoneType))


def miss_cache_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Entries of the miss cache beside a TLB; 0 for none."""
    level, sets, caches = known[tlb_of(element)], known[tlb_sets_of(element)], known[tlb_caches_to(element)]
    if level is None or sets is None or caches is None:
        reason = "the sets or the policy of the TLB are not known"
        return Outcome(without(Status.NOT_FOUND, element, reason, ATTRIBUTE))
    if isinstance(by_set := _pages_by_set(sets), str):
        return Outcome(without(Status.NOT_FOUND, element, by_set, ATTRIBUTE))
    accesses = PageAccesses(level.page_size, bench)
    visits = []
    for number in range(SEQUENCES):
        pages = np.concatenate(by_set[: SETS[number % len(SETS)]])
        visits.append(pages[random_visits(pages.size, bench.rng("visits beside", element, number))])
    missed = yield from accesses.misses(visits, LAPS, level.miss.threshold)
    misread = max(MIN_MISREAD_SHARE, accesses.misread_share(level.miss.threshold))
    predicted = []
    for size in range(MAX_ENTRIES + 1):
        model = TranslationModel(caches, size)
        predicted.append([predict_misses(model, each * level.page_size) for each in visits])
    scores = np.array([sum(_likelihoods(each[HELD_OUT:], missed[HELD_OUT:], misread)) for each in predicted])
    best = int(np.argmax(scores))
    possible = np.flatnonzero(scores > scores[best] - MIN_LEAD_NATS)
    without_one, share = (_mean_agreement(predicted[size][:HELD_OUT], missed[:HELD_OUT]) for size in (0, best))
    evidence = tuple(accesses.evidence)
    if share < WELL_PREDICTED or (best and 1 - share > MAX_ERROR_SHARE * (1 - without_one)):
        shares = f"with {best} entries, {share:.1%} of the visits are predicted, without one {without_one:.1%}"
        reason = f"no miss cache explains the misses of a few sets: {shares}"
        return Outcome(without(Status.AMBIGUOUS, element, reason, ATTRIBUTE, method=METHOD, evidence=evidence))
    predicts = (
        f"it predicts {share:.2%} of the visits of sequences not used to choose it, without one {without_one:.2%}"
    )
    caveats = (predicts, *([BANKED] if best else []))
    low, high = int(possible[0]), int(possible[-1]) if possible[-1] < MAX_ENTRIES else None
    return Outcome((found(element, ATTRIBUTE, best, low, high, UNTRIED, METHOD, evidence, caveats),), best)


def _pages_by_set(sets: TlbSets) -> list[Pages] | str:
    """Pages of those sets of which the most are known beyond what they hold; or why there are too few."""
    if len(sets.ways) == 1:
        return ONE_SET
    set_of = np.array(sets.set_of)
    more = np.bincount(set_of, minlength=len(sets.ways)) / np.array(sets.ways)
    chosen = np.argsort(-more, kind="stable")[: max(SETS)]
    if chosen.size < max(SETS) or (more[chosen] < MIN_PAGES_PER_WAY).any():
        return FEW_PAGES
    return [np.flatnonzero(set_of == each)[: int(MAX_PAGES_PER_WAY * sets.ways[each])] for each in chosen]


def _likelihoods(predicted: list[Outcomes], missed: list[Outcomes], misread: float) -> list[float]:
    return [log_likelihood(*pair, misread) for pair in zip(predicted, missed, strict=True)]


def _mean_agreement(predicted: list[Outcomes], missed: list[Outcomes]) -> float:
    return float(np.mean([agreement(*pair) for pair in zip(predicted, missed, strict=True)]))


EXPERIMENTS = tuple(
    Experiment(
        miss_cache_of(tlb),
        partial(miss_cache_plan, tlb),
        (ATTRIBUTE,),
        (tlb_of(tlb), tlb_sets_of(tlb), tlb_caches_to(tlb)),
        simulates=True,
    )
    for tlb in TLBS
)
