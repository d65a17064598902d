"""How well inferred caches and TLBs predict accesses that nothing was inferred from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_policy import HIT, MISS, UNKNOWN, Outcomes, max_repeated_errors
from gpudissect.simulation.cache.geometry import RANDOM_POLICIES, Cache, Policy
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.simulation.cache.models import CacheModel

Array = NDArray[np.int64]
Levels = NDArray[np.int8]
Mask = NDArray[np.bool_]

UNCLEAR = -1  # of a level: neither as fast as a hit nor as slow as a miss
RUNS = 2  # of each sequence
MAX_NAMED_ACCESSES = 3
SIMULATIONS = 9  # of a random policy, of which the majority is the prediction
RANDOM_SHORTFALL = 0.03  # by which the agreement may stay below what is possible where that is itself an estimate
Z_95 = 1.96  # standard errors of a 95 % interval


@dataclass(frozen=True)
class NotPredicted:
    """A cache, or ``path`` and its name, that cannot be simulated, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class PredictionCounts:
    """Number of accesses with a clear outcome, and of those that were predicted."""

    name: str  # of a cache or path, or ``translation``
    accesses: int
    right: int
    possible: float  # share that the model itself can predict; below 1 if a policy is random

    @property
    def agreement(self) -> float:
        """Share predicted."""
        return self.right / self.accesses


@dataclass(frozen=True)
class CacheCounts(PredictionCounts):
    """Accesses to one cache."""

    hits_wrong: int  # hits that were predicted as misses
    misses_wrong: int


@dataclass(frozen=True)
class PathCounts(PredictionCounts):
    """Accesses through all caches, or all TLBs, of a path; right are those that the predicted level answered."""

    wrong: Mapping[str, int]  # number of the others by element: the nearest that hit or missed against the prediction
    assumed: tuple[str, ...] = ()  # assumptions of the simulation, a text each
    not_predicted: int = 0  # accesses without a prediction, because they depend on what is not known
    misread: Mapping[str, int] = field(default_factory=dict)  # of the wrong, those right in the other run


@dataclass(frozen=True)
class PredictedMisses:
    """What accesses to one cache must be, arrays of shape (n,)."""

    misses: Outcomes  # MISS or HIT
    counted: Mask  # not first touches, which miss in any cache, nor accesses of `may_exceed_room`
    possible: float  # share of these that can be predicted; below 1 if the policy is random


@dataclass(frozen=True)
class CheckedSequence:
    """Accesses of one sequence, run twice, arrays of shape (n,)."""

    offsets: Array  # bytes
    counted: Mask  # whether the access counts: first touches miss everywhere
    predicted: Levels  # which level must answer, 0 for the nearest; `UNCLEAR` without a prediction
    resampled: Levels  # the same in one other simulation: different only if a policy is random
    observed: Sequence[Levels]  # which level did, in each run
    evidence: tuple[str, str]  # digests of the two workloads

    def comparable(self, observed: Levels) -> Mask:
        """Which accesses of a run are compared with their prediction."""
        return np.asarray(self.counted & (self.predicted != UNCLEAR) & (observed != UNCLEAR))

    def wrong(self, observed: Levels) -> Mask:
        """Which of them another level answered: the nearer of both hit instead of missing, or the reverse."""
        return np.asarray(self.comparable(observed) & (observed != self.predicted))

    @property
    def always_wrong(self) -> Mask:
        """Which are wrong in both runs: in a single run an access may be misread."""
        return np.asarray(np.all([self.wrong(observed) for observed in self.observed], axis=0))


def is_repeated(offsets: Array, size: int) -> Mask:
    """Which accesses are not the first to their `size` bytes."""
    numbers, count = offsets // size, offsets.size
    first = np.full(int(numbers.max(initial=0)) + 1, count)
    first[numbers[::-1]] = np.arange(count - 1, -1, -1)  # of equal numbers the last one stays: the first access
    return np.asarray(first[numbers] != np.arange(count))


