"""Counts that are only known through sums of them: bounds, and the best estimate within."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpudissect.explanation._bounds import RELATIVE, ROUNDING, append, no_equations, propagate
from gpudissect.simulation.cache.compiled import with_first

Array = NDArray[np.float64]
Terms = Mapping[int, float]
"""Coefficients by the index of their unknown."""
_SUM_WEIGHT, _LAST_WEIGHT = 1e-4, 10.0
_MAX_UNKNOWNS = 300
"""Of a group that equations link. Larger groups are not solved: the estimate of each unknown is its lower bound."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of executions: estimate and bounds (infinite if there is none)."""

    value: float
    low: float
    high: float

    @property
    def is_exact(self) -> bool:
        """Whether the bounds are equal."""
        return self.high - self.low <= _tolerance(self.high)


def _tolerance(value: float) -> float:
    return ROUNDING + RELATIVE * abs(value) if math.isfinite(value) else 0.0


class Sums:
    """Equations of counts: each a sum of non-negative unknowns with a known result."""

    def __init__(self, size: int) -> None:
        self._equations, self._count = no_equations(size), 0
        self._tighten = with_first(propagate, self._equations)
        self.low, self.high = self._equations.low, self._equations.high

    def add(self, terms: Terms, result: float) -> bool:
        """Add an equation and tighten the bounds; False, and nothing changed, if it contradicts the others."""
        extended = append(self._equations, self._count, terms, result)
        if extended is not self._equations:
            self._equations, self._tighten = extended, with_first(propagate, extended)
        self._count += 1
        agrees = self._propagate(np.array([self._count - 1]))
        if not agrees:
            self._count -= 1
        return agrees

    def allows(self, values: Mapping[int, float]) -> bool:
        """Whether unknowns may have these values, as far as their bounds show."""
        return all(
            self.low[unknown] - _tolerance(value) <= value <= self.high[unknown] + _tolerance(value)
            for unknown, value in values.items()
        )

    def limit(self, unknown: int, high: float) -> None:
        """Add an upper bound of an unknown, unless it contradicts the equations."""
        before = self.high[unknown]
        if self.low[unknown] <= high < before:
            self.high[unknown] = high
            if not self._propagate(self._rows_with([unknown])):
                self.high[unknown] = before

    def _propagate(self, numbers: NDArray[np.int64]) -> bool:
        """Bounds that follow from equations and then from others; False, and none changed, if they contradict."""
        before = self.low.copy(), self.high.copy()
        if self._tighten(self._count, numbers):
            return True
        self.low[:], self.high[:] = before
        return False

    def _rows(self) -> NDArray[np.int64]:
        """The equation of each term."""
        return np.repeat(np.arange(self._count), np.diff(self._equations.starts[: self._count + 1]))

    def _rows_with(self, unknowns: ArrayLike) -> NDArray[np.int64]:
        """The numbers of the equations with any of these unknowns."""
        rows = self._rows()
        return np.unique(rows[np.isin(self._equations.unknowns[: rows.size], unknowns)])

    def solve(self, last: Collection[int] = ()) -> tuple[Count, ...]:
        """Each unknown: what the equations determine together is exact, the others are least squares within bounds.

        Unknowns in `last` have a higher weight, so that loop entries are preferred over repetitions.
        """
        self.determine()
        value, every = self._middle()
        for free in self._separate(every):
            low, high = self.low[free], self.high[free]
            weights = np.where(np.isin(free, list(last)), 1 + _LAST_WEIGHT, 1.0)
            value[free] = np.clip(_estimate(*self._reduced(free, value), weights), low, high)
        return tuple(map(Count, value.tolist(), self.low.tolist(), self.high.tolist()))

    def _middle(self) -> tuple[Array, NDArray[np.int64]]:
        """The middle between bounds, or the lower bound of those that differ; the indices of these."""
        low, high = self.low, self.high
        free = np.flatnonzero(high - low > [_tolerance(value) for value in high.tolist()])
        value = np.where(np.isfinite(high), (low + high) / 2, low)
        value[free] = low[free]
        return value, free

    def determine(self) -> None:
        """Make those unknowns exact that have one value in all solutions of the equations added so far."""
        value, every = self._middle()
        for free in self._separate(every):
            self._determine(free, value)

    def _separate(self, free: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Groups of free unknowns such that no equation links two groups, except those too large to solve."""
        group = {int(unknown): int(unknown) for unknown in free}

        def first(unknown: int) -> int:
            while group[unknown] != unknown:
                group[unknown] = unknown = group[group[unknown]]
            return unknown

        for terms in np.split(self._equations.unknowns, self._equations.starts[1 : self._count + 1])[:-1]:
            linked = [first(unknown) for unknown in terms.tolist() if unknown in group]
            for other in linked[1:]:
                group[first(other)] = first(linked[0])
        members: dict[int, list[int]] = {}
        for unknown in group:
            members.setdefault(first(unknown), []).append(unknown)
        return [np.array(each) for each in members.values() if len(each) <= _MAX_UNKNOWNS]

    def _determine(self, free: NDArray[np.int64], value: Array) -> None:
        matrix, results = self._reduced(free, value)
        _, sizes, directions = np.linalg.svd(np.linalg.qr(matrix, mode="r"))  # with the singular values of the matrix
        rank = int(np.sum(sizes > 1e-9 * max(1.0, sizes.max(initial=0.0))))
        exact = np.all(np.abs(directions[rank:]) < 1e-7, axis=0)
        least = np.linalg.lstsq(matrix, results, rcond=None)[0]
        chosen, before = free[exact], (self.low.copy(), self.high.copy())
        self.low[chosen] = self.high[chosen] = np.clip(least[exact], self.low[chosen], self.high[chosen])
        if not self._propagate(self._rows_with(chosen)):
            self.low[:], self.high[:] = before

    def _reduced(self, free: NDArray[np.int64], value: Array) -> tuple[Array, Array]:
        """Matrix and results of the equations that have free unknowns, for these only."""
        sums, numbers = self._equations, self._rows_with(free)
        terms = np.flatnonzero(np.isin(self._rows(), numbers))
        unknowns, factors = sums.unknowns[terms], sums.factors[terms]
        row = np.searchsorted(numbers, self._rows()[terms])
        is_free = np.isin(unknowns, free)
        matrix, results = np.zeros((len(numbers), len(free))), sums.results[numbers]
        matrix[row[is_free], np.searchsorted(free, unknowns[is_free])] = factors[is_free]
        np.subtract.at(results, row[~is_free], (factors * value[unknowns])[~is_free])
        return matrix, results


def _estimate(matrix: Array, results: Array, weights: Array) -> Array:
    """The non-negative least-squares solution with the smallest sum: loops that the assembler unrolled run unrolled."""
    scale = max(1.0, float(np.abs(results).max(initial=0.0)))
    with_sum = np.vstack([matrix, _SUM_WEIGHT * weights])
    return scale * non_negative_least_squares(with_sum, np.append(results / scale, 0.0))


def non_negative_least_squares(matrix: Array, results: Array) -> Array:
    """The x >= 0 with the least squares of matrix @ x - results.

    Lawson and Hanson, "Solving Least Squares Problems", 1974, chapter 23.
    """
    count = matrix.shape[1]
    x, positive = np.zeros(count), np.zeros(count, bool)
    scale = max(float(np.abs(results).max(initial=0.0)), 1e-300)
    for _ in range(3 * count):
        gradient = matrix.T @ (results - matrix @ x)
        candidates = np.flatnonzero(~positive & (gradient > 1e-12 * scale))
        if not len(candidates):
            break
        positive[candidates[np.argmax(gradient[candidates])]] = True
        for _ in range(count):
            trial = np.zeros(count)
            trial[positive] = np.linalg.lstsq(matrix[:, positive], results, rcond=None)[0]
            negative = positive & (trial <= 0)
            if not negative.any():
                break
            step = np.min(x[negative] / np.maximum(x[negative] - trial[negative], 1e-300))
            x = x + step * (trial - x)
            positive &= x > 1e-12 * scale
        x = trial
    return x
