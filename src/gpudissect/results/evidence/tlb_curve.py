"""The stairs of TLBs: what an access takes as pages become more, from the traces behind a finding (MC16 s5.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpudissect.results.model import Number, Series
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Explicit, Timing

SMALLEST_PAGE = 12  # log2 of bytes: 4 KiB, the least that any GPU translates by
FARTHEST = 40
FEWEST = 3  # numbers of pages that make a stair
MOST_STAIRS = 8  # lines that a reader can tell apart
TRIMMED = 99  # percent of the accesses that count: what a refresh of the memory adds does not
Seen = tuple[Chase, Trace]


def stairs(element: str, traces: Sequence[Seen]) -> Series | None:
    """Mean latency against pages, a line for each distance between pages.

    A ring belongs to it if each of its lines lies in a page of its own. None without a distance of which several
    numbers of pages were tried; several rings of as many pages count by their mean.
    """
    at: dict[int, list[Seen]] = defaultdict(list)
    for chase, trace in traces:
        if isinstance(chase.order, Explicit) and chase.timing is Timing.EACH and chase.order.count > 1:
            at[_apart(chase.order.offsets())].append((chase, trace))
    at.pop(0, None)
    numbers = {distance: len({chase.order.count for chase, _ in rings}) for distance, rings in at.items()}
    most = sorted((each for each in at if numbers[each] >= FEWEST), key=lambda each: -numbers[each])[:MOST_STAIRS]
    rows = []
    for distance in sorted(most):
        by_pages: dict[int, list[float]] = defaultdict(list)
        for chase, trace in at[distance]:
            by_pages[chase.order.count].append(_mean(trace.cycles))
        rows += [(distance, pages, round(float(np.mean(means)), 1)) for pages, means in sorted(by_pages.items())]
    if not rows:
        return None
    names = ("distance", "pages", "latency")
    columns: dict[str, tuple[Number | str | None, ...]] = {
        name: tuple(row[n] for row in rows) for n, name in enumerate(names)
    }
    used = dict.fromkeys(trace.workload for each in most for _, trace in at[each])
    return Series(element=element, name="latency against pages", columns=columns,
                  units={"distance": "B", "latency": "cycles"}, evidence=tuple(used))  # fmt: skip


def _apart(offsets: NDArray[np.int64]) -> int:
    """The largest power of two of bytes in which no two lines lie together; 0 below the smallest page."""
    found = 0
    for bit in range(SMALLEST_PAGE, FARTHEST):
        if np.unique(offsets >> bit).size < offsets.size:
            break
        found = 1 << bit
    return found


def _mean(cycles: NDArray[np.int64]) -> float:
    return float(np.mean(np.sort(cycles)[: max(1, cycles.size * TRIMMED // 100)]))
