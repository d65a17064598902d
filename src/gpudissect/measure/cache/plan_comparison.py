"""What the older methods read from the same cache: kept so that anyone can see where they differ from ours.

Saavedra's and Wong's curves (MC16 s4.1) and the change point of MT22 chapter 3, on sequential chases as their
authors ran them. They carry no confidence, for none of them has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gpudissect.measure.cache.infer_changepoint import change_point, geometric_distance
from gpudissect.measure.cache.infer_classic import ClassicReading, saavedra, wong
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.cache.plan_line import lines_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, Study
from gpudissect.vocabulary import CACHES
from gpudissect.workload import Chase, Sequential, Timing

CURVE_POINTS = 48  # sizes on Wong's curve, one fetch apart
MT22_POINTS = 60
MT22_LOADS = 255  # how many loads of a lap MT4G looks at


@dataclass(frozen=True)
class Reading:
    """What one older method reads; `value` is None where it reads nothing."""

    element: str
    attribute: str
    method: str
    value: int | None
    note: str = ""


def comparison_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Read capacity, line, sets and ways of `element` with the older methods around the capacity we found."""
    levels = known[levels_of(element)]
    level, capacity, lines = levels.level(element), known[capacity_of(element)], known[lines_of(element)]
    if level is None or capacity is None or lines is None or level.alone:
        return Outcome(knowledge=())
    limit = bench.info.limit(level.path)
    word = level.path.word
    fetch = level.fetch.fetch or lines.line

    sizes = [capacity + fetch * i for i in range(-4, CURVE_POINTS - 4) if 0 < capacity + fetch * i <= limit]
    curve = [_lap(level, size, word) for size in sizes]
    big = min(4 * capacity, limit)
    strides = [stride for stride in (word << i for i in range(24)) if stride <= big // 4]
    spread = [_lap(level, big, stride) for stride in strides]
    low, high = int(0.75 * capacity), min(int(1.25 * capacity), limit)
    step = max(fetch, (high - low) // MT22_POINTS // fetch * fetch)
    window = list(range(low // fetch * fetch, high + 1, step))
    samples = [_first_loads(level, size, fetch) for size in window]
    traces = yield [*curve, *spread, *samples]

    means = [trace.cycles.mean() / chase.order.count for trace, chase in zip(traces, [*curve, *spread], strict=False)]
    by_size = dict(zip(sizes, means[: len(sizes)], strict=True))
    by_stride = dict(zip(strides, means[len(sizes) :], strict=True))
    rows = [trace.cycles for trace in traces[len(curve) + len(spread) :]]
    change = change_point(geometric_distance(rows))
    note = (
        f"KS distance {change.distance:.2f} against {change.critical:.2f}: {'believed' if change.believed else 'not'}"
    )
    readings = (
        *_classic(element, "Saavedra 1995, latency against stride", saavedra(by_stride, big, capacity)),
        *_classic(element, "Wong 2010, latency against size", wong(by_size)),
        Reading(element, "capacity", "MT22 change point", window[change.index - 1], note),
    )
    return Outcome(knowledge=readings)


def _lap(level: Level, size: int, stride: int) -> Chase:
    order = Sequential(max(1, size // stride), stride)
    return Chase(path=level.path, order=order, timing=Timing.LAP, warmup=2, laps=4)


def _first_loads(level: Level, size: int, stride: int) -> Chase:
    order = Sequential(size // stride, stride)
    return Chase(path=level.path, order=order, timing=Timing.EACH, warmup=1,
                 picks=tuple(range(min(MT22_LOADS, order.count))))  # fmt: skip


def _classic(element: str, method: str, reading: ClassicReading) -> tuple[Reading, ...]:
    pairs = (
        ("capacity", reading.capacity),
        ("line_size", reading.line),
        ("sets", reading.sets),
        ("ways", reading.ways),
    )
    return tuple(Reading(element, attribute, method, value) for attribute, value in pairs)


def readings_of(element: str) -> Key[tuple[Reading, ...]]:
    """What the older methods read of a cache."""
    return Key(f"comparison.{element}", (tuple,))


EXPERIMENTS = tuple(
    Experiment(
        key=readings_of(element),
        element=element,
        plan=partial(comparison_plan, element),
        needs=(levels_of(element), lines_of(element), capacity_of(element)),
        quick=True,
        study=Study.COMPARE_METHODS,
    )
    for element in CACHES
)
