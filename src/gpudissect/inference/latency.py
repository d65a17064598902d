"""Latency from whole laps of a pure pointer chase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Latency:
    """Cycles of one load: the median lap over its links, bracketed by the quartile laps, at least half a cycle wide."""

    cycles: float
    low: float
    high: float


def lap_latency(laps: NDArray[np.int64], links: int) -> Latency:
    """Cycles a load from `laps` (cycles of whole laps) of `links` loads each.

    The median lap: a lap delayed by something else (a context switch, a refresh) does not count.
    Raises `ValueError` without laps.
    """
    if laps.size == 0:
        raise ValueError("latency needs at least one lap")
    each = laps / links
    low, middle, high = np.quantile(each, [0.25, 0.5, 0.75])
    return Latency(float(middle), float(min(low, middle - 0.25)), float(max(high, middle + 0.25)))
