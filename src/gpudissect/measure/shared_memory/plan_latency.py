"""Shared memory: its latency is measured, its size is what the driver states."""

from __future__ import annotations

from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_latency import METHOD, latency_found, over_the_same, slope
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.stated import stated
from gpudissect.workload import Path

SIZE = 4096


def shared_plan(bench: Bench, known: Known) -> Plan:
    """Size and latency of shared memory."""
    limit = bench.info.limit(Path.SHARED)
    if not limit:
        reason = bench.info.unsupported.get(Path.SHARED, "this device has none")
        return Outcome(without(Status.NOT_SUPPORTED, "shared", reason, "capacity", "hit_latency"))
    latency, evidence = yield from slope(Path.SHARED, over_the_same(min(SIZE, limit), 4), bench)
    hit = latency_found("shared", "hit_latency", latency, METHOD, evidence)
    return Outcome((stated("shared", "capacity", "shared_per_sm", bench), hit))


EXPERIMENTS = (
    Experiment(
        key=Key("latency.shared"), element="shared", plan=shared_plan, emits=("capacity", "hit_latency"), quick=True
    ),
)
