"""Replacement policy of a cache: how well each candidate predicts the hits and misses of one full set.

Sequences visit one line more than a set holds, in random order, each line several times (through another word of it).
What they leave open is tested with sequences on which the remaining candidates differ most. The winner must predict
sequences that were not used to choose it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from types import NoneType
from typing import NamedTuple

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache import infer_order, infer_policy
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_order import OrderFit
from gpudissect.measure.cache.infer_policy import (
    Observation,
    Outcomes,
    Ranking,
    Victims,
    agreement,
    candidates,
    predict,
)
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import absent, for_each_cache, level_of, levels_of
from gpudissect.measure.cache.plan_sets import structure_of
from gpudissect.measure.infer_confidence import CONFLICTED, EXACT, LATENCY
from gpudissect.measure.plan import Ask, Bench, Key, Known, Outcome, Plan, found, without
from gpudissect.simulation.cache.geometry import Policy, PolicyKind
from gpudissect.trace import Array
from gpudissect.workload import Chase, Explicit, Sequential, Timing

ATTRIBUTES = ("replacement_policy", "max_miss_rate")
MIN_ACCESSES, MIN_SEQUENCES = 600, 3  # to begin with
LAPS = 4
POOL_SEQUENCES = 48  # from which the most distinguishing are taken
MAX_ROUNDS = 4
HELD_OUT_SETS, SEQUENCES_PER_SET = 8, 3  # which the winner must predict, each run twice
MAX_VISITS = 8  # of a line in a lap
VICTIMS = 8000  # for the weights of the ways: one of 1/2 is then known to 0.006
MAX_RUN_ACCESSES = 4096
RUNS_PER_BATCH, MAX_RUNS, MAX_RUN_LAPS = 100, 900, 8  # from cold: a misread access spoils what follows
RATE_ERROR = 0.01  # by misread accesses
RATE_SIZES, RATE_ACCESSES = 8, 8192
WELL_PREDICTED = 0.995  # share of accesses; with less, a policy with random choices (BIP) may look like one without
RATE_WARMUP_LAPS, MIN_RATE_LAPS = 8, 4  # after two laps bits of use (bit-PLRU) still depend on how the set was filled
METHOD = "likelihood of hits and misses of one full set, candidates simulated"
RATE_METHOD = "share of misses over growing contiguous footprints, up to 1.5 times the cache"


@dataclass(frozen=True)
class Replacement:
    """The policy that predicts best, and whether it does so well enough."""

    policy: Policy
    sure: bool


def replacement_of(element: str) -> Key[Replacement | None]:
    """Replacement policy of a cache; None if none was found."""
    return Key(f"policy.{element}", (Replacement, NoneType))


def policy_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Replacement policy of `element`, and the largest miss rate of MC14 s4.2, fig 9."""
    level = level_of(element, known)
    if level is None:
        return absent(element, known, *ATTRIBUTES)
    structure, capacity = known[structure_of(element)], known[capacity_of(element)]
    if structure is None or capacity is None:
        return Outcome(without(Status.NOT_FOUND, element, "its associativity is not known", *ATTRIBUTES))
    if not level.nearest:
        reason = "a nearer cache serves part of the accesses"
        return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
    rate = yield from _max_miss_rate(level, structure, capacity, bench)
    test = _PolicyTest(level, structure, bench)
    reason = ""
    if test.ways == 1:
        reason = "a set has one way: there is nothing to replace by choice"
    elif test.words < 2:
        reason = "a line has one word only: no line can be accessed twice in a lap"
    if reason:
        return Outcome((*without(Status.NOT_FOUND, element, reason, "replacement_policy"), rate))
    policy = yield from test.policy()
    return Outcome((policy, rate), test.best)


