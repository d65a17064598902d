"""Latency of memory under load: ``a + b x / (c - x)``, and how single latencies are distributed (VV16 s6.4, 6.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FEWEST = 4  # samples for three coefficients
CEILINGS = np.geomspace(1.002, 3.0, 400)
"""Where the ceiling is looked for, over the largest throughput seen."""
GROUPS = 10  # of samples next to one another, each left out once
ERRORS = 2.0  # standard errors to either side of a coefficient
ERROR = 0.5  # of the weight of a sample with no load: those near the ceiling count more (VV16 s6.4)


@dataclass(frozen=True)
class Fit:
    """``a + b x / (c - x)``, cycles at a throughput of x.

    Attributes:
        a: cycles without load.
        b: cycles; how soon latency rises.
        c: the ceiling, in the unit of x.
        error: root mean square of the relative residuals.
        worst: the largest relative residual.

    """

    a: float
    b: float
    c: float
    error: float
    worst: float

    def latency(self, x: Floats) -> Floats:
        """Cycles at each throughput, infinite at the ceiling and beyond."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = np.where(x < self.c, self.a + self.b * x / (self.c - x), np.inf)
        return found


def fit(throughput: Floats, latency: Floats, most: float = np.inf) -> Fit | None:
    """Fit mean latencies (cycles, shape (samples,)) at throughputs (any unit, same shape); VV16 table 6.5.

    For every ceiling a and b follow from least squares of relative residuals; the best ceiling is refined once, none is
    above `most`, in the unit of throughput. Samples of a high throughput weigh more, as there. None if there are too
    few, or if latency does not rise with throughput: then nothing saturates, and no ceiling is known.
    """
    x, y = np.asarray(throughput, np.float64), np.asarray(latency, np.float64)
    if x.shape != y.shape or x.size < FEWEST or x.min() <= 0 or y.min() <= 0:
        return None
    weight = (ERROR + (1 - ERROR) * x / x.max()) / y
    if most < CEILINGS[0] * x.max():
        return None
    ceilings = np.minimum(CEILINGS * x.max(), most)
    best = min((_at(x, y, weight, c) for c in ceilings), key=lambda found: found[0])
    step = CEILINGS[1] / CEILINGS[0]
    near = np.geomspace(max(best[3] / step, x.max() * 1.0005), best[3] * step, 60)
    _, a, b, c = min((_at(x, y, weight, each) for each in np.minimum(near, most)), key=lambda found: found[0])
    if b <= 0 or a <= 0 or c >= 0.98 * CEILINGS[-1] * x.max():
        return None
    residuals = (a + b * x / (c - x)) / y - 1
    return Fit(a, b, float(c), float(np.sqrt((residuals**2).mean())), float(np.abs(residuals).max()))


def spreads(throughput: Floats, latency: Floats, found: Fit) -> tuple[float, float, float] | None:
    """How far a, b and c of a fit may be off, in their units; None if without some samples nothing saturates.

    Two standard errors by a jackknife: `GROUPS` groups of samples next to one another in throughput are left out one
    at a time. Samples side by side miss the formula in the same direction, as no latency follows it exactly, so that
    residuals one by one would make coefficients look far better known than they are.
    """
    x, y = np.asarray(throughput, np.float64), np.asarray(latency, np.float64)
    groups = min(GROUPS, x.size - FEWEST + 1)
    parts = np.array_split(np.argsort(x, kind="stable"), groups)
    if groups < 2 or any(x.size - part.size < FEWEST for part in parts):
        return None
    rest = [fit(np.delete(x, part), np.delete(y, part)) for part in parts]
    left = np.array([(each.a, each.b, each.c) for each in rest if each is not None])
    if len(left) < groups:
        return None
    squares = ((left - np.array([found.a, found.b, found.c])) ** 2).sum(axis=0)
    a, b, c = (float(ERRORS * root) for root in np.sqrt((groups - 1) / groups * squares))
    return a, b, c


def _at(x: Floats, y: Floats, weight: Floats, c: float) -> tuple[float, float, float, float]:
    """Weighted sum of squares, a and b for one ceiling."""
    columns = np.stack([weight, weight * x / (c - x)], axis=1)
    (a, b), *_ = np.linalg.lstsq(columns, weight * y, rcond=None)
    miss = weight * (a + b * x / (c - x) - y)
    return float((miss**2).sum()), float(a), float(b), c


@dataclass(frozen=True)
class Distribution:
    """How long single loads took.

    Attributes:
        cycles: rising, shape (values,).
        count: how many took so many, shape (values,).

    Raises `ValueError` without any, or if shapes differ.

    """

    cycles: Floats
    count: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.cycles.shape != self.count.shape or not self.count.sum():
            raise ValueError("a distribution needs values and how often each was seen")

    @property
    def samples(self) -> int:
        """How many there are."""
        return int(self.count.sum())

    @property
    def mean(self) -> float:
        """Cycles."""
        return float(np.average(self.cycles, weights=self.count))

    def percentiles(self, percents: Sequence[float]) -> tuple[float, ...]:
        """The smallest latency that so many percent of the samples do not exceed; 0: the least, 100: the most."""
        total = np.cumsum(self.count)
        places = [np.searchsorted(total, max(percent / 100 * total[-1], 1)) for percent in percents]
        return tuple(float(self.cycles[min(int(place), self.cycles.size - 1)]) for place in places)

    def density(self, bins: int) -> tuple[Floats, Floats]:
        """Middles (cycles) and share of the samples per cycle, in so many bins up to the last but one permille."""
        low, high = self.cycles[0], self.percentiles([99.9])[0]
        width = max(1.0, float(np.ceil((high - low + 1) / bins)))
        edges = low - 0.5 + width * np.arange(int(np.ceil((high - low + 1) / width)) + 1)
        counted, _ = np.histogram(self.cycles, bins=edges, weights=self.count)
        return (edges[:-1] + edges[1:]) / 2, counted / self.samples / width


def distribution(cycles: NDArray[np.int64], count: NDArray[np.int64], overhead: float) -> Distribution:
    """Of a trace: its latencies less what the clock shows of no load. Raises `ValueError` without samples."""
    return Distribution(cycles.astype(np.float64) - overhead, count)
