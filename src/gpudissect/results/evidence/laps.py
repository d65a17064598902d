"""What one load or instruction takes, from the traces behind a latency: those of a long chain less a short one's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpudissect.measure.instructions.infer_issue import median_duration
from gpudissect.results.model import Series
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Mix

FEWEST = 8  # laps
FEWEST_RUNS = 3
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


def by_run(element: str, mixes: Sequence[tuple[Mix, Trace]]) -> Series | None:
    """Cycles of an instruction in each run of the longer of two chains of one warp, less what the shorter one takes.

    None unless mixes are of one warp and of two lengths, several runs of each.
    """
    took: dict[int, list[float]] = {}
    for mix, trace in mixes:
        took.setdefault(mix.instructions, []).append(float(round(median_duration(trace.begin, trace.end))))
    alone = all((mix.warps, mix.ilp) == (1, 1) for mix, _ in mixes)
    if not alone or len(took) != 2 or min(map(len, took.values())) < FEWEST_RUNS:
        return None
    short, long = sorted(took)
    each = (np.array(took[long]) - np.quantile(took[short], 0.25)) / (long - short)
    return Series(
        element=element, name="latency of an instruction by run",
        columns={"run": tuple(range(each.size)), "latency": tuple(round(one, 4) for one in each.tolist())},
        units={"latency": "cycles"}, evidence=tuple(trace.workload for _, trace in mixes),
    )  # fmt: skip
