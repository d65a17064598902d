"""Where a cache ends that has no sharp edge: its sets fill unevenly, or it has a near and a far part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Ask, Bench, Outcome, Plan, without
from gpudissect.experiments.levels import sample
from gpudissect.experiments.rings import footprint
from gpudissect.inference.confidence import GRADUAL, LATENCY
from gpudissect.inference.crossing import edge
from gpudissect.inference.latency import lap_latency
from gpudissect.inference.level import Level
from gpudissect.inference.mixture import shares
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Timing
from gpudissect.workload.digest import digest

SAMPLES = 1024
HALVINGS = 3
FAR_RINGS = 3
METHOD = "footprint at which half of the accesses are served beyond"

Share = Callable[[NDArray[np.int64]], float]


def gradual_capacity_plan(level: Level, stride: int, bench: Bench) -> Plan:
    """Capacity of a level whose misses cannot be counted one by one; with a far part, its near part's size as well.

    Starts from the footprints of the level's sweep and halves the gap around the middle of each edge.
    """
    whole, outside = yield from _edge(level, "capacity", level.missing, stride, bench)
    if level.far is None:
        return Outcome((whole,), outside)
    parts = [level.hit.samples, level.far.samples]
    near, inside = yield from _edge(
        level, "segment_size", lambda cycles: float(shares(cycles, parts)[1]), stride, bench
    )
    if inside is None or outside is None:
        reason = "no footprint is known to lie between the near part's edge and the whole's"
        return Outcome((whole, near, *without(Status.NOT_FOUND, level.element, reason, "far_latency")), outside)
    far = yield from _far_latency(level, _whole((inside * outside) ** 0.5, stride), stride, bench)
    return Outcome((whole, near, far), outside)


def _edge(level: Level, attribute: str, share: Share, stride: int, bench: Bench) -> Ask[tuple[Estimate, int | None]]:
    """Estimate of an edge, and its middle in bytes."""
    by_size = {size: share(cycles) for size, cycles in level.sweep.items()}
    evidence = level.evidence
    for _ in range(HALVINGS):
        inside = [size for size in by_size if by_size[size] < 0.5]
        outside = [size for size in by_size if by_size[size] >= 0.5]
        if not inside or not outside:
            break
        size = _whole((max(inside) + min(outside)) / 2, stride)
        chase = sample(level.path, size, stride, bench, alone=level.alone, warmup=1, samples=SAMPLES)
        (trace,) = yield [chase]
        evidence = (*evidence, digest(chase))
        by_size[size] = share(trace.cycles)
    found = edge(by_size)
    if found is None:
        reason = f"no edge between {format_bytes(min(by_size))} and {format_bytes(max(by_size))}"
        return Estimate(element=level.element, attribute=attribute, status=Status.NOT_FOUND, reason=reason,
                        method=METHOD, evidence=evidence), None  # fmt: skip
    caveat = f"a gradual edge, given to {format_bytes(found.grain)}: the sets do not all overflow at one size"
    estimate = Estimate(
        element=level.element, attribute=attribute, status=Status.FOUND, value=found.value, low=found.low,
        high=found.high, confidence=GRADUAL, method=METHOD, evidence=evidence, caveats=(caveat,),
    )  # fmt: skip
    return estimate, found.value


def _far_latency(level: Level, size: int, stride: int, bench: Bench) -> Ask[Estimate]:
    """Latency over a footprint between the two edges, by laps in several orders."""
    orders = [footprint(size, stride, bench.seed_for("far", turn)) for turn in range(FAR_RINGS)]
    chases = [Chase(path=level.path, order=order, timing=Timing.LAP, warmup=1, alone=level.alone) for order in orders]
    traces = yield chases
    latency = lap_latency(np.concatenate([trace.cycles for trace in traces]), orders[0].count, least=1.0)
    caveat = "beyond the near part's size every access pays this, also to lines that are near: part is upkeep of copies"
    return Estimate(
        element=level.element, attribute="far_latency", status=Status.FOUND, value=latency.cycles, low=latency.low,
        high=latency.high, confidence=LATENCY, evidence=tuple(digest(chase) for chase in chases), caveats=(caveat,),
        method=f"laps of a pure pointer chase over {format_bytes(size)}, between the two edges",
    )  # fmt: skip


def _whole(size: float, stride: int) -> int:
    return max(int(size) // stride, 1) * stride
