"""What starting kernels costs, and how long an SM waits for the next block (VV16 s3.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.infer_latency import Latency

LEAST = 8  # replacements from which something can be said
TICK = 1.0  # cycle: two readings of a clock may lie so much farther apart, or closer together
WAITED = 0.25  # quantile of waits from which blocks must have waited for one another
MOST_OF_THEM = (0.025, 0.5, 0.975)
"""Quantiles of the bracket of what differs from time to time, and of its value: of 100 more 95 lie within. How well
a median is known would be another bracket, far narrower, and of no use to who waits for a block."""
QUICK, SLOW = 0.25, 0.75
"""Quantiles of the runs of a host: delays only add, so that the quick ones tell what a start takes; and what most of
them take at most."""
ELSEWHERE = 1.35
"""Times as long, or as short, may what the host has a part in take in another process. On H200s the interval of kernels
that are called one by one was 1.25 to 1.67 us by process, context and stream, each steady to a thousandth; a start took
7.4 to 8.3 us by process, card and day (by Python 7.9 to 11.2), that of a graph 5.6 to 6.1."""
STEADY = 0.005  # relative: nobody believes what a host's clock tells to be known better


@dataclass(frozen=True)
class Duration:
    """A time and its bracket, ns."""

    value: float
    low: float
    high: float


def usual(nanoseconds: Sequence[NDArray[np.int64]]) -> Duration:
    """What runs take that nothing delays, from several turns of them at different times, each of shape (runs,).

    The lower quartile of a turn, the median of the turns. The bracket reaches from the fastest run of all to the upper
    quartile of the slowest turn: a host's pace wanders, more from one turn to the next than within one. Raises
    `ValueError` without runs.
    """
    if not nanoseconds or any(turn.size == 0 for turn in nanoseconds):
        raise ValueError("a time needs runs")
    value = float(np.median([np.quantile(turn, QUICK) for turn in nanoseconds]))
    low = min(float(turn.min()) for turn in nanoseconds)
    high = max(float(np.quantile(turn, SLOW)) for turn in nanoseconds)
    return Duration(value, low * (1 - STEADY), max(high, value * (1 + STEADY)))


def interval(kernels: Sequence[int], turns: Sequence[Sequence[NDArray[np.int64]]]) -> Duration | None:
    """Time that each further kernel adds: median slope of all pairs of numbers of kernels, median of the turns.

    `turns[t][i]` are the runs with `kernels[i]` kernels, at one time; of them the lower quartile counts. The slope is
    robust (Theil 1950, Sen 1968), each pair counting by its distance. Few kernels may cost another time each than many,
    so the bracket holds the slopes between all neighbouring numbers, what each turn gave, and the slope of the fastest
    runs. None if more kernels take no longer. Raises `ValueError` for fewer than two numbers.
    """
    if len(set(kernels)) < 2 or not turns or any(len(kernels) != len(turn) for turn in turns):
        raise ValueError(f"an interval needs several numbers of kernels, got {list(kernels)}")
    every = [{count: float(np.quantile(runs, QUICK)) for count, runs in sorted(zip(kernels, turn, strict=True))}
             for turn in turns]  # fmt: skip
    fastest = {count: min(float(turn[i].min()) for turn in turns) for i, count in enumerate(kernels)}
    values = [_slope(took) for took in every]
    value = float(np.median(values))
    took = {count: float(np.median([turn[count] for turn in every])) for count in every[0]}
    slopes = [(took[more] - took[few]) / (more - few) for few, more in pairwise(took)]
    seen = (*slopes, *values, _slope(dict(sorted(fastest.items()))))
    low, high = min(seen) * (1 - STEADY), max(*seen, value * (1 + STEADY))
    return Duration(value, max(0.0, low), high) if value > 0 else None


def by_stream(kernels: Sequence[int], turns: Sequence[Sequence[NDArray[np.int64]]]) -> NDArray[np.float64]:
    """Time that each further kernel adds in each stream, ns, shape (turns * streams,).

    For the arguments see `interval`; the i-th runs of a turn are those of one stream.
    """
    return np.array([
        _slope({count: float(took) for count, took in sorted(zip(kernels, stream, strict=True))})
        for turn in turns for stream in zip(*turn, strict=True)
    ])  # fmt: skip


def elsewhere(each: Duration) -> Duration:
    """What the host has a part in, with a bracket for other processes, too."""
    return Duration(each.value, min(each.low, each.value / ELSEWHERE), max(each.high, each.value * ELSEWHERE))


def _slope(took: Mapping[int, float]) -> float:
    """Median slope of all pairs of numbers of kernels, each pair counting by its distance."""
    pairs = sorted(((took[more] - took[few]) / (more - few), more - few) for few, more in combinations(took, 2))
    weights = np.cumsum([weight for _, weight in pairs]) / sum(weight for _, weight in pairs)
    return pairs[int(np.searchsorted(weights, 0.5))][0]


def replacement(
    begin: NDArray[np.int64], end: NDArray[np.int64], sm: NDArray[np.int64], block: NDArray[np.int64], at_once: int
) -> Latency | None:
    """Cycles from the end of a block to the begin of the one in its place: median; 95 % of all lie in the bracket.

    A block begins with its first warp and ends with its last. On each SM the first `at_once` blocks begin by
    themselves; after that the k-th to begin takes the place of the k-th that ended. None if too few were replaced, or
    if blocks did not wait for one another.

    Args:
        begin, end: cycles of its own SM's clock, shape (warps,).
        sm, block: of each warp, shape (warps,).
        at_once: blocks that an SM runs at a time.

    """
    every = waits_for_a_place(begin, end, sm, block, at_once)
    if every.size < LEAST:
        return None
    low, middle, high = (float(each) for each in np.quantile(every, MOST_OF_THEM))
    low, high = max(low - TICK, 0.0), high + TICK
    return Latency(middle, low, high) if float(np.quantile(every, WAITED)) > 0 else None


def waits_for_a_place(
    begin: NDArray[np.int64], end: NDArray[np.int64], sm: NDArray[np.int64], block: NDArray[np.int64], at_once: int
) -> NDArray[np.int64]:
    """Cycles of every replacement, SM by SM; see `replacement`. Empty if no SM ran more than `at_once` blocks."""
    waited: list[NDArray[np.int64]] = []
    for one in np.unique(sm):
        own = sm == one
        _, which = np.unique(block[own], return_inverse=True)
        count = int(which.max()) + 1
        first = np.full(count, np.iinfo(np.int64).max)
        last = np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(first, which, begin[own])
        np.maximum.at(last, which, end[own])
        later = np.sort(first)[at_once:]
        waited.append(later - np.sort(last)[: later.size])
    return np.concatenate(waited) if waited else np.empty(0, np.int64)
