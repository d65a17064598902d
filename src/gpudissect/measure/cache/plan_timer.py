"""What timing one access costs by itself (MC16 s4.2), measured on shared memory, which has no misses."""

from __future__ import annotations

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import lap_latency
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest

SIZE = 4096


def timer_plan(bench: Bench, known: Known) -> Plan:
    """Cycles that timing a single access adds: its time less that of the same load in a pure pointer chase.

    An empty timed window shows how often the clock can be read, not what it adds to a load. Nothing is ever
    corrected by this number: single accesses are compared with single accesses only, laps with laps.
    """
    path = next((each for each in (Path.SHARED, Path.GLOBAL) if bench.info.limit(each) >= SIZE), None)
    if path is None:
        return Outcome(without(Status.NOT_SUPPORTED, "timer", "no path to time an access on", "overhead"))
    whole, half = (footprint(size, path.word, bench.seed_for("timer", size)) for size in (SIZE, SIZE // 2))
    single = Chase(path=path, order=half, timing=Timing.EACH, warmup=2, laps=1)
    laps = [Chase(path=path, order=order, timing=Timing.LAP, warmup=2, laps=9) for order in (whole, half)]
    traces = yield [single, *laps]
    latency = lap_latency(traces[1].cycles, whole.count, traces[2].cycles, half.count)
    low, middle, high = (float(q) - latency.cycles for q in np.quantile(traces[0].cycles, [0.01, 0.5, 0.99]))
    estimate = Estimate(
        element="timer", attribute="overhead", status=Status.FOUND, value=middle, low=low, high=high,
        confidence=TIMED, method=f"a single access less the same load in a pure pointer chase, on path {path.value}",
        evidence=tuple(digest(chase) for chase in (single, *laps)),
    )  # fmt: skip
    return Outcome((estimate,), middle)


EXPERIMENTS = (Experiment(key=Key("timer"), element="timer", plan=timer_plan, emits=("overhead",), quick=True),)
