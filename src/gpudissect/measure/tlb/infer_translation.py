"""Which accesses to a cache are translated, from hits in pages that the first TLB evicted (MC16 s5.2 finding 2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.vocabulary import EVERY_ACCESS, MISSES_ONLY

MIN_LINES = 12  # that hit in the cache while their page misses the TLB
MIN_USABLE_SHARE = 0.4  # of the lines
MIN_SLOW_SHARE, MAX_SLOW_SHARE = 0.8, 0.1  # of these that are slow, if every access is translated; if only misses are
Cycles = NDArray[np.float64]
"""Median cycles of each line, timer included, shape (lines,)."""


@dataclass(frozen=True)
class Roles:
    """The same lines as first access to their page after the TLB evicted it, and as second access."""

    first: Cycles
    second: Cycles

    @property
    def added(self) -> Cycles:
        """Cycles that a line takes longer as first access."""
        return np.asarray(self.first - self.second)


@dataclass(frozen=True)
class Translation:
    """Which accesses are translated: `EVERY_ACCESS` or `MISSES_ONLY`; None, and the reason, if that is unclear."""

    accesses: str | None
    reason: str = ""


def infer_translation(cached: Roles, control: Roles, hit_max: float, threshold: float) -> Translation:
    """Whether hits in a cache are slower after a TLB miss.

    `cached` are loads through the cache, which hit if they take up to `hit_max` cycles. `control` are the same loads
    past the cache: a line is slower by `threshold` cycles as first access if its page misses the TLB. Only lines that
    hit, in pages that miss, decide.
    """
    resident, missed = cached.second <= hit_max, control.added >= threshold
    usable = resident & missed
    count = int(usable.sum())
    if count < max(MIN_LINES, MIN_USABLE_SHARE * usable.size):
        counts = f"{int(resident.sum())} hit and {int(missed.sum())} lie in pages that miss the TLB"
        return Translation(None, f"of {usable.size} lines {counts}: too few do both")
    share = float(np.mean(cached.added[usable] >= threshold))
    if share >= MIN_SLOW_SHARE:
        return Translation(EVERY_ACCESS)
    if share <= MAX_SLOW_SHARE:
        return Translation(MISSES_ONLY)
    return Translation(None, f"{share:.0%} of {count} hits are slower where their page misses the TLB")
