"""Which SMs share a TLB: pages that another SM has loaded hit in it, pages that none has loaded miss."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]

MIN_PENALTY = 2.5  # cycles by which accesses to pages that none has loaded must be slower
MIN_SLOW_SHARE = 0.75  # of these pages
MIN_FAST_SHARE = 0.5  # of the pages that an SM has loaded: accesses can be delayed, but a miss is never early


@dataclass(frozen=True)
class Visits:
    """Extra cycles of the first access to each page, relative to later ones."""

    loaded: NDArray[np.float64]  # by another SM each row, shape (SMs, pages)
    unloaded: NDArray[np.float64]  # pages that no SM has loaded since the TLB lost them, shape (pages,)


def miss_penalty(visits: Visits) -> float | None:
    """Median penalty of pages that no SM has loaded, cycles; None if they do not clearly miss."""
    penalty = float(np.median(visits.unloaded))
    is_slow = visits.unloaded > penalty / 2
    return penalty if penalty >= MIN_PENALTY and np.mean(is_slow) >= MIN_SLOW_SHARE else None


def loaded_for(visits: Visits, penalty: float) -> Flags:
    """Which SMs loaded their pages into the TLB that was measured. `penalty`: cycles of its misses."""
    return np.asarray(np.mean(visits.loaded < penalty / 2, axis=1) >= MIN_FAST_SHARE)


def number_tlbs(shared_with: Mapping[int, Flags], sms: int) -> tuple[int, ...] | None:
    """The number of each SM's TLB, in order of their first SM; None if the groups contradict each other.

    `shared_with`: for some SMs, which SMs use the same TLB, shape (SMs,).
    """
    members = {tuple(np.flatnonzero(flags).tolist()) for flags in shared_with.values()}
    number = {sm: n for n, group in enumerate(sorted(members)) for sm in group}
    if sum(map(len, members)) != sms or len(number) != sms:
        return None
    return tuple(number[sm] for sm in range(sms)) if all(flags[sm] for sm, flags in shared_with.items()) else None
