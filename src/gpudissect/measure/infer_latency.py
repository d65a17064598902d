"""Latency from whole laps of a pure pointer chase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRIFT = 0.002  # of a latency: a clock that the nanoseconds are not read from may be off by so much


@dataclass(frozen=True)
class Latency:
    """Cycles of one load and its bracket."""

    cycles: float
    low: float
    high: float


def lap_latency(
    laps: NDArray[np.int64],
    links: int,
    short_laps: NDArray[np.int64] | None = None,
    short_links: int = 0,
    least: float = 0.5,
) -> Latency:
    """Cycles a load from `laps` (cycles of whole laps) of `links` loads each.

    Delays only ever add, so the undisturbed laps are the fast ones: the value is the lower quartile, bracketed by
    the fastest and the median, and at least `least` cycles (rounding) and `DRIFT` to either side. What a lap
    costs beside its loads cancels if laps of a shorter ring are given too.
    Raises `ValueError` without laps.
    """
    if laps.size == 0 or (short_laps is not None and short_laps.size == 0):
        raise ValueError("latency needs at least one lap")
    own = 0.0 if short_laps is None else float(np.quantile(short_laps, 0.25))
    low, value, high = np.quantile((laps - own) / (links - short_links), [0, 0.25, 0.5])
    least += DRIFT * float(value)
    return Latency(float(value), float(min(low - 0.25, value - least)), float(max(high, value + least)))


def median_latency(rings: Sequence[Latency]) -> Latency:
    """One latency from those of rings over different lines: their median, bracketed by the extremes of all.

    Raises `ValueError` without rings.
    """
    if not rings:
        raise ValueError("latency needs at least one ring")
    middle = float(np.median([ring.cycles for ring in rings]))
    return Latency(middle, min(ring.low for ring in rings), max(ring.high for ring in rings))


def typical(samples: NDArray[np.int64], overhead: Latency) -> Latency:
    """Median of single accesses (cycles) less what timing one adds, with three standard errors to either side.

    For what comes late now and then, such as memory that is being refreshed. Raises `ValueError` without samples.
    """
    if samples.size == 0:
        raise ValueError("latency needs at least one access")
    middle = float(np.median(samples))
    spread = 1.4826 * float(np.median(np.abs(samples - middle)))  # of a normal distribution, from its deviations
    return _less(middle, 3 * 1.2533 * spread / float(np.sqrt(samples.size)), overhead)


def middle(samples: NDArray[np.int64], overhead: Latency) -> Latency:
    """Median of single accesses (cycles) less what timing one adds, between ranks three deviations to either side.

    That bracket does not ask how samples are distributed. Raises `ValueError` without samples.
    """
    reach = 1.5 / float(np.sqrt(samples.size)) if samples.size else 0.0  # the rank of a median is binomial
    return _between(samples, max(0.0, 0.5 - reach), min(1.0, 0.5 + reach), overhead)


def middle_half(samples: NDArray[np.int64], overhead: Latency) -> Latency:
    """Median of single accesses (cycles) less what timing one adds, between the quartiles.

    For samples of two kinds, such as near and far lines, of which the median is one or the other by chance. Raises
    `ValueError` without samples.
    """
    return _between(samples, 0.25, 0.75, overhead)


def _between(samples: NDArray[np.int64], low: float, high: float, overhead: Latency) -> Latency:
    """Median of single accesses between two of their quantiles, with half a cycle and drift, less an overhead."""
    if samples.size == 0:
        raise ValueError("latency needs at least one access")
    middle = float(np.median(samples))
    value = middle - overhead.cycles
    error = 0.5 + DRIFT * value
    bottom = float(np.quantile(samples, low, method="lower")) - overhead.high - error
    top = float(np.quantile(samples, high, method="higher")) - overhead.low + error
    return Latency(value, bottom, top)


def average(samples: NDArray[np.int64], overhead: Latency) -> Latency:
    """Mean of single accesses (cycles) less what timing one adds, with three standard errors to either side.

    For what differs from line to line; the slowest and fastest hundredth are left out.
    """
    own = _trimmed(samples)
    return _less(float(own.mean()), 3 * float(own.std() / np.sqrt(own.size)), overhead)


def timing_overhead(samples: NDArray[np.int64], lap: Latency) -> Latency:
    """Cycles that timing a single access adds: accesses of a ring one by one, less the same in a pure pointer chase."""
    middle = float(_trimmed(samples).mean())
    return Latency(middle - lap.cycles, middle - lap.high, middle - lap.low)


def _less(cycles: float, error: float, overhead: Latency) -> Latency:
    """A latency with its error, half a cycle and drift, less an overhead with its bracket."""
    value = cycles - overhead.cycles
    error += 0.5 + DRIFT * value
    return Latency(value, cycles - overhead.high - error, cycles - overhead.low + error)


def miss_penalty(hits: NDArray[np.int64], misses: NDArray[np.int64]) -> Latency:
    """Cycles that a miss adds, from single accesses (cycles, timer included) on both plateaus: the timer cancels.

    The distance of the means without their extremes, with three standard errors, a quarter of a cycle (the clock
    counts whole ones) and what a clock may drift to either side between the two.
    """
    hit, miss = _trimmed(hits), _trimmed(misses)
    value = float(miss.mean() - hit.mean())
    error = 3 * float(np.hypot(hit.std() / np.sqrt(hit.size), miss.std() / np.sqrt(miss.size))) + 0.25
    error += DRIFT * float(hit.mean() + miss.mean())
    return Latency(value, value - error, value + error)


def _trimmed(samples: NDArray[np.int64]) -> NDArray[np.int64]:
    """Samples without the fastest and slowest hundredth: one delayed access must not move a mean."""
    low, high = np.quantile(samples, [0.01, 0.99])
    return np.compress((samples >= low) & (samples <= high), samples)
