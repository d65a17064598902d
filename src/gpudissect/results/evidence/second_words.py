"""What one miss brings along: second accesses by their distance from a cold first one, from the traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpudissect.results.model import Series
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Explicit

NAME = "latency of a second word against distance"
FEWEST = 3  # distances
BLOCK = 4096  # bytes that pairs lie within at most (`experiments.rings.pairs`)


def second_words(element: str, singles: Sequence[tuple[Chase, Trace]]) -> Series | None:
    """The median latency of second words by their distance from the first, behind it and before it.

    What is fetched with the first is there, and quick; so the distance from which on it is slow is the fetch
    granularity. None unless a chase touches every word once and cold, two by two.
    """
    for chase, trace in singles:
        if not isinstance(chase.order, Explicit) or chase.picks is not None or chase.laps > 1 or not chase.flush:
            continue
        if trace.offsets.size % 2:
            continue
        apart = trace.offsets[1::2] - trace.offsets[0::2]
        distances = np.unique(np.abs(apart))
        if distances.size < FEWEST or distances[0] < 1 or distances[-1] >= BLOCK:
            continue
        seconds = trace.cycles[1::2]
        rows = [(side, int(distance), float(np.median(seconds[apart == sign * distance])))
                for side, sign in (("behind", 1), ("before", -1)) for distance in distances
                if np.any(apart == sign * distance)]  # fmt: skip
        return Series(
            element=element, name=NAME,
            columns={name: tuple(row[n] for row in rows) for n, name in enumerate(("side", "distance", "latency"))},
            units={"distance": "B", "latency": "cycles"}, evidence=(trace.workload,),
        )  # fmt: skip
    return None
