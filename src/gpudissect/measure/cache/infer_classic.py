"""The two classic readings of averaged P-chase curves, kept to show where they go wrong (MC16 s4.1).

Both assume equal sets, an index taken from the bits just above the line, and LRU. Where one of these fails they
contradict each other, as on Kepler's texture cache (MC16 fig 4-5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

STEP = 0.02  # of the whole rise: smaller changes of the mean are noise


@dataclass(frozen=True)
class ClassicReading:
    """What a curve seems to say: capacity, line (bytes), sets, ways; None where it does not say."""

    capacity: int | None
    line: int | None
    sets: int | None
    ways: int | None


def saavedra(by_stride: Mapping[int, float], size: int, capacity: int) -> ClassicReading:
    """Read mean latency (cycles) against stride (bytes) at one `size` well above `capacity` (Saavedra & Smith 1995).

    The line is where the latency stops rising; the ways are size / stride at the stride where it falls back.
    """
    strides = sorted(by_stride)
    low, high = min(by_stride.values()), max(by_stride.values())
    rise = high - low
    line = next((s for s in strides if by_stride[s] >= high - STEP * rise), None)
    fallen = [s for s in strides if line is not None and s > line and by_stride[s] <= low + STEP * rise]
    if line is None or not fallen:
        return ClassicReading(capacity, line, None, None)
    ways = size // fallen[0]
    return ClassicReading(capacity, line, capacity // (ways * line) if ways else None, ways)


def wong(by_size: Mapping[int, float]) -> ClassicReading:
    """Read mean latency (cycles) against size (bytes, evenly spaced, one access every stride) (Wong 2010).

    The capacity is the last size at the floor; the width of a stair is the line, the number of stairs the sets.
    """
    sizes = sorted(by_size)
    low, high = min(by_size.values()), max(by_size.values())
    rise = high - low
    if rise <= 0:
        return ClassicReading(None, None, None, None)
    floor = [s for s in sizes if by_size[s] <= low + STEP * rise]
    steps = [b for a, b in pairwise(sizes) if by_size[b] - by_size[a] > STEP * rise]
    capacity = floor[-1]
    if len(steps) < 2:
        return ClassicReading(capacity, None, None, None)
    line = min(b - a for a, b in pairwise(steps))
    sets = len(steps)
    return ClassicReading(capacity, line, sets, capacity // (line * sets))
