"""Replacement policies from hits and misses of one set: likelihoods of candidates, and the weights of a random policy.

All of this is about one set of `ways` ways, cold at the start, and accesses to `ways` + 1 lines numbered by their first
access. So at most one of them is absent at any time, and each miss shows which line the one before it replaced.

A policy is validated on accesses not used to choose it, each made twice. Misreading is random and changes nothing in
the cache, so two runs seldom misread the same access; what the policy itself predicts wrong is wrong in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.check import check_policy
from gpudissect.simulation.cache.geometry import RANDOM_POLICIES, Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.trace import Array
from gpudissect.workload import Bounds

HIT, MISS, UNKNOWN = 0, 1, 2
Outcomes = NDArray[np.int8]
DETERMINISTIC = tuple(kind for kind in PolicyKind if kind not in (*RANDOM_POLICIES, PolicyKind.BIP, PolicyKind.ORDER))
"""Policies without parameters that predict every access."""
MIN_LEAD_NATS = 12.0  # of the best candidate
CANDIDATE_ACCESSES = 4096  # which separate any two candidates
MAX_STRAY_NATS = 0.01  # per victim, that ages or order may explain beyond chance, as misread accesses do
MIN_MISREAD_SHARE = 0.004  # of the accesses
CHANCE_FACTOR = 3.0  # times what chance explains
FREE_REPEATED_ERRORS = 1  # accesses wrong in both runs that need no explanation
MIN_RANDOM_SHARE = 0.25  # of the differences between two independent runs


@dataclass(frozen=True)
class Observation:
    """Accesses to lines 0 ... `ways` of a cold set."""

    lines: Array  # (n,) numbered by their first access
    outcomes: Outcomes  # (n,) HIT, MISS or UNKNOWN

    def before_unknown(self) -> Observation:
        """The accesses before the first unknown one, after which the lines of the ways are not known."""
        unknown = np.flatnonzero(self.outcomes == UNKNOWN)
        end = int(unknown[0]) if unknown.size else self.lines.size
        return Observation(self.lines[:end], self.outcomes[:end])


def classify(cycles: Array, bounds: Bounds) -> Outcomes:
    """Outcomes of timed accesses (cycles as EACH reports them)."""
    missed = (cycles >= bounds.miss_min) & (cycles <= bounds.miss_max)
    outcomes = np.where(missed, np.int8(MISS), np.int8(UNKNOWN))
    outcomes[cycles <= bounds.hit_max] = HIT
    return outcomes


def observe_cold(lines: Array, outcomes: Outcomes) -> Observation:
    """Accesses from a cold start: an unknown first access to a line, slower than a miss to the next level, missed."""
    first = np.zeros(lines.size, dtype=bool)
    first[np.unique(lines, return_index=True)[1]] = True
    return Observation(lines, np.where(first & (outcomes == UNKNOWN), MISS, outcomes).astype(np.int8))


def is_possible(kind: PolicyKind, ways: Sequence[int]) -> bool:
    """Whether a policy without parameters supports sets of so many ways."""
    try:
        check_policy(Policy(kind), ways)
    except UsageError:
        return False
    return True


@lru_cache(maxsize=256)
def candidates(ways: int) -> tuple[PolicyKind, ...]:
    """Deterministic policies of sets with so many ways; of those equal on a long random sequence, the first."""
    lines = np.concatenate([np.arange(ways + 1), np.random.default_rng(ways).integers(0, ways + 1, CANDIDATE_ACCESSES)])
    different: dict[bytes, PolicyKind] = {}
    for kind in DETERMINISTIC:
        if is_possible(kind, (ways,)):
            different.setdefault(predict(kind, ways, lines).tobytes(), kind)
    return tuple(different.values())


def predict(kind: PolicyKind, ways: int, lines: Array) -> Outcomes:
    """Outcomes of accesses to a cold set under a deterministic policy."""
    return predict_policy(Policy(kind), ways, lines)


def predict_policy(policy: Policy, ways: int, lines: Array) -> Outcomes:
    """As `predict`, of a policy with parameters."""
    with _lock:
        model = _one_set(policy, ways)
        model.reset()
        return model.access_many(lines * 32)


_lock = Lock()  # of the models that `predict_policy` shares


@lru_cache(maxsize=64)
def _one_set(policy: Policy, ways: int) -> CacheModel:
    return CacheModel(Cache((ways,), 32, 32, Index(IndexKind.MODULO), policy))


def log_likelihood(predicted: Outcomes, observed: Outcomes, misread: float) -> float:
    """Log likelihood (nats) of the observed outcomes if each is misread with probability `misread`."""
    known = observed != UNKNOWN
    wrong = int(np.sum(predicted[known] != observed[known]))
    return wrong * log(misread) + (int(known.sum()) - wrong) * log(1 - misread)


def agreement(predicted: Outcomes, observed: Outcomes) -> float:
    """Share of the known accesses that were predicted."""
    known = observed != UNKNOWN
    return float(np.mean(predicted[known] == observed[known])) if known.any() else 0.0


def count_common_errors(*runs: tuple[Outcomes, Outcomes]) -> int:
    """Accesses predicted wrong in every run (predicted and observed outcomes); few if the policy is right."""
    wrong = [(observed != UNKNOWN) & (observed != predicted) for predicted, observed in runs]
    return int(np.sum(np.all(wrong, axis=0)))


def max_repeated_errors(share: float, accesses: int) -> float:
    """Largest number of accesses wrong in both runs by chance, if single runs are right about `share` of them."""
    return FREE_REPEATED_ERRORS + CHANCE_FACTOR * (1 - share) ** 2 * accesses


def is_random(first: Sequence[Outcomes], second: Sequence[Outcomes], misread: float) -> bool:
    """Whether repeated accesses miss elsewhere, as often as with random victims and not just by misreading."""
    differing = 1 - float(np.mean([agreement(one, two) for one, two in zip(first, second, strict=True)]))
    missing = float(np.mean(np.concatenate(first) == MISS))
    return differing > max(CHANCE_FACTOR * misread, MIN_RANDOM_SHARE * 2 * missing * (1 - missing))


def first_replacement(observed: Observation, ways: int) -> int:
    """Position of the first access to line `ways`: before it the set is filled and nothing is replaced."""
    found = np.flatnonzero(observed.lines == ways)
    return int(found[0]) if found.size else observed.lines.size


def random_log_likelihood(observed: Observation, ways: int, misread: float) -> float:
    """Log likelihood of a policy that replaces every way with the same probability.

    Forward algorithm over the absent line (Rabiner 1989, "A tutorial on hidden Markov models", section III).
    """
    start, lines, outcomes = first_replacement(observed, ways), observed.lines, observed.outcomes
    new = np.isin(np.arange(start), np.unique(lines[:start], return_index=True)[1])
    likelihood = log_likelihood(np.where(new, MISS, HIT).astype(np.int8), outcomes[:start], misread)
    absent = np.zeros(ways + 1)
    absent[ways] = 1.0
    for line, outcome in zip(lines[start:].tolist(), outcomes[start:].tolist(), strict=True):
        missing = absent[line]
        if outcome != UNKNOWN:
            if_missing, if_present = (1 - misread, misread) if outcome == MISS else (misread, 1 - misread)
            absent *= if_present
            missing *= if_missing
        absent[line] = 0.0
        absent += missing / ways
        absent[line] -= missing / ways
        total = float(absent.sum())
        likelihood += log(total)
        absent /= total
    return likelihood


def chance_log_likelihood(runs: Sequence[Observation]) -> float:
    """Log likelihood of independent hits and misses, which any replacement policy must far exceed."""
    known = np.concatenate([run.outcomes[run.outcomes != UNKNOWN] for run in runs])
    missed = float(np.mean(known == MISS)) if known.size else 0.0
    return known.size * sum(share * log(share) for share in (missed, 1 - missed) if share > 0)


def _log_read(outcome: int, truth: int, misread: float) -> float:
    return 0.0 if outcome == UNKNOWN else log(1 - misread if outcome == truth else misread)


class Ranking(NamedTuple):
    """Candidates by likelihood, best first, in nats."""

    scores: Mapping[str, float]
    best: str
    lead: float  # of the best; infinite if it is alone


def rank_candidates(runs: Sequence[Observation], ways: int, misread: float) -> Ranking:
    """All candidates and ``random`` over some runs."""
    scores = {
        kind.value: sum(log_likelihood(predict(kind, ways, run.lines), run.outcomes, misread) for run in runs)
        for kind in candidates(ways)
    }
    scores[PolicyKind.RANDOM.value] = sum(random_log_likelihood(run, ways, misread) for run in runs)
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    return Ranking(dict(ranked), ranked[0][0], ranked[0][1] - ranked[1][1] if len(ranked) > 1 else float("inf"))


@dataclass(frozen=True)
class Victims:
    """Replaced ways in order, and the age of the line in each."""

    ways: Array  # (n,) numbered in the order in which they were filled
    ages: Array  # (n,) number of other lines used since that line was


def infer_victims(runs: Sequence[Observation], ways: int, misread: float) -> list[Victims]:
    """The likeliest sequence of victims of each run: Viterbi over the absent line (Rabiner 1989, section III.B).

    Those after which not every line is accessed again are left out: the last would be guessed, and the guess is even.
    """
    absent = _absent_lines(runs, ways, misread)
    return [_victims(run, lines, ways) for run, lines in zip(runs, absent, strict=True)]


def _victims(observed: Observation, absent: Array, ways: int) -> Victims:
    """The victims of a run, from the absent line before each access and after the last."""
    last = dict(zip(observed.lines.tolist(), range(observed.lines.size), strict=True))  # access to each line
    end = min(last.values(), default=0)
    start, way_of = first_replacement(observed, ways), {line: line for line in range(ways)}
    recent = list(range(ways + 1))  # least recently used first
    replaced: list[int] = []
    ages: list[int] = []
    steps = zip(observed.lines[:end].tolist(), absent[:end].tolist(), absent[1 : end + 1].tolist(), strict=True)
    for i, (line, before, after) in enumerate(steps):
        recent.remove(line)
        if i >= start and before == line and after != line:
            replaced.append(way_of[after])
            ages.append(ways - 1 - recent.index(after))
            way_of[line] = way_of.pop(after)
        recent.append(line)
    return Victims(np.array(replaced, dtype=np.int64), np.array(ages, dtype=np.int64))


def _absent_lines(runs: Sequence[Observation], ways: int, misread: float) -> list[Array]:
    """The absent line before each access of each run and after the last; (n + 1,) each.

    All runs at once, each from its first replacement on, the longest first: those not yet ended are the first rows.
    """
    starts = [first_replacement(run, ways) for run in runs]
    sizes = np.array([run.lines.size - start for run, start in zip(runs, starts, strict=True)])
    ranked = np.argsort(-sizes, kind="stable")
    length = int(sizes.max(initial=0))
    lines, outcomes = np.zeros((length, sizes.size), dtype=np.int64), np.zeros((length, sizes.size), dtype=np.int64)
    for row, number in enumerate(ranked.tolist()):
        lines[: sizes[number], row] = runs[number].lines[starts[number] :]
        outcomes[: sizes[number], row] = runs[number].outcomes[starts[number] :]
    active = np.sum(sizes > np.arange(length)[:, None], axis=1).tolist()
    misses, hits = (np.array([_log_read(each, kind, misread) for each in range(3)])[outcomes] for kind in (MISS, HIT))
    scores = np.full((sizes.size, ways + 1), -np.inf)
    scores[:, ways] = 0.0
    replaced = np.zeros((length, sizes.size, ways + 1), dtype=bool)  # whether a line became absent at this access
    rows = np.arange(sizes.size)
    for i, count in enumerate(active):
        at, score, new = (rows[:count], lines[i, :count]), scores[:count], replaced[i, :count]
        missing = (score[at] + misses[i, :count] - log(ways))[:, None]
        score += hits[i, :count, None]
        score[at] = -np.inf
        np.greater(missing, score, out=new)
        new[at] = False
        np.maximum(score, missing, out=score)
        score[at] = -np.inf
    paths = np.empty((length + 1, sizes.size), dtype=np.int64)
    paths[:] = np.where(sizes[ranked] > 0, np.argmax(scores, axis=1), ways)
    for i in range(length - 1, -1, -1):
        count = active[i]
        after = paths[i + 1, :count]
        paths[i, :count] = np.where(replaced[i, rows[:count], after], lines[i, :count], after)
    row_of = np.argsort(ranked)
    found = [paths[: size + 1, row] for size, row in zip(sizes.tolist(), row_of.tolist(), strict=True)]
    return [np.concatenate([np.repeat(path[:1], start), path]) for path, start in zip(found, starts, strict=True)]


@dataclass(frozen=True)
class RandomPolicyFit:
    """A random policy fitted to victims."""

    weights: NDArray[np.float64]  # share of the victims in each way
    uneven: bool  # whether the ways are replaced with unequal probabilities (Schwarz 1978)
    by_age: bool  # whether the age of a line matters, and more than its way
    by_order: bool  # whether a victim depends on the one before it


def unevenness(counts: Array) -> float:
    """Nats by which unequal probabilities explain counts better than equal ones, less what the parameters cost."""
    n, some = int(counts.sum()), counts[counts > 0].astype(float)
    return float(np.sum(some * np.log(some * counts.size / max(n, 1)))) - 0.5 * (counts.size - 1) * log(max(n, 1))


def fit_random_policy(victims: Victims, ways: int) -> RandomPolicyFit:
    """Weights of the ways, and whether they alone explain the victims. Raises `ValueError` without victims."""
    n = victims.ways.size
    if n == 0:
        raise ValueError("no line was ever replaced")
    by_way, by_age = (unevenness(np.bincount(each, minlength=ways)) for each in (victims.ways, victims.ages))
    max_stray = max(MIN_LEAD_NATS, MAX_STRAY_NATS * n)
    pairs = np.bincount(victims.ways[:-1] * ways + victims.ways[1:], minlength=ways * ways).reshape(ways, ways)
    independent = np.outer(pairs.sum(axis=1), pairs.sum(axis=0)) / max(1, n - 1)
    some = pairs > 0
    by_order = float(np.sum(pairs[some] * np.log(pairs[some] / independent[some]))) - 0.5 * (ways - 1) ** 2 * log(n)
    weights = np.bincount(victims.ways, minlength=ways).astype(float) / n
    return RandomPolicyFit(weights, by_way > MIN_LEAD_NATS, by_age > max(max_stray, by_way), by_order > max_stray)
