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


def lap_latency(
    laps: NDArray[np.int64], links: int, short_laps: NDArray[np.int64] | None = None, short_links: int = 0
) -> Latency:
    """Cycles a load from `laps` (cycles of whole laps) of `links` loads each.

    The median lap: a lap delayed by something else (a context switch, a refresh) does not count. What a lap costs
    beside its loads cancels if laps of a shorter ring are given too.
    Raises `ValueError` without laps.
    """
    if laps.size == 0 or (short_laps is not None and short_laps.size == 0):
        raise ValueError("latency needs at least one lap")
    own = 0.0 if short_laps is None else float(np.median(short_laps))
    each = (laps - own) / (links - short_links)
    low, middle, high = np.quantile(each, [0.25, 0.5, 0.75])
    return Latency(float(middle), float(min(low, middle - 0.25)), float(max(high, middle + 0.25)))
