"""Windows of the page table, from pages that every TLB misses (MC16 s5.2, P6).

A page walk outside the window of the previous walk is slower. In rising order the first page of each window is slow, in
falling order the last one. A page that is slow in both orders has another cause: a line that the L2 does not keep, or
one far from the SM.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.tlb.infer_miss_penalty import MIN_STEP_CYCLES, PENALTY_ERROR, Penalties

MAX_UNCLEAR_SHARE = (0.25, 0.5)  # of the largest score: it is unclear whether a score between them is a boundary
MAX_NOISE_SHARE = 0.25  # of the largest score, which the opposite one may have: that is chance
MIN_WALK_SHARE = 0.9  # of the pages, which must miss every TLB in both orders
WALK_STEP_SHARE = 0.65  # of the step from a hit in the last TLB to a walk; pages above it walk
MIN_SLOW_SHARE = 0.75  # of the pages, which must be slow if each access changes the window
MAX_SLOW_SHARE = 0.1  # of the pages, which may be slow if no access changes it
SWITCH_SHARE = 0.5  # of the penalty; accesses above it change the window
Edge = tuple[int, int]
"""Numbers of two neighbouring visited pages that lie in different windows."""


@dataclass(frozen=True)
class Boundaries:
    """Changes of window between visited pages.

    Attributes:
        positions: index of the first page of each window but the lowest, among the visited pages in rising order.
        penalty: cycles that a change adds; 0 if there is none.

    """

    positions: tuple[int, ...]
    penalty: float


def find_boundaries(rising: Penalties, falling: Penalties, noise: float) -> Boundaries | None:
    """Changes of the window from penalties of the same pages in both orders; None if some are unclear.

    Shapes are (laps, pages), pages in rising order in both. Two measurements of a line may differ by `noise` cycles.
    The start of a lap also changes the window, at the first or the last page: no change beside these is found.
    """
    difference = np.median(rising, axis=0) - np.median(falling, axis=0)
    difference = (difference - np.median(difference))[1:-1]
    score = np.minimum(difference[1:], -difference[:-1])
    opposite = np.minimum(-difference[1:], difference[:-1])  # windows give none: the largest is noise
    min_score, largest = max(MIN_STEP_CYCLES, noise), float(score.max(initial=0.0))
    if opposite.max(initial=0.0) >= min_score:
        return None
    if largest < min_score:
        return Boundaries((), 0.0)
    if opposite.max(initial=0.0) >= MAX_NOISE_SHARE * largest:
        return None
    unclear, clear = (max(share * largest, min_score) for share in MAX_UNCLEAR_SHARE)
    if np.any((score >= unclear) & (score < clear)):
        return None
    chosen = np.flatnonzero(score >= clear)
    return Boundaries(tuple((chosen + 2).tolist()), float(np.median(score[chosen])))


def walking_pages(rising: Penalties, falling: Penalties, last_hit: float, noise: float) -> NDArray[np.bool_] | None:
    """Which pages miss every TLB in both orders, shape (pages,); None if too few do.

    `last_hit` is the penalty, cycles, of a hit in the last TLB. If pages shared an entry, some of them would hit.
    """
    faster = np.minimum(np.median(rising, axis=0), np.median(falling, axis=0))
    step = float(np.median(faster)) - last_hit
    walks = faster >= last_hit + WALK_STEP_SHARE * step
    return walks if step >= max(MIN_STEP_CYCLES, noise) and walks.mean() >= MIN_WALK_SHARE else None


def window_range(edges: Sequence[Edge], first: int, last: int) -> tuple[int, int] | None:
    """Smallest and largest number of pages in equal windows whose changes lie in `edges`; None if no number fits.

    Pages `first` to `last` were visited. Changes may be missing (a random TLB kept the page), but the smallest gap must
    be that of one window. Raises `ValueError` for fewer than two edges.
    """
    if len(edges) < 2:
        raise ValueError(f"the size of a window needs two changes, got {len(edges)}")
    middles = [(low + high) / 2 for low, high in edges]
    gaps = np.diff(middles)
    numbers = np.concatenate([[0], np.cumsum(np.rint(gaps / gaps.min()))]).astype(int).tolist()
    lowest, highest = 1, last - first
    for i, j in combinations(range(len(edges)), 2):
        count = numbers[j] - numbers[i]
        lowest = max(lowest, ceil((edges[j][0] + 1 - edges[i][1]) / count))
        highest = min(highest, floor((edges[j][1] - edges[i][0] - 1) / count))
    before, after = edges[0][0] + 1 - first, last + 1 - edges[-1][1]
    if lowest > highest or max(before, after) > highest + 1:  # a change beside an end is not found
        return None
    return lowest, highest


def confirms_windows(within: Penalties, between: Penalties, penalty: float) -> bool:
    """Whether pages are slow when each access changes the window, and fast when none does.

    `within` and `between` are penalties of the same pages, shape (laps, pages). `within`: one window after the other,
    each in random order, without its first page. `between`: alternating between two windows. An undetected TLB of two
    entries or more would hold both windows. With half or twice the true size, half of the pages would be fast or slow.
    """
    usual = float(np.median(within))
    slow = [np.median(each, axis=0) >= usual + SWITCH_SHARE * penalty for each in (within, between)]
    return bool(slow[0].mean() <= MAX_SLOW_SHARE and slow[1].mean() >= MIN_SLOW_SHARE)


def switch_penalty(within: Penalties, between: Penalties, penalties: Sequence[float]) -> tuple[float, float, float]:
    """Cycles that a change of window adds, and their bracket.

    From the penalties of `confirms_windows` and those of all scans, because latencies drift between the chains.
    """
    added: NDArray[np.float64] = np.median(between, axis=0) - np.median(within, axis=0)
    slow = added >= SWITCH_SHARE * np.median(penalties)
    every = [*penalties, float(np.median(added[slow]))]
    return float(np.median(every)), min(every) - PENALTY_ERROR, max(every) + PENALTY_ERROR
