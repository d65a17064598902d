"""Latency of the L2, where a hit takes longer or shorter from line to line: by rings over many of its lines."""

from __future__ import annotations

from dataclasses import replace

from gpudissect.estimate import Status
from gpudissect.experiments.base import Bench, Known, Outcome, Plan, without
from gpudissect.experiments.l2 import ONE_PART, SWEEP_STRIDE
from gpudissect.experiments.latency import latency_found, penalty_found
from gpudissect.inference.latency import lap_latency, median_latency
from gpudissect.inference.level import Level, Levels
from gpudissect.workload import Chase, Shuffled, Timing
from gpudissect.workload.digest import digest

RINGS = 5
LAPS = 9
LONGEST = 1 << 20  # bytes of one ring
METHOD = f"median of {RINGS} rings over different lines, of each the lower quartile of laps of a pure pointer chase"
FROM_ONE_SM = "seen from one SM, over some of the lines: other SMs lie nearer to them or farther away"


def l2_latency_plan(bench: Bench, known: Known) -> Plan:
    """Hit latency and miss penalty of the L2, cycles; of its near part, if it has a far one."""
    levels: Levels = known["levels.l2"]
    level = levels.level("l2")
    if level is None:
        absence = levels.absent["l2"]
        reason = absence.reason
        return Outcome(without(absence.status, "l2", reason, "hit_latency", "miss_penalty", "near_latency"))
    size = _ring_size(level)
    orders = [
        Shuffled(size // SWEEP_STRIDE, SWEEP_STRIDE, bench.seed_for("latency", "l2", turn), start=turn * size)
        for turn in range(min(RINGS, bench.info.limit(level.path) // size))
    ]
    chases = [Chase(path=level.path, order=order, timing=Timing.LAP, warmup=2, laps=LAPS, alone=True)
              for order in orders]  # fmt: skip
    traces = yield chases
    latency = median_latency([lap_latency(trace.cycles, orders[0].count) for trace in traces])
    hit = latency_found("l2", "hit_latency", latency, METHOD, tuple(digest(chase) for chase in chases))
    hit = replace(hit, caveats=(FROM_ONE_SM,))
    if level.far is None:
        near = without(Status.NOT_FOUND, "l2", ONE_PART, "near_latency")
    else:
        near = (replace(hit, attribute="near_latency"),)
    return Outcome((hit, penalty_found(level), *near), latency)


def _ring_size(level: Level) -> int:
    """Bytes of a ring that the near part surely holds."""
    fitting = [size for size, cycles in level.sweep.items() if level.missing(cycles) < 0.02]
    inside = max(fitting) // 2 if fitting else min(size for size, _ in level.hit.points)
    return min(inside, LONGEST)
