"""What starting kernels costs, and how long an SM waits for the next block (VV16 s3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gpudissect.inference.latency import Latency

LEAST = 8  # replacements from which something can be said


@dataclass(frozen=True)
class Duration:
    """A time and its bracket, ns."""

    value: float
    low: float
    high: float


def usual(nanoseconds: NDArray[np.int64]) -> Duration:
    """Median of runs between their quartiles. Raises `ValueError` without runs."""
    if nanoseconds.size == 0:
        raise ValueError("a time needs runs")
    low, middle, high = np.quantile(nanoseconds, [0.25, 0.5, 0.75])
    return Duration(float(middle), float(low), float(high))


def interval(kernels: Sequence[int], nanoseconds: Sequence[NDArray[np.int64]]) -> Duration | None:
    """Time that each further kernel adds: median slope of all pairs of numbers of kernels, between its quartiles.

    `nanoseconds[i]` are the runs with `kernels[i]` kernels. The slope is robust (Theil 1950, Sen 1968), each pair
    counting by its distance. None if more kernels take no longer. Raises `ValueError` for fewer than two numbers.
    """
    if len(set(kernels)) < 2 or len(kernels) != len(nanoseconds):
        raise ValueError(f"an interval needs several numbers of kernels, got {list(kernels)}")
    took = [usual(each).value for each in nanoseconds]
    pairs = [(abs(kernels[j] - kernels[i]), (took[j] - took[i]) / (kernels[j] - kernels[i]))
             for i, j in combinations(range(len(kernels)), 2) if kernels[i] != kernels[j]]  # fmt: skip
    pairs.sort(key=lambda pair: pair[1])
    weights = np.cumsum([weight for weight, _ in pairs]) / sum(weight for weight, _ in pairs)
    low, value, high = (pairs[int(np.searchsorted(weights, at))][1] for at in (0.25, 0.5, 0.75))
    return Duration(value, low, high) if value > 0 else None


def replacement(
    begin: NDArray[np.int64], end: NDArray[np.int64], sm: NDArray[np.int64], block: NDArray[np.int64], at_once: int
) -> Latency | None:
    """Cycles from the end of a block to the begin of the one in its place: median over all, between the quartiles.

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
    low, middle, high = (float(each) for each in np.quantile(every, [0.25, 0.5, 0.75]))
    return Latency(middle, low, high) if low > 0 else None
