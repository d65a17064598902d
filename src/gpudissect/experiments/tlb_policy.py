"""Replacement policy of a TLB: how well each candidate foretells which translations are missed.

MC14 (table 4) calls the first TLB of Fermi and Kepler LRU, MC16 (table 5) not: going round one page more than fits, an
LRU misses always, and so does FIFO; only visits in random order tell. What reaches a TLB is what the one before it
missed, so those are simulated in front of it.
"""

from __future__ import annotations

import numpy as np

from gpudissect.cachemodel.cache import CacheModel
from gpudissect.cachemodel.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.cachemodel.policy import check_policy
from gpudissect.errors import UsageError
from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Ask, Bench, Known, Outcome, Plan, without
from gpudissect.experiments.tlb import TlbLevel
from gpudissect.experiments.tlb_sets import TlbSets
from gpudissect.experiments.translation import VISITS, WARMUP, Pages, Translations
from gpudissect.inference.confidence import BRACKETED, EXACT
from gpudissect.inference.policy import (
    DETERMINISTIC,
    MARGIN,
    UNKNOWN,
    Observed,
    agreement,
    log_likelihood,
    random_log_likelihood,
    wrong_twice,
)
from gpudissect.inference.translation import Penalties

ATTRIBUTES = ("replacement_policy",)
SEQUENCES, ROUNDS, HELD_OUT = 4, 4, 3
LAPS = 4
MISREAD = 0.004
BY_CHANCE = 0.25  # of the differences of two runs that know nothing of each other: with fewer, nothing is random
MOST = 6.0  # times the share of misread hits may disagree: misses are misread, too
STUBBORN, SAME = 1, 3.0  # accesses foretold wrongly both times, besides so many times those that chance makes so
WELL = 0.99  # share foretold from which on nothing is left to explain
METHOD = "likelihood of missed translations, candidates simulated behind the TLBs before"


def tlb_policy_plan(element: str, tlb: str, sets: str, front: str | None, bench: Bench, known: Known) -> Plan:
    """Policy of a TLB; knowledge: the TLBs up to it as caches of pages, or None."""
    level: TlbLevel | None = known[tlb]
    shape: TlbSets | None = known[sets]
    before: tuple[Cache, ...] | None = known[front] if front else ()
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


