"""Where a cache ends that has no sharp edge: its sets fill unevenly, or it has a near and a far part."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Bench, Outcome, Plan
from gpudissect.experiments.levels import Level, sample
from gpudissect.inference.crossing import crossing
from gpudissect.inference.mixture import shares
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Chase
from gpudissect.workload.digest import digest

SAMPLES = 1024
BEYOND = 0.9  # of the accesses: nearly all
HALVINGS = 4
GRAIN = 16  # the middle of a gradual edge is given to one part in so many of the octave it lies in
METHOD = "footprint at which half of the accesses are served beyond"

Share = Callable[[NDArray[np.int64]], float]
Edge = Generator[list[Chase], list[Trace], Estimate]


def gradual_capacity_plan(level: Level, guess: float, stride: int, bench: Bench) -> Plan:
    """Capacity of a level whose misses cannot be counted one by one, and of its near part if it has a far one."""
    estimates = []
    if level.far is not None:
        parts = [level.hit.samples, level.far.samples]
        near = yield from _edge(level, "segment_size", lambda c: float(shares(c, parts)[1]), guess / 4, stride, bench)
        estimates.append(near)
    whole = yield from _edge(level, "capacity", level.missing, guess / 2, stride, bench)
    found = int(whole.value) if whole.value is not None else None
    return Outcome((whole, *estimates), found)


def _edge(level: Level, attribute: str, share: Share, start: float, stride: int, bench: Bench) -> Edge:
    """Enlarge the footprint until nearly all is served beyond, then halve the gap around the middle of the edge."""
    by_size: dict[int, float] = {}
    evidence = level.evidence

    def measure(size: int) -> Generator[list[Chase], list[Trace], float]:
        nonlocal evidence
        chase = sample(level.path, size, stride, bench, alone=level.alone, warmup=1, samples=SAMPLES)
        (trace,) = yield [chase]
        evidence = (*evidence, digest(chase))
        by_size[size] = share(trace.cycles)
        return by_size[size]

    size, limit = _whole(start, stride), bench.info.limit(level.path)
    while size <= limit and (yield from measure(size)) < BEYOND:
        size = _whole(1.5 * size, stride)
    for _ in range(HALVINGS):
        inside = [size for size in by_size if by_size[size] < 0.5]
        outside = [size for size in by_size if by_size[size] >= 0.5]
        if inside and outside:
            yield from measure(_whole((max(inside) + min(outside)) / 2, stride))
    return _estimate(level, attribute, by_size, evidence)


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
