"""Latencies: of a hit by whole-lap pure pointer chase, of a miss by the distance between two plateaus."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Bench, Known, Outcome, Plan, without
from gpudissect.experiments.levels import Level, Levels
from gpudissect.experiments.rings import footprint
from gpudissect.inference.latency import lap_latency
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest

LAPS = 15
MOST_LINKS = 8192
METHOD = "median lap of a pure pointer chase"
COLD_LINKS = 16384
COLD_RINGS = 5
BEYOND_L2 = 8  # the footprint of a memory chase, in L2 capacities
MEMORY_SPAN = 64 << 20  # where no L2 was found
MEMORY_SPAN_TOP = 1 << 30
SHARED_SIZE = 4096


def latency_plan(element: str, needs: str, bench: Bench, known: Known) -> Plan:
    """Hit latency and miss penalty of a cache, cycles."""
    levels: Levels = known[needs]
    level = levels.level(element)
    if level is None:
        reason = levels.absent[element]
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, "hit_latency", "miss_penalty"))
    size, stride = _resident_point(level)
    order = footprint(size, stride, bench.seed_for("latency", element))
    chase = Chase(path=level.path, order=order, timing=Timing.LAP, warmup=2, laps=LAPS, alone=level.alone)
    (trace,) = yield [chase]
    latency = lap_latency(trace.cycles, order.count)
    hit = Estimate(
        element=element, attribute="hit_latency", status=Status.FOUND, value=latency.cycles, unit="cycles",
        low=latency.low, high=latency.high, confidence=0.95, method=METHOD, evidence=(digest(chase),),
    )  # fmt: skip
    return Outcome((hit, _penalty(level)), latency)


def _resident_point(level: Level) -> tuple[int, int]:
    """A ring well inside the level: half its largest footprint, but none that a nearer level would answer."""
    finest = min(stride for _, stride in level.hit.points)
    sizes = sorted(size for size, stride in level.hit.points if stride == finest)
    fitting = [size for size in sizes if size * 2 <= sizes[-1] and size // finest <= MOST_LINKS]
    return (fitting or sizes[:1])[-1], finest


def _penalty(level: Level) -> Estimate:
    """Cycles that a miss adds, from single accesses of both plateaus, where the timer's own cost cancels."""
    if level.behind is None:
        return Estimate(element=level.element, attribute="miss_penalty", status=Status.NOT_FOUND,
                        reason="no footprint that this path reaches misses", evidence=level.evidence)  # fmt: skip
    hit, miss = _trimmed(level.hit.samples), _trimmed(level.behind.samples)
    value = float(miss.mean() - hit.mean())
    error = 3 * float(np.hypot(hit.std() / np.sqrt(hit.size), miss.std() / np.sqrt(miss.size))) + 0.25
    return Estimate(
        element=level.element, attribute="miss_penalty", status=Status.FOUND, value=value, unit="cycles",
        low=value - error, high=value + error, confidence=0.95,
        method="distance of the plateaus of single accesses (the timer cancels)", evidence=level.evidence,
    )  # fmt: skip


def _trimmed(samples: NDArray[np.int64]) -> NDArray[np.int64]:
    """Samples without the fastest and slowest hundredth: one delayed access must not move a mean."""
    low, high = np.quantile(samples, [0.01, 0.99])
    return np.compress((samples >= low) & (samples <= high), samples)


def shared_plan(bench: Bench, known: Known) -> Plan:
    """Latency of shared memory; its size is what the driver says."""
    limit = bench.info.limit(Path.SHARED)
    if not limit:
        reason = bench.info.unsupported.get(Path.SHARED, "this device has none")
        return Outcome(without(Status.NOT_SUPPORTED, "shared", reason, "capacity", "hit_latency"))
    order = footprint(min(SHARED_SIZE, limit), 4, bench.seed_for("shared"))
    chase = Chase(path=Path.SHARED, order=order, timing=Timing.LAP, warmup=1, laps=LAPS)
    (trace,) = yield [chase]
    latency = lap_latency(trace.cycles, order.count)
    hit = Estimate(
        element="shared", attribute="hit_latency", status=Status.FOUND, value=latency.cycles, unit="cycles",
        low=latency.low, high=latency.high, confidence=0.95, method=METHOD, evidence=(digest(chase),),
    )  # fmt: skip
    return Outcome((_driver_says("shared", "shared_per_sm", bench), hit))


def dram_plan(bench: Bench, known: Known) -> Plan:
    """Latency of memory by first touches in random order, after a flush, over far more than the L2 holds."""
    path = Path.GLOBAL_L2 if bench.info.limit(Path.GLOBAL_L2) else Path.GLOBAL
    size = _driver_says("dram", "memory_size", bench)
    if not bench.info.limit(path):
        reason = "this device has no path to global memory"
        return Outcome((size, *without(Status.NOT_SUPPORTED, "dram", reason, "hit_latency")))
    l2 = known["capacity.l2"]
    span = min(BEYOND_L2 * l2 if l2 else MEMORY_SPAN, MEMORY_SPAN_TOP, bench.info.limit(path))
    stride = max(256, span // COLD_LINKS)
    chases = [
        Chase(path=path, order=footprint(span, stride, bench.seed_for("dram", turn)), timing=Timing.LAP,
              warmup=0, flush=True, alone=True)
        for turn in range(COLD_RINGS)
    ]  # fmt: skip
    traces = yield chases
    latency = lap_latency(np.concatenate([trace.cycles for trace in traces]), chases[0].order.count)
    hit = Estimate(
        element="dram", attribute="hit_latency", status=Status.FOUND, value=latency.cycles, unit="cycles",
        low=latency.low, high=latency.high, confidence=0.95, method=f"{METHOD}, first touches after a flush",
        evidence=tuple(digest(chase) for chase in chases),
    )  # fmt: skip
    return Outcome((size, hit))


def _driver_says(element: str, fact: str, bench: Bench) -> Estimate:
    value = bench.info.facts.get(fact)
    if not isinstance(value, int):
        return Estimate(
            element=element, attribute="capacity", status=Status.NOT_FOUND, reason="the driver does not say"
        )
    return Estimate(element=element, attribute="capacity", status=Status.FOUND, value=value, unit="B", low=value,
                    high=value, confidence=1.0, method="stated by the driver, not measured")  # fmt: skip
