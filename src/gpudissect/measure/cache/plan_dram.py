"""Latency of memory, by first touches after a flush: near, and over far more than the L2 holds."""

from __future__ import annotations

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_latency import latency_found, latency_of
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.infer_latency import Latency, average, lap_latency, typical
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.stated import stated
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
    levels = known[levels_of("l2")]
    level, overhead = levels.level("l2"), known[latency_of("l2")]
    size = stated("dram", "capacity", "memory_size", bench)
    if overhead is None:
        latency = yield from _by_laps("hit_latency", NEAR_SPAN, bench)
    else:
        latency = yield from _by_accesses(overhead, bench)
    if level is None or level.homes is None or overhead is None:
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
    l2 = known[capacity_of("l2")]
    span = min(max(BEYOND_L2 * (l2 or 0), WIDE_SPAN), WIDE_SPAN_TOP)
    latency = yield from _by_laps("wide_latency", span, bench)
    return Outcome((latency,))


def _by_accesses(overhead: Latency, bench: Bench) -> Ask[Estimate]:
    """The latency over few pages by single accesses, so that a delayed one has no say."""
    chases = _cold(NEAR_SPAN, FEWER_LINKS, Timing.EACH, bench)
    if not chases:
        return _no_path("hit_latency")
    traces = yield chases
    latency = average(np.concatenate([trace.cycles for trace in traces]), overhead)
    return _latency("hit_latency", latency, OF_EACH, chases)


def _by_laps(attribute: str, span: int, bench: Bench) -> Ask[Estimate]:
    """A latency by whole laps, where it is not known what timing a single access adds."""
    chases = _cold(span, LINKS, Timing.LAP, bench)
    if not chases:
        return _no_path(attribute)
    traces = yield chases
    latency = lap_latency(np.concatenate([trace.cycles for trace in traces]), chases[0].order.count, least=1.0)
    return _latency(attribute, latency, OF_LAPS, chases)


def _no_path(attribute: str) -> Estimate:
    (lacking,) = without(Status.NOT_SUPPORTED, "dram", "this device has no path to global memory", attribute)
    return lacking


def _latency(attribute: str, latency: Latency, method: str, chases: list[Chase]) -> Estimate:
    evidence = tuple(digest(chase) for chase in chases)
    return latency_found("dram", attribute, latency, f"{method} {format_bytes(chases[0].order.span)}", evidence)


def _cold(wanted: int, links: int, timing: Timing, bench: Bench) -> list[Chase]:
    """First touches over so many bytes, or all there are; none where there is no global memory."""
    path = Path.GLOBAL_L2 if bench.info.limit(Path.GLOBAL_L2) else Path.GLOBAL
    span = min(wanted, bench.info.limit(path))
    stride = max(256, span // links // 256 * 256)
    rings = [footprint(span, stride, bench.seed_for("dram", span, turn)) for turn in range(RINGS)] if span else []
    return [Chase(path=path, order=ring, timing=timing, warmup=0, flush=True, alone=True) for ring in rings]


EXPERIMENTS = (
    Experiment(
        key=Key("latency.dram"),
        element="dram",
        plan=dram_plan,
        emits=("capacity", "hit_latency", "near_latency", "far_latency"),
        needs=(levels_of("l2"), latency_of("l2")),
        quick=True,
    ),
    Experiment(
        key=Key("latency.wide_dram"),
        element="dram",
        plan=wide_dram_plan,
        emits=("wide_latency",),
        needs=(capacity_of("l2"),),
    ),
)
