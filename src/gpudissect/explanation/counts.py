"""Counts that are only known through sums of them: bounds, and the best estimate within."""

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Terms = Mapping[int, float]
"""Coefficients by the index of their unknown."""
_ROUNDING = 0.5  # counts are integers
_RELATIVE = 1e-9
_STEP = 1e-6
_MAX_COUNT = 1e12  # larger upper bounds follow from sums of bounds, and creep
_MAX_STEPS = 20_000  # bounds that creep towards each other are left
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
    return _ROUNDING + _RELATIVE * abs(value) if math.isfinite(value) else 0.0


class Sums:
    """Equations of counts: each a sum of non-negative unknowns with a known result."""

    def __init__(self, size: int) -> None:
        self.rows: list[tuple[Terms, float]] = []
        self.low, self.high = [0.0] * size, [math.inf] * size  # lists: single numbers are read a million times
        self._rows_of: list[list[int]] = [[] for _ in range(size)]

    def add(self, terms: Terms, result: float) -> bool:
        """Add an equation and tighten the bounds; False, and nothing changed, if it contradicts the others."""
        before = self.low.copy(), self.high.copy()
        self.rows.append((terms, result))
        number = len(self.rows) - 1
        for unknown in terms:
            self._rows_of[unknown].append(number)
        if self._propagate([number]):
            return True
        self.low, self.high = before
        self.rows.pop()
        for unknown in terms:
            self._rows_of[unknown].pop()
        return False

    def allows(self, values: Mapping[int, float]) -> bool:
        """Whether unknowns may have these values, as far as their bounds show."""
        return all(
            self.low[unknown] - _tolerance(value) <= value <= self.high[unknown] + _tolerance(value)
            for unknown, value in values.items()
        )

    def limit(self, unknown: int, high: float) -> None:
        """Add an upper bound of an unknown, unless it contradicts the equations."""
        before = self.low.copy(), self.high.copy()
        if not self.low[unknown] <= high < self.high[unknown]:
            return
        self.high[unknown] = high
        if not self._propagate(list(self._rows_of[unknown])):
            self.low, self.high = before

    def _propagate(self, numbers: list[int]) -> bool:
        """Bounds that follow from single equations, until none changes; False if a lower bound exceeds an upper one."""
        waiting, queued, steps = deque(numbers), set(numbers), 0
        while waiting and steps < _MAX_STEPS:
            number = waiting.popleft()
            queued.discard(number)
            steps += len(self.rows[number][0])
            changed = self._tighten(*self.rows[number])
            if changed is None:
                return False
            for unknown in changed:
                new = [n for n in self._rows_of[unknown] if n not in queued]
                waiting += new
                queued.update(new)
        return True

    def _tighten(self, terms: Terms, result: float) -> list[int] | None:
        """Tighten the bounds of the unknowns of an equation: those that changed, None if bounds contradict each other.

        One loop without calls: it is run 150,000 times for a large kernel (rotated_nms).
        """
        lows, highs = self.low, self.high
        least = most = 0.0  # sums of the finite minima and maxima of the terms
        no_least = no_most = 0  # terms without a minimum, and without a maximum
        for unknown, factor in terms.items():
            low, high = factor * lows[unknown], factor * highs[unknown]
            if high == math.inf:
                no_most, least = no_most + 1, least + low
            elif high == -math.inf:
                no_least, most = no_least + 1, most + low
            elif factor > 0:
                least, most = least + low, most + high
            else:
                least, most = least + high, most + low
        changed = list[int]()
        if no_least > 1 and no_most > 1:
            return changed
        for unknown, factor in terms.items():
            low, high = lows[unknown], highs[unknown]
            at_low, at_high = (factor * low, factor * high) if factor > 0 else (factor * high, factor * low)
            has_least, has_most = at_low > -math.inf, at_high < math.inf
            rest_low = -math.inf if no_least > (not has_least) else least - at_low if has_least else least
            rest_high = math.inf if no_most > (not has_most) else most - at_high if has_most else most
            new_low, new_high = (result - rest_high) / factor, (result - rest_low) / factor
            if new_low > new_high:
                new_low, new_high = new_high, new_low
            new_low, new_high = new_low if new_low > low else low, new_high if new_high < high else high
            if new_low > new_high:
                if new_low - new_high > 2 * _tolerance(new_high):
                    return None
                new_low = new_high = max(0.0, (new_low + new_high) / 2)
            rises = new_low > low + _STEP and new_low > low + _RELATIVE * new_low
            falls = new_high < _MAX_COUNT and new_high + _STEP < high and new_high + _RELATIVE * new_high < high
            if not (rises or falls):
                continue
            changed.append(unknown)
            lows[unknown], highs[unknown] = new_low, new_high
            after_low, after_high = factor * new_low, factor * new_high
            if factor < 0:
                after_low, after_high = after_high, after_low
            if has_least:
                least = least - at_low + after_low
            elif after_low > -math.inf:
                no_least, least = no_least - 1, least + after_low
            if has_most:
                most = most - at_high + after_high
            elif after_high < math.inf:
                no_most, most = no_most - 1, most + after_high
        return changed

    def solve(self, last: Collection[int] = ()) -> tuple[Count, ...]:
        """Each unknown: what the equations determine together is exact, the others are least squares within bounds.

        Unknowns in `last` have a higher weight, so that loop entries are preferred over repetitions.
        """
        self.determine()
        value, every = self._middle()
        for free in self._separate(every):
            low, high = np.array(self.low)[free], np.array(self.high)[free]
            weights = np.where(np.isin(free, list(last)), 1 + _LAST_WEIGHT, 1.0)
            value[free] = np.clip(_estimate(*self._reduced(free, value), weights), low, high)
        return tuple(map(Count, value.tolist(), self.low, self.high))

    def _middle(self) -> tuple[Array, NDArray[np.int64]]:
        """The middle between bounds, or the lower bound of those that differ; the indices of these."""
        low, high = np.array(self.low), np.array(self.high)
        free = np.flatnonzero(high - low > [_tolerance(value) for value in self.high])
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

        for terms, _ in self.rows:
            linked = [first(unknown) for unknown in terms if unknown in group]
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
        chosen, before = free[exact].tolist(), (self.low.copy(), self.high.copy())
        for unknown, result in zip(chosen, least[exact].tolist(), strict=True):
            self.low[unknown] = self.high[unknown] = min(max(result, self.low[unknown]), self.high[unknown])
        if not self._propagate(sorted({row for unknown in chosen for row in self._rows_of[unknown]})):
            self.low, self.high = before

    def _reduced(self, free: NDArray[np.int64], value: Array) -> tuple[Array, Array]:
        """Matrix and results of the equations that have free unknowns, for these only."""
        column = {int(unknown): position for position, unknown in enumerate(free)}
        rows = [self.rows[n] for n in sorted({n for unknown in free.tolist() for n in self._rows_of[unknown]})]
        matrix, results = np.zeros((len(rows), len(free))), np.zeros(len(rows))
        for number, (terms, result) in enumerate(rows):
            results[number] = result
            for unknown, factor in terms.items():
                if unknown in column:
                    matrix[number, column[unknown]] = factor
                else:
                    results[number] -= factor * value[unknown]
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
