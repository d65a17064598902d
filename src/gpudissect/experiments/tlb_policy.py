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
from gpudissect.inference.policy import DETERMINISTIC, MARGIN, agreement, log_likelihood
from gpudissect.inference.translation import Penalties

ATTRIBUTES = ("replacement_policy",)
SEQUENCES, HELD_OUT = 4, 3
LAPS = 4
MISREAD = 0.004
SAME = 6.0  # times the share of misread hits may disagree: misses are misread, too
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
        sequences = [self._sequence(i) for i in range(SEQUENCES + HELD_OUT)]
        seen = yield from self.translations.visits(sequences, LAPS)
        missed = [self._missed(each) for each in seen]
        kinds = [kind for kind in DETERMINISTIC if self._possible(kind)]
        foretold = {kind: [self._foretold(kind, pages) for pages in sequences] for kind in kinds}
        misread = max(MISREAD, self.translations.misread(self.level.stair.threshold))
        scores = {
            kind: sum(log_likelihood(one, two, misread) for one, two in zip(each[:SEQUENCES], missed, strict=False))
            for kind, each in foretold.items()
        }
        best = max(kinds, key=lambda kind: scores[kind])  # the first of equals
        lead = scores[best] - max((scores[k] for k in kinds if not self._alike(foretold, k, best)), default=-np.inf)
        pairs = zip(foretold[best][SEQUENCES:], missed[SEQUENCES:], strict=True)
        share = float(np.mean([agreement(one, two) for one, two in pairs]))
        evidence = tuple(self.translations.evidence)
        if share < 1 - SAME * misread or lead < MARGIN:
            reason = (
                f"none of the policies known here: {best} comes nearest, which foretells {share:.1%} of the accesses"
            )
            return Estimate(element=self.element, attribute="replacement_policy", status=Status.AMBIGUOUS,
                            reason=reason, method=METHOD, evidence=evidence)  # fmt: skip
        return Estimate(
            element=self.element, attribute="replacement_policy", status=Status.FOUND, value=best.value,
            confidence=EXACT if share >= WELL else BRACKETED, method=METHOD, evidence=evidence,
            caveats=(f"it foretells {share:.2%} of the accesses of sequences not used to choose it",),
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
