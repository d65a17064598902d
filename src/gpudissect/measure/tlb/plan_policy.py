"""Replacement policy of a TLB: how well each candidate predicts which translations miss.

MC14 (table 4) calls the first TLB of Fermi and Kepler LRU, MC16 (table 5) does not. With one page more than entries,
visited in order, LRU misses always, and so does FIFO; only random order distinguishes them. A TLB is accessed by the
misses of the one before it, so all before it are simulated as well.
"""

import math
from dataclasses import replace
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache import infer_policy
from gpudissect.measure.cache.infer_policy import MIN_LEAD_NATS, UNKNOWN, Outcomes, is_random, log_likelihood
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL, EXACT
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, StopEarly, together, without
from gpudissect.measure.tlb.infer_miss_penalty import TlbLevel
from gpudissect.measure.tlb.page_accesses import VISITS, WARMUP, PageAccesses, Pages, memory_limit, random_visits
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.measure.tlb.plan_sets import TlbSets, tlb_sets_of
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import TranslationModel
from gpudissect.trace import Array
from gpudissect.vocabulary import TLBS

ATTRIBUTE = "replacement_policy"
SEQUENCES, MAX_ROUNDS, HELD_OUT = 4, 4, 3  # sequences per round, rounds, and sequences not used to choose
MORE_PAGES_RATIO = 1.25  # pages, in entries, to distinguish policies that agree on fewer
MIN_VISITS = 2048  # of a lap over all sequences of a round, or of those not used to choose
LAPS = 4
MAX_OTHER_LINES = 2  # times that the check runs again on other lines
MAX_MISREAD_RATIO = 6.0  # disagreement relative to the share of misread hits: misses are misread too
MAX_SEQUENCE_MISREAD_RATIO = 3.0  # the same, of the worst sequence by which a policy was chosen
WELL_PREDICTED = 0.99  # share of accesses from which nothing is left to explain
METHOD = "likelihood of observed misses, candidates simulated behind the TLBs before"
NOT_KNOWN, NOT_KNOWN_BEFORE = "its associativity is not known", "the policy of the TLB before it is not known"
RANDOM_BEFORE = "the TLB before it has a random policy: the accesses to this one cannot be predicted"
RANDOM_MISSES = "the same visits miss elsewhere when repeated; whether all ways are equally likely is unknown"
DISTURBED = "a fixed order disturbed by another actor's accesses looks the same"
DIRECT_MAPPED = "sets of one way: there is no choice"


def tlb_caches_to(element: str) -> Key[tuple[Cache, ...] | None]:
    """The TLBs up to `element` as caches of pages; None if the policy of one is not known."""
    return Key(f"policy.{element}", (tuple, NoneType))


