"""One level of a path to memory: what a hit and a miss in it cost, and how to tell one from the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_anchors import bounds_between
from gpudissect.measure.cache.infer_granularity import Granularity, Seconds, fetch_granularity
from gpudissect.measure.cache.infer_home_partition import Homes
from gpudissect.measure.cache.infer_plateau import Plateau
from gpudissect.workload import Bounds, Path

SAME = 0.85  # a level must be faster than this share of what lies behind it


@dataclass(frozen=True)
class Parts:
    """Of a cache whose near part keeps copies of what lives in the far one.

    Attributes:
        far: hits in the far part, single accesses.
        overflowed: the smallest footprint looked at (bytes) that the near part did not hold.

    """

    far: Plateau
    overflowed: int


@dataclass(frozen=True)
class Level:
    """One cache as seen through one path.

    Attributes:
        element, path: what it is and how it is reached; `alone` if it is shared by all SMs.
        hit, behind: single-access latencies of this level and of the next one that answers its misses.
        bounds: hit or miss by a threshold (of the near part if there is a far one); None where they overlap.
        fetch: what one miss brings along.
        evidence: digests of the workloads behind all this.
        homes: which lines live near and which far, if first touches tell.
        parts: of a cache that has a near and a far one; then there are homes.
        nearest: no other cache of this path stands before it.
    """

    element: str
    path: Path
    alone: bool
    hit: Plateau
    behind: Plateau | None
    bounds: Bounds | None
    fetch: Granularity
    evidence: tuple[str, ...]
    homes: Homes | None = None
    parts: Parts | None = None
    nearest: bool = True

    def split(self, cycles: NDArray[np.int64]) -> tuple[int, int]:
        """How many of some timed accesses hit and how many missed this level, or its near part if it has a far one.

        Unknown accesses are left out. Raises `ValueError` where no threshold tells one from the other.
        """
        if self.behind is None:
            return cycles.size, 0
        if self.bounds is None:
            raise ValueError(f"{self.element}: hits and misses overlap")
        hits = int(np.sum(cycles <= self.bounds.hit_max))
        return hits, int(np.sum(cycles >= self.bounds.miss_min))  # however slow: translation may come on top


@dataclass(frozen=True)
class Absence:
    """Why a level is not there: because the device has none, or because it could not be told."""

    reason: str
    status: Status = Status.NOT_SUPPORTED


@dataclass(frozen=True)
class Levels:
    """The levels of a path, nearest first; `absent` says why a named element is not among them."""

    path: Path
    found: tuple[Level, ...]
    absent: Mapping[str, Absence]

    def level(self, element: str) -> Level | None:
        """The level of that name, None if absent."""
        return next((level for level in self.found if level.element == element), None)


def name_levels(
    path: Path,
    elements: Sequence[str],
    stairs: Sequence[Plateau],
    l2: Level | None,
    seconds: Seconds,
    evidence: tuple[str, ...],
) -> Levels:
    """Give the plateaus of a path their names; what is as slow as the L2 is not a cache of this path's own.

    Args:
        path: the path.
        elements: names for its own caches, nearest first.
        stairs: the plateaus of a sweep over footprints, fastest first; at least one.
        l2: the L2, None if there is none (then the last plateau is memory).
        seconds: second accesses after cold ones, for the fetch granularity.
        evidence: digests of the workloads behind all this.

    """
    own = [stair for stair in stairs if l2 is None or stair.median < SAME * l2.hit.median]
    if l2 is None and len(own) == len(stairs):
        own = own[:-1]
    found: list[Level] = []
    absent: dict[str, Absence] = {}
    for i, element in enumerate(elements):
        if i >= len(own):
            slowest = stairs[min(i, len(stairs) - 1)].median
            behind_name = "the L2" if l2 is not None else "memory"
            absent[element] = Absence(f"no footprint is answered faster than by {behind_name} ({slowest:.0f} cycles)")
            continue
        hit = own[i]
        behind = stairs[i + 1] if i + 1 < len(stairs) else None
        bounds = bounds_between(hit.samples, behind.samples) if behind else None
        fetch = fetch_granularity(seconds, bounds.miss_min if bounds else slower_than(hit))
        found.append(Level(element, path, False, hit, behind, bounds, fetch, evidence, nearest=not found))
    return Levels(path, tuple(found), absent)


def slower_than(hit: Plateau) -> int:
    """Cycles from which on an access was no hit, where nothing is known yet of what lies behind."""
    return int(hit.high * 1.15 + 6)
