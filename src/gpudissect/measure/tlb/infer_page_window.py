"""Windows of the page table, from pages that every TLB misses (MC16 s5.2, P6).

A page walk outside the window of the previous walk is slower. In rising order the first page of each window is slow, in
falling order the last one; what is slow in both orders (a line that the L2 does not keep, a line far from the SM) has
another cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.tlb.infer_miss_penalty import MIN_STEP_CYCLES, PENALTY_ERROR, Penalties

MAX_UNCLEAR_SHARE = (0.25, 0.5)  # of the largest score: a score between them is neither a boundary nor none
MIN_WALK_SHARE = 0.9  # of the pages that must miss every TLB in both orders
WALK_STEP_SHARE = 0.65  # of the step from a hit in the last TLB to a walk, from which a page misses it
MIN_SLOW_SHARE = 0.75  # of the pages that must be slow where each access changes the window ...
MAX_SLOW_SHARE = 0.1  # ... and at most where no access does
SWITCH_SHARE = 0.5  # of the penalty, from which an access changes the window
Edge = tuple[int, int]
"""Numbers of two visited pages, neighbours among these, that lie in different windows."""


@dataclass(frozen=True)
class Boundaries:
    """Changes of the window between visited pages.

    Attributes:
        positions: among the visited pages, in rising order, of the first one of each window but the lowest.
        penalty: cycles that a change adds; 0 without any.

    """

    positions: tuple[int, ...]
    penalty: float


def find_boundaries(rising: Penalties, falling: Penalties, noise: float) -> Boundaries | None:
    """Changes of the window from penalties of the same pages in both orders; None if some are unclear.

    Shapes are (laps, pages), pages in rising order in both. `noise` are cycles by which two measurements of a line may
    differ. The first and the last page also change the window from lap to lap: a change beside them is not found.
    """
    difference = np.median(rising, axis=0) - np.median(falling, axis=0)
    difference = (difference - np.median(difference))[1:-1]
    score = np.minimum(difference[1:], -difference[:-1])
    opposite = np.minimum(-difference[1:], difference[:-1])  # never of a window: the largest one is noise
    min_score, largest = max(MIN_STEP_CYCLES, noise), float(score.max(initial=0.0))
    if opposite.max(initial=0.0) >= min_score:
        return None
    if largest < min_score:
        return Boundaries((), 0.0)
    unclear, clear = (max(share * largest, min_score) for share in MAX_UNCLEAR_SHARE)
    if np.any((score >= unclear) & (score < clear)):
        return None
    chosen = np.flatnonzero(score >= clear)
    return Boundaries(tuple((chosen + 2).tolist()), float(np.median(score[chosen])))


def walking_pages(rising: Penalties, falling: Penalties, last_hit: float, noise: float) -> NDArray[np.bool_] | None:
    """Which pages miss every TLB in both orders, shape (pages,); None if some others are more than a few.

    `last_hit` is the penalty, cycles, of a hit in the last TLB. Pages that share an entry would hit in turn.
    """
    faster = np.minimum(np.median(rising, axis=0), np.median(falling, axis=0))
    step = float(np.median(faster)) - last_hit
    walks = faster >= last_hit + WALK_STEP_SHARE * step
    return walks if step >= max(MIN_STEP_CYCLES, noise) and walks.mean() >= MIN_WALK_SHARE else None


def window_range(edges: Sequence[Edge], first: int, last: int) -> tuple[int, int] | None:
    """Smallest and largest number of pages of equal windows whose changes lie in `edges`; None if there are none.

    Pages `first` to `last` were visited. Changes may be missing (a random TLB kept the page), but not next to both ends
    of the smallest gap. Raises `ValueError` for fewer than two edges.
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

    `within` and `between` are penalties of the same pages, shape (laps, pages): in random order within one window after
    the other, without the first page of each; and alternating between two windows. A TLB that was not found, of two
    entries or more, keeps both windows; a size of half or twice the true one leaves half of the pages fast or slow.
    """
    usual = float(np.median(within))
    slow = [np.median(each, axis=0) >= usual + SWITCH_SHARE * penalty for each in (within, between)]
    return bool(slow[0].mean() <= MAX_SLOW_SHARE and slow[1].mean() >= MIN_SLOW_SHARE)


def switch_penalty(within: Penalties, between: Penalties, penalties: Sequence[float]) -> tuple[float, float, float]:
    """Cycles that a change of the window adds, and their bracket.

    From the penalties of `confirms_windows` and those of all scans: latencies drift between the chains.
    """
    added: NDArray[np.float64] = np.median(between, axis=0) - np.median(within, axis=0)
    slow = added >= SWITCH_SHARE * np.median(penalties)
    every = [*penalties, float(np.median(added[slow]))]
    return float(np.median(every)), min(every) - PENALTY_ERROR, max(every) + PENALTY_ERROR