class _Asked:
    """Visits to one page more than fits, in random order."""

    def __init__(self, element: str, level: TlbLevel, shape: TlbSets, before: tuple[Cache, ...], bench: Bench) -> None:
        self.element, self.level, self.shape, self.before, self.bench = element, level, shape, before, bench
        self.translations = Translations(level.page, bench)

    def policy(self) -> Ask[Estimate]:
        kinds = [kind for kind in DETERMINISTIC if self._possible(kind)]
        sequences: list[Pages] = []
        missed: list[np.ndarray] = []
        foretold: dict[PolicyKind, list[np.ndarray]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            own = [self._sequence(len(sequences) + i) for i in range(SEQUENCES)]
            missed += [self._missed(each) for each in (yield from self.translations.visits(own, LAPS))]
            sequences += own
            for kind in kinds:
                foretold[kind] += [self._foretold(kind, pages) for pages in own]
            misread = max(MISREAD, self.translations.misread(self.level.stair.threshold))
            scores = {
                kind: sum(log_likelihood(one, two, misread) for one, two in zip(each, missed, strict=True))
                for kind, each in foretold.items()
            }
            best = max(kinds, key=lambda kind: scores[kind])  # the first of equals
            others = [kind for kind in kinds if not self._alike(foretold, kind, best)]
            lead = scores[best] - max((scores[kind] for kind in others), default=-np.inf)
            if lead >= MARGIN:
                break
        unseen = [self._sequence(len(sequences) + i) for i in range(HELD_OUT)]
        once = [self._missed(each) for each in (yield from self.translations.visits(unseen, LAPS))]
        again = [self._missed(each) for each in (yield from self.translations.visits(unseen, LAPS, 1))]
        told = [self._foretold(best, pages) for pages in unseen]
        share = float(np.mean([agreement(*pair) for run in (once, again) for pair in zip(told, run, strict=True)]))
        stubborn = sum(wrong_twice(*each) for each in zip(told, once, again, strict=True))
        by_chance = SAME * (1 - share) ** 2 * sum(each.size for each in told)
        if share < WELL and not self.before:
            drawn = sum(self._if_drawn(*each, misread) for each in zip(sequences, missed, strict=True))
            if drawn - scores[best] >= MARGIN and (yield from self._differs(sequences[0], missed[0])):
                return self._random()
        evidence = tuple(self.translations.evidence)
        if lead < MARGIN:
            rivals = ", ".join(kind for kind in kinds if scores[kind] > scores[best] - MARGIN and kind is not best)
            return Estimate(element=self.element, attribute="replacement_policy", status=Status.AMBIGUOUS,
                            reason=f"{best} foretells {share:.1%} of the accesses, {rivals} about as many",
                            method=METHOD, evidence=evidence)  # fmt: skip
        if share < 1 - MOST * misread or stubborn > STUBBORN + by_chance:
            reason = (
                "none of the policies tried, in which nothing is left to chance: "
                f"{best} comes nearest, which foretells {share:.1%} of the accesses, but {stubborn} of them wrongly "
                "whenever they are made"
            )
            return Estimate(element=self.element, attribute="replacement_policy", status=Status.AMBIGUOUS,
                            reason=reason, method=METHOD, evidence=evidence)  # fmt: skip
        return Estimate(
            element=self.element, attribute="replacement_policy", status=Status.FOUND, value=best.value,
            confidence=EXACT if share >= WELL else BRACKETED, method=METHOD, evidence=evidence,
            caveats=(f"it foretells {share:.2%} of the accesses of sequences not used to choose it",),
        )  # fmt: skip

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

    def _differs(self, pages: Pages, missed: np.ndarray) -> Ask[bool]:
        """Whether the same visits miss elsewhere when made again, as often as by chance."""
        (again,) = yield from self.translations.visits([pages], LAPS, repetition=1)
        share = float(np.mean(missed))
        return float(np.mean(self._missed(again) != missed)) > BY_CHANCE * 2 * share * (1 - share)

    def _random(self) -> Estimate:
        return Estimate(
            element=self.element, attribute="replacement_policy", status=Status.FOUND, value=PolicyKind.RANDOM.value,
            confidence=BRACKETED, method=METHOD, evidence=tuple(self.translations.evidence),
            caveats=("the same visits miss elsewhere when made again; whether all ways alike was not looked at",),
        )  # fmt: skip

    def cache(self, kind: PolicyKind) -> Cache:
        """The TLB as a cache of pages."""
        page = self.level.page
        return Cache(self.shape.ways, page, page, Index(IndexKind.TABLE, table=self.shape.set_of), Policy(kind))

    def _sequence(self, number: int) -> Pages:
        """Every page, then each again and again in random order; one more page than fits."""
        pages = np.arange(min(self.level.entries + 1, len(self.shape.set_of)))
        rng = self.bench.rng("visits of pages", self.element, number)
        return np.concatenate([rng.permutation(pages), rng.permutation(np.repeat(pages, VISITS - 1))])

    def _missed(self, penalties: Penalties) -> np.ndarray:
        return (penalties >= self.level.stair.threshold).astype(np.int8).ravel()

    def _foretold(self, kind: PolicyKind, pages: Pages) -> np.ndarray:
        """Misses of the timed laps; in those before them what others left in the TLB has gone."""
        offsets = np.tile(pages, WARMUP + LAPS) * self.level.page
        reaching = np.arange(offsets.size)
        for cache in (*self.before, self.cache(kind)):
            reaching = reaching[CacheModel(cache).access_many(offsets[reaching]) == 1]
        missed = np.zeros(offsets.size, dtype=np.int8)
        missed[reaching] = 1
        return missed[WARMUP * pages.size :]

    @staticmethod
    def _alike(foretold: dict[PolicyKind, list[np.ndarray]], one: PolicyKind, other: PolicyKind) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(foretold[one], foretold[other], strict=True))

    def _possible(self, kind: PolicyKind) -> bool:
        try:
            check_policy(Policy(kind), self.shape.ways)
        except UsageError:
            return False
        return True
