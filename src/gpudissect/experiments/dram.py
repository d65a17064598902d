"""Latency of memory, by first touches after a flush: near, and over far more than the L2 holds."""

from __future__ import annotations

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Ask, Bench, Known, Outcome, Plan, without
from gpudissect.experiments.latency import latency_found
from gpudissect.experiments.rings import footprint
from gpudissect.experiments.stated import stated
from gpudissect.inference.latency import Latency, average, lap_latency, typical
from gpudissect.inference.level import Levels
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest

METHOD = "first touches after a flush, over"
OF_LAPS = f"lower quartile of laps of a pure pointer chase, {METHOD}"
OF_EACH = f"mean without extremes, less what timing a single access adds, of {METHOD}"
LINKS = 16384
FEWER_LINKS = 512  # where each is timed
RINGS = 5
NEAR_SPAN = 4 << 20  # few pages, of any size
BEYOND_L2 = 8  # the wide footprint, in L2 capacities
WIDE_SPAN = 64 << 20
WIDE_SPAN_TOP = 1 << 30
HOME_METHOD = "median first touch of lines of that home, less what timing a single access adds"
NO_HOMES = "first touches show no near and far lines"


def dram_plan(bench: Bench, known: Known) -> Plan:
    """Size as the driver states it; latency over few pages, whose translations are at hand; of near and far lines."""
    levels: Levels = known["levels.l2"]
    level, overhead = levels.level("l2"), known["latency.l2"]
    size = stated("dram", "capacity", "memory_size", bench)
    latency = yield from _cold_latency("hit_latency", NEAR_SPAN, bench, overhead)
    if level is None or level.homes is None:
        parts = without(Status.NOT_FOUND, "dram", NO_HOMES, "near_latency", "far_latency")
    else:
        own = (("near_latency", level.homes.near_samples), ("far_latency", level.homes.far_samples))
        parts = tuple(
            latency_found("dram", attribute, typical(samples, overhead), HOME_METHOD, level.evidence)
            for attribute, samples in own
        )
    return Outcome((size, latency, *parts))


def wide_dram_plan(bench: Bench, known: Known) -> Plan:
    """Latency over far more than the L2 holds, misses of the TLBs included."""
    l2: int | None = known["capacity.l2"]
    span = min(max(BEYOND_L2 * (l2 or 0), WIDE_SPAN), WIDE_SPAN_TOP)
    latency = yield from _cold_latency("wide_latency", span, bench, None)
    return Outcome((latency,))


def _cold_latency(attribute: str, wanted: int, bench: Bench, overhead: Latency | None) -> Ask[Estimate]:
    """By single accesses if it is known what timing one adds, so that a delayed one has no say; by laps if not."""
    path = Path.GLOBAL_L2 if bench.info.limit(Path.GLOBAL_L2) else Path.GLOBAL
    span = min(wanted, bench.info.limit(path))
    if not span:
        (lacking,) = without(Status.NOT_SUPPORTED, "dram", "this device has no path to global memory", attribute)
        return lacking
    links, timing = (LINKS, Timing.LAP) if overhead is None else (FEWER_LINKS, Timing.EACH)
    chases = [_cold(path, span, turn, bench, links, timing) for turn in range(RINGS)]
    traces = yield chases
    cycles = np.concatenate([trace.cycles for trace in traces])
    if overhead is None:
        latency, method = lap_latency(cycles, chases[0].order.count, least=1.0), OF_LAPS
    else:
        latency, method = average(cycles, overhead), OF_EACH
    evidence = tuple(digest(chase) for chase in chases)
    return latency_found("dram", attribute, latency, f"{method} {format_bytes(span)}", evidence)


def _cold(path: Path, span: int, turn: int, bench: Bench, links: int, timing: Timing) -> Chase:
    stride = max(256, span // links // 256 * 256)
    order = footprint(span, stride, bench.seed_for("dram", span, turn))
    return Chase(path=path, order=order, timing=timing, warmup=0, flush=True, alone=True)
