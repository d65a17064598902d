"""The policy-free size of a cache: the share of many lines that is resident at any one time.

Keep touching M distinct elements round and round, M well above what fits, and now and then ask for one chosen
at random: it hits with probability (lines the cache holds) / M, whatever the policy, the index function or
the sizes of the sets. The probes are spread over the lap.

No element is asked for twice, so those asked for before are no candidates, though they lie in the cache, too: with
one probe for d elements the share comes out short by the factor 1 + (1 - share) / d, which is put back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Occupancy:
    """Elements that are resident at any one time: estimate and standard error."""

    elements: float
    error: float


def occupancy(hits: int, probes: int, elements: int, between: float) -> Occupancy:
    """Resident elements from `hits` of `probes` random probes while cycling through `elements` of them.

    `between` elements are touched between two probes. Raises `ValueError` without probes.
    """
    if probes < 1:
        raise ValueError("occupancy needs at least one probe")
    share = hits / probes
    smoothed = (hits + 1) / (probes + 2)  # Laplace: the error of 0 or all hits is not zero
    total = elements * (1 + (1 - share) / between)
    return Occupancy(share * total, total * float(np.sqrt(smoothed * (1 - smoothed) / probes)))


SLACK = 0.03  # of a size: random lines leave some sets unfilled, and others than the chase take some lines


@dataclass(frozen=True)
class Held:
    """Bytes held at any one time: estimate, standard error, and what they may be."""

    size: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class HeldInParts:
    """What the near part of a cache holds, and both parts together."""

    near: Held
    both: Held


def held_in_parts(
    near: NDArray[np.bool_], far_lines: NDArray[np.bool_], found: NDArray[np.bool_], cycled: int, between: float
) -> HeldInParts:
    """Sizes of a cache in two parts from probes of random lines.

    Args:
        near: which probes hit in the near part.
        far_lines: which asked for a line whose home is far.
        found: which hit, be it near or far; counts for far lines only.
        cycled: bytes of all the lines that are cycled through.
        between: lines touched between two probes.

    The whole is read in two ways: as twice the near part, for the two are taken to be alike; and as the near part and
    what the far one holds, if it holds what the near one fetched last from it. The bracket holds both, the value is
    the first. Raises `ValueError` without probes.

    """
    own = occupancy(int(near.sum()), near.size, cycled, between)
    probes = int(far_lines.sum())
    rest = occupancy(int((far_lines & (near | found)).sum()), probes, round(cycled * probes / near.size), between)
    error = float(np.hypot(own.error, rest.error))
    twice, both = 2 * own.elements, own.elements + rest.elements
    return HeldInParts(
        near=_held(own.elements, own.elements, own.elements, own.error),
        both=_held(twice, min(both, twice), max(both, twice), max(error, 2 * own.error)),
    )


def _held(size: float, least: float, most: float, error: float) -> Held:
    return Held(size, error, least - 3 * error - SLACK * least, most + 3 * error + SLACK * most)
