"""Replacement policy of a cache: how well each candidate foretells the hits and misses of one full set.

Sequences over one line more than a set holds, lines in random order, each several times (through another word of it).
What they leave open is asked with sequences on which the candidates that are left differ most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_held_out import MISREAD, SAME, drawn_anew, may_be_wrong_twice, wrong_twice
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_policy import (
    MARGIN,
    UNKNOWN,
    Observed,
    Ranking,
    Victims,
    agreement,
    candidates,
    chance_log_likelihood,
    clear,
    drawn,
    from_cold,
    outcomes,
    predicted,
    rank,
    victims,
)
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.cache.plan_sets import structure_of
from gpudissect.measure.infer_confidence import EXACT, LATENCY
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.simulation.cache.geometry import Policy, PolicyKind
from gpudissect.trace import Array, Trace
from gpudissect.vocabulary import CACHES
from gpudissect.workload import Chase, Explicit, Sequential, Timing

ATTRIBUTES = ("replacement_policy", "max_miss_rate")
ACCESSES = 600  # to begin with, over at least FIRST sequences
FIRST = 3
LAPS = 4  # of a sequence
POOL = 48  # sequences of which the most telling are taken
ROUNDS = 4
HELD_OUT, OF_EACH = 8, 3  # other sets, sequences on each: what the winner must foretell, twice
VICTIMS = 8000  # wanted, for the weights of the ways: one of 1/2 is then known to 0.006
LONGEST = 4096  # accesses of a run
MOST_VISITS = 8  # of a line in a lap
RUNS, MOST_RUNS, RUN_LAPS = 100, 900, 8  # from cold, to see victims; laps of each: a misread access spoils what follows
RATE_SPREAD = 0.01  # misread accesses
SIZES = 8
RATE_ACCESSES = 8192
RATE_WARMUP, RATE_LAPS = 8, 4  # at least: after two laps bits of use (bit-PLRU) still remember how the set was filled
METHOD = "likelihood of hits and misses of one full set, candidates simulated"
RATE_METHOD = "share of misses going round ever more lines in one piece, up to half as many again as fit"


def policy_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Replacement policy of `element`, and the largest miss rate of MC14 s4.2, fig 9."""
    levels = known[levels_of(element)]
    level = levels.level(element)
    if level is None:
        absence = levels.absent[element]
        return Outcome(without(absence.status, element, absence.reason, *ATTRIBUTES))
    structure, capacity = known[structure_of(element)], known[capacity_of(element)]
    if structure is None or capacity is None:
        return Outcome(without(Status.NOT_FOUND, element, "its sets are not known", *ATTRIBUTES))
    if not level.nearest:
        reason = "a nearer cache answers part of the accesses"
        return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
    sets = _Sets(level, structure, bench)
    rate = yield from sets.miss_rate(capacity)
    if sets.ways == 1:
        reason = "a set has one way: there is nothing to choose"
        return Outcome((*without(Status.NOT_FOUND, element, reason, "replacement_policy"), rate))
    if sets.slots < 2:
        reason = "a line has room for one word only: no line can be asked for twice"
        return Outcome((*without(Status.NOT_FOUND, element, reason, "replacement_policy"), rate))
    policy = yield from sets.policy()
    return Outcome((policy, rate), sets.nearest)


@dataclass(frozen=True)
class Replacement:
    """The policy that foretells best, and whether it does so well enough."""

    policy: Policy
    sure: bool


