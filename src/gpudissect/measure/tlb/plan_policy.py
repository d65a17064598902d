"""Replacement policy of a TLB: how well each candidate foretells which translations are missed.

MC14 (table 4) calls the first TLB of Fermi and Kepler LRU, MC16 (table 5) not: going round one page more than fits, an
LRU misses always, and so does FIFO; only visits in random order tell. What reaches a TLB is what the one before it
missed, so those are simulated in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.errors import UsageError
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_held_out import MISREAD, drawn_anew, may_be_wrong_twice, wrong_twice
from gpudissect.measure.cache.infer_policy import (
    DETERMINISTIC,
    MARGIN,
    UNKNOWN,
    Observed,
    Outcomes,
    agreement,
    log_likelihood,
    random_log_likelihood,
)
from gpudissect.measure.infer_confidence import BRACKETED, EXACT
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.tlb.plan_entries import TlbLevel, tlb_of
from gpudissect.measure.tlb.plan_sets import TlbSets, tlb_sets_of
from gpudissect.measure.tlb.translation import VISITS, WARMUP, Pages, Translations
from gpudissect.simulation.cache.cache import CacheModel
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.policy import check_policy
from gpudissect.vocabulary import TLBS

ATTRIBUTES = ("replacement_policy",)
SEQUENCES, ROUNDS, HELD_OUT = 4, 4, 3
LAPS = 4
MOST = 6.0  # times the share of misread hits may disagree: misses are misread, too
WELL = 0.99  # share foretold from which on nothing is left to explain
METHOD = "likelihood of missed translations, candidates simulated behind the TLBs before"


def tlb_caches_to(element: str) -> Key[tuple[Cache, ...] | None]:
    """The TLBs up to `element` as caches of pages; None if the policy of one is not known."""
    return Key(f"policy.{element}", (tuple, NoneType))


def tlb_policy_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Policy of a TLB; knowledge: the TLBs up to it as caches of pages, or None."""
    level = known[tlb_of(element)]
    shape = known[tlb_sets_of(element)]
    number = TLBS.index(element)
    before = known[tlb_caches_to(TLBS[number - 1])] if number else ()
    if level is None or shape is None:
        return Outcome(without(Status.NOT_FOUND, element, "its sets are not known", *ATTRIBUTES))
    if before is None:
        return Outcome(without(Status.NOT_FOUND, element, "the policy of the TLB before it is not known", *ATTRIBUTES))
    if any(cache.policy.kind is PolicyKind.RANDOM for cache in before):
        reason = "the TLB before it draws its victims: what reaches this one cannot be foretold"
        return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
    if max(shape.ways) == 1:
        return Outcome(without(Status.NOT_FOUND, element, "sets of one way: nothing to choose", *ATTRIBUTES))
    asked = _Asked(element, level, shape, before, bench)
    estimate = yield from asked.policy()
    if estimate.status is not Status.FOUND:
        return Outcome((estimate,))
    return Outcome((estimate,), (*before, asked.cache(PolicyKind(str(estimate.value)))))


@dataclass(frozen=True)
class _Ranked:
    """The candidate that foretells best, and how the others stand to it.

    Attributes:
        best: the likeliest.
        score: its log-likelihood (nats).
        rivals: others that foretell something else and are about as likely.
        misread: share of the accesses that may be misread.
        sequences: what was visited.
        missed: which of the visits missed.

    """

    best: PolicyKind
    score: float
    rivals: tuple[PolicyKind, ...]
    misread: float
    sequences: tuple[Pages, ...]
    missed: tuple[Outcomes, ...]


