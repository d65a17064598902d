"""Rates of instructions from when warps began and ended, and how many warps they need (VV16 ch 5-6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.inference.throughput import Throughput

STEP = 0.01  # of the rate: by so much a share that is reached may be misread


@dataclass(frozen=True)
class Needed:
    """How many warps reach a share of a rate.

    Attributes:
        warps: the fewest; None if none of those tried do.
        low, high: the fewest for a little less and a little more than that share; `high` is None if none do.
        best: the largest share that was reached.
    """

    warps: int | None
    low: int
    high: int | None
    best: float


def rate(begin: NDArray[np.int64], end: NDArray[np.int64], sm: NDArray[np.int64], each: float) -> Throughput:
    """Operations a cycle of one SM: median over SMs, from its first warp's begin to its last one's end.

    Args:
        begin, end: cycles of its own SM's clock, shape (warps,).
        sm: which SM, shape (warps,).
        each: operations of one warp.

    Raises `ValueError` without warps, or if an SM took no time.

    """
    if begin.size == 0 or not begin.shape == end.shape == sm.shape:
        raise ValueError(f"a rate needs begin, end and SM of every warp, got {begin.shape}, {end.shape}, {sm.shape}")
    rates = []
    for one in np.unique(sm):
        own = sm == one
        took = int(end[own].max()) - int(begin[own].min())
        if took < 1:
            raise ValueError(f"the warps of SM {one} took {took} cycles")
        rates.append(each * int(own.sum()) / took)
    low, middle, high = np.quantile(rates, [0.25, 0.5, 0.75])
    return Throughput(float(middle), float(low), float(high))


def mean_duration(begin: NDArray[np.int64], end: NDArray[np.int64]) -> float:
    """Cycles from begin to end, median over warps. Raises `ValueError` without warps."""
    if begin.size == 0 or begin.shape != end.shape:
        raise ValueError(f"a duration needs begin and end of every warp, got {begin.shape} and {end.shape}")
    return float(np.median(end - begin))


def needed(rates: Mapping[int, float], plateau: float, share: float) -> Needed:
    """The fewest warps whose rate is `share` of the plateau. Raises `ValueError` without rates."""
    if not rates or plateau <= 0:
        raise ValueError("warps needed for a rate need rates, and a plateau above zero")
    reached = {warps: value / plateau for warps, value in sorted(rates.items())}

    def fewest(least: float) -> int | None:
        return next((warps for warps, got in reached.items() if got >= least), None)

    warps = fewest(share)
    short = fewest(share - STEP)
    return Needed(warps, short if short is not None else max(reached), fewest(share + STEP), max(reached.values()))
