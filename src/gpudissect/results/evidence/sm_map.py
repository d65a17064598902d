"""A map of the L2 from the traces behind a finding: what a hit takes from every SM to every line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from gpudissect.measure.cache.infer_l2_map import FEWEST_SMS, Visits, additive
from gpudissect.results.model import Series
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Order, Timing

Seen = tuple[Chase, Trace]


def sm_map(element: str, traces: Sequence[Seen], most: int) -> Series | None:
    """Cycles of a hit by SM and line, the timer's own included.

    Lines stand in the order of what SMs make of them beyond what each SM and each line takes by itself, so that those
    of one slice, or of one part, stand together; thinned out evenly to `most` cells. None unless several SMs visited
    one ring.
    """
    by_ring: dict[Order, dict[int, Seen]] = defaultdict(dict)
    for chase, trace in traces:
        if chase.timing is Timing.EACH and chase.sm is not None and chase.laps > 1 and chase.picks is None:
            by_ring[chase.order].setdefault(chase.sm, (chase, trace))
    visited = max(by_ring.values(), key=len, default={})
    if len(visited) < FEWEST_SMS or len({(chase.laps, chase.order.count) for chase, _ in visited.values()}) > 1:
        return None
    sms = sorted(visited)
    hits = Visits.of([visited[sm][1].cycles.reshape(visited[sm][0].laps, -1) for sm in sms]).hits
    left, _, right = np.linalg.svd(additive(hits).residual, full_matrices=False)
    together = np.argsort(right[0] if left[0, 0] >= 0 else -right[0], kind="stable")
    kept = together[:: -(-hits.size // most)]
    used = dict.fromkeys(visited[sm][1].workload for sm in sms)
    return Series(
        element=element, name="hit latency by sm and line",
        columns={"sm": tuple(sm for sm in sms for _ in kept), "line": tuple(range(len(kept))) * len(sms),
                 "latency": tuple(hits[:, kept].ravel().tolist())},
        units={"latency": "cycles"}, evidence=tuple(used),
    )  # fmt: skip
