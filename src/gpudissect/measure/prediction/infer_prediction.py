"""How well an inferred cache foretells accesses that were not used to infer it."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.cache.cache import CacheModel
from gpudissect.simulation.cache.geometry import Cache, PolicyKind

TRIES = 9  # of a random policy: what most of them say is foretold
SURE = 1.96  # standard errors of a 95 % interval
DRAWN = (PolicyKind.RANDOM, PolicyKind.WEIGHTED)
Outcomes = NDArray[np.int8]


@dataclass(frozen=True)
class Foretold:
    """What a cache must do.

    Attributes:
        misses: (n,) 1 where an access is foretold to miss.
        again: (n,) whether something is foretold at all: that a first touch misses is no feat.
        possible: share of these that can be foretold; below 1 where victims are drawn.

    """

    misses: Outcomes
    again: NDArray[np.bool_]
    possible: float


@dataclass(frozen=True)
class Tally:
    """Accesses to one cache, and how many were foretold.

    Attributes:
        element: which cache.
        accesses, right: all that were seen clearly, and those foretold.
        hits_wrong, misses_wrong: hits that were foretold as misses, and the other way round.
        possible: share that the model itself says can be foretold.

    """

    element: str
    accesses: int
    right: int
    hits_wrong: int
    misses_wrong: int
    possible: float

    @property
    def agreement(self) -> float:
        """Share foretold."""
        return self.right / self.accesses


def foretell(cache: Cache, offsets: NDArray[np.int64]) -> Foretold:
    """What accesses at byte offsets to the cache, cold at first, must be."""
    again = np.ones(offsets.size, dtype=bool)
    again[np.unique(offsets // cache.sector, return_index=True)[1]] = False
    if cache.policy.kind not in DRAWN:
        return Foretold(CacheModel(cache).access_many(offsets), again, 1.0)
    tries = np.stack([CacheModel(cache, seed).access_many(offsets) for seed in range(TRIES)])
    misses = (tries.mean(axis=0) > 0.5).astype(np.int8)
    fresh = CacheModel(cache, TRIES).access_many(offsets)
    return Foretold(misses, again, float(np.mean((misses == fresh)[again])))


def tally(element: str, parts: list[tuple[Foretold, Outcomes]]) -> Tally:
    """Count over several sequences, first touches left out; outcomes are 0 hit, 1 miss, 2 unknown."""
    foretold = np.concatenate([each.misses[each.again] for each, _ in parts])
    seen = np.concatenate([outcomes[each.again] for each, outcomes in parts])
    clear = seen < 2
    weights = [int(each.again.sum()) for each, _ in parts]
    possible = float(np.average([each.possible for each, _ in parts], weights=weights))
    foretold, seen = foretold[clear], seen[clear]
    return Tally(
        element=element, accesses=int(seen.size), right=int(np.sum(foretold == seen)),
        hits_wrong=int(np.sum((seen == 0) & (foretold == 1))), misses_wrong=int(np.sum((seen == 1) & (foretold == 0))),
        possible=possible,
    )  # fmt: skip


def bound(right: int, accesses: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927). Raises `ValueError` without accesses."""
    if accesses < 1:
        raise ValueError("a share of nothing")
    share, z = right / accesses, SURE
    centre = (share + z * z / (2 * accesses)) / (1 + z * z / accesses)
    half = z * sqrt(share * (1 - share) / accesses + z * z / (4 * accesses**2)) / (1 + z * z / accesses)
    return max(0.0, centre - half), min(1.0, centre + half)