class _Asked:
    """Visits to one page more than fits, in random order."""

    def __init__(self, element: str, level: TlbLevel, shape: TlbSets, before: tuple[Cache, ...], bench: Bench) -> None:
        self.element, self.level, self.shape, self.before, self.bench = element, level, shape, before, bench
        self.translations = Translations(level.page, bench)

    def policy(self) -> Ask[Estimate]:
        """Which policy it is, from the likelihoods of the candidates and visits not used to choose among them."""
        ranked = yield from self._ranked()
        unseen = [self._sequence(len(ranked.sequences) + i) for i in range(HELD_OUT)]
        once = yield from self._misses(unseen)
        again = yield from self._misses(unseen, repetition=1)
        told = [self._foretold(ranked.best, pages) for pages in unseen]
        share = float(np.mean([agreement(*pair) for run in (once, again) for pair in zip(told, run, strict=True)]))
        if share < WELL and drawn_anew(once, again, ranked.misread) and self._rather_drawn(ranked):
            return self._random()
        if ranked.rivals:
            return self._ambiguous(
                f"{ranked.best} foretells {share:.1%} of the accesses, {', '.join(ranked.rivals)} about as many"
            )
        stubborn = sum(wrong_twice(*each) for each in zip(told, once, again, strict=True))
        most = may_be_wrong_twice(share, sum(each.size for each in told))
        if share < 1 - MOST * ranked.misread or stubborn > most:
            return self._ambiguous(
                "none of the policies tried, in which nothing is left to chance: "
                f"{ranked.best} comes nearest, which foretells {share:.1%} of the accesses, but {stubborn} of them "
                "wrongly whenever they are made"
            )
        return Estimate(
            element=self.element, attribute="replacement_policy", status=Status.FOUND, value=ranked.best.value,
            confidence=EXACT if share >= WELL else BRACKETED, method=METHOD,
            evidence=tuple(self.translations.evidence),
            caveats=(f"it foretells {share:.2%} of the accesses of sequences not used to choose it",),
        )  # fmt: skip

    def _ranked(self) -> Ask[_Ranked]:
        """Visits until one candidate leads all that foretell otherwise, or there were enough."""
        kinds = [kind for kind in DETERMINISTIC if self._possible(kind)]
        sequences: list[Pages] = []
        missed: list[Outcomes] = []
        foretold: dict[PolicyKind, list[Outcomes]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            own = [self._sequence(len(sequences) + i) for i in range(SEQUENCES)]
            missed += yield from self._misses(own)
            sequences += own
            for kind in kinds:
                foretold[kind] += [self._foretold(kind, pages) for pages in own]
            misread = max(MISREAD, self.translations.misread(self.level.stair.threshold))
            scores = {
                kind: sum(log_likelihood(one, two, misread) for one, two in zip(each, missed, strict=True))
                for kind, each in foretold.items()
            }
            best = max(kinds, key=lambda kind: scores[kind])  # the first of equals
            rivals = [kind for kind in kinds if scores[kind] > scores[best] - MARGIN
                      and not all(map(np.array_equal, foretold[kind], foretold[best]))]  # fmt: skip
            if not rivals:
                break
        return _Ranked(best, scores[best], tuple(rivals), misread, tuple(sequences), tuple(missed))

    def _rather_drawn(self, ranked: _Ranked) -> bool:
        """Whether victims drawn by lot are far likelier; behind another TLB that cannot be told."""
        if self.before:
            return False
        each = zip(ranked.sequences, ranked.missed, strict=True)
        return sum(self._if_drawn(*one, ranked.misread) for one in each) - ranked.score >= MARGIN

    def _if_drawn(self, pages: Pages, missed: np.ndarray, misread: float) -> float:
        """Log-likelihood if every way is replaced alike: of the one set that is too full; the others all hit."""
        sets = np.array(self.shape.set_of)
        full = int(np.argmax(np.bincount(sets[np.unique(pages)]) - np.array(self.shape.ways)))
        own = np.tile(sets[pages] == full, WARMUP + LAPS)
        seen = np.concatenate([np.full(WARMUP * pages.size, UNKNOWN, dtype=np.int8), missed])
        others = seen[~own]
        lines = np.tile(pages, WARMUP + LAPS)[own]
        _, first, number = np.unique(lines, return_index=True, return_inverse=True)
        by_visit = np.argsort(np.argsort(first))[number]
        return random_log_likelihood(Observed(by_visit, seen[own]), self.shape.ways[full], misread) + log_likelihood(
            np.zeros_like(others), others, misread
        )

    def _random(self) -> Estimate:
        return Estimate(
            element=self.element, attribute="replacement_policy", status=Status.FOUND, value=PolicyKind.RANDOM.value,
            confidence=BRACKETED, method=METHOD, evidence=tuple(self.translations.evidence),
            caveats=("the same visits miss elsewhere when made again; whether all ways alike was not looked at",),
        )  # fmt: skip

    def _ambiguous(self, reason: str) -> Estimate:
        return Estimate(element=self.element, attribute="replacement_policy", status=Status.AMBIGUOUS, reason=reason,
                        method=METHOD, evidence=tuple(self.translations.evidence))  # fmt: skip

    def cache(self, kind: PolicyKind) -> Cache:
        """The TLB as a cache of pages."""
        page = self.level.page
        return Cache(self.shape.ways, page, page, Index(IndexKind.TABLE, table=self.shape.set_of), Policy(kind))

    def _sequence(self, number: int) -> Pages:
        """Every page, then each again and again in random order; one more page than fits."""
        pages = np.arange(min(self.level.entries + 1, len(self.shape.set_of)))
        rng = self.bench.rng("visits of pages", self.element, number)
        return np.concatenate([rng.permutation(pages), rng.permutation(np.repeat(pages, VISITS - 1))])

    def _misses(self, sequences: list[Pages], repetition: int = 0) -> Ask[list[Outcomes]]:
        """Which of the timed visits missed."""
        penalties = yield from self.translations.visits(sequences, LAPS, repetition)
        return [(each >= self.level.stair.threshold).astype(np.int8).ravel() for each in penalties]

    def _foretold(self, kind: PolicyKind, pages: Pages) -> np.ndarray:
        """Misses of the timed laps; in those before them what others left in the TLB has gone."""
        offsets = np.tile(pages, WARMUP + LAPS) * self.level.page
        reaching = np.arange(offsets.size)
        for cache in (*self.before, self.cache(kind)):
            reaching = reaching[CacheModel(cache).access_many(offsets[reaching]) == 1]
        missed = np.zeros(offsets.size, dtype=np.int8)
        missed[reaching] = 1
        return missed[WARMUP * pages.size :]

    def _possible(self, kind: PolicyKind) -> bool:
        try:
            check_policy(Policy(kind), self.shape.ways)
        except UsageError:
            return False
        return True


EXPERIMENTS = tuple(
    Experiment(
        key=tlb_caches_to(element),
        element=element,
        plan=partial(tlb_policy_plan, element),
        emits=ATTRIBUTES,
        needs=(tlb_of(element), tlb_sets_of(element), *map(tlb_caches_to, TLBS[max(0, number - 1) : number])),
    )
    for number, element in enumerate(TLBS)
)