class _Sets:
    """Full sets of one cache: sequences over one line more than they hold."""

    def __init__(self, level: Level, structure: Structure, bench: Bench) -> None:
        self.level, self.structure, self.bench = level, structure, bench
        counts = np.bincount(structure.ways)
        self.ways = int(np.argmax(counts))
        alike = np.flatnonzero(np.array(structure.ways) == self.ways)
        self.own = int(alike[0])
        others = alike[1:] if alike.size > 1 else alike
        self.others = [int(number) for number in others[np.linspace(0, others.size - 1, HELD_OUT).astype(int)]]
        self.unseen = "accesses to other sets" if alike.size > 1 else "accesses of other sequences to its one set"
        granule = level.fetch.fetch or structure.line
        self.slots = min(granule // level.path.word, MOST_VISITS)
        self.evidence: list[str] = []
        self.nearest: Replacement | None = None

    def policy(self) -> Ask[Estimate]:
        """The policy, or why none of the candidates is it."""
        per_run = LAPS * self.slots * (self.ways + 1)
        runs = yield from self._observe([self._mixed(i) for i in range(max(FIRST, -(-ACCESSES // per_run)))], LAPS)
        misread, ranking = self._ranked(runs)
        for turn in range(ROUNDS):
            if ranking.lead >= MARGIN:
                break
            runs += yield from self._observe(self._telling(ranking, turn), LAPS)
            misread, ranking = self._ranked(runs)
        if ranking.scores[ranking.best] - chance_log_likelihood(runs) < MARGIN:
            return self._none_of_these("hits and misses come as by the throw of a coin, not as from a set")
        if ranking.best == "random":
            return (yield from self._random(ranking, misread))
        return (yield from self._deterministic(ranking, misread))

    def _ranked(self, runs: Sequence[Observed]) -> tuple[float, Ranking]:
        """Share of accesses that may be misread, and the candidates by likelihood."""
        misread = max(MISREAD, float(np.mean(np.concatenate([run.outcomes for run in runs]) == UNKNOWN)))
        return misread, rank(runs, self.ways, misread)

    def _deterministic(self, ranking: Ranking, misread: float) -> Ask[Estimate]:
        """Hold the best against sequences on other sets."""
        kind = next(kind for kind in candidates(self.ways) if kind.value == ranking.best)
        fresh = [[self._mixed(1000 + OF_EACH * i + j) for j in range(OF_EACH)] for i in range(len(self.others))]
        asked = [(set_, turn, laps) for set_, laps in zip(self.others, fresh, strict=True) for turn in range(2)]
        chases = [chase for set_, turn, laps in asked for chase in self._chases(laps, LAPS, set_, turn)]
        seen = iter((yield from self._read(chases, [lap for _, _, laps in asked for lap in laps], LAPS)))
        right: list[float] = []
        stubborn, accesses = [], 0
        for laps in fresh:
            foretold = [predicted(kind, self.ways, np.tile(lap, LAPS)) for lap in laps]
            once, again = ([next(seen).outcomes for _ in laps] for _ in range(2))
            right += [agreement(*pair) for run in (once, again) for pair in zip(foretold, run, strict=True)]
            stubborn.append(sum(wrong_twice(*each) for each in zip(foretold, once, again, strict=True)))
            accesses += sum(run.size for run in once)
        share = float(np.mean(right))
        most = may_be_wrong_twice(share, accesses)
        self.nearest = Replacement(Policy(kind), False)
        if sum(stubborn) - max(stubborn) > most:  # in one of the sets somebody else may keep a line
            return self._none_of_these(
                f"{ranking.best} comes nearest, which foretells {share:.1%} of the accesses, but {sum(stubborn)} of "
                "them wrongly whenever they are made"
            )
        if share < 1 - SAME * misread or ranking.lead < MARGIN:
            return self._none_of_these(f"{ranking.best} comes nearest, which foretells {share:.1%} of the accesses")
        return self._found(Policy(kind), f"it foretells {share:.2%} of the {self.unseen}")

    def _random(self, ranking: Ranking, misread: float) -> Ask[Estimate]:
        """Told apart from a policy that only looks random, and with the weights of its ways."""
        again = [self._mixed(i) for i in range(FIRST)]
        first = yield from self._observe(again, LAPS, repetition=1)
        second = yield from self._observe(again, LAPS, repetition=2)
        if not drawn_anew([run.outcomes for run in first], [run.outcomes for run in second], misread):
            told = {kind.value: agreement(predicted(kind, self.ways, first[0].lines), first[0].outcomes)
                    for kind in candidates(self.ways)}  # fmt: skip
            best = max(told, key=lambda name: told[name])
            return self._none_of_these(
                f"the same sequence misses at the same places again, and {best}, which comes nearest, foretells "
                f"{told[best]:.1%} of the accesses"
            )
        ways, ages, repetition = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        laps = max(1, min(RUN_LAPS, LONGEST // (self.ways + 1)))
        while repetition < MOST_RUNS and sum(each.size for each in ways) < VICTIMS:
            batch = [np.arange(self.ways + 1)] * RUNS
            for run in (yield from self._observe(batch, laps, repetition=repetition, apart=True)):
                found = victims(clear(run), self.ways, misread)
                ways.append(found.ways)
                ages.append(found.ages)
            repetition += RUNS
        seen = Victims(np.concatenate(ways), np.concatenate(ages))
        if seen.ways.size < self.ways:
            return self._none_of_these("random comes nearest, but hardly a victim was seen clearly")
        look = drawn(seen, self.ways)
        if look.by_age:
            return self._none_of_these("its victims look random, but how old a line is has a say")
        if look.in_turns:
            return self._none_of_these("its victims look random, but which was the last has a say in the next")
        text = f"of {seen.ways.size} victims"
        if not look.uneven:
            return self._found(Policy(PolicyKind.RANDOM), f"{text} about as many in each way")
        weights = tuple(look.weights.tolist())
        text += "; ways numbered in the order in which they are filled"
        return self._found(Policy(PolicyKind.WEIGHTED, weights), text)

    def miss_rate(self, capacity: int) -> Ask[Estimate]:
        """The largest share of misses, going round lines in one piece."""
        count = sum(self.structure.ways)
        if count * self.structure.line < capacity:
            reason = f"lines are wider than the {self.structure.line} B that a miss brings in: how wide is not known"
            (estimate,) = without(Status.NOT_FOUND, self.level.element, reason, "max_miss_rate")
            return estimate
        sizes = sorted({count + max(1, count * i // (2 * SIZES)) for i in range(1, SIZES + 1)})
        sizes = [size for size in sizes if size * self.structure.line <= self.bench.info.limit(self.level.path)]
        chases = [
            Chase(path=self.level.path, order=Sequential(size, self.structure.line), timing=Timing.COUNT,
                  bounds=self.level.bounds, warmup=RATE_WARMUP, laps=max(RATE_LAPS, RATE_ACCESSES // size),
                  alone=self.level.alone)
            for size in sizes
        ]  # fmt: skip
        if not chases:
            (estimate,) = without(Status.NOT_FOUND, self.level.element, "the path is too short", "max_miss_rate")
            return estimate
        traces = yield chases
        rates = [float(t.counts[:, 1].sum() / max(1, t.counts[:, :2].sum())) for t in traces]
        best = int(np.argmax(rates))
        spread = RATE_SPREAD + 3 * (rates[best] * (1 - rates[best]) / traces[best].counts.sum()) ** 0.5
        return Estimate(
            element=self.level.element, attribute="max_miss_rate", status=Status.FOUND, value=rates[best],
            low=max(0.0, rates[best] - spread), high=min(1.0, rates[best] + spread), confidence=LATENCY,
            method=RATE_METHOD, evidence=tuple(trace.workload for trace in traces),
        )  # fmt: skip

    def _mixed(self, number: int) -> Array:
        """Fill the set, then every line again and again in random order: line numbers of one lap."""
        rest = np.concatenate([np.repeat(np.arange(self.ways), self.slots - 1), np.full(self.slots, self.ways)])
        rng = self.bench.rng("policy", self.level.element, number)
        return np.concatenate([np.arange(self.ways), rng.permutation(rest)])

    def _telling(self, ranking: Ranking, turn: int) -> list[Array]:
        """Of many sequences those on which the policies that are left differ most."""
        left = [kind for kind in candidates(self.ways)
                if ranking.scores.get(kind.value, -np.inf) > ranking.scores[ranking.best] - MARGIN]  # fmt: skip
        pool = [self._mixed(100 * (turn + 1) + i) for i in range(POOL)]
        differing = []
        for lap in pool:
            foretold = [predicted(kind, self.ways, np.tile(lap, LAPS)) for kind in left]
            differing.append(sum(int(np.sum(one != two)) for one in foretold for two in foretold))
        return [pool[i] for i in np.argsort(differing)[::-1][: 2 * FIRST]]

    def _observe(
        self, sequences: Sequence[Array], laps: int, repetition: int = 0, apart: bool = False
    ) -> Ask[list[Observed]]:
        """Run sequences of line numbers on the set, each from cold; with `apart` equal ones are runs of their own."""
        chases = self._chases(sequences, laps, self.own, repetition, apart)
        return (yield from self._read(chases, sequences, laps))

    def _chases(
        self, sequences: Sequence[Array], laps: int, number: int, repetition: int = 0, apart: bool = False
    ) -> list[Chase]:
        """Sequences over lines of set `number`."""
        quotas = np.zeros(len(self.structure.ways), dtype=np.int64)
        quotas[number] = self.ways + 1
        lines = self.structure.draw(quotas, self.bench.rng("lines", self.level.element, number))
        return [
            Chase(path=self.level.path, order=self._order(lap, lines), timing=Timing.EACH, warmup=0, laps=laps,
                  alone=self.level.alone, flush=self.level.alone, repetition=repetition + (i if apart else 0))
            for i, lap in enumerate(sequences)
        ]  # fmt: skip

    def _read(self, chases: Sequence[Chase], sequences: Sequence[Array], laps: int) -> Ask[list[Observed]]:
        """Outcomes of chases over these sequences."""
        traces: list[Trace] = yield chases
        assert self.level.bounds is not None
        self.evidence += [trace.workload for trace in traces]
        return [
            from_cold(np.tile(lap, laps), outcomes(trace.cycles, self.level.bounds))
            for lap, trace in zip(sequences, traces, strict=True)
        ]

    def _order(self, lap: Array, lines: Array) -> Explicit:
        """Byte offsets: the k-th visit of a line in a lap asks for its k-th word."""
        visit = np.zeros(lap.size, dtype=np.int64)
        for line in range(self.ways + 1):
            at = np.flatnonzero(lap == line)
            visit[at] = np.arange(at.size)
        return Explicit(lines[lap] * self.structure.line + visit * self.level.path.word)

    def _found(self, policy: Policy, caveat: str) -> Estimate:
        self.nearest = Replacement(policy, True)
        value = " ".join([policy.kind, *(f"{weight:.3f}" for weight in policy.weights)])
        return Estimate(element=self.level.element, attribute="replacement_policy", status=Status.FOUND, value=value,
                        confidence=EXACT, method=METHOD, evidence=tuple(self.evidence), caveats=(caveat,))  # fmt: skip

    def _none_of_these(self, reason: str) -> Estimate:
        return Estimate(element=self.level.element, attribute="replacement_policy", status=Status.AMBIGUOUS,
                        reason=f"none of the policies known here: {reason}", method=METHOD,
                        evidence=tuple(self.evidence))  # fmt: skip


def replacement_of(element: str) -> Key[Replacement | None]:
    """Replacement policy of a cache; None if none was found."""
    return Key(f"policy.{element}", (Replacement, NoneType))


EXPERIMENTS = tuple(
    Experiment(
        key=replacement_of(element),
        element=element,
        plan=partial(policy_plan, element),
        emits=ATTRIBUTES,
        needs=(levels_of(element), structure_of(element), capacity_of(element)),
    )
    for element in CACHES
)
