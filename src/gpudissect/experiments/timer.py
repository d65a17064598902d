"""What timing one access costs by itself: an empty window (MC16 s4.2)."""

from __future__ import annotations

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Bench, Known, Outcome, Plan, without
from gpudissect.experiments.rings import footprint
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest


def timer_plan(bench: Bench, known: Known) -> Plan:
    """Cycles of an empty timed window; single accesses are compared with each other only, never with this taken off."""
    if not bench.info.limit(Path.NOTHING):
        return Outcome(without(Status.NOT_SUPPORTED, "timer", "this device cannot time nothing", "overhead"))
    chase = Chase(path=Path.NOTHING, order=footprint(512 * 4, 4, 1), timing=Timing.EACH, warmup=1, laps=2)
    (trace,) = yield [chase]
    low, middle, high = (float(q) for q in np.quantile(trace.cycles, [0.01, 0.5, 0.99]))
    estimate = Estimate(
        element="timer", attribute="overhead", status=Status.FOUND, value=middle, unit="cycles", low=low, high=high,
        confidence=0.95, method="empty timed window", evidence=(digest(chase),),
    )  # fmt: skip
    return Outcome((estimate,), middle)
