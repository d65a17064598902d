"""The policy-free size of a cache: the share of many lines that is resident at any one time.

Keep touching M distinct elements round and round, M well above what fits, and now and then ask for one chosen
at random: it hits with probability (lines the cache holds) / M, whatever the policy, the index function or
the sizes of the sets. The probes are spread over the lap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Occupancy:
    """Elements that are resident at any one time: estimate and standard error."""

    elements: float
    error: float


def occupancy(hits: int, probes: int, elements: int) -> Occupancy:
    """Resident elements from `hits` of `probes` random probes while cycling through `elements` of them.

    Raises `ValueError` without probes.
    """
    if probes < 1:
        raise ValueError("occupancy needs at least one probe")
    share = hits / probes
    smoothed = (hits + 1) / (probes + 2)  # Laplace: the error of 0 or all hits is not zero
    return Occupancy(share * elements, elements * float(np.sqrt(smoothed * (1 - smoothed) / probes)))
