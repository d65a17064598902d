"""Replacement policies from hits and misses of one set: likelihoods of candidates, and which way a random one replaces.

Everything here is about one set of `ways` ways, cold at the start, and accesses to `ways` + 1 lines numbered by their
first visit: so at any time at most one of them is absent, and each miss tells which line the one before it replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.check import check_policy
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.trace import Array
from gpudissect.workload import Bounds

HIT, MISS, UNKNOWN = 0, 1, 2
Outcomes = NDArray[np.int8]
DETERMINISTIC = (
    PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.PLRU, PolicyKind.NRU, PolicyKind.MRU, PolicyKind.SRRIP,
    PolicyKind.SLRU,
)  # fmt: skip
"""Candidates that say what every access must be."""
MARGIN = 12.0  # nats by which the best must lead
LONG = 4096  # accesses that part any two candidates
STRAY = 0.01  # nats a victim by which ages or turns may explain more than chance: misread accesses do


@dataclass(frozen=True)
class Observed:
    """Accesses to lines 0 ... `ways` of a cold set, in order, and what each was seen to be.

    Attributes:
        lines: (n,) line numbers, numbered by their first visit.
        outcomes: (n,) HIT, MISS or UNKNOWN.

    """

    lines: Array
    outcomes: Outcomes


def outcomes(cycles: Array, bounds: Bounds) -> Outcomes:
    """Classes of timed accesses (cycles as EACH reports them)."""
    missed = (cycles >= bounds.miss_min) & (cycles <= bounds.miss_max)
    return np.where(cycles <= bounds.hit_max, HIT, np.where(missed, MISS, UNKNOWN)).astype(np.int8)


def from_cold(lines: Array, seen: Outcomes) -> Observed:
    """Accesses that began cold: a first visit that took longer than a miss to the next level is a miss all the same."""
    first = np.zeros(lines.size, dtype=bool)
    first[np.unique(lines, return_index=True)[1]] = True
    return Observed(lines, np.where(first & (seen == UNKNOWN), MISS, seen).astype(np.int8))


@lru_cache(maxsize=256)
def candidates(ways: int) -> tuple[PolicyKind, ...]:
    """Deterministic policies that sets of so many ways can have; of those that are the same there, the first.

    Same is what agrees on a long random sequence: a short one that was observed may only have failed to part them.
    """
    lines = np.concatenate([np.arange(ways + 1), np.random.default_rng(ways).integers(0, ways + 1, LONG)])
    different: dict[bytes, PolicyKind] = {}
    for kind in DETERMINISTIC:
        if _fits(kind, ways):
            different.setdefault(predicted(kind, ways, lines).tobytes(), kind)
    return tuple(different.values())


def _fits(kind: PolicyKind, ways: int) -> bool:
    try:
        check_policy(Policy(kind), (ways,))
    except UsageError:
        return False
    return True


def predicted(kind: PolicyKind, ways: int, lines: Array) -> Outcomes:
    """What accesses to a cold set must be under a deterministic policy."""
    one_set = Cache((ways,), 32, 32, Index(IndexKind.MODULO), Policy(kind))
    return CacheModel(one_set).access_many(lines * 32)


def log_likelihood(foretold: Outcomes, observed: Outcomes, misread: float) -> float:
    """Of what was seen, where each access may be misread with that probability (nats)."""
    seen = observed != UNKNOWN
    wrong = int(np.sum(foretold[seen] != observed[seen]))
    return wrong * log(misread) + (int(seen.sum()) - wrong) * log(1 - misread)


def agreement(foretold: Outcomes, observed: Outcomes) -> float:
    """Share of the accesses that were told, of those seen clearly."""
    seen = observed != UNKNOWN
    return float(np.mean(foretold[seen] == observed[seen])) if seen.any() else 0.0


def random_log_likelihood(observed: Observed, ways: int, misread: float) -> float:
    """The same for a policy that replaces every way with the same probability: forward algorithm over the absent line.

    Rabiner 1989, "A tutorial on hidden Markov models", section III.
    """
    likelihood = 0.0
    absent = np.zeros(ways + 1)
    absent[ways] = 1.0  # numbered by first visit: until the last of them comes, nothing is replaced
    known = -1
    for line, outcome in zip(observed.lines.tolist(), observed.outcomes.tolist(), strict=True):
        if line > known:
            known = line
            if line < ways:
                likelihood += _read(outcome, MISS, misread)
                continue
        elif known < ways:
            likelihood += _read(outcome, HIT, misread)
            continue
        missing = absent[line]
        if outcome != UNKNOWN:
            if_missing, if_there = (1 - misread, misread) if outcome == MISS else (misread, 1 - misread)
            absent *= if_there
            missing *= if_missing
        absent[line] = 0.0
        absent += missing / ways
        absent[line] -= missing / ways
        total = float(absent.sum())
        likelihood += log(total)
        absent /= total
    return likelihood


def chance_log_likelihood(runs: Sequence[Observed]) -> float:
    """Of hits and misses as a coin would give them: what a set, however it replaces, must be far better than."""
    seen = np.concatenate([run.outcomes[run.outcomes != UNKNOWN] for run in runs])
    missed = float(np.mean(seen == MISS)) if seen.size else 0.0
    return seen.size * sum(share * log(share) for share in (missed, 1 - missed) if share > 0)


def _read(outcome: int, truth: int, misread: float) -> float:
    return 0.0 if outcome == UNKNOWN else log(1 - misread if outcome == truth else misread)


def clear(observed: Observed) -> Observed:
    """The accesses before the first that was seen neither as a hit nor as a miss.

    After it the line that is absent may not be known, and with it which line lies in which way: for good.
    """
    unknown = np.flatnonzero(observed.outcomes == UNKNOWN)
    end = int(unknown[0]) if unknown.size else observed.lines.size
    return Observed(observed.lines[:end], observed.outcomes[:end])


@dataclass(frozen=True)
class Victims:
    """Which way was replaced, time after time, and how old its line was.

    Attributes:
        ways: (n,) way numbers, by the order in which they were filled.
        ages: (n,) how many other lines had been used since that line was.

    """

    ways: Array
    ages: Array


def victims(observed: Observed, ways: int, misread: float) -> Victims:
    """The likeliest sequence of victims: Viterbi over the absent line (Rabiner 1989, section III.B).

    Those after which not every line is visited again are left out: the last would be guessed, and the guess is even.
    """
    until = min((int(np.flatnonzero(observed.lines == line)[-1]) for line in np.unique(observed.lines)), default=0)
    absent = _absent_lines(observed, ways, misread)
    way_of = {line: line for line in range(ways)}
    recent = list(range(ways + 1))  # least recently used first
    taken: list[int] = []
    ages: list[int] = []
    known = -1
    steps = zip(observed.lines[:until].tolist(), absent[:until].tolist(), absent[1 : until + 1].tolist(), strict=True)
    for line, before, after in steps:
        known = max(known, line)
        if known == ways and before == line and after != line:
            taken.append(way_of[after])
            others = [each for each in recent if each != line]
            ages.append(ways - 1 - others.index(after))
            way_of[line] = way_of.pop(after)
        recent.remove(line)
        recent.append(line)
    return Victims(np.array(taken, dtype=np.int64), np.array(ages, dtype=np.int64))


def _absent_lines(observed: Observed, ways: int, misread: float) -> Array:
    """The absent line before each access and after the last; (n + 1,)."""
    n = observed.lines.size
    score = np.full(ways + 1, -np.inf)
    score[ways] = 0.0
    came_from = np.full(n, -1, dtype=np.int64)  # for every line but the one accessed: from itself, or from that one
    replaced = np.zeros((n, ways + 1), dtype=bool)
    known = -1
    for i, (line, outcome) in enumerate(zip(observed.lines.tolist(), observed.outcomes.tolist(), strict=True)):
        first, known = line > known, max(known, line)
        came_from[i] = line
        if known < ways or (first and line < ways):
            continue
        missing = score[line] + _read(outcome, MISS, misread) - log(ways)
        stayed = score + _read(outcome, HIT, misread)
        stayed[line] = -np.inf
        replaced[i] = missing > stayed
        replaced[i, line] = False
        score = np.maximum(stayed, missing)
        score[line] = -np.inf
    path = np.empty(n + 1, dtype=np.int64)
    path[n] = int(np.argmax(score)) if known == ways else ways
    for i in range(n - 1, -1, -1):
        path[i] = came_from[i] if replaced[i, path[i + 1]] else path[i + 1]
    return path


@dataclass(frozen=True)
class Drawn:
    """What a policy that draws its victims looks like.

    Attributes:
        weights: (ways,) share of the victims in each way.
        uneven: whether the ways are replaced with unequal probabilities (nats in favour, less what that costs).
        by_age: whether how old a line is has a say, and more of one than the way it is in.
        in_turns: whether the last victim has a say in the next.

    """

    weights: NDArray[np.float64]
    uneven: bool
    by_age: bool
    in_turns: bool


def drawn(found: Victims, ways: int) -> Drawn:
    """Weights of the ways, and whether they alone explain the victims. Raises `ValueError` without victims."""
    n = found.ways.size
    if n == 0:
        raise ValueError("no line was ever replaced")
    counts = np.bincount(found.ways, minlength=ways).astype(float)
    seen = counts[counts > 0]
    gain = float(np.sum(seen * np.log(seen * ways / n))) - 0.5 * (ways - 1) * log(n)  # Schwarz 1978
    stray = max(MARGIN, STRAY * n)
    of_ages = np.bincount(found.ages, minlength=ways).astype(float)
    aged = of_ages[of_ages > 0]
    by_age = float(np.sum(aged * np.log(aged * ways / n))) - 0.5 * (ways - 1) * log(n)
    pairs = np.bincount(found.ways[:-1] * ways + found.ways[1:], minlength=ways * ways).reshape(ways, ways)
    alone = np.outer(pairs.sum(axis=1), pairs.sum(axis=0)) / max(1, n - 1)
    together = pairs > 0
    in_turns = float(np.sum(pairs[together] * np.log(pairs[together] / alone[together])))
    in_turns -= 0.5 * (ways - 1) ** 2 * log(n)
    return Drawn(counts / n, gain > MARGIN, by_age > stray and by_age > gain, in_turns > stray)


@dataclass(frozen=True)
class Ranking:
    """Candidates by likelihood, best first, in nats."""

    scores: Mapping[str, float]

    @property
    def best(self) -> str:
        """Name of the likeliest."""
        return next(iter(self.scores))

    @property
    def lead(self) -> float:
        """Nats by which the best leads; infinite if it is alone."""
        values = list(self.scores.values())
        return values[0] - values[1] if len(values) > 1 else float("inf")


def rank(runs: Sequence[Observed], ways: int, misread: float) -> Ranking:
    """All candidates and ``random`` over some runs; those that say the same of them are level."""
    scores: dict[str, float] = {}
    for kind in candidates(ways):
        foretold = [predicted(kind, ways, run.lines) for run in runs]
        scores[kind.value] = sum(
            log_likelihood(one, run.outcomes, misread) for one, run in zip(foretold, runs, strict=True)
        )
    scores[PolicyKind.RANDOM.value] = sum(random_log_likelihood(run, ways, misread) for run in runs)
    return Ranking(dict(sorted(scores.items(), key=lambda item: -item[1])))
