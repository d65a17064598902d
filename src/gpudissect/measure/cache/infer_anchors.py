"""Hit or miss: thresholds from accesses that were forced to be one and the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpudissect.workload import Bounds

UNKNOWN_FROM = 0.30  # of the gap, below the fastest misses: from here on ...
UNKNOWN_TO = 0.08  # ... to here, an access is neither hit nor miss
UNKNOWN_BEYOND = 0.15  # of the distance of hits and misses, above the slowest misses: unknown again


def bounds_between(hits: NDArray[np.int64], misses: NDArray[np.int64]) -> Bounds | None:
    """Bounds for single accesses (cycles, timer included), or None if the two distributions overlap.

    The threshold lies just below the fastest forced misses, not half way: a hit can be delayed by anything,
    a miss is never early. Between the classes is a band of unknowns, and so is everything slower than the forced
    misses: whatever delays a hit by chance then seldom makes it look like a miss.
    """
    hit_high = float(np.quantile(hits, 0.95))
    miss_low, miss_mid, miss_high = (float(q) for q in np.quantile(misses, [0.01, 0.5, 0.99]))
    gap = miss_low - hit_high
    if gap < 3:
        return None
    hit_max = int(np.floor(miss_low - UNKNOWN_FROM * gap))
    miss_min = max(int(np.ceil(miss_low - UNKNOWN_TO * gap)), hit_max + 1)
    return Bounds(hit_max, miss_min, int(np.ceil(miss_high + max(UNKNOWN_BEYOND * (miss_mid - hit_high), 4))))
