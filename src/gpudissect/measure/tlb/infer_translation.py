"""Which accesses to a cache are translated, from hits in pages that the first TLB lost (MC16 s5.2 finding 2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.vocabulary import EVERY_ACCESS, MISSES_ONLY

MIN_LINES = 12  # that hit in the cache while their page misses the TLB
MIN_USABLE_SHARE = 0.4  # of the lines
MIN_SLOW_SHARE, MAX_SLOW_SHARE = 0.8, 0.1  # of these that are slow: every access is translated, only misses are
Cycles = NDArray[np.float64]
"""Median cycles of each line, timer included, shape (lines,)."""


@dataclass(frozen=True)
class Roles:
    """The same lines as the first access to their page since the TLB lost it, and as the second one."""

    first: Cycles
    second: Cycles

    @property
    def added(self) -> Cycles:
        """What being the first one adds."""
        return np.asarray(self.first - self.second)


@dataclass(frozen=True)
class Translation:
    """Which accesses are translated: `EVERY_ACCESS` or `MISSES_ONLY`; None, and the reason, if that is unclear."""

    accesses: str | None
    reason: str = ""


def infer_translation(cached: Roles, control: Roles, hit_max: float, threshold: float) -> Translation:
    """Whether hits in a cache are slower after a TLB miss.

    `cached` are loads through the cache; up to `hit_max` cycles they hit. `control` are the same loads past it: slower
    by `threshold` cycles where the page misses the TLB. Only lines that hit, in such pages, decide.
    """
    resident, missed = cached.second <= hit_max, control.added >= threshold
    usable = resident & missed
    count = int(usable.sum())
    if count < max(MIN_LINES, MIN_USABLE_SHARE * usable.size):
        counts = f"{int(resident.sum())} hit and {int(missed.sum())} are in pages that miss the TLB"
        return Translation(None, f"of {usable.size} lines {counts}: too few are both")
    share = float(np.mean(cached.added[usable] >= threshold))
    if share >= MIN_SLOW_SHARE:
        return Translation(EVERY_ACCESS)
    if share <= MAX_SLOW_SHARE:
        return Translation(MISSES_ONLY)
    return Translation(None, f"{share:.0%} of {count} hits are slower where their page misses the TLB")
