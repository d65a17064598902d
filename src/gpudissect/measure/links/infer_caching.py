"""Which caches hold lines of another GPU's memory, from the latencies of repeated loads."""

from collections.abc import Sequence
from typing import NamedTuple

from gpudissect.measure.infer_latency import Latency

OWN_L1, OWN_L2, OTHER_L2 = "L1 of this GPU", "L2 of this GPU", "L2 of the other GPU"
MAX_HIT_SHARE = 0.7  # of the latency over the link; a cache of this GPU answers in a fraction of that
MAX_OTHER_HIT_SHARE = 0.95  # of the latency of memory behind the link, of which the link is most


class Repeated(NamedTuple):
    """Latencies of loads from another GPU's memory by SM, all in the same unit and order."""

    first: Sequence[Latency]
    past_l1: Sequence[Latency]  # of the same lines again, bypassing the L1
    through_l1: Sequence[Latency]  # of the same lines again
    displaced: Sequence[Latency]  # first loads after other lines of that memory were loaded


def holding_caches(latencies: Repeated) -> dict[str, bool | None]:
    """Whether each cache holds the lines, nearest first; None where the SMs disagree.

    A short latency through the L1 shows that the L1 holds the lines only if the latency past it is longer.
    """
    first, past_l1, through_l1, displaced = latencies
    slower = [min(pair, key=lambda each: each.cycles) for pair in zip(first, past_l1, strict=True)]
    return {
        OWN_L1: _are_shorter(through_l1, slower, MAX_HIT_SHARE),
        OWN_L2: _are_shorter(past_l1, first, MAX_HIT_SHARE),
        OTHER_L2: _are_shorter(first, displaced, MAX_OTHER_HIT_SHARE),
    }


def _are_shorter(some: Sequence[Latency], others: Sequence[Latency], share: float) -> bool | None:
    """Whether latencies are below this share of others on every SM; None if on some of them."""
    shorter = {one.cycles < share * other.cycles for one, other in zip(some, others, strict=True)}
    return shorter.pop() if len(shorter) == 1 else None
