"""Fetch granularity: after one cold load, how far off is the next word that was not brought along?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Votes = Mapping[int, NDArray[np.int64]]


@dataclass(frozen=True)
class Seconds:
    """Cycles of second accesses by their distance (bytes) from a cold first one at the end of an aligned block.

    `after`: the first touched the block's start, the second lies behind it; `before`: the other way round.
    """

    after: Votes
    before: Votes


@dataclass(frozen=True)
class Granularity:
    """The smallest distance that misses, None if none or all do; `agreement` is the lowest share of votes.

    `ahead`: bytes that are there behind the start of a block, if that is more: something is fetched ahead.
    """

    fetch: int | None
    agreement: float
    reason: str = ""
    ahead: int | None = None


def fetch_granularity(seconds: Seconds, miss_min: int) -> Granularity:
    """Read the fetch granularity; `miss_min` is what a miss costs at least, cycles.

    An aligned block is fetched whole: from either end, every distance below the granularity hits and every one from
    it on misses. Votes that do not rise so are reported as not found. If more is there after a first touch than
    before one, what is there before is the granularity.
    """
    back, on = _one_way(seconds.before, miss_min), _one_way(seconds.after, miss_min)
    if back.fetch is None or on.fetch is None or back.fetch == on.fetch:
        return back if back.fetch is None or back.agreement < on.agreement else on
    if on.fetch < back.fetch:
        reason = f"{back.fetch} B before a first touch are there, but only {on.fetch} B after one"
        return Granularity(None, 0.0, reason)
    return Granularity(back.fetch, back.agreement, ahead=on.fetch)


def _one_way(votes: Votes, miss_min: int) -> Granularity:
    distances = sorted(votes)
    missed = {d: float(np.mean(votes[d] >= miss_min)) for d in distances}
    far = [d for d in distances if missed[d] > 0.5]
    if not far:
        return Granularity(None, 0.0, f"no distance up to {distances[-1]} B misses")
    first = far[0]
    if first == distances[0]:
        return Granularity(None, 0.0, f"even {first} B away misses: nothing is brought along, or nothing is kept")
    if any(missed[d] <= 0.5 for d in distances if d > first):
        return Granularity(None, 0.0, f"misses do not rise with distance: {missed}")
    return Granularity(first, min(1 - missed[d] if d < first else missed[d] for d in distances))
