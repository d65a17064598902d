"""The change-point method of MT22 chapter 3: what MT4G decides sizes by, kept to compare the exact method with.

A sweep over sizes is reduced to one number a size, the optimal single split is the estimate, and a two-sample
Kolmogorov-Smirnov test says whether to believe it. It answers "is there a change", not "is it here": on a ramp
it believes in a step that is not there, which is why `first_miss` and not this decides our sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ChangePoint:
    """The best split of a series.

    Attributes:
        index: first position after the change.
        distance: Kolmogorov-Smirnov distance of the two parts.
        critical: distance from which on the change is believed (MT22 eq. 3.3).
    """

    index: int
    distance: float
    critical: float

    @property
    def believed(self) -> bool:
        """Whether MT22's test accepts the change."""
        return self.distance > self.critical


def geometric_distance(rows: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Reduce each row of cycles to one number: its distance from the all-fastest vector (MT22 s3.3.2).

    Rows of one sweep may differ in length; the root mean square over a row makes them comparable. Shape (rows,).
    """
    fastest = min(int(row.min()) for row in rows)
    return np.array([np.sqrt(np.mean((row - fastest).astype(float) ** 2)) for row in rows])


def optimal_split(series: NDArray[np.float64]) -> int:
    """First position of the right part of the split with the least summed squared deviation (MT22 algorithm 1).

    Exact, in linear time by prefix sums. Raises `ValueError` for fewer than two values.
    """
    count = series.size
    if count < 2:
        raise ValueError("a split needs at least two values")
    ones = np.arange(1, count)
    sums, squares = np.cumsum(series), np.cumsum(series**2)
    left = squares[:-1] - sums[:-1] ** 2 / ones
    right = (squares[-1] - squares[:-1]) - (sums[-1] - sums[:-1]) ** 2 / (count - ones)
    return int(np.argmin(left + right)) + 1


def ks_distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Largest distance of the two empirical distribution functions (MT22 eq. 3.2)."""
    grid = np.concatenate([first, second])
    below_first = np.searchsorted(np.sort(first), grid, side="right") / first.size
    below_second = np.searchsorted(np.sort(second), grid, side="right") / second.size
    return float(np.max(np.abs(below_first - below_second)))


def change_point(series: NDArray[np.float64], alpha: float = 0.05) -> ChangePoint:
    """Estimate and test the one change in a series (MT22 s3.3.3-3.3.4).

    Equation 3.3 prints log(alpha / 2) where the logarithm must be negated to have a root; so it is here.
    """
    index = optimal_split(series)
    left, right = series[:index], series[index:]
    critical = np.sqrt(-0.5 * (left.size + right.size) / (left.size * right.size) * np.log(alpha / 2))
    return ChangePoint(index, ks_distance(left, right), float(critical))
