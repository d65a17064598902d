"""A map of latencies, SMs by lines: what an SM adds, what a line adds, and what only both together explain.

The additive model: a hit takes mu + a(SM) + b(line), a and b being distances on the die. What is left of it is an
interaction. If the GPU is in two parts, the largest interaction has one sign for the SMs of one part and the other for
those of the other; what it is over the lines says how differently they lie. It counts only if every half of the lines
puts the same SMs together: noise does not, and neither does anything that moves an SM as a whole, such as a drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_home_partition import DISTANCE
from gpudissect.measure.infer_bimodal import in_two, split

LATE = 0.8  # quantile of first touches beyond which all count alike: memory answers late now and then
CONTRAST = 2.0  # cycles, root mean square: what two parts must make of hits on the same lines
AGREEMENT = 0.95  # share of the SMs that both halves of the lines must put together alike, for there to be parts
FEWEST_SMS = 4
STILL = 0.25  # cycles^2 of variance that rounding alone explains
APART = 2.5  # factor between what lies within a slice and between slices, to count slices

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Additive:
    """Least squares of ``mean + by_sm + by_line``; `residual` (SMs, lines) is what it leaves, all in cycles.

    `explained` is the share of the variance that it explains (R^2), None where hardly anything varies.
    """

    mean: float
    by_sm: NDArray[np.float64]
    by_line: NDArray[np.float64]
    residual: Matrix
    explained: float | None


def additive(matrix: Matrix) -> Additive:
    """Fit the additive model to cycles (SMs, lines)."""
    mean = float(matrix.mean())
    by_sm, by_line = matrix.mean(axis=1) - mean, matrix.mean(axis=0) - mean
    residual = matrix - mean - by_sm[:, None] - by_line
    return Additive(mean, by_sm, by_line, residual, _explained(residual, matrix))


@dataclass(frozen=True, eq=False)
class SmGroups:
    """Two groups of SMs that see the lines differently.

    Attributes:
        second: which SMs are not in the group of the first SM, shape (SMs,).
        unsure: numbers of the SMs that one half of the lines puts here, the other there.
        patterns: how each group sees the lines, its mean taken off; cycles (2, lines).
        later: which lines the second group sees later, if the lines fall into two groups as well, else None.

    """

    second: NDArray[np.bool_]
    unsure: tuple[int, ...]
    patterns: Matrix
    later: NDArray[np.bool_] | None

    def sides(self, matrix: Matrix) -> NDArray[np.bool_]:
        """Whether SMs belong to the second group, from a map of them over the same lines, cycles (SMs, lines)."""
        rows = matrix - matrix.mean(axis=1, keepdims=True)
        first, second = (np.sum((rows - pattern) ** 2, axis=1) for pattern in self.patterns)
        return np.asarray(second < first)


def find_groups(matrix: Matrix, least: float) -> SmGroups | None:
    """The two groups of SMs in a map of cycles (SMs, lines); None if it shows one part.

    `least`: how differently two groups must see the lines, cycles (root mean square over the lines).
    """
    if len(matrix) < FEWEST_SMS or matrix.shape[1] < 2 * FEWEST_SMS:
        return None
    residual = additive(matrix).residual
    upper = in_two(_leading(residual))
    if upper is None:
        return None
    second = upper != upper[0]
    patterns = np.stack([matrix[group].mean(axis=0) for group in (~second, second)])
    patterns -= patterns.mean(axis=1, keepdims=True)
    later = patterns[1] - patterns[0]
    if float(np.sqrt(np.mean(later**2))) < least:
        return None
    halves = [split(_leading(additive(matrix[:, half::2]).residual)) for half in (0, 1)]
    halves = [each if np.mean(each == second) >= 0.5 else ~each for each in halves]  # which is upper says nothing
    unsure = (halves[0] != second) | (halves[1] != second)
    if np.mean(~unsure) < AGREEMENT:
        return None
    return SmGroups(second, tuple(np.flatnonzero(unsure).tolist()), patterns, in_two(later))


@dataclass(frozen=True, eq=False)
class Visits:
    """What some SMs saw of the same lines, cycles (SMs, lines): first touches, and of each line's hits the median.

    Of an even number of hits it is the lower one: delays only add.
    """

    touches: Matrix
    hits: Matrix

    @classmethod
    def of(cls, laps: Sequence[NDArray[np.int64]]) -> Self:
        """From the cycles of every SM's laps (laps, lines), the first lap being the first touches."""
        cycles = np.stack(laps).astype(np.float64)
        return cls(cycles[:, 0], np.quantile(cycles[:, 1:], 0.5, axis=1, method="lower"))

    def over(self, lines: NDArray[np.bool_]) -> Visits:
        """The same of some of the lines."""
        return Visits(self.touches[:, lines], self.hits[:, lines])


