"""Which caches hold lines of another GPU's memory, from what repeated loads take."""

from typing import NamedTuple

from gpudissect.measure.infer_latency import Latency

OWN_L1, OWN_L2, OTHER_L2 = "L1 of this GPU", "L2 of this GPU", "L2 of the other GPU"
MAX_HIT_SHARE = 0.7  # of the latency over the link; a cache of this GPU answers in a fraction of that


class Repeated(NamedTuple):
    """Latencies of loads from another GPU's memory: each in the same unit."""

    first: Latency
    past_l1: Latency  # of the same lines again, bypassing the L1
    through_l1: Latency  # of the same lines again
    displaced: Latency  # first loads after other lines of that memory were loaded


def holding_caches(latencies: Repeated) -> list[str]:
    """The caches that hold the lines, nearest first.

    A short latency through the L1 shows that the L1 holds the lines only if the latency past it is longer.
    """
    first, past_l1, through_l1, displaced = latencies
    caches = []
    if through_l1.high < MAX_HIT_SHARE * min(first.low, past_l1.low):
        caches.append(OWN_L1)
    if past_l1.high < MAX_HIT_SHARE * first.low:
        caches.append(OWN_L2)
    if displaced.low > first.high:
        caches.append(OTHER_L2)
    return caches
