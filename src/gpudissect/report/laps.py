"""What a load takes by whole laps of pure pointer chases, from the traces behind a latency."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpudissect.report.result import Series
from gpudissect.trace import Trace
from gpudissect.workload import Chase

FEWEST = 8  # laps
MOST = 200


def by_lap(element: str, rings: Sequence[tuple[Chase, Trace]]) -> Series | None:
    """Cycles of a load in each lap of the longest ring, less what laps of a shorter one take (`inference.latency`).

    What a lap costs beside its loads is the same in both, and cancels; without a shorter ring it is in each load. None
    without laps enough.
    """
    if not rings:
        return None
    chase, trace = max(rings, key=lambda each: (each[0].order.count, each[0].laps))
    if trace.cycles.size < FEWEST:
        return None
    shorter = [each for each in rings if each[0].path is chase.path and each[0].order.count < chase.order.count]
    links, own, used = chase.order.count, 0.0, [trace.workload]
    if shorter:
        other, its = max(shorter, key=lambda each: each[0].order.count)
        links, own, used = links - other.order.count, float(np.quantile(its.cycles, 0.25)), [*used, its.workload]
    took = ((trace.cycles - own) / links)[:MOST]
    return Series(
        element=element, name="latency of a load by lap",
        columns={"lap": tuple(range(took.size)), "latency": tuple(round(each, 3) for each in took.tolist())},
        units={"latency": "cycles"}, evidence=tuple(used),
    )  # fmt: skip
