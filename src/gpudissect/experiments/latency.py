"""Latencies: of a hit by whole-lap pure pointer chase, of a miss by the distance between two plateaus."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Bench, Known, Outcome, Plan, without
from gpudissect.experiments.l2 import SWEEP_STRIDE
from gpudissect.experiments.levels import Level, Levels
from gpudissect.experiments.rings import footprint
from gpudissect.inference.latency import Latency, lap_latency
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Path, Shuffled, Timing
from gpudissect.workload.digest import digest

LAPS = 41  # short ones: even where one access in 200 is delayed, some laps are not
MOST_LINKS = 256
FEW_LINKS = 64
LONGEST = 4 << 20
METHOD = "lower quartile of laps of a pure pointer chase, less those of half the links"
COLD_METHOD = "lower quartile of laps of a pure pointer chase"
COLD_LINKS = 16384
COLD_RINGS = 5
NEAR_SPAN = 4 << 20  # few pages, of any size
BEYOND_L2 = 8  # the far footprint, in L2 capacities
FAR_SPAN = 64 << 20
FAR_SPAN_TOP = 1 << 30
SHARED_SIZE = 4096

Slope = Generator[list[Chase], list[Trace], tuple[Latency, tuple[str, ...]]]


def latency_plan(element: str, needs: str, bench: Bench, known: Known) -> Plan:
    """Hit latency and miss penalty of a cache, cycles; the hit latency is the near one if it has a far part."""
    levels: Levels = known[needs]
    level = levels.level(element)
    if level is None:
        absence = levels.absent[element]
        return Outcome(without(absence.status, element, absence.reason, "hit_latency", "miss_penalty"))
    size, stride = _resident_point(level)
    latency, evidence = yield from _slope(level.path, size, stride, level.alone, bench)
    estimates = [_found(element, "hit_latency", latency, METHOD, evidence), _penalty(level)]
    if level.far is not None:
        estimates.append(_found(element, "near_latency", latency, METHOD, evidence))
    return Outcome(tuple(estimates), latency)


def _slope(path: Path, size: int, stride: int, alone: bool, bench: Bench) -> Slope:
    """Latency of a load, from a ring and one of half its links: what a lap costs beside its loads cancels.

    Both have a multiple of 16 links where they can, the number of loads between two checks of the lap's end.
    """
    links = max(2, size // stride // 32 * 32)
    chases = [
        Chase(path=path, order=Shuffled(count, stride, bench.seed_for("latency", path, count)), timing=Timing.LAP,
              warmup=2, laps=LAPS, alone=alone)
        for count in (links, links // 2)
    ]  # fmt: skip
    whole, half = yield chases
    latency = lap_latency(whole.cycles, links, half.cycles, links // 2)
    return latency, tuple(digest(chase) for chase in chases)


def _resident_point(level: Level) -> tuple[int, int]:
    """Size and stride (bytes) of a ring well inside the level, but none that a nearer level would answer.

    Over a cache that all SMs share, latency differs from line to line: there the ring is as long as a sweep allows.
    """
    fitting = [size for size, cycles in level.sweep.items() if level.missing(cycles) < 0.02]
    if fitting:
        return min(max(fitting) // 2, LONGEST), SWEEP_STRIDE
    finest = min(stride for _, stride in level.hit.points)
    sizes = sorted(size for size, stride in level.hit.points if stride == finest)
    inside = [size for size in sizes if size * 2 <= sizes[-1] and size // finest <= MOST_LINKS]
    size = (inside or sizes[-1:])[-1]
    if size == sizes[0] or size // finest < FEW_LINKS:
        return size, level.path.word if level.nearest else finest
    return size, finest


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
    latency, evidence = yield from _slope(Path.SHARED, min(SHARED_SIZE, limit), 4, False, bench)
    hit = _found("shared", "hit_latency", latency, METHOD, evidence)
    return Outcome((_driver_says("shared", "shared_per_sm", bench), hit))


def dram_plan(bench: Bench, known: Known) -> Plan:
    """Latency of memory by first touches in random order after a flush: near, and over far more than the L2 holds.

    Near, few pages are touched and their translations are at hand; far, misses of the TLBs are part of the price.
    """
    path = Path.GLOBAL_L2 if bench.info.limit(Path.GLOBAL_L2) else Path.GLOBAL
    size = _driver_says("dram", "memory_size", bench)
    if not bench.info.limit(path):
        reason = "this device has no path to global memory"
        return Outcome((size, *without(Status.NOT_SUPPORTED, "dram", reason, "hit_latency", "far_latency")))
    l2 = known["capacity.l2"]
    near = min(NEAR_SPAN, bench.info.limit(path))
    far = min(max(BEYOND_L2 * (l2 or 0), FAR_SPAN), FAR_SPAN_TOP, bench.info.limit(path))
    chases = {span: [_cold(path, span, turn, bench) for turn in range(COLD_RINGS)] for span in (near, far)}
    traces = yield [*chases[near], *chases[far]]
    estimates = []
    for attribute, span, own in (
        ("hit_latency", near, traces[:COLD_RINGS]),
        ("far_latency", far, traces[COLD_RINGS:]),
    ):
        links = chases[span][0].order.count
        latency = lap_latency(np.concatenate([trace.cycles for trace in own]), links, least=1.0)
        method = f"{COLD_METHOD}, first touches after a flush over {format_bytes(span)}"
        evidence = tuple(digest(chase) for chase in chases[span])
        estimates.append(_found("dram", attribute, latency, method, evidence))
    return Outcome((size, *estimates))


def _cold(path: Path, span: int, turn: int, bench: Bench) -> Chase:
    stride = max(256, span // COLD_LINKS // 256 * 256)
    order = footprint(span, stride, bench.seed_for("dram", span, turn))
    return Chase(path=path, order=order, timing=Timing.LAP, warmup=0, flush=True, alone=True)


def _found(element: str, attribute: str, latency: Latency, method: str, evidence: tuple[str, ...]) -> Estimate:
    return Estimate(
        element=element, attribute=attribute, status=Status.FOUND, value=latency.cycles, unit="cycles",
        low=latency.low, high=latency.high, confidence=0.95, method=method, evidence=evidence,
    )  # fmt: skip


def _driver_says(element: str, fact: str, bench: Bench) -> Estimate:
    value = bench.info.facts.get(fact)
    if not isinstance(value, int):
        return Estimate(
            element=element, attribute="capacity", status=Status.NOT_FOUND, reason="the driver does not say"
        )
    return Estimate(element=element, attribute="capacity", status=Status.FOUND, value=value, unit="B", low=value,
                    high=value, confidence=1.0, method="stated by the driver, not measured")  # fmt: skip
