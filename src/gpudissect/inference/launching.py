"""What starting kernels costs, and how long an SM waits for the next block (VV16 s3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from gpudissect.inference.latency import Latency

LEAST = 8  # replacements from which something can be said
TICK = 1.0  # cycle: two readings of a clock may lie so much farther apart, or closer together
WAITED = 0.25  # quantile of waits from which blocks must have waited for one another
MOST_OF_THEM = (0.025, 0.5, 0.975)
"""Quantiles of the bracket of what differs from time to time, and of its value: of 100 more 95 lie within. How well
a median is known would be another bracket, far narrower, and of no use to who waits for a kernel."""


@dataclass(frozen=True)
class Duration:
    """A time and its bracket, ns."""

    value: float
    low: float
    high: float


def usual(nanoseconds: NDArray[np.int64]) -> Duration:
    """Median of runs; 95 % of them lie within the bracket. Raises `ValueError` without runs."""
    if nanoseconds.size == 0:
        raise ValueError("a time needs runs")
    low, middle, high = np.quantile(nanoseconds, MOST_OF_THEM)
    return Duration(float(middle), float(low), float(high))


def interval(kernels: Sequence[int], nanoseconds: Sequence[NDArray[np.int64]]) -> Duration | None:
    """Time that each further kernel adds: median slope of all pairs of numbers of kernels.

    `nanoseconds[i]` are the runs with `kernels[i]` kernels. The slope is robust (Theil 1950, Sen 1968), each pair
    counting by its distance. Few kernels may cost another time each than many, so the bracket holds the slopes between
    all neighbouring numbers, and three standard errors of that from the fewest to the most. None if more kernels take
    no longer. Raises `ValueError` for fewer than two numbers.
    """
    if len(set(kernels)) < 2 or len(kernels) != len(nanoseconds):
        raise ValueError(f"an interval needs several numbers of kernels, got {list(kernels)}")
    took = {count: usual(each).value for count, each in sorted(zip(kernels, nanoseconds, strict=True))}
    pairs = sorted(((took[more] - took[few]) / (more - few), more - few) for few, more in combinations(took, 2))
    weights = np.cumsum([weight for _, weight in pairs]) / sum(weight for _, weight in pairs)
    value = pairs[int(np.searchsorted(weights, 0.5))][0]
    slopes = [(took[more] - took[few]) / (more - few) for few, more in pairwise(took)]
    runs = dict(zip(kernels, nanoseconds, strict=True))
    fewest, most = min(kernels), max(kernels)
    error = 3 * float(np.hypot(_error(runs[fewest]), _error(runs[most]))) / (most - fewest)
    low, high = min(*slopes, value - error), max(*slopes, value + error)
    return Duration(value, max(0.0, low), high) if value > 0 else None


def _error(runs: NDArray[np.int64]) -> float:
    """Standard error of the median, from the deviations of the runs."""
    spread = 1.4826 * float(np.median(np.abs(runs - np.median(runs))))
    return 1.2533 * spread / float(np.sqrt(runs.size))


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
    every = np.concatenate(waited) if waited else np.empty(0, np.int64)
    if every.size < LEAST:
        return None
    low, middle, high = (float(each) for each in np.quantile(every, MOST_OF_THEM))
    low, high = max(low - TICK, 0.0), high + TICK
    return Latency(middle, low, high) if float(np.quantile(every, WAITED)) > 0 else None
