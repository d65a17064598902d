"""Where a rising share crosses a level: the edge of a cache whose sets do not all overflow at one size."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise


def crossing(share_by_size: Mapping[int, float], level: float) -> float | None:
    """Size (bytes) at which the share first crosses `level`, interpolated; None if it never does."""
    sizes = sorted(share_by_size)
    for small, large in pairwise(sizes):
        low, high = share_by_size[small], share_by_size[large]
        if low < level <= high:
            return small + (large - small) * (level - low) / (high - low)
    return None
