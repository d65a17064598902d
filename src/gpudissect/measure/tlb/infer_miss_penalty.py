"""A TLB level as inferred, and the step in access time by which the next level shows.

Penalties are cycles of an access beyond those of the same line when its translation cannot miss (two lines accessed
alternately, word by word). lmbench's tlb.c (McVoy & Staelin 1996) compares lines spread over many pages with lines
packed into few; comparing the same lines cancels their distance from the SM.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Penalties = NDArray[np.float64]
"""Cycles of accesses beyond those of their lines alone, shape (laps, pages)."""

MIN_STEP_CYCLES = 2.5  # by which a TLB miss must be slower
MIN_STEP_SHARE = 0.5  # of the penalty of the level before, by which the next must be slower
MIN_SLOW_SHARE = 0.4  # of the pages that must be slower: of twice as many pages as entries all miss
THRESHOLD_SHARE = 0.65  # of the step, from which an access is a miss: hits can be delayed, misses are never early
PENALTY_ERROR = 1.5  # cycles: a difference of two times, each of a clock of whole cycles read twice


@dataclass(frozen=True)
class MissPenalty:
    """Penalty of an access that misses one TLB level more than the level before."""

    cycles: float  # beyond a hit in the first level
    threshold: float  # cycles from which an access counts as such a miss


@dataclass(frozen=True)
class MissCosts:
    """Penalties of misses, cycles, by repetition; random order often changes the page-table window (P6)."""

    in_order: tuple[float, ...]
    at_random: tuple[float, ...]
    evidence: tuple[str, ...]
    held: int = 0  # pages that hit in the level before in every lap, whatever the order: they never reach this level

    @property
    def order_matters(self) -> bool:
        """Whether both orders were measured and differ."""
        both = bool(self.in_order and self.at_random)
        return both and abs(float(np.median(self.in_order) - np.median(self.at_random))) >= MIN_STEP_CYCLES

    @property
    def of_tlb(self) -> tuple[float, ...]:
        """Penalties without changes of the window: those in order; at random where no page is slow in order."""
        return self.in_order or self.at_random if self.order_matters else (*self.in_order, *self.at_random)


@dataclass(frozen=True)
class TlbLevel:
    """One level of TLBs."""

    miss: MissPenalty  # what distinguishes its misses
    costs: MissCosts  # their penalties when measured again
    page_size: int  # bytes that one entry covers
    entries: int  # consecutive pages that all stay resident, without those that the level before holds
    evidence: tuple[str, ...]  # digests of the workloads
    address: int | None = None  # of page 0; None if not stated, as in recordings of early versions


def next_miss_penalty(chains: Sequence[Penalties], last: MissPenalty | None, noise: float) -> MissPenalty | None:
    """The next slower class of accesses in chains over ever more pages; None if there is none.

    The first chain that shows it gives its penalty, which must exceed that of the `last` level by the `noise`.
    """
    step = max(MIN_STEP_CYCLES, noise)
    base = last.cycles if last else 0.0
    floor = base + max(step, MIN_STEP_SHARE * base)
    for penalties in chains:
        by_page = np.median(penalties, axis=0)  # single accesses are delayed by chance
        slow = by_page[by_page >= floor]
        if slow.size >= max(1.0, MIN_SLOW_SHARE * by_page.size):
            cycles = float(np.median(slow))
            return MissPenalty(cycles, base + THRESHOLD_SHARE * (cycles - base))
    return None


def count_misses(penalties: Penalties, threshold: float) -> NDArray[np.int64]:
    """Hits, misses and unknown of each lap, shape (laps, 3), as `first_miss` takes them."""
    misses = np.sum(penalties >= threshold, axis=1)
    return np.stack([penalties.shape[1] - misses, misses, np.zeros_like(misses)], axis=1).astype(np.int64)
