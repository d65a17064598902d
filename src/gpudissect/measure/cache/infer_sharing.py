"""Who shares an array: do somebody else's laps evict one's lines, and does one hit on the lines they fetched?

MT22 s4.5-4.6. What is evicted by laps elsewhere shares the room. Whether it shares the lines, too, is another question:
on an H200 texture fetches take the room of global loads, but neither hits on what the other fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

MOST = 0.5  # share of accesses from which on a ring was evicted, or found
HARDLY = 0.25  # and up to which it was not: a kernel's own constants and code evict a little, too


class Shared(Enum):
    """What two have in common."""

    LINES = "lines"  # one array, and hits on each other's lines
    ROOM = "room"  # one array, but no hits on each other's lines
    NOTHING = "nothing"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Laps:
    """Shares of misses in a lap: where nobody came between; after another's laps elsewhere; on another's lines.

    `found` is None where the other cannot reach the same lines.
    """

    alone: float
    after: float
    found: float | None


def shares(laps: Laps) -> Shared:
    """The verdict on a pair; unclear where the ring does not even stay by itself, or a share is neither high nor low.

    Hits on lines of an array that one does not share cannot be, so they are unclear, too.
    """
    if laps.alone > HARDLY:
        return Shared.UNCLEAR
    if laps.after >= MOST:
        return Shared.LINES if laps.found is not None and laps.found <= HARDLY else Shared.ROOM
    if laps.after <= HARDLY and (laps.found is None or laps.found >= MOST):
        return Shared.NOTHING
    return Shared.UNCLEAR


def copies(missed: Sequence[float]) -> int | None:
    """How many copies of a cache serve the warps of an SM, one of them each.

    `missed[w]` is the share of misses of warp 0 after a lap of warp w elsewhere: high where both are served by the same
    copy. The number of copies is that of the warps over that of those that share with warp 0, if they come at equal
    distances; None if they do not, or if any share is neither high nor low.
    """
    if not all(share >= MOST or share <= HARDLY for share in missed):
        return None
    same = [warp for warp, share in enumerate(missed) if share >= MOST]
    if not same or len(missed) % len(same):
        return None
    step = len(missed) // len(same)
    return step if same == list(range(0, len(missed), step)) else None
