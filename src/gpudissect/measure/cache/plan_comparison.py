"""Readings of older methods on the same cache, to show where they differ from ours.

Saavedra's and Wong's curves (MC16 s4.1) and the change point of MT22 chapter 3, on sequential chases as their authors
ran them. They carry no confidence, for none of them defines one.
"""

from dataclasses import dataclass

from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_old_methods import (
    ClassicReading,
    change_point,
    geometric_distance,
    read_saavedra,
    read_wong,
)
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import for_each_cache, level_of, levels_of
from gpudissect.measure.cache.plan_line import lines_of
from gpudissect.measure.plan import Bench, Key, Known, Outcome, Plan, Study
from gpudissect.workload import Chase, Sequential, Timing

WONG_SIZES, WONG_SIZES_BELOW = 48, 4  # one fetch apart
MT22_SIZES = 60
MT22_LOADS = 255  # of a lap that MT4G evaluates


@dataclass(frozen=True)
class Reading:
    """What one older method reads; `value` is None where it reads nothing."""

    element: str
    attribute: str
    method: str
    value: int | None
    note: str = ""


def readings_of(element: str) -> Key[tuple[Reading, ...]]:
    """Readings of a cache by the older methods."""
    return Key(f"comparison.{element}", (tuple,))


def comparison_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Read capacity, line, sets and ways of `element` with the older methods around the capacity we found."""
    level = level_of(element, known)
    capacity, lines = known[capacity_of(element)], known[lines_of(element)]
    if level is None or capacity is None or lines is None or level.alone:
        return Outcome(knowledge=())
    limit, word = bench.info.limit(level.path), level.path.word
    fetch = level.fetch.fetch or lines.line

    sizes = [capacity + fetch * i for i in range(-WONG_SIZES_BELOW, WONG_SIZES - WONG_SIZES_BELOW)]
    sizes = [size for size in sizes if 0 < size <= limit]
    by_size = [_lap_chase(level, size, word) for size in sizes]
    large = min(4 * capacity, limit)
    strides = [stride for stride in (word << i for i in range(24)) if stride <= large // 4]
    by_stride = [_lap_chase(level, large, stride) for stride in strides]
    low, high = int(0.75 * capacity), min(int(1.25 * capacity), limit)
    step = max(fetch, (high - low) // MT22_SIZES // fetch * fetch)
    window = list(range(low // fetch * fetch, high + 1, step))
    traces = yield [*by_size, *by_stride, *(_first_loads(level, size, fetch) for size in window)]

    lap_chases = [*by_size, *by_stride]
    means = [float(trace.cycles.mean()) / chase.order.count for trace, chase in zip(traces, lap_chases, strict=False)]
    wong = read_wong(dict(zip(sizes, means[: len(sizes)], strict=True)))
    saavedra = read_saavedra(dict(zip(strides, means[len(sizes) :], strict=True)), large, capacity)
    change = change_point(geometric_distance([trace.cycles for trace in traces[len(lap_chases) :]]))
    verdict = "accepted" if change.accepted else "rejected"
    note = f"KS distance {change.distance:.2f} against {change.critical:.2f}: {verdict}"
    readings = (
        *_classic_readings(element, "Saavedra 1995, latency against stride", saavedra),
        *_classic_readings(element, "Wong 2010, latency against size", wong),
        Reading(element, "capacity", "MT22 change point", window[change.index - 1], note),
    )
    return Outcome(knowledge=readings)


def _lap_chase(level: Level, size: int, stride: int) -> Chase:
    return Chase(path=level.path, order=_in_order(size, stride), timing=Timing.LAP, warmup=2, laps=4)


def _first_loads(level: Level, size: int, stride: int) -> Chase:
    order = _in_order(size, stride)
    picks = tuple(range(min(MT22_LOADS, order.count)))
    return Chase(path=level.path, order=order, timing=Timing.EACH, warmup=1, picks=picks)


def _in_order(size: int, stride: int) -> Sequential:
    return Sequential(max(1, size // stride), stride)


def _classic_readings(element: str, method: str, reading: ClassicReading) -> tuple[Reading, ...]:
    values = {"capacity": reading.capacity, "line_size": reading.line, "sets": reading.sets, "ways": reading.ways}
    return tuple(Reading(element, attribute, method, value) for attribute, value in values.items())


EXPERIMENTS = for_each_cache(
    readings_of, comparison_plan, levels_of, lines_of, capacity_of, quick=True, study=Study.COMPARE_METHODS
)
