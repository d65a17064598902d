"""Where a rising share crosses a level: the edge of a cache whose sets do not all overflow at one size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

GRAINS = 16  # the middle of a gradual edge is given to one part in so many of the octave it lies in


def crossing(share_by_size: Mapping[int, float], level: float) -> float | None:
    """Size (bytes) at which the share first crosses `level`, interpolated; None if it never does."""
    sizes = sorted(share_by_size)
    for small, large in pairwise(sizes):
        low, high = share_by_size[small], share_by_size[large]
        if low < level <= high:
            return small + (large - small) * (level - low) / (high - low)
    return None


@dataclass(frozen=True)
class Edge:
    """Where a cache ends that has no sharp edge, in bytes, all to whole multiples of `grain`.

    `value` is where half of the accesses are served beyond; between `low` and `high` the share rises from a tenth to
    nine tenths (or from the smallest footprint looked at, to the largest).
    """

    value: int
    low: int
    high: int
    grain: int


def edge(share_by_size: Mapping[int, float]) -> Edge | None:
    """The edge in shares of accesses served beyond, by footprint (bytes); None if half of them never are."""
    middle = crossing(share_by_size, 0.5)
    if middle is None:
        return None
    grain = max(1, (1 << (int(middle).bit_length() - 1)) // GRAINS)
    value = round(middle / grain) * grain
    low, high = crossing(share_by_size, 0.1), crossing(share_by_size, 0.9)
    lowest = min(share_by_size) if low is None else low
    highest = max(share_by_size) if high is None else high
    return Edge(value, min(value, int(lowest // grain * grain)), max(value, int(-(-highest // grain) * grain)), grain)