def tlb_policy_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Policy of a TLB; knowledge: the TLBs up to it as caches of pages, or None."""
    level, sets, number = known[tlb_of(element)], known[tlb_sets_of(element)], TLBS.index(element)
    before = known[tlb_caches_to(TLBS[number - 1])] if number else ()
    if level is None or sets is None or before is None:
        reason = NOT_KNOWN if level is None or sets is None else NOT_KNOWN_BEFORE
        return Outcome(without(Status.NOT_FOUND, element, reason, ATTRIBUTE))
    if any(cache.policy.kind is PolicyKind.RANDOM for cache in before):
        return Outcome(without(Status.NOT_FOUND, element, RANDOM_BEFORE, ATTRIBUTE))
    if max(sets.ways) == 1:
        return Outcome(without(Status.NOT_FOUND, element, DIRECT_MAPPED, ATTRIBUTE))
    search = _PolicySearch(element, level, sets, before, bench)
    estimate = yield from search.policy()
    if estimate.status is not Status.FOUND:
        return Outcome((estimate,))
    return Outcome((estimate,), (*before, search.cache(PolicyKind(str(estimate.value)))))


class _PolicySearch:
    """Visits in random order to more pages than fit."""

    def __init__(self, element: str, level: TlbLevel, sets: TlbSets, before: tuple[Cache, ...], bench: Bench) -> None:
        self.element, self.level, self.sets, self.before, self.bench = element, level, sets, before, bench
        self.accesses = PageAccesses(level.page_size, bench)
        self.evidence: list[str] = []  # of accesses before these
        self.same: list[PolicyKind] = []  # candidates that predict the same of the sequences that choose one
        self.sequences: list[Pages] = []
        self.observed: list[Outcomes] = []
        self.held_out: list[Pages] = []
        self.runs: list[list[Outcomes]] = []  # outcomes of `held_out`, by run
        self.more: list[tuple[Pages, Outcomes]] = []  # sequences of more pages

    def policy(self) -> Ask[Estimate]:
        """The policy by the likelihoods of the candidates, checked on sequences not used to choose among them."""
        best, score, rivals, misread = yield from self._ranking()
        self.held_out = self._new_sequences(HELD_OUT)
        self.runs = yield from together([self._misses(self.held_out, repetition) for repetition in range(2)])
        checked = yield from self._checked(best, score, rivals, misread)
        alike = [*rivals, *self.same]
        if not alike or checked.value == PolicyKind.RANDOM.value or not (checked.status is Status.FOUND or rivals):
            return checked
        # More pages, of which more miss, distinguish more policies.
        sequences = self._new_sequences(SEQUENCES, MORE_PAGES_RATIO)
        try:
            missed = yield from self._misses(sequences)
        except StopEarly:  # early recordings have no visits of more pages
            return checked
        self.more = [*zip(sequences, missed, strict=True)]
        scores = {
            kind: sum(log_likelihood(self._predicted(kind, pages), observed, misread) for pages, observed in self.more)
            for kind in (best, *alike)
        }
        best = max(scores, key=lambda kind: scores[kind])
        self.same = []
        alike = [kind for kind in scores if kind is not best and scores[kind] > scores[best] - MIN_LEAD_NATS]
        return (yield from self._checked(best, score, alike, misread))

    def _checked(self, best: PolicyKind, score: float, rivals: list[PolicyKind], misread: float) -> Ask[Estimate]:
        """A policy checked on the held-out sequences; `score` is the log-likelihood (nats) of the first choice."""
        first, second = self.runs
        predicted = [self._predicted(best, pages) for pages in self.held_out]
        pairs = [[*zip(predicted, run, strict=True)] for run in (first, second)]
        more = [(self._predicted(best, pages), missed) for pages, missed in self.more]
        share = _mean_agreement(*pairs)
        found, ambiguous = self._estimates()
        if share < WELL_PREDICTED and is_random(first, second, misread) and self._likely_random(score, misread):
            return found(value=PolicyKind.RANDOM.value, confidence=CONFLICTED, caveats=(RANDOM_MISSES, DISTURBED))
        if rivals:
            reason = f"{best} predicts {share:.1%} of the accesses, and so nearly do {', '.join(rivals)}"
            return ambiguous(reason=reason)
        wrong, max_wrong = _common_errors(pairs, share)
        # Some accesses are delayed in every run of the same chain; other lines of the same pages are not delayed alike.
        for attempt in range(MAX_OTHER_LINES):
            if wrong <= max_wrong or self.level.address is None:  # early recordings have no accesses to other lines
                break
            self.evidence, self.accesses = [*self.evidence, *self.accesses.evidence], self.accesses.to_other_lines()
            try:
                run = yield from self._misses(self.held_out)
            except StopEarly:
                if not attempt:
                    raise
                break  # earlier recordings have one set of other lines
            self.runs = [self.runs[min(attempt, 1)], run]
            pairs = [[*zip(predicted, each, strict=True)] for each in self.runs]
            share = _mean_agreement(*pairs)
            wrong, max_wrong = _common_errors(pairs, share)
            found, ambiguous = self._estimates()
        lowest = min(share, _mean_agreement(more)) if more else share
        if lowest < 1 - MAX_MISREAD_RATIO * misread or wrong > max_wrong:
            reason = f"predicts {lowest:.1%} of the accesses correctly and {wrong} wrongly in both runs"
            return ambiguous(reason=f"none of the deterministic policies tried: the closest, {best}, {reason}")
        confidence = EXACT if lowest >= WELL_PREDICTED else BRACKETED
        caveats = [f"it predicts {share:.2%} of the accesses of sequences not used to choose it"]
        if lowest < share:
            caveats.append(f"it predicts {lowest:.2%} of the accesses to more pages")
        if self.same:
            confidence = DOUBTFUL
            caveats.append(f"the accesses that chose it do not distinguish it from {', '.join(self.same)}")
        chosen_by = [
            (self._predicted(best, pages), missed) for pages, missed in zip(self.sequences, self.observed, strict=True)
        ]
        worst = min(infer_policy.agreement(*each) for each in chosen_by)
        if worst < 1 - MAX_SEQUENCE_MISREAD_RATIO * misread:
            confidence = DOUBTFUL
            caveats.append(f"it predicts {worst:.1%} of the accesses of one sequence")
        return found(value=best.value, confidence=confidence, caveats=tuple(caveats))

    def _estimates(self) -> tuple[partial[Estimate], partial[Estimate]]:
        """What makes an estimate with a value, and one that is ambiguous, from what was measured so far."""
        evidence = *self.evidence, *self.accesses.evidence
        estimate = partial(Estimate, element=self.element, attribute=ATTRIBUTE, method=METHOD, evidence=evidence)
        return partial(estimate, status=Status.FOUND), partial(estimate, status=Status.AMBIGUOUS)

    def _ranking(self) -> Ask[tuple[PolicyKind, float, list[PolicyKind], float]]:
        """Visit until one candidate leads all that predict otherwise, or `MAX_ROUNDS` are over.

        Gives the likeliest, its log-likelihood (nats), its rivals, and the share of accesses that may be misread.
        """
        kinds: list[PolicyKind] = [
            kind for kind in infer_policy.DETERMINISTIC if infer_policy.is_possible(kind, self.sets.ways)
        ]
        predicted: dict[PolicyKind, list[Outcomes]] = {kind: [] for kind in kinds}
        for _ in range(MAX_ROUNDS):
            batch = self._new_sequences(SEQUENCES)
            self.observed += yield from self._misses(batch)
            self.sequences += batch
            for kind in kinds:
                predicted[kind] += [self._predicted(kind, pages) for pages in batch]
            misread = max(infer_policy.MIN_MISREAD_SHARE, self.accesses.misread_share(self.level.miss.threshold))
            scores = {
                kind: sum(log_likelihood(one, two, misread) for one, two in zip(each, self.observed, strict=True))
                for kind, each in predicted.items()
            }
            best = max(kinds, key=lambda kind: scores[kind])  # the first of equals
            close = [kind for kind in kinds if scores[kind] > scores[best] - MIN_LEAD_NATS]
            rivals = [kind for kind in close if not all(map(np.array_equal, predicted[kind], predicted[best]))]
            if not rivals:
                break
        different = infer_policy.candidates(max(self.sets.ways))
        self.same = [kind for kind in close if kind in different and kind not in (best, *rivals)]
        return best, scores[best], rivals, misread

    def _likely_random(self, score: float, misread: float) -> bool:
        """Whether random replacement is far likelier; behind another TLB that cannot be decided."""
        if self.before:
            return False
        pairs = zip(self.sequences, self.observed, strict=True)
        return sum(self._random_score(*pair, misread) for pair in pairs) - score >= MIN_LEAD_NATS

    def _random_score(self, pages: Pages, observed: Outcomes, misread: float) -> float:
        """Log-likelihood if all ways are replaced with equal probability: of the overfull set; the others all hit."""
        sets = np.array(self.sets.set_of)
        overfull = int(np.argmax(np.bincount(sets[np.unique(pages)]) - np.array(self.sets.ways)))
        inside = np.tile(sets[pages] == overfull, WARMUP + LAPS)
        outcomes = np.concatenate([np.full(WARMUP * pages.size, UNKNOWN, dtype=np.int8), observed])
        others = outcomes[~inside]
        lines = np.tile(pages, WARMUP + LAPS)[inside]
        _, first, number = np.unique(lines, return_index=True, return_inverse=True)
        by_visit = np.argsort(np.argsort(first))[number]
        observation = infer_policy.Observation(by_visit, outcomes[inside])
        of_set = infer_policy.random_log_likelihood(observation, self.sets.ways[overfull], misread)
        return of_set + log_likelihood(np.zeros_like(others), others, misread)

    def cache(self, kind: PolicyKind) -> Cache:
        """The TLB as a cache of pages."""
        page, index = self.level.page_size, Index(IndexKind.TABLE, table=self.sets.set_of)
        return Cache(self.sets.ways, page, page, index, Policy(kind))

    def _new_sequences(self, max_count: int, page_ratio: float = 0.0) -> list[Pages]:
        """Random visits to one page more than fits, or to `page_ratio` times the entries, whichever is more.

        With a linear index, to all measured pages. At most `max_count` sequences; fewer, if these have `MIN_VISITS`.
        Pages whose set is not known are left out.
        """
        pages = len(self.sets.set_of)
        if self.sets.index is None:
            wanted = max(self.level.entries + 1, math.ceil(page_ratio * self.level.entries))
            known = memory_limit(self.bench) // self.level.page_size if len(self.sets.ways) == 1 else pages
            pages = min(wanted, known)
        first, count = len(self.sequences) + len(self.held_out), min(max_count, max(1, MIN_VISITS // (pages * VISITS)))
        rngs = [self.bench.rng("visits of pages", self.element, first + number) for number in range(count)]
        return [random_visits(pages, rng) for rng in rngs]

    def _misses(self, sequences: list[Pages], repetition: int = 0) -> Ask[list[Outcomes]]:
        """Which of the timed visits missed."""
        return (yield from self.accesses.misses(sequences, LAPS, self.level.miss.threshold, repetition))

    def _predicted(self, kind: PolicyKind, pages: Pages) -> Outcomes:
        """Misses of the timed laps; those before them evict what other accesses left in the TLB."""
        cache = self.cache(kind)
        if len(cache.ways) == 1:  # also of pages beyond those whose set was measured
            cache = replace(cache, index=Index(IndexKind.MODULO))
        return predict_misses(TranslationModel((*self.before, cache)), pages * self.level.page_size)


def _mean_agreement(*runs: list[tuple[Outcomes, Outcomes]]) -> float:
    """Mean share of accesses that miss as predicted, over sequences."""
    return float(np.mean([infer_policy.agreement(*pair) for run in runs for pair in run]))


def _common_errors(pairs: list[list[tuple[Outcomes, Outcomes]]], share: float) -> tuple[int, float]:
    """Accesses of two runs that both predict wrongly, and how many there may be by chance."""
    wrong = sum(infer_policy.count_common_errors(*each) for each in zip(*pairs, strict=True))
    return wrong, infer_policy.max_repeated_errors(share, sum(predicted.size for predicted, _ in pairs[0]))


def predict_misses(model: TranslationModel, offsets: Array) -> Outcomes:
    """Accesses of the timed laps that miss every TLB of a model, which is empty before the first lap."""
    model.reset()
    levels = model.levels(np.tile(offsets, WARMUP + LAPS))[WARMUP * offsets.size :]
    return np.asarray(levels == model.count, dtype=np.int8)


EXPERIMENTS = tuple(
    Experiment(
        tlb_caches_to(tlb),
        partial(tlb_policy_plan, tlb),
        (ATTRIBUTE,),
        (tlb_of(tlb), tlb_sets_of(tlb), *last),
        simulates=True,
    )
    for number, tlb in enumerate(TLBS)
    for last in [map(tlb_caches_to, TLBS[:number][-1:])]
)
