"""Whether two caches share an array: eviction by the other's accesses, and hits on lines it fetched (MT22 s4.5-4.6).

Eviction shows shared capacity. Whether lines are shared too is another question: on an H200 texture fetches evict lines
of global loads, but neither hits on lines that the other fetched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

MIN_MISS_SHARE = 0.5  # at or above, a chain was evicted
MAX_UNDISTURBED_MISS_SHARE = 0.85  # of a chain that would just fit: the others can still be evicted
MAX_HIT_MISS_SHARE = 0.25  # at or below, it was not: a kernel's own constants and code evict a little


class Sharing(Enum):
    """What two caches share."""

    LINES = "lines"  # one array, and hits on each other's lines
    CAPACITY = "capacity"  # one array, but no hits on each other's lines
    NOTHING = "nothing"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class MissShares:
    """Shares of misses in a lap over a resident chain."""

    undisturbed: float
    evicted: float  # after accesses of the other cache to other lines
    cross: float | None  # after accesses of the other cache to the same lines, None where it cannot reach them


def classify_sharing(misses: MissShares) -> Sharing:
    """What a pair of caches shares; unclear if the undisturbed chain misses or a share is neither high nor low.

    Hits on lines of an array that is not shared are contradictory, thus unclear.
    """
    if misses.undisturbed > MAX_HIT_MISS_SHARE:
        return Sharing.UNCLEAR
    if misses.evicted >= MIN_MISS_SHARE:
        return Sharing.LINES if misses.cross is not None and misses.cross <= MAX_HIT_MISS_SHARE else Sharing.CAPACITY
    if misses.evicted <= MAX_HIT_MISS_SHARE and (misses.cross is None or misses.cross >= MIN_MISS_SHARE):
        return Sharing.NOTHING
    return Sharing.UNCLEAR


def count_copies(miss_share_by_warp: Sequence[float], undisturbed: float = 0.0) -> int | None:
    """Number of copies of a cache that serve the warps of an SM.

    `miss_share_by_warp[w]` is the share of misses of warp 0 after a lap of warp w over other lines: high if the same
    copy serves both. Without that lap it is `undisturbed`: the chain may not quite fit. The warps of a copy recur: one
    of two, say, or the first two of four (a Quadro P6000 in the logs of MT22's author). None if they do not, a share is
    neither high nor low, or the chain hardly hits at all.
    """
    if undisturbed > MAX_UNDISTURBED_MISS_SHARE:
        return None
    evicted = [(share - undisturbed) / (1 - undisturbed) for share in miss_share_by_warp]
    is_unclear = any(MAX_HIT_MISS_SHARE < share < MIN_MISS_SHARE for share in evicted)
    shared, count = [share >= MIN_MISS_SHARE for share in evicted], len(evicted)
    periods = (each for each in range(1, count + 1) if count % each == 0)
    period = next((each for each in periods if shared == shared[:each] * (count // each)), 0)
    of_one = sum(shared[:period])
    is_unclear |= not any(shared[:1]) or period % of_one > 0 or (period == count and of_one > 1)
    return None if is_unclear else period // of_one
