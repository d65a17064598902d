"""Rates of instructions from when warps began and ended, and how many warps they need (VV16 ch 5-6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_home_partition import DISTANCE
from gpudissect.measure.infer_bimodal import in_two
from gpudissect.measure.infer_latency import DRIFT, Latency
from gpudissect.measure.throughput.infer_throughput import Throughput

STEP = 0.01  # of the rate: by so much a share that is reached may be misread
STEADY = 0.002  # relative: nobody believes a rate to be known better


@dataclass(frozen=True)
class Needed:
    """How many warps reach a share of a rate.

    Attributes:
        warps: the fewest; None if none of those tried do.
        low, high: the fewest for a little less and a little more than that share; `high` is None if none do. `low` is
            no more than what would reach the share if fewer gave as much each: where schedulers cannot have equally
            many, 31 of 32 warps gave 92 % of an H200's hits in its L1 in most processes, and 96 % in others.
        best: the largest share that was reached.
        nearest: the fewest warps that reached it.
    """

    warps: int | None
    low: int
    high: int | None
    best: float
    nearest: int


def rate(
    begin: NDArray[np.int64], end: NDArray[np.int64], sm: NDArray[np.int64], each: float, idle: float = 0.0
) -> Throughput:
    """Operations a cycle of one SM: median over SMs, from its first warp's begin to its last one's end.

    Args:
        begin, end: cycles of its own SM's clock, shape (warps,).
        sm: which SM, shape (warps,).
        each: operations of one warp.
        idle: cycles before the first result came, which a longer run would not have: the bracket reaches up to the rate
            without them.

    Raises `ValueError` without warps, or if an SM took no time.

    """
    spans = _spans(begin, end, sm)
    low, middle = np.quantile([each * warps / took for warps, took in spans], [0.25, 0.5])
    high = np.quantile([each * warps / (took - idle if took > idle else took) for warps, took in spans], 0.75)
    return Throughput(float(middle), float(low), float(high))


def rate_beyond(long: Warps, short: Warps, more: float) -> Throughput | None:
    """The same from two mixes that differ in how much they run: what loops and starting cost beside it cancels.

    `more`: operations that one warp of the long one runs more. None if that takes no longer. Raises `ValueError`
    without warps, or if the two do not have equally many.
    """
    if len(long.sm) != len(short.sm):
        raise ValueError(f"two mixes of {len(long.sm)} and {len(short.sm)} warps are not alike")
    warps, took = zip(*_spans(long.begin, long.end, long.sm), strict=True)
    _, less = zip(*_spans(short.begin, short.end, short.sm), strict=True)
    beyond = float(np.median(took)) - float(np.median(less))
    if beyond <= 0:
        return None
    value = more * float(np.median(warps)) / beyond
    return Throughput(value, value * (1 - STEADY), value * (1 + STEADY))


class Warps(Protocol):
    """Begin, end and SM of every warp, as a trace of a mix has them."""

    @property
    def begin(self) -> NDArray[np.int64]:
        """Cycles of its own SM's clock."""

    @property
    def end(self) -> NDArray[np.int64]:
        """Cycles of its own SM's clock."""

    @property
    def sm(self) -> NDArray[np.int64]:
        """Which SM."""


def _spans(begin: NDArray[np.int64], end: NDArray[np.int64], sm: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Of each SM how many warps, and cycles from its first one's begin to its last one's end."""
    if begin.size == 0 or not begin.shape == end.shape == sm.shape:
        raise ValueError(f"a rate needs begin, end and SM of every warp, got {begin.shape}, {end.shape}, {sm.shape}")
    spans = []
    for one in np.unique(sm):
        own = sm == one
        took = int(end[own].max()) - int(begin[own].min())
        if took < 1:
            raise ValueError(f"the warps of SM {one} took {took} cycles")
        spans.append((int(own.sum()), took))
    return spans


def mean_duration(begin: NDArray[np.int64], end: NDArray[np.int64]) -> float:
    """Cycles from begin to end, median over warps. Raises `ValueError` without warps."""
    if begin.size == 0 or begin.shape != end.shape:
        raise ValueError(f"a duration needs begin and end of every warp, got {begin.shape} and {end.shape}")
    return float(np.median(end - begin))


@dataclass(frozen=True)
class Ways:
    """Latency of what lies nearer to some SMs and farther from others.

    Attributes:
        latency: half way between near and far where there are two groups, else the median of all ways. The bracket
            holds every way.
        near, far: medians of the two groups, cycles; None where ways are all alike, or as long as they come.
        share: of all ways that are near ones.
    """

    latency: Latency
    near: float | None = None
    far: float | None = None
    share: float = 1.0


def latency_by_way(
    runs: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]], instructions: int
) -> Ways:
    """Cycles of one instruction, where one warp of each of many SMs has another way to go.

    Where the ways fall into two groups, a median of all would be one or the other, or something between that is none,
    as it happens: half way between the two does not ask which SM fell to which address. The bracket holds what each
    took, median over the runs, and `DRIFT` more. What loops cost is not taken off: it is little beside such ways.
    `runs` are begin, end and SM of every warp, each (warps,). Raises `ValueError` without any.
    """
    if not runs:
        raise ValueError("latencies by SM need runs")
    by_sm: dict[int, list[float]] = {}
    for begin, end, sm in runs:
        for took, one in zip((end - begin).tolist(), sm.tolist(), strict=True):
            by_sm.setdefault(one, []).append(took / instructions)
    each = np.array([float(np.median(took)) for took in by_sm.values()])
    low, high = float(each.min()) * (1 - DRIFT), float(each.max()) * (1 + DRIFT)
    far = in_two(each)
    if far is None:
        return Ways(Latency(float(np.median(each)), low, high))
    nearer, farther = float(np.median(each[~far])), float(np.median(each[far]))
    if farther - nearer < DISTANCE * nearer:
        return Ways(Latency(float(np.median(each)), low, high))
    return Ways(Latency((nearer + farther) / 2, low, high), nearer, farther, 1 - float(far.mean()))


def needed(rates: Mapping[int, float], plateau: float, share: float) -> Needed:
    """The fewest warps whose rate is `share` of the plateau. Raises `ValueError` without rates."""
    if not rates or plateau <= 0:
        raise ValueError("warps needed for a rate need rates, and a plateau above zero")
    reached = {warps: value / plateau for warps, value in sorted(rates.items())}

    def fewest(least: float) -> int | None:
        return next((warps for warps, got in reached.items() if got >= least), None)

    warps = fewest(share)
    short = fewest(share - STEP)
    nearest = max(reached, key=lambda warps: reached[warps])  # of equals the first, which has the fewest
    low = short if short is not None else max(reached)
    if warps is not None:  # in proportion to these, fewer give enough: whether they do is how they fall on schedulers
        low = min(low, math.ceil(warps * share / min(1.0, reached[warps])))
    return Needed(warps, low, fewest(share + STEP), reached[nearest], nearest)
