"""Latency of memory under load: ``a + b x / (c - x)``, and the distribution of single latencies (VV16 s6.4, 6.6)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MIN_SAMPLES = 4  # for three coefficients
CEILINGS = np.geomspace(1.002, 3.0, 400)
"""Ceilings that are tried, over the largest observed throughput."""
JACKKNIFE_GROUPS = 10  # of neighbouring samples
STANDARD_ERRORS = 2.0  # to either side of a coefficient
MIN_RISE = 1e-9  # b over a; less is rounding
IDLE_WEIGHT = 0.5  # of a sample without load, over that of one at the ceiling (VV16 s6.4)


@dataclass(frozen=True)
class Fit:
    """``a + b x / (c - x)``, cycles at a throughput of x."""

    a: float  # cycles without load
    b: float  # cycles; how soon latency rises
    c: float  # the ceiling, in the unit of x
    error: float  # root mean square of the relative residuals
    worst: float  # the largest relative residual

    def latency(self, x: Floats) -> Floats:
        """Cycles at each throughput, infinite at the ceiling and above."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(x < self.c, self.a + self.b * x / (self.c - x), np.inf)


def fit_contention(throughput: Floats, latency: Floats, max_ceiling: float = np.inf) -> Fit | None:
    """Fit mean latencies (cycles, shape (samples,)) at throughputs (any unit, same shape); VV16 table 6.5.

    For each ceiling a and b follow from least squares of relative residuals, in which samples of high throughput weigh
    more; the best ceiling is refined once. None with too few samples, if all ceilings exceed `max_ceiling` (in the unit
    of throughput), or if latency does not rise with throughput: then nothing saturates, and no ceiling is known.
    """
    x, y = np.asarray(throughput, np.float64), np.asarray(latency, np.float64)
    if x.shape != y.shape or x.size < MIN_SAMPLES or x.min() <= 0 or y.min() <= 0:
        return None
    if max_ceiling < CEILINGS[0] * x.max():
        return None
    weight = (IDLE_WEIGHT + (1 - IDLE_WEIGHT) * x / x.max()) / y

    def best(ceilings: Floats) -> float:
        limited = np.minimum(ceilings, max_ceiling)
        return float(limited[np.argmin(_weighted_squares(x, y, weight, limited))])

    coarse, step = best(CEILINGS * x.max()), CEILINGS[1] / CEILINGS[0]
    c = best(np.geomspace(max(coarse / step, x.max() * 1.0005), coarse * step, 60))
    columns = np.stack([weight, weight * x / (c - x)], axis=1)
    a, b = (float(each) for each in np.linalg.lstsq(columns, weight * y, rcond=None)[0])
    if a <= 0 or b <= MIN_RISE * a or c >= 0.98 * CEILINGS[-1] * x.max():
        return None
    residuals = (a + b * x / (c - x)) / y - 1
    return Fit(a, b, c, float(np.sqrt((residuals**2).mean())), float(np.abs(residuals).max()))


def _weighted_squares(x: Floats, y: Floats, weight: Floats, ceilings: Floats) -> Floats:
    """Weighted sum of squares at the best a and b for each ceiling, shape (ceilings,)."""
    load = x / (ceilings[:, None] - x)
    square = weight**2 / np.sum(weight**2)
    rises, rise = load - (load @ square)[:, None], y - y @ square
    b = (rises * square) @ rise / np.sum(rises**2 * square, axis=1)
    return np.asarray(np.sum((weight * (rise - b[:, None] * rises)) ** 2, axis=1))


def fit_errors(throughput: Floats, latency: Floats, fit: Fit) -> tuple[float, float, float] | None:
    """Errors of a, b and c of a fit, in their units; None if without some samples nothing saturates.

    Two standard errors by a jackknife that leaves out `JACKKNIFE_GROUPS` groups of neighbouring samples one at a time.
    No latency follows the formula exactly: neighbours deviate in the same direction, so that single residuals would
    make the errors far too small.
    """
    x, y = np.asarray(throughput, np.float64), np.asarray(latency, np.float64)
    groups = min(JACKKNIFE_GROUPS, x.size - MIN_SAMPLES + 1)
    parts = np.array_split(np.argsort(x, kind="stable"), groups)
    if groups < 2 or any(x.size - part.size < MIN_SAMPLES for part in parts):
        return None
    fits = [fit_contention(np.delete(x, part), np.delete(y, part)) for part in parts]
    coefficients = np.array([(each.a, each.b, each.c) for each in fits if each is not None])
    if len(coefficients) < groups:
        return None
    squares = ((coefficients - np.array([fit.a, fit.b, fit.c])) ** 2).sum(axis=0)
    a, b, c = (float(STANDARD_ERRORS * root) for root in np.sqrt((groups - 1) / groups * squares))
    return a, b, c


@dataclass(frozen=True)
class Distribution:
    """Latencies of single loads. Raises `ValueError` without loads, or if shapes differ."""

    cycles: Floats  # rising, shape (values,)
    count: NDArray[np.int64]  # loads of each latency, shape (values,)

    def __post_init__(self) -> None:
        if self.cycles.shape != self.count.shape or not self.count.sum():
            raise ValueError("a distribution needs latencies and the number of loads of each")

    @property
    def samples(self) -> int:
        """Number of loads."""
        return int(self.count.sum())

    @property
    def mean(self) -> float:
        """Cycles."""
        return float(np.average(self.cycles, weights=self.count))

    def percentiles(self, percents: Sequence[float]) -> tuple[float, ...]:
        """The smallest latencies that these percents of the loads do not exceed; 0: the minimum, 100: the maximum."""
        total = np.cumsum(self.count)
        places = [np.searchsorted(total, max(percent / 100 * total[-1], 1)) for percent in percents]
        return tuple(float(self.cycles[min(int(place), self.cycles.size - 1)]) for place in places)

    def density(self, bins: int) -> tuple[Floats, Floats]:
        """Centres (cycles) and share of the loads per cycle in at most `bins` bins, up to the 99.9th percentile."""
        low, high = self.cycles[0], self.percentiles([99.9])[0]
        width = max(1.0, float(np.ceil((high - low + 1) / bins)))
        edges = low - 0.5 + width * np.arange(int(np.ceil((high - low + 1) / width)) + 1)
        counted, _ = np.histogram(self.cycles, bins=edges, weights=self.count)
        return (edges[:-1] + edges[1:]) / 2, counted / self.samples / width