def may_exceed_room(cache: Cache, lines: int | None, offsets: Array) -> Mask:
    """Which accesses come when more than `lines` lines may be resident in a cache, cold at first; none if that is None.

    A cache with more tags than room for data then loses lines of other sets. `offsets` in bytes, shape (n,).
    """
    if lines is None:
        return np.zeros(offsets.size, dtype=bool)
    _, first = np.unique(offsets // cache.line, return_index=True)
    first.sort()  # accesses that bring a new line
    sets = set_numbers(cache.index, cache.line, cache.sets, offsets[first])
    order = np.argsort(sets, kind="stable")
    rank = np.empty(first.size, dtype=np.int64)  # of a line in its set
    rank[order] = np.arange(first.size) - np.searchsorted(sets[order], sets[order])
    fills = np.zeros(offsets.size, dtype=np.int64)
    fills[first] = rank < np.array(cache.ways)[sets]
    return np.asarray(np.cumsum(fills) > lines)


def predict_misses(cache: Cache, lines: int | None, offsets: Array) -> PredictedMisses:
    """Outcomes of accesses at byte offsets to a cache, cold at first; those of `may_exceed_room` do not count."""
    counted = is_repeated(offsets, cache.sector) & ~may_exceed_room(cache, lines, offsets)
    model = CacheModel(cache)
    if cache.policy.kind not in RANDOM_POLICIES:
        return PredictedMisses(model.access_many(offsets), counted, 1.0)

    def simulate(seed: int) -> Outcomes:
        model.reset(seed)
        return model.access_many(offsets)

    misses = (np.mean([simulate(seed) for seed in range(SIMULATIONS)], axis=0) > 0.5).astype(np.int8)
    resampled = simulate(SIMULATIONS)
    return PredictedMisses(misses, counted, float(np.mean((misses == resampled)[counted])))


def count_misses(name: str, sequences: Sequence[tuple[PredictedMisses, Outcomes]]) -> CacheCounts:
    """Compare predicted with observed outcomes over several sequences."""
    predicted = np.concatenate([each.misses[each.counted] for each, _ in sequences])
    observed = np.concatenate([outcomes[each.counted] for each, outcomes in sequences])
    weights = [int(each.counted.sum()) for each, _ in sequences]
    possible = float(np.average([each.possible for each, _ in sequences], weights=weights))
    clear = int(np.sum(observed != UNKNOWN))
    hits_wrong = int(np.sum((observed == HIT) & (predicted == MISS)))
    misses_wrong = int(np.sum((observed == MISS) & (predicted == HIT)))
    return CacheCounts(name, clear, clear - hits_wrong - misses_wrong, possible, hits_wrong, misses_wrong)


def count_levels(
    name: str, elements: Sequence[str], sequences: Sequence[CheckedSequence], assumed: tuple[str, ...]
) -> PathCounts | NotPredicted:
    """Count over several sequences, both runs of each; `elements` are the levels by name, nearest first."""
    accesses = right = not_predicted = 0
    wrong: Counter[str] = Counter()
    misread: Counter[str] = Counter()
    possible = []
    for each in sequences:
        possible.append((each.predicted == each.resampled)[each.comparable(each.resampled)])
        not_predicted += RUNS * int(np.sum(each.counted & (each.predicted == UNCLEAR)))
        for observed in each.observed:
            comparable, mistaken = int(each.comparable(observed).sum()), each.wrong(observed)
            accesses, right = accesses + comparable, right + comparable - int(mistaken.sum())
            nearer = np.minimum(each.predicted, observed)
            wrong.update(elements[level] for level in nearer[mistaken])
            misread.update(elements[level] for level in nearer[mistaken & ~each.always_wrong])
    if not accesses:
        return NotPredicted(f"path {name}", "no access was clearly answered by one level")
    ordered = {element: wrong[element] for element in elements if wrong[element]}
    share = float(np.mean(np.concatenate(possible)))
    once = {} if share < 1 else {element: misread[element] for element in elements if misread[element]}
    return PathCounts(name, accesses, right, share, ordered, assumed, not_predicted, once)


def refutation(sequences: Sequence[CheckedSequence], counts: PathCounts, level: int) -> str:
    """Why an element does not behave as predicted, with the accesses that show it; empty if it does.

    With a random policy the share over both runs counts; otherwise the accesses wrong in both runs, for misread
    accesses differ from run to run.
    """
    always = [each.always_wrong & (np.minimum(each.predicted, each.observed[0]) == level) for each in sequences]
    wrong = sum(int(mask.sum()) for mask in always)
    accesses = sum(int(each.comparable(each.observed[0]).sum()) for each in sequences)
    if counts.possible < 1:
        if not wrong or counts.agreement >= counts.possible - RANDOM_SHORTFALL:
            return ""
        reason = (
            f"on path {counts.name} the predicted level answers {counts.agreement:.1%} of the accesses where "
            f"{counts.possible:.1%} are possible; wrong in both runs"
        )
    else:
        if wrong <= max_repeated_errors(counts.agreement, accesses):
            return ""
        pairs = zip(sequences, always, strict=True)
        hits = sum(int(np.sum(mask & (each.predicted > each.observed[0]))) for each, mask in pairs)
        reason = (
            f"of {accesses} random accesses on path {counts.name}, {wrong} are wrong in both runs: {hits} predicted "
            f"misses hit, {wrong - hits} predicted hits miss"
        )
    return f"{reason}: {name_accesses([(each.offsets, mask) for each, mask in zip(sequences, always, strict=True)])}"


def refute_policies(
    sequences: Sequence[CheckedSequence], counts: PathCounts, policies: Mapping[str, Policy | None], method: str
) -> tuple[Estimate, ...]:
    """Ambiguous estimates of `policies` (by level, nearest first; None: not found) that do not predict their level."""
    evidence = tuple(digest for each in sequences for digest in each.evidence)
    refuted = partial(Estimate, attribute="replacement_policy", status=Status.AMBIGUOUS, method=method)
    return tuple(
        refuted(element=element, reason=f"{policy.kind}, but {reason}", evidence=evidence)
        for level, (element, policy) in enumerate(policies.items())
        if policy is not None and (reason := refutation(sequences, counts, level))
    )


def name_accesses(sequences: Sequence[tuple[Array, Mask]]) -> str:
    """The first of the accesses selected by a mask, given as bytes and mask of each sequence."""
    names = [
        f"access {at} of sequence {number} (byte {offsets[at]})"
        for number, (offsets, mask) in enumerate(sequences, start=1)
        for at in np.flatnonzero(mask)
    ]
    further = len(names) - MAX_NAMED_ACCESSES
    return ", ".join(names[:MAX_NAMED_ACCESSES]) + (f" and {further} more" if further > 0 else "")


def wilson_interval(right: int, accesses: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927). Raises `ValueError` without accesses."""
    if accesses < 1:
        raise ValueError(f"a share needs accesses, got {accesses}")
    share, z = right / accesses, Z_95
    centre = (share + z * z / (2 * accesses)) / (1 + z * z / accesses)
    half = z * sqrt(share * (1 - share) / accesses + z * z / (4 * accesses**2)) / (1 + z * z / accesses)
    return max(0.0, centre - half), min(1.0, centre + half)
