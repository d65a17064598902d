"""Latency of the L2, where a hit takes longer or shorter from line to line: by rings over many of its lines."""

from __future__ import annotations

from dataclasses import replace

from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_l2 import ONE_PART, STRIDE
from gpudissect.measure.cache.plan_latency import latency_found, latency_of, penalty_found
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.infer_latency import average, lap_latency, median_latency, timing_overhead
from gpudissect.measure.plan import Bench, Experiment, Known, Outcome, Plan, without
from gpudissect.workload import Chase, Shuffled, Timing
from gpudissect.workload.digest import digest

RINGS = 9
LAPS = 41
SIZE = 32 << 10  # of a ring, bytes: few pages, of any size, and laps that nothing delays
APART = 1 << 20
FAR_METHOD = "single accesses to far lines that the near part lacks, less what timing one adds"
METHOD = f"median of {RINGS} rings over different lines, of each the lower quartile of laps of a pure pointer chase"
LATENCIES = ("hit_latency", "near_latency", "far_latency", "miss_penalty")
FROM_ONE_SM = "seen from one SM, over some of the lines: other SMs lie nearer to them or farther away"


def l2_latency_plan(bench: Bench, known: Known) -> Plan:
    """Hit latency and miss penalty of the L2, cycles; of its near part, if it has a far one.

    Its knowledge is what timing a single access on this path adds, in cycles.
    """
    levels = known[levels_of("l2")]
    level = levels.level("l2")
    if level is None:
        absence = levels.absent["l2"]
        reason = absence.reason
        return Outcome(without(absence.status, "l2", reason, *LATENCIES))
    orders = [
        Shuffled(SIZE // STRIDE, STRIDE, bench.seed_for("latency", "l2", turn), start=turn * APART)
        for turn in range(max(1, min(RINGS, bench.info.limit(level.path) // APART)))
    ]
    chases = [Chase(path=level.path, order=order, timing=Timing.LAP, warmup=2, laps=LAPS, alone=True)
              for order in orders]  # fmt: skip
    single = replace(chases[0], timing=Timing.EACH, laps=5)
    *traces, one_by_one = yield [*chases, single]
    rings = [lap_latency(trace.cycles, orders[0].count) for trace in traces]
    latency = median_latency(rings)
    overhead = timing_overhead(one_by_one.cycles, rings[0])
    evidence = tuple(digest(chase) for chase in (*chases, single))
    hit = replace(latency_found("l2", "hit_latency", latency, METHOD, evidence), caveats=(FROM_ONE_SM,))
    if level.parts is None:
        parts = without(Status.NOT_FOUND, "l2", ONE_PART, "near_latency", "far_latency")
    else:
        beyond = average(level.parts.far.samples, overhead)
        far = latency_found("l2", "far_latency", beyond, FAR_METHOD, (*evidence, *level.evidence))
        parts = (replace(hit, attribute="near_latency"), replace(far, caveats=(FROM_ONE_SM,)))
    return Outcome((hit, *parts, penalty_found(level)), overhead)


EXPERIMENTS = (
    Experiment(
        key=latency_of("l2"),
        element="l2",
        plan=l2_latency_plan,
        emits=("hit_latency", "miss_penalty", "near_latency", "far_latency"),
        needs=(levels_of("l2"),),
        quick=True,
    ),
)
