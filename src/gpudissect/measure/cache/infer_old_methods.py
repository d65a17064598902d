"""Older methods of reading a cache, kept for comparison with ours.

The two classic readings of averaged P-chase curves (MC16 s4.1) assume equal sets, an index taken from the bits just
above the line, and LRU. Where one of these fails they contradict each other, as on Kepler's texture cache (MC16 fig
4-5).

The change-point method of MT22 chapter 3, by which MT4G decides sizes, reduces a sweep to one number per size; the best
single split is the estimate, and a two-sample Kolmogorov-Smirnov test accepts or rejects it. It answers "is there a
change", not "is it here": on a ramp it accepts a step that does not exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpudissect.trace import Array

MIN_STEP_SHARE = 0.02  # of the whole rise: smaller changes of the mean are noise
MIN_RISE_SHARE = 0.5  # of the largest rise from one size to the next: equal sets raise the mean equally


@dataclass(frozen=True)
class ClassicReading:
    """What a curve suggests: capacity, line (bytes), sets, ways; None where it suggests nothing."""

    capacity: int | None
    line: int | None = None
    sets: int | None = None
    ways: int | None = None


def read_saavedra(by_stride: Mapping[int, float], size: int, capacity: int) -> ClassicReading:
    """Read mean latency (cycles) against stride (bytes) at one `size` well above `capacity` (Saavedra & Smith 1995).

    The line is where the latency stops rising; the ways are size / stride at the stride where it falls back.
    """
    strides = sorted(by_stride)
    low, high = min(by_stride.values()), max(by_stride.values())
    step = MIN_STEP_SHARE * (high - low)
    line = next((s for s in strides if by_stride[s] >= high - step), None)
    fallen = [s for s in strides if line is not None and s > line and by_stride[s] <= low + step]
    if line is None or not fallen:
        return ClassicReading(capacity, line)
    ways = size // fallen[0]
    return ClassicReading(capacity, line, capacity // (ways * line) if ways else None, ways)


def read_wong(by_size: Mapping[int, float]) -> ClassicReading:
    """Read mean latency (cycles) against size (bytes, evenly spaced, one access every stride) (Wong 2010).

    The capacity is the last size before the first step; the width of a step is the line, the number of steps the sets.
    """
    sizes = sorted(by_size)
    low, high = min(by_size.values()), max(by_size.values())
    if high <= low:
        return ClassicReading(None)
    largest = max(by_size[b] - by_size[a] for a, b in pairwise(sizes))
    rises = [b for a, b in pairwise(sizes) if by_size[b] - by_size[a] >= MIN_RISE_SHARE * largest]
    capacity = max(s for s in sizes if s < rises[0])
    if len(rises) < 2:
        return ClassicReading(capacity)
    line = min(b - a for a, b in pairwise(rises))
    return ClassicReading(capacity, line, len(rises), capacity // (line * len(rises)))


@dataclass(frozen=True)
class ChangePoint:
    """The best split of a series."""

    index: int  # first position after the change
    distance: float  # Kolmogorov-Smirnov distance of the two parts
    critical: float  # distance from which on the change is accepted (MT22 eq. 3.3)

    @property
    def accepted(self) -> bool:
        """Whether MT22's test accepts the change."""
        return self.distance > self.critical


def geometric_distance(rows: Sequence[Array]) -> NDArray[np.float64]:
    """Reduce each row of cycles to one number: its distance from the all-fastest vector (MT22 s3.3.2).

    Rows of one sweep may differ in length; the root mean square over a row makes them comparable. Shape (rows,).
    """
    fastest = min(int(row.min()) for row in rows)
    return np.array([np.sqrt(np.mean((row - fastest).astype(float) ** 2)) for row in rows])


def geometric_angle(rows: Sequence[Array]) -> NDArray[np.float64]:
    """The angle of each row of cycles to the vector of ones, in radians (MT22 s3.3.2). Shape (rows,)."""
    return np.arccos(np.minimum([row.mean() / np.sqrt(np.mean(row.astype(float) ** 2)) for row in rows], 1.0))


def optimal_split(series: NDArray[np.float64]) -> int:
    """First position of the right part of the split with the least summed squared deviation (MT22 algorithm 1).

    Exact, in linear time by prefix sums. Raises `ValueError` for fewer than two values.
    """
    count = series.size
    if count < 2:
        raise ValueError("a split needs at least two values")
    sizes = np.arange(1, count)
    sums, squares = np.cumsum(series), np.cumsum(series**2)
    left = squares[:-1] - sums[:-1] ** 2 / sizes
    right = (squares[-1] - squares[:-1]) - (sums[-1] - sums[:-1]) ** 2 / (count - sizes)
    return int(np.argmin(left + right)) + 1


def ks_distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Largest distance of the two empirical distribution functions (MT22 eq. 3.2)."""
    grid = np.concatenate([first, second])
    below_first = np.searchsorted(np.sort(first), grid, side="right") / first.size
    below_second = np.searchsorted(np.sort(second), grid, side="right") / second.size
    return float(np.max(np.abs(below_first - below_second)))


def change_point(series: NDArray[np.float64], alpha: float = 0.05) -> ChangePoint:
    """Estimate and test the one change in a series (MT22 s3.3.3-3.3.4).

    Equation 3.3 prints log(alpha / 2); the logarithm must be negated to have a root.
    """
    index = optimal_split(series)
    left, right = series[:index], series[index:]
    critical = np.sqrt(-0.5 * (left.size + right.size) / (left.size * right.size) * np.log(alpha / 2))
    return ChangePoint(index, ks_distance(left, right), float(critical))