@dataclass(frozen=True, eq=False)
class Parts:
    """Two parts of a GPU, and which of them every SM lies in.

    Attributes:
        groups: the SMs, and how either group sees the lines.
        by_touches: they are told by first touches, else by hits.
        late: cycles from which on first touches count alike.
        hits_agree: whether hits group the SMs alike, None if they group them not at all, or are all there is.

    """

    groups: SmGroups
    by_touches: bool
    late: float
    hits_agree: bool | None

    @property
    def second(self) -> NDArray[np.bool_]:
        """Which SMs are not in the part of the first SM."""
        return self.groups.second

    @property
    def unsure(self) -> tuple[int, ...]:
        """The SMs that some of the lines would put into the other part."""
        return self.groups.unsure

    def sides(self, visits: Visits) -> NDArray[np.bool_]:
        """Which SMs are in the second part, by another look of theirs at the same lines."""
        return self.groups.sides(np.minimum(visits.touches, self.late) if self.by_touches else visits.hits)

    def near_and_far(self, matrix: Matrix) -> tuple[float, float]:
        """Medians of a map (cycles) over lines near to the SM and over lines far from it.

        Raises `ValueError` if first touches did not tell which are.
        """
        if self.groups.later is None:
            raise ValueError("no line is known to be near or far")
        far = self.second[:, None] == self.groups.later
        return float(np.median(matrix[~far])), float(np.median(matrix[far]))


def find_parts(visits: Visits) -> Parts | None:
    """The two parts that a GPU is in, None if it shows one.

    First touches come first: memory is near or far whatever the caches do. They tell of parts if not only the SMs but
    the lines fall into two groups. Else two patterns of hits over the lines do.
    """
    late = float(np.quantile(visits.touches, LATE))
    touches = find_groups(np.minimum(visits.touches, late), DISTANCE * float(np.median(visits.touches)))
    hits = find_groups(visits.hits, CONTRAST)
    if touches is not None and touches.later is not None:
        agree = None if hits is None else bool(np.array_equal(hits.second, touches.second))
        return Parts(touches, True, late, agree)
    return None if hits is None else Parts(hits, False, late, None)


def explained_by_parts(matrix: Matrix, second: NDArray[np.bool_]) -> float | None:
    """R^2 of an additive model of its own for each group of SMs."""
    residual = np.empty_like(matrix)
    for group in (second, ~second):
        residual[group] = additive(matrix[group]).residual
    return _explained(residual, matrix)


def slices(matrix: Matrix) -> int | None:
    """How many different patterns over the SMs the lines have: so many slices at least. None where that is not clear.

    It is clear if two lines either see all SMs alike or differ by `APART` times as much, with nothing between.
    """
    columns = (matrix - matrix.mean(axis=1, keepdims=True)).T
    squares = np.sum(columns**2, axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * columns @ columns.T, 0) / len(matrix))
    sorted_ = np.sort(distances[np.triu_indices(len(columns), 1)])
    floor = max(float(np.sqrt(2 * STILL)), 1e-9)  # two lines as near as this are the same, whatever else there is
    rises = np.maximum(sorted_[1:], floor) / np.maximum(sorted_[:-1], floor)
    if rises.size == 0 or rises.max() < APART:
        return None
    same = distances <= sorted_[np.argmax(rises)]
    np.fill_diagonal(same, True)
    if not np.array_equal(same, same.astype(np.float64) @ same > 0):  # alike must mean alike to a third as well
        return None
    found = len(np.unique(same, axis=0))
    return found if found <= len(columns) // 2 else None  # as many patterns as lines: none was seen again


def _explained(residual: Matrix, matrix: Matrix) -> float | None:
    variance = float(np.var(matrix))
    return None if variance < STILL else 1 - float(np.mean(residual**2)) / variance


def _leading(residual: Matrix) -> NDArray[np.float64]:
    """Over the SMs, the one product of an SM's number and a line's that explains most of an interaction."""
    left, _, _ = np.linalg.svd(residual, full_matrices=False)
    return np.asarray(left[:, 0])