def long_runs_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Whether a found policy also predicts runs of thousands of accesses to a set, such as after many misses."""
    level, structure = level_of(element, known), known[structure_of(element)]
    replacement = known[replacement_of(element)]
    if level is None or structure is None or replacement is None or not replacement.sure:
        return Outcome(())
    kind = replacement.policy.kind
    if kind not in infer_policy.DETERMINISTIC:
        return Outcome(())
    problem = yield from _PolicyTest(level, structure, bench).long_runs(kind)
    return Outcome((problem,) if problem else ())


class _Run(NamedTuple):
    """Laps of line numbers in a set, from cold."""

    lap: Array
    set_number: int
    repetition: int = 0
    laps: int = LAPS


class _PolicyTest:
    """Runs sequences over one line more than a set holds.

    `best` is the policy that predicts best so far, `words` the words of a line that a lap can visit.
    """

    def __init__(self, level: Level, structure: Structure, bench: Bench) -> None:
        self.level, self.structure, self.bench = level, structure, bench
        self.ways = int(np.argmax(np.bincount(structure.ways)))
        sets = np.flatnonzero(np.array(structure.ways) == self.ways)
        self.first_set = int(sets[0])
        others = sets[1:] if sets.size > 1 else sets
        self.other_sets: list[int] = others[np.linspace(0, others.size - 1, HELD_OUT_SETS).astype(int)].tolist()
        self.held_out = "accesses to other sets" if sets.size > 1 else "accesses of other sequences to its one set"
        self.words = min((level.fetch.fetch or structure.line) // level.path.word, MAX_VISITS)
        self.evidence: tuple[str, ...] = ()
        self.best: Replacement | None = None
        self._orders: dict[tuple[int, bytes], Explicit] = {}

    def policy(self) -> Ask[Estimate]:
        """The policy, or why none of the candidates is it."""
        count = max(MIN_SEQUENCES, -(-MIN_ACCESSES // (LAPS * self.words * (self.ways + 1))))
        observed = yield from self._observe([_Run(self._random_lap(i), self.first_set) for i in range(count)])
        misread, ranking = self._rank(observed)
        for number in range(MAX_ROUNDS):
            if ranking.lead >= infer_policy.MIN_LEAD_NATS:
                break
            laps = self._distinguishing_laps(ranking, number)
            observed += yield from self._observe([_Run(lap, self.first_set) for lap in laps])
            misread, ranking = self._rank(observed)
        order = yield from self._order(observed, ranking, misread)
        if order is not None:
            return (yield from self._ordered(order, misread))
        if ranking.scores[ranking.best] - infer_policy.chance_log_likelihood(observed) < infer_policy.MIN_LEAD_NATS:
            return self._not_found("hits and misses are independent of one another, unlike those of a set")
        if ranking.best == PolicyKind.RANDOM.value:
            return (yield from self._random(misread))
        return (yield from self._deterministic(ranking, misread))

    def _rank(self, observed: Sequence[Observation]) -> tuple[float, Ranking]:
        """Share of accesses that may be misread, and the candidates by likelihood."""
        unknown = float(np.mean(np.concatenate([run.outcomes for run in observed]) == infer_policy.UNKNOWN))
        misread = max(infer_policy.MIN_MISREAD_SHARE, unknown)
        return misread, infer_policy.rank_candidates(observed, self.ways, misread)

    def _order(self, observed: Sequence[Observation], ranking: Ranking, misread: float) -> Ask[OrderFit | None]:
        """A fixed order of victims, if one explains the accesses and those of longer runs, which show long periods."""
        fit = infer_order.fit_order(observed, self.ways, misread, ranking.scores[ranking.best])
        return None if fit is None else (yield from self._order_of_longer_runs()) or fit

    def _order_of_longer_runs(self) -> Ask[OrderFit | None]:
        """A fixed order of victims that explains runs from cold of the greatest length."""
        runs = [_Run(self._random_lap(i), self.first_set, laps=self._max_laps) for i in range(MIN_SEQUENCES)]
        longer = yield from self._observe(runs)
        misread, ranking = self._rank(longer)
        return infer_order.fit_order(longer, self.ways, misread, ranking.scores[ranking.best])

    def _ordered(self, fit: OrderFit, misread: float) -> Ask[Estimate]:
        """Validate an order of victims."""
        length = len(fit.order)
        if not fit.repeats:
            victims = round(fit.periods * length)
            return self._not_found(f"cold runs replace the same ways, and no order repeats within {victims} victims")

        def predicted(run: Observation) -> Outcomes:
            start = 0 if fit.restarts else infer_order.find_start(fit.order, self.ways, run, misread)
            return infer_order.predict_order(fit.order, self.ways, run.lines, start)

        policy = fit.policy(self.ways)
        share, problem = yield from self._validate(predicted, self._max_laps, misread)
        self.best = Replacement(policy, False)
        if problem:
            return self._not_found(f"the closest, {policy}, {problem}")
        numbering = "ways numbered in the order in which they are filled"
        start = "a cold set begins with the first" if fit.restarts else "where a cold set begins varies"
        estimate = self._found(policy, f"it predicts {share:.2%} of the {self.held_out}; {numbering}; {start}", share)
        self.best = Replacement(policy, fit.restarts)
        return estimate

    @property
    def _max_laps(self) -> int:
        """Laps of a random lap in the longest run."""
        return max(LAPS, MAX_RUN_ACCESSES // (self.words * (self.ways + 1)))

    def _deterministic(self, ranking: Ranking, misread: float) -> Ask[Estimate]:
        """Validate the best candidate without parameters."""
        kind = next(kind for kind in candidates(self.ways) if kind.value == ranking.best)
        share, problem = yield from self._validate(lambda run: predict(kind, self.ways, run.lines), LAPS, misread)
        self.best = Replacement(Policy(kind), False)
        closest = f"the closest, {ranking.best}, predicts {share:.1%} of the accesses correctly"
        if problem or ranking.lead < infer_policy.MIN_LEAD_NATS:
            return self._not_found(f"the closest, {ranking.best}, {problem}" if problem else closest)
        return self._found(Policy(kind), f"it predicts {share:.2%} of the {self.held_out}", share)

    def long_runs(self, kind: PolicyKind) -> Ask[Estimate | None]:
        """Why `kind` is not the policy, if it predicts the same accesses of long runs wrongly in every repetition."""
        _, problem = yield from self._validate(lambda run: predict(kind, self.ways, run.lines), self._max_laps, 1.0)
        if not problem:
            return None
        return self._not_found(f"the closest, {kind}, {problem}, in runs of up to {MAX_RUN_ACCESSES} accesses to a set")

    def _validate(
        self, predicted: Callable[[Observation], Outcomes], laps: int, misread: float
    ) -> Ask[tuple[float, str]]:
        """Share of predicted accesses of sequences in other sets, each run twice, and what is wrong with them."""
        count = SEQUENCES_PER_SET
        orders = [[self._random_lap(1000 + count * i + j) for j in range(count)] for i in range(HELD_OUT_SETS)]
        sets = list(zip(self.other_sets, orders, strict=True))
        runs = [_Run(lap, number, repeat, laps) for number, each in sets for repeat in range(2) for lap in each]
        observed = iter((yield from self._observe(runs)))
        agreements: list[float] = []
        errors: list[int] = []
        accesses = 0
        for _, laps_of_set in sets:
            first, second = ([next(observed) for _ in laps_of_set] for _ in range(2))
            outcomes = [[(predicted(run), run.outcomes) for run in pair] for pair in zip(first, second, strict=True)]
            errors.append(sum(infer_policy.count_common_errors(*pair) for pair in outcomes))
            agreements += [agreement(*run) for pair in outcomes for run in pair]
            accesses += sum(run.lines.size for run in first)
        share = float(np.mean(agreements))
        closest = f"predicts {share:.1%} of the accesses correctly"
        # Other data may keep a line in one set.
        if sum(errors) - max(errors) > infer_policy.max_repeated_errors(share, accesses):
            return share, f"{closest} and {sum(errors)} wrongly in every run"
        return share, closest if share < 1 - infer_policy.CHANCE_FACTOR * misread else ""

    def _random(self, misread: float) -> Ask[Estimate]:
        """Distinguish a random policy from one that only appears random, and fit the weights of its ways."""
        laps = [self._random_lap(i) for i in range(MIN_SEQUENCES)]
        first = yield from self._observe([_Run(lap, self.first_set, 1) for lap in laps])
        second = yield from self._observe([_Run(lap, self.first_set, 2) for lap in laps])
        if not infer_policy.is_random([run.outcomes for run in first], [run.outcomes for run in second], misread):
            lines, outcomes = first[0].lines, first[0].outcomes
            shares = [(agreement(predict(kind, self.ways, lines), outcomes), kind) for kind in candidates(self.ways)]
            share, closest = max(shares, key=lambda pair: pair[0])
            return self._not_found(
                f"the same sequence misses at the same places again, and the closest, {closest.value}, "
                f"predicts {share:.1%} of the accesses correctly"
            )
        for set_number in dict.fromkeys((self.first_set, *self.other_sets)):
            victims = yield from self._victims(set_number, misread)
            if victims is not None:
                break
        else:
            return self._not_found("random comes closest, but in every set misses of some lines cannot be read")
        if victims.ways.size < self.ways:
            return self._not_found("random comes closest, but hardly a victim was observed clearly")
        fit = infer_policy.fit_random_policy(victims, self.ways)
        if fit.by_age:
            return self._not_found("its victims look random, but depend on the age of a line")
        if fit.by_order:
            order = yield from self._order_of_longer_runs()
            if order is not None:
                return (yield from self._ordered(order, misread))
            return self._not_found("its victims look random, but each depends on the one before")
        if not fit.uneven:
            resolution = 3 * sqrt((self.ways - 1) / victims.ways.size) / self.ways  # three standard errors
            caveat = f"{victims.ways.size} victims: every way has the same share to within {resolution:.1%}"
            return self._found(Policy(PolicyKind.RANDOM), caveat)
        count, numbering = victims.ways.size, "ways numbered in the order in which they are filled"
        caveat = f"of {count} victims, none of which depends on the one before, as in a fixed order; {numbering}"
        return self._found(Policy(PolicyKind.WEIGHTED, tuple(fit.weights.tolist())), caveat)

    def _victims(self, set_number: int, misread: float) -> Ask[Victims | None]:
        """Victims of runs from a cold set, until there are `VICTIMS` of them or `MAX_RUNS` runs.

        None if some lines are unknown more often than others, as where a farther level serves their misses: a run ends
        where such a line would be seen to be the victim.
        """
        ways, ages = np.empty(0, np.int64), np.empty(0, np.int64)
        lap, laps = np.arange(self.ways + 1), max(1, min(MAX_RUN_LAPS, MAX_RUN_ACCESSES // (self.ways + 1)))
        unknown = np.zeros(self.ways + 1, np.int64)
        for first in range(0, MAX_RUNS, RUNS_PER_BATCH):
            runs = [_Run(lap, set_number, first + i, laps) for i in range(RUNS_PER_BATCH)]
            observed = yield from self._observe(runs)
            lines = np.concatenate([run.lines[run.outcomes == infer_policy.UNKNOWN] for run in observed])
            unknown += np.bincount(lines, minlength=self.ways + 1)
            if infer_policy.unevenness(unknown) > infer_policy.MIN_LEAD_NATS:
                return None
            batch = infer_policy.infer_victims([run.before_unknown() for run in observed], self.ways, misread)
            ways = np.concatenate([ways, *(victims.ways for victims in batch)])
            ages = np.concatenate([ages, *(victims.ages for victims in batch)])
            if ways.size >= VICTIMS:
                break
        return Victims(ways, ages)

    def _random_lap(self, number: int) -> Array:
        """Line numbers of one lap: fill the set, then every line repeatedly in random order."""
        rest = np.concatenate([np.repeat(np.arange(self.ways), self.words - 1), np.full(self.words, self.ways)])
        rng = self.bench.rng("policy", self.level.element, number)
        return np.concatenate([np.arange(self.ways), rng.permutation(rest)])

    def _distinguishing_laps(self, ranking: Ranking, number: int) -> list[Array]:
        """Of many laps those on which the remaining policies differ most."""
        threshold = ranking.scores[ranking.best] - infer_policy.MIN_LEAD_NATS
        remaining = [kind for kind in candidates(self.ways) if ranking.scores[kind.value] > threshold]
        pool = [self._random_lap(100 * (number + 1) + i) for i in range(POOL_SEQUENCES)]
        differences = []
        for lap in pool:
            predicted = [predict(kind, self.ways, np.tile(lap, LAPS)) for kind in remaining]
            differences.append(sum(int(np.sum(one != other)) for one in predicted for other in predicted))
        return [pool[i] for i in np.argsort(differences)[::-1][: 2 * MIN_SEQUENCES]]

    def _observe(self, runs: Sequence[_Run]) -> Ask[list[Observation]]:
        bounds = self.level.bounds
        assert bounds is not None
        traces = yield [self._chase(run) for run in runs]
        self.evidence += tuple(trace.workload for trace in traces)
        return [
            infer_policy.observe_cold(np.tile(run.lap, run.laps), infer_policy.classify(trace.cycles, bounds))
            for run, trace in zip(runs, traces, strict=True)
        ]

    def _chase(self, run: _Run) -> Chase:
        order = self._order_of(run.set_number, run.lap.tobytes())
        chase = Chase(path=self.level.path, order=order, timing=Timing.EACH, warmup=0, laps=run.laps)
        return replace(chase, alone=self.level.alone, flush=self.level.alone, repetition=run.repetition)

    def _order_of(self, set_number: int, lap: bytes) -> Explicit:
        """The order of a lap in a set, which is often repeated: the k-th visit of a line accesses its k-th word."""
        if (set_number, lap) not in self._orders:
            numbers = np.frombuffer(lap, dtype=np.int64)
            visit = np.zeros(numbers.size, dtype=np.int64)
            for line in range(self.ways + 1):
                positions = np.flatnonzero(numbers == line)
                visit[positions] = np.arange(positions.size)
            quotas = np.zeros(len(self.structure.ways), dtype=np.int64)
            quotas[set_number] = self.ways + 1
            lines = self.structure.sample(quotas, self.bench.rng("lines", self.level.element, set_number))
            order = Explicit(lines[numbers] * self.structure.line + visit * self.level.path.word)
            self._orders[set_number, lap] = order
        return self._orders[set_number, lap]

    def _found(self, policy: Policy, caveat: str, share: float = 1.0) -> Estimate:
        """The policy; `share` of the accesses are predicted."""
        self.best = Replacement(policy, True)
        confidence, fields = EXACT if share >= WELL_PREDICTED else CONFLICTED, (METHOD, self.evidence, (caveat,))
        return found(self.level.element, "replacement_policy", str(policy), None, None, confidence, *fields)

    def _not_found(self, reason: str) -> Estimate:
        element, reason = self.level.element, f"none of the known policies: {reason}"
        fields = {"method": METHOD, "evidence": self.evidence}
        return without(Status.AMBIGUOUS, element, reason, "replacement_policy", **fields)[0]


def _max_miss_rate(level: Level, structure: Structure, capacity: int, bench: Bench) -> Ask[Estimate]:
    """The largest share of misses over footprints in one piece."""
    count, limit = sum(structure.ways), bench.info.limit(level.path)
    sizes = sorted({count + max(1, count * i // (2 * RATE_SIZES)) for i in range(1, RATE_SIZES + 1)})
    sizes = [size for size in sizes if size * structure.line <= limit]
    reason = "" if sizes else "the path is too short"
    if count * structure.line < capacity:
        reason = f"lines are wider than the {structure.line} B that a miss fetches, but their width is unknown"
    if reason:
        return without(Status.NOT_FOUND, level.element, reason, "max_miss_rate")[0]
    laps = [max(MIN_RATE_LAPS, RATE_ACCESSES // size) for size in sizes]
    chase = partial(Chase, path=level.path, timing=Timing.COUNT, bounds=level.bounds, alone=level.alone)
    orders = [Sequential(size, structure.line) for size in sizes]
    traces = yield [chase(order=order, warmup=RATE_WARMUP_LAPS, laps=n) for order, n in zip(orders, laps, strict=True)]
    rates = [float(trace.counts[:, 1].sum() / max(1, trace.counts[:, :2].sum())) for trace in traces]
    highest = int(np.argmax(rates))
    rate = rates[highest]
    error = RATE_ERROR + 3 * (rate * (1 - rate) / traces[highest].counts.sum()) ** 0.5
    low, high = max(0.0, rate - error), min(1.0, rate + error)
    evidence = tuple(trace.workload for trace in traces)
    return found(level.element, "max_miss_rate", rate, low, high, LATENCY, RATE_METHOD, evidence)


def _long_runs_of(element: str) -> Key[None]:
    return Key(f"long_runs.{element}")


EXPERIMENTS = (
    *for_each_cache(
        replacement_of, policy_plan, levels_of, structure_of, capacity_of, emits=ATTRIBUTES, simulates=True
    ),
    *for_each_cache(
        _long_runs_of, long_runs_plan, levels_of, structure_of, replacement_of, revises="replacement_policy"
    ),
)
