"""Fetch granularity: after one cold load, how far off is the next word that was not brought along?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Granularity:
    """The smallest distance that misses, None if none or all do; `agreement` is the lowest share of votes."""

    fetch: int | None
    agreement: float
    reason: str = ""


def fetch_granularity(seconds: Mapping[int, NDArray[np.int64]], miss_min: int) -> Granularity:
    """Read the fetch granularity from second accesses at given distances (bytes) from a cold one.

    `seconds[d]` holds the cycles of the second access of each pair; `miss_min` is what a miss costs at least.
    An aligned block is fetched whole, so every distance below the granularity hits and every one from it on
    misses; votes that do not rise so are reported as not found.
    """
    distances = sorted(seconds)
    missed = {d: float(np.mean(seconds[d] >= miss_min)) for d in distances}
    far = [d for d in distances if missed[d] > 0.5]
    if not far:
        return Granularity(None, 0.0, f"no distance up to {distances[-1]} B misses")
    first = far[0]
    if first == distances[0]:
        return Granularity(None, 0.0, f"even {first} B away misses: nothing is brought along, or nothing is kept")
    if any(missed[d] <= 0.5 for d in distances if d > first):
        return Granularity(None, 0.0, f"misses do not rise with distance: {missed}")
    return Granularity(first, min(1 - missed[d] if d < first else missed[d] for d in distances))
