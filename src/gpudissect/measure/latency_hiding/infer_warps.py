"""What the begin and the end of every warp tell: occupancy against time, time per SM, latency, throughput (VV16 ch 5).

Clocks of two SMs are not compared: every SM is looked at by itself (VV16 s5.5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Lifetimes:
    """When warps began and ended, and where.

    Attributes:
        begin, end: cycles of its own SM's clock, shape (warps,).
        sm: which SM, shape (warps,).

    Raises `ValueError` without warps, for shapes that differ, or for a warp that took no time.

    """

    begin: Ints
    end: Ints
    sm: Ints

    def __post_init__(self) -> None:
        if not self.begin.size or not self.begin.shape == self.end.shape == self.sm.shape:
            shapes = (self.begin.shape, self.end.shape, self.sm.shape)
            raise ValueError(f"lifetimes need begin, end and SM of every warp, got {shapes}")
        if (self.end <= self.begin).any():
            raise ValueError("a warp took no time")


@dataclass(frozen=True)
class Occupancy:
    """Warps of one SM against time.

    Attributes:
        at: cycles since its first warp began, rising, shape (steps,).
        warps: from then on, shape (steps,); the last is 0.

    """

    at: Ints
    warps: Ints

    @property
    def most(self) -> int:
        """The most warps there were at a time: the occupancy that was attained (VV16 s5.7)."""
        return int(self.warps.max())

    @property
    def mean(self) -> float:
        """Over the time from the first begin to the last end."""
        return float((self.warps[:-1] * np.diff(self.at)).sum() / (self.at[-1] - self.at[0]))

    def below(self, warps: float) -> float:
        """Share of the time with fewer warps than that (VV16 s5.8)."""
        fewer = self.warps[:-1] < warps
        return float(np.diff(self.at)[fewer].sum() / (self.at[-1] - self.at[0]))


def occupancy(seen: Lifetimes, sm: int) -> Occupancy:
    """Warps of an SM against time (VV16 s5.6). Raises `ValueError` for an SM that ran none."""
    own = seen.sm == sm
    if not own.any():
        raise ValueError(f"SM {sm} ran no warps")
    times = np.concatenate([seen.begin[own], seen.end[own]])
    steps = np.concatenate([np.ones(own.sum(), np.int64), np.full(own.sum(), -1, np.int64)])
    at, where = np.unique(times, return_inverse=True)
    change = np.bincount(where, weights=steps).astype(np.int64)
    return Occupancy(at - at[0], np.cumsum(change))


def spans(seen: Lifetimes) -> Ints:
    """Cycles of each SM from its first warp's begin to its last one's end, in order of their numbers (VV16 s5.5)."""
    _, place = np.unique(seen.sm, return_inverse=True)
    first = np.full(place.max() + 1, np.iinfo(np.int64).max)
    last = np.full(place.max() + 1, np.iinfo(np.int64).min)
    np.minimum.at(first, place, seen.begin)
    np.maximum.at(last, place, seen.end)
    found: Ints = last - first
    return found


def imbalance(seen: Lifetimes) -> float:
    """The longest time of an SM over the mean one: 1 if all take equally long."""
    took = spans(seen)
    return float(took.max() / took.mean())


def mean_latency(seen: Lifetimes) -> float:
    """Cycles of a warp from begin to end, mean over all of them (VV16 s5.5)."""
    return float((seen.end - seen.begin).mean())


def overall(seen: Lifetimes, each: float) -> float:
    """Throughput of one SM by the longest time of any (VV16 s5.5): what is lost to imbalance counts.

    `each`: instructions of one warp. Gives instructions a cycle.
    """
    return each * seen.begin.size / np.unique(seen.sm).size / float(spans(seen).max())


def attained(seen: Lifetimes, each: float) -> float:
    """Throughput of one SM by its own time, mean over SMs: what is lost while warps end and blocks are replaced counts.

    `each`: instructions of one warp. Gives instructions a cycle.
    """
    counts = np.unique(seen.sm, return_counts=True)[1]
    return float((each * counts / spans(seen)).mean())


def steady(seen: Lifetimes, each: float) -> float:
    """Throughput of one SM while all its warps run, which all began together and take about equally long.

    Each goes at its own pace to its end, so it counts little how they end. `each`: instructions of one warp. Gives
    instructions a cycle, mean over SMs. Where schedulers prefer some warps to others it counts too many, for those that
    are left speed up: see `unsteadiness`.
    """
    _, place = np.unique(seen.sm, return_inverse=True)
    return float(np.bincount(place, weights=each / (seen.end - seen.begin)).mean())


def unsteadiness(seen: Lifetimes) -> float:
    """How far the throughput is left open: `steady`, which may be too much, over `attained`, which may be too little.

    0 if all warps of an SM begin and end together.
    """
    return steady(seen, 1.0) / attained(seen, 1.0) - 1


def between_rounds(seen: Lifetimes, each: float) -> float | None:
    """Throughput of one SM while blocks take the places of others, however unequal the pace of warps is.

    From the end of the last warp of those that began first to the begin of the last of all, occupancy is full. A warp
    that began before or ends after is counted by the share of its time; what that is wrong by is the same at both ends.
    `each`: instructions of one warp. Gives instructions a cycle, mean over SMs; None if there is no such time.
    """
    rates = []
    for sm in np.unique(seen.sm):
        begin, end = seen.begin[seen.sm == sm], seen.end[seen.sm == sm]
        since, until = end[begin < end.min()].max(), begin.max()
        if until <= since:
            return None
        inside = np.clip(np.minimum(end, until) - np.maximum(begin, since), 0, None)
        rates.append(each * float((inside / (end - begin)).sum()) / float(until - since))
    return float(np.mean(rates))
