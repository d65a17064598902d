"""Where a cache ends that has no sharp edge: its sets fill unevenly, or it has a near and a far part."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Bench, Outcome, Plan
from gpudissect.experiments.levels import Level, sample
from gpudissect.experiments.rings import footprint
from gpudissect.inference.crossing import crossing
from gpudissect.inference.mixture import shares
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Timing
from gpudissect.workload.digest import digest

SAMPLES = 1024
HALVINGS = 3
GRAIN = 16  # the middle of a gradual edge is given to one part in so many of the octave it lies in
METHOD = "footprint at which half of the accesses are served beyond"

Share = Callable[[NDArray[np.int64]], float]
Edge = Generator[list[Chase], list[Trace], Estimate]


def gradual_capacity_plan(level: Level, stride: int, bench: Bench) -> Plan:
    """Capacity of a level whose misses cannot be counted one by one, and size of its near part if it has a far one.

    Starts from the footprints of the level's sweep and halves the gap around the middle of each edge.
    """
    whole = yield from _edge(level, "capacity", level.missing, stride, bench)
    if level.far is None:
        return Outcome((whole,), _size(whole))
    parts = [level.hit.samples, level.far.samples]
    near = yield from _edge(level, "segment_size", lambda cycles: float(shares(cycles, parts)[1]), stride, bench)
    estimates = [whole, near]
    inside, outside = _size(near), _size(whole)
    if inside and outside:
        between = _whole((inside * outside) ** 0.5, stride)
        chase = Chase(path=level.path, order=footprint(between, stride, bench.seed_for("far")), timing=Timing.LAP,
                      warmup=1, laps=1, alone=True)  # fmt: skip
        (trace,) = yield [chase]
        latency = float(trace.cycles[0]) / chase.order.count
        estimates.append(_far_latency(level, latency, between, digest(chase)))
    return Outcome(tuple(estimates), outside)


def _edge(level: Level, attribute: str, share: Share, stride: int, bench: Bench) -> Edge:
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
    return _estimate(level, attribute, by_size, evidence)


def _far_latency(level: Level, latency: float, size: int, evidence: str) -> Estimate:
    caveat = "beyond the near part's size every access pays this, also to lines that are near: part is upkeep of copies"
    return Estimate(
        element=level.element, attribute="far_latency", status=Status.FOUND, value=latency, unit="cycles",
        low=latency * 0.98, high=latency * 1.02, confidence=0.95, evidence=(evidence,), caveats=(caveat,),
        method=f"a lap of a pure pointer chase over {format_bytes(size)}, between the two edges",
    )  # fmt: skip


def _size(estimate: Estimate) -> int | None:
    return None if estimate.value is None else int(estimate.value)


def _whole(size: float, stride: int) -> int:
    return max(int(size) // stride, 1) * stride


def _estimate(level: Level, attribute: str, by_size: dict[int, float], evidence: tuple[str, ...]) -> Estimate:
    middle = crossing(by_size, 0.5)
    if middle is None:
        reason = f"no edge between {format_bytes(min(by_size))} and {format_bytes(max(by_size))}"
        return Estimate(element=level.element, attribute=attribute, status=Status.NOT_FOUND, unit="B", reason=reason,
                        method=METHOD, evidence=evidence)  # fmt: skip
    grain = (1 << (int(middle).bit_length() - 1)) // GRAIN
    value = round(middle / grain) * grain
    low, high = crossing(by_size, 0.1), crossing(by_size, 0.9)
    low_size = min(value, int((low or min(by_size)) // grain * grain))
    high_size = max(value, int(-(-(high or max(by_size)) // grain) * grain))
    return Estimate(
        element=level.element, attribute=attribute, status=Status.FOUND, value=value, unit="B", low=low_size,
        high=high_size, confidence=0.9, method=METHOD, evidence=evidence,
        caveats=(f"a gradual edge, given to {format_bytes(grain)}: the sets do not all overflow at one size",),
    )  # fmt: skip
