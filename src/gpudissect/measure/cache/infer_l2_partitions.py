"""Partitions of an L2: which lines are near and which far, and which SMs belong together.

Home partition of a line. In an L2 of two partitions each caches the memory behind it, and a first access takes one of
two times. Which of them is a property of the line, in every repetition and order; noise, TLB misses and memory refresh
are not. Once the home of a line is known, thresholds classify every access, though a far hit of the L2 is about as slow
as the nearest memory.

Partition of an SM. Additive model: a hit takes mu + a(SM) + b(line), a and b being distances on the die. The residual
is an interaction. On a GPU of two partitions, its largest component has one sign for the SMs of one partition and the
other for those of the other; over the lines it gives how differently the groups reach them. It counts only if every
half of the lines groups the SMs alike: noise does not, and neither does what shifts an SM as a whole, such as drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.infer_bimodal import best_split, split_bimodal
from gpudissect.simulation.cache.geometry import PARTITION_COUNT
from gpudissect.trace import Array

MIN_HOME_SHARE = 0.2  # share of the lines in either home partition
MIN_RELATIVE_DISTANCE = 0.08  # between near and far, relative to near
GAP_SHARE = 0.15  # of that distance, to either side of the threshold ...
MAX_SHARE_IN_GAP = 0.03  # ... where only so many lines may lie
MIN_AGREEMENT = 0.95  # share of lines (or SMs) that either half of the data must assign to the same partition

LATE_QUANTILE = 0.8  # slower first accesses all count as this: memory is late now and then
MIN_CONTRAST_CYCLES = 2.0  # root mean square, between the hits of two partitions on the same lines
MIN_SMS = 4
ROUNDING_VARIANCE = 0.25  # cycles^2
MIN_SLICE_RATIO = 2.5  # of distances between slices to those within a slice

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class HomePartition:
    """First accesses to near and far lines, cycles, timer included."""

    threshold: float  # a line is far if its fastest first access takes longer
    near: float  # median
    far: float
    near_samples: Array
    far_samples: Array

    @property
    def partitions(self) -> int:
        """Their number, by the share of the lines at home in the near one."""
        return partition_count(self.near_samples.size, self.near_samples.size + self.far_samples.size)

    def are_far(self, touches: Array) -> Mask:
        """Which lines are far, from first accesses (repetitions, lines) in cycles."""
        return np.asarray(touches.min(axis=0) > self.threshold)


def partition_count(near: int, total: int) -> int:
    """Number of equal partitions if `near` of `total` lines are at home in the near one."""
    return max(PARTITION_COUNT, round(total / max(1, near)))


def find_home_partition(touches: Array) -> HomePartition | None:
    """Near and far lines, from first accesses (repetitions, lines) in cycles; None if lines do not differ so.

    Raises `ValueError` for fewer than two repetitions.
    """
    if touches.ndim != 2 or len(touches) < 2:
        raise ValueError(f"home partitions need at least two first accesses to each line: got shape {touches.shape}")
    fastest = touches.min(axis=0)
    threshold = _two_means_threshold(fastest)
    above = fastest > threshold
    if not MIN_HOME_SHARE <= above.mean() <= 1 - MIN_HOME_SHARE:
        return None
    near, far = float(np.median(fastest[~above])), float(np.median(fastest[above]))
    if far - near < MIN_RELATIVE_DISTANCE * near:
        return None
    if np.mean(np.abs(fastest - threshold) < GAP_SHARE * (far - near)) > MAX_SHARE_IN_GAP:
        return None
    middle = len(touches) // 2
    first, second = (half.min(axis=0) > threshold for half in (touches[:middle], touches[middle:]))
    if np.mean(first == second) < MIN_AGREEMENT:
        return None
    near_samples, far_samples = touches[:, ~above].ravel(), touches[:, above].ravel()
    medians = float(np.median(near_samples)), float(np.median(far_samples))
    return HomePartition(threshold, *medians, near_samples, far_samples)


def _two_means_threshold(values: Array) -> float:
    """The middle between the means of two groups (2-means; Lloyd 1982)."""
    threshold = float(np.mean(np.quantile(values, [0.05, 0.95])))
    for _ in range(50):
        above = values > threshold
        if above.all() or not above.any():
            return threshold
        middle = float((values[above].mean() + values[~above].mean()) / 2)
        if middle == threshold:
            break
        threshold = middle
    return threshold


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """Least squares of ``mean + by_sm + by_line``, in cycles."""

    mean: float
    by_sm: Vector
    by_line: Vector
    residual: Matrix  # (SMs, lines)
    explained: float | None  # share of the variance (R^2), None where hardly anything varies


def fit_additive(matrix: Matrix) -> AdditiveModel:
    """Fit the additive model to cycles (SMs, lines)."""
    mean = float(matrix.mean())
    by_sm, by_line = matrix.mean(axis=1) - mean, matrix.mean(axis=0) - mean
    residual = matrix - mean - by_sm[:, None] - by_line
    return AdditiveModel(mean, by_sm, by_line, residual, _explained_share(residual, matrix))


@dataclass(frozen=True, eq=False)
class SmGroups:
    """Two groups of SMs that reach the lines differently."""

    second: Mask  # which SMs are not in the group of the first SM
    unsure: tuple[int, ...]  # SMs that the two halves of the lines assign to different groups
    patterns: Matrix  # latency of the lines from each group less its mean, cycles (2, lines)
    later: Mask | None  # lines slower from the second group, if the lines form two groups as well

    def assign(self, matrix: Matrix) -> Mask:
        """Whether SMs belong to the second group, from their cycles on the same lines (SMs, lines)."""
        rows = matrix - matrix.mean(axis=1, keepdims=True)
        first, second = (np.sum((rows - pattern) ** 2, axis=1) for pattern in self.patterns)
        return np.asarray(second < first)


def find_groups(matrix: Matrix, min_contrast: float) -> SmGroups | None:
    """The two groups of SMs in a map of cycles (SMs, lines); None if it shows one partition.

    Groups differ by `min_contrast` cycles at least (root mean square over the lines).
    """
    if len(matrix) < MIN_SMS or matrix.shape[1] < 2 * MIN_SMS:
        return None
    upper = split_bimodal(_leading_component(matrix))
    if upper is None:
        return None
    second = upper != upper[0]
    patterns = np.stack([matrix[group].mean(axis=0) for group in (~second, second)])
    patterns -= patterns.mean(axis=1, keepdims=True)
    difference = patterns[1] - patterns[0]
    if float(np.sqrt(np.mean(difference**2))) < min_contrast:
        return None
    halves = [best_split(_leading_component(matrix[:, half::2])) for half in (0, 1)]
    halves = [half if np.mean(half == second) >= 0.5 else ~half for half in halves]  # the sign is arbitrary
    unsure = (halves[0] != second) | (halves[1] != second)
    if np.mean(~unsure) < MIN_AGREEMENT:
        return None
    return SmGroups(second, tuple(np.flatnonzero(unsure).tolist()), patterns, split_bimodal(difference))


@dataclass(frozen=True, eq=False)
class LatencyMap:
    """Cycles (SMs, lines) of accesses from several SMs to the same lines."""

    touches: Matrix  # first accesses
    hits: Matrix  # median; of an even number the lower one, for delays only add

    @classmethod
    def from_laps(cls, laps: Sequence[Array]) -> Self:
        """From the cycles of each SM (laps, lines); the first lap holds the first accesses."""
        cycles = np.stack(laps).astype(np.float64)
        return cls(cycles[:, 0], np.quantile(cycles[:, 1:], 0.5, axis=1, method="lower"))

    def select(self, lines: Mask) -> LatencyMap:
        """The same of some of the lines."""
        return LatencyMap(self.touches[:, lines], self.hits[:, lines])


@dataclass(frozen=True, eq=False)
class Partitions:
    """Two partitions of a GPU, and the one of each SM."""

    groups: SmGroups
    by_touches: bool  # found by first accesses, else by hits
    late: float  # first accesses are clipped to this, cycles
    hits_agree: bool | None  # whether hits group the SMs alike; None if they show no groups, or are the only source

    @property
    def second(self) -> Mask:
        """Which SMs are not in the partition of the first SM."""
        return self.groups.second

    def assign(self, latencies: LatencyMap) -> Mask:
        """Which SMs are in the second partition, by another measurement on the same lines."""
        return self.groups.assign(np.minimum(latencies.touches, self.late) if self.by_touches else latencies.hits)

    @property
    def far_lines(self) -> Mask:
        """Which lines are far from which SM (SMs, lines). Raises `ValueError` if first accesses separated no lines."""
        if self.groups.later is None:
            raise ValueError("no line is known to be near or far")
        return np.asarray(self.second[:, None] == self.groups.later)

    def near_and_far(self, matrix: Matrix) -> tuple[float, float]:
        """Medians of a map (cycles) over lines near to the SM and over lines far from it.

        Raises `ValueError` if first accesses did not separate the lines.
        """
        return float(np.median(matrix[~self.far_lines])), float(np.median(matrix[self.far_lines]))


def find_partitions(latencies: LatencyMap) -> Partitions | None:
    """The two partitions of a GPU, None if it shows one.

    First accesses have priority: memory is near or far whatever the caches do. They show partitions if not only the SMs
    but also the lines fall into two groups. Otherwise two patterns of hits over the lines do.
    """
    touches = latencies.touches
    late = float(np.quantile(touches, LATE_QUANTILE))
    by_touches = find_groups(np.minimum(touches, late), MIN_RELATIVE_DISTANCE * float(np.median(touches)))
    by_hits = find_groups(latencies.hits, MIN_CONTRAST_CYCLES)
    if by_touches is not None and by_touches.later is not None:
        agree = None if by_hits is None else bool(np.array_equal(by_hits.second, by_touches.second))
        return Partitions(by_touches, True, late, agree)
    return None if by_hits is None else Partitions(by_hits, False, late, None)


def share_explained_by_partition(matrix: Matrix, second: Mask) -> float | None:
    """R^2 of separate additive models for the two groups of SMs."""
    residual = np.empty_like(matrix)
    for group in (second, ~second):
        residual[group] = fit_additive(matrix[group]).residual
    return _explained_share(residual, matrix)


def count_slices(matrix: Matrix) -> int | None:
    """Number of different patterns of the lines over the SMs, a lower bound of the slices; None where not clear.

    It is clear if two patterns are either equal or differ by `MIN_SLICE_RATIO` times as much, with nothing between.
    """
    columns = (matrix - matrix.mean(axis=1, keepdims=True)).T
    squares = np.sum(columns**2, axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * columns @ columns.T, 0) / len(matrix))
    rising = np.sort(distances[np.triu_indices(len(columns), 1)])
    floor = max(float(np.sqrt(2 * ROUNDING_VARIANCE)), 1e-9)  # lines this close are equal
    ratios = np.maximum(rising[1:], floor) / np.maximum(rising[:-1], floor)
    if ratios.size == 0 or ratios.max() < MIN_SLICE_RATIO:
        return None
    equal = distances <= rising[np.argmax(ratios)]
    np.fill_diagonal(equal, True)
    if not np.array_equal(equal, equal.astype(np.float64) @ equal > 0):  # must be transitive
        return None
    patterns = len(np.unique(equal, axis=0))
    return patterns if patterns <= len(columns) // 2 else None  # otherwise hardly a pattern occurs twice


def _explained_share(residual: Matrix, matrix: Matrix) -> float | None:
    variance = float(np.var(matrix))
    return None if variance < ROUNDING_VARIANCE else 1 - float(np.mean(residual**2)) / variance


def _leading_component(matrix: Matrix) -> Vector:
    """Over the SMs, the leading singular vector of the residual of the additive model.

    It is the leading eigenvector of the products of the SMs' rows: there are far fewer SMs than lines.
    """
    residual = fit_additive(matrix).residual
    return np.asarray(np.linalg.eigh(residual @ residual.T).eigenvectors[:, -1])
