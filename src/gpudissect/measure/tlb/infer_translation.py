"""What translating an address costs: accesses less the same lines when their pages are surely known.

Two rings over the same lines are compared, one that visits all pages and one in which two lines take turns, word after
word, so that neither's translation is lost (lmbench's tlb.c, McVoy & Staelin 1996, compares as many lines spread over
pages and packed into few). So a line that is far away costs both the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Penalties = NDArray[np.float64]
"""Cycles of accesses beyond those of their lines alone, shape (laps, pages)."""

LEAST_STEP = 2.5  # cycles by which a TLB miss must be slower
SOME = 0.4  # share of pages that must be slower to call it a level: twice as many as there are entries all miss
FURTHER = 0.5  # of what a miss in the level before costs: by so much the next must be slower
THRESHOLD = 0.65  # of the step, from which on an access is slow: a hit can be delayed, a miss is never early


@dataclass(frozen=True)
class Stair:
    """Accesses that miss one TLB level more than those before.

    Attributes:
        cycles: what such an access costs beyond a hit in the first level.
        threshold: cycles from which on an access is one.

    """

    cycles: float
    threshold: float


def next_stair(rings: Sequence[Penalties], last: Stair | None, noise: float) -> Stair | None:
    """The next slower kind of access in rings over ever more pages, None if there is no slower one.

    The first ring that shows it tells what it costs. What is no slower than the last by `noise` cycles is no other.
    """
    step = max(LEAST_STEP, noise)
    floor = step if last is None else last.cycles + max(step, FURTHER * last.cycles)
    for penalties in rings:
        typical = np.median(penalties, axis=0)  # of each page: single accesses are delayed by chance
        slower = typical[typical >= floor]
        if slower.size >= max(1.0, SOME * typical.size):
            cycles = float(np.median(slower))
            below = 0.0 if last is None else last.cycles
            return Stair(cycles, below + THRESHOLD * (cycles - below))
    return None


def counted(penalties: Penalties, threshold: float) -> NDArray[np.int64]:
    """Hits, misses and unknown of each lap, shape (laps, 3), as `first_miss` takes them."""
    missed = np.sum(penalties >= threshold, axis=1)
    return np.stack([penalties.shape[1] - missed, missed, np.zeros_like(missed)], axis=1).astype(np.int64)
