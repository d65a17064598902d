"""Older methods of measuring a cache as their authors ran them: they use nothing that gpudissect finds.

Saavedra's and Wong's curves (MC16 s4.1) and the search of MT22 (s3.2, s4.2), all on sequential chases. Their readings
carry no confidence, for none of them defines one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpudissect.estimate import Series
from gpudissect.measure.cache.infer_old_methods import (
    ClassicReading,
    change_point,
    geometric_angle,
    geometric_distance,
    read_saavedra,
    read_wong,
)
from gpudissect.measure.cache.plan_levels import CACHES_ON_PATH, PRIVATE_CACHES
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, Study
from gpudissect.trace import Trace
from gpudissect.units import KIB, MIB
from gpudissect.vocabulary import OLDER_METHODS
from gpudissect.workload import Chase, Path, Sequential, Timing
from gpudissect.workload.digest import digest

FIRST_BYTES = {"constant_l15": 8 * KIB}  # MT22 s4.2.4: beyond 5 KiB, where no L1 for constants reaches
FIRST_STRIDE = {"constant_l15": 64}  # bytes: the line of that L1, whose hits must not count (MT22 s4.4)
SMALLEST_BYTES, LARGEST_BYTES = KIB, MIB
RISE = 1.1  # of the mean latency, where it leaves its floor
OVERSIZE = 4  # of the array whose latency against stride is read, relative to the capacity
WONG_STRIDE, WONG_SIZES = 32, 384  # bytes; sizes one stride apart, a quarter of them below what overflows
MT22_WORD, MT22_LOADS = 4, 255  # bytes; loads that are timed
MT22_REGION, MT22_MARGIN = KIB, KIB  # width at which the bisection ends, and what is added to either side
MT22_SLOW, MT22_QUANTILE, MT22_SLOW_SHARE = 1.25, 0.95, 0.01  # relative to that of the smallest array; share of loads
FLAT = 0.98  # of the latency of an array twice as large
NOT_FLAT = "latency does not become flat within 9 KiB above the capacity"
NO_CHANGE = "no change up to the largest array"
NOT_CACHED = "loads take as long as past the L1: they are not cached there (MT22 s4.2.1)"


@dataclass(frozen=True)
class Reading:
    """What one older method reads; `value` is None where it reads nothing."""

    element: str
    attribute: str
    method: str
    value: int | None
    note: str = ""


@dataclass(frozen=True)
class _Target:
    """The cache to be read, reached by `path`, and the sizes of arrays in bytes."""

    element: str
    path: Path
    smallest: int
    largest: int

    def sizes(self) -> list[int]:
        """Powers of two, and three quarters of them."""
        both = [size for i in range(32) for size in (self.smallest << i, self.smallest * 3 << i >> 1)]
        return [size for size in both if size <= self.largest]

    def laps(self, size: int, stride: int) -> Chase:
        return Chase(path=self.path, order=_in_order(size, stride), timing=Timing.LAP, warmup=2, laps=4)

    def loads(self, size: int) -> Chase:
        order = _in_order(size, max(MT22_WORD, self.path.word))
        picks = tuple(range(min(MT22_LOADS, order.count)))
        return Chase(path=self.path, order=order, timing=Timing.EACH, warmup=1, picks=picks)


def readings_of(method: str, element: str) -> Key[tuple[Reading, ...]]:
    """Readings of a cache by an older method."""
    return Key(f"{method}.{element}", (tuple,))


def older_method_plan(method: str, element: str, bench: Bench, known: Known) -> Plan:
    """Read `element` with one of the older methods."""
    path = next(path for path, caches in CACHES_ON_PATH.items() if element in caches)
    target = _Target(
        element, path, FIRST_BYTES.get(element, SMALLEST_BYTES), min(bench.info.limit(path), LARGEST_BYTES)
    )
    if target.largest < 2 * target.smallest:
        return Outcome(knowledge=())
    if path is Path.GLOBAL and not (yield from _is_cached(target, bench)):
        return Outcome(knowledge=(Reading(element, "capacity", OLDER_METHODS[method], None, NOT_CACHED),))
    return (yield from METHODS[method](target))


def _is_cached(target: _Target, bench: Bench) -> Ask[bool]:
    """Whether the L1 caches global loads (MT22 s4.2.1): they are faster than loads that bypass it."""
    if not bench.info.limit(Path.GLOBAL_L2):
        return True
    chase = target.laps(target.smallest, WONG_STRIDE)
    through, past = _means((yield [chase, replace(chase, path=Path.GLOBAL_L2)]), [chase, chase])
    return past > RISE * through


def _saavedra(target: _Target) -> Plan:
    """Latency against stride for ever larger arrays, then for one much larger than the last whose curve is flat."""
    capacity, floor = 0, 0.0
    for size in target.sizes():
        by_stride = yield from _by_stride(target, size)
        floor = floor or max(by_stride.values())  # at long strides a nearer cache may hit
        if max(by_stride.values()) > RISE * floor:
            break
        capacity = size
    else:
        capacity = 0
    if not capacity:
        return _classic("saavedra", target.element, ClassicReading(None), NO_CHANGE)
    large = min(OVERSIZE * capacity, target.largest)
    by_stride = yield from _by_stride(target, large)
    chases = [target.laps(large, stride) for stride in by_stride]
    return _classic("saavedra", target.element, read_saavedra(by_stride, large, capacity), "", by_stride, chases)


def _by_stride(target: _Target, size: int) -> Ask[dict[int, float]]:
    """Mean latency (cycles) of an array of `size` bytes against stride (bytes)."""
    first = FIRST_STRIDE.get(target.element, target.path.word)
    strides = [stride for stride in (first << i for i in range(24)) if stride <= size // OVERSIZE]
    chases = [target.laps(size, stride) for stride in strides]
    return dict(zip(strides, _means((yield chases), chases), strict=True))


def _wong(target: _Target) -> Plan:
    """Latency against size around the smallest array that is not resident, found by doubling and bisection."""
    floor, low = 0.0, target.smallest
    while True:
        chase = target.laps(low, WONG_STRIDE)
        (mean,) = _means((yield [chase]), [chase])
        floor = floor or mean
        if mean > RISE * floor:
            break
        low *= 2
        if low > target.largest:
            return _classic("wong", target.element, ClassicReading(None), NO_CHANGE)
    low, high = low // 2, low
    while high - low > WONG_STRIDE * WONG_SIZES // 2:
        middle = (low + high) // 2 // WONG_STRIDE * WONG_STRIDE
        chase = target.laps(middle, WONG_STRIDE)
        (mean,) = _means((yield [chase]), [chase])
        low, high = (low, middle) if mean > RISE * floor else (middle, high)
    first = max(low - WONG_SIZES // 4 * WONG_STRIDE, target.smallest)
    sizes = [size for size in range(first, first + WONG_SIZES * WONG_STRIDE, WONG_STRIDE) if size <= target.largest]
    chases = [target.laps(size, WONG_STRIDE) for size in (*sizes, min(2 * low, target.largest))]
    *means, worst = _means((yield chases), chases)
    reading, note = read_wong(dict(zip(sizes, means, strict=True))), ""
    if means[-1] < FLAT * worst:  # more sets would overflow beyond the last size
        reading, note = replace(reading, sets=None, ways=None), NOT_FLAT
    return _classic("wong", target.element, reading, note, dict(zip(sizes, means, strict=True)), chases[:-1])


def _mt22(target: _Target) -> Plan:
    """Double the array until loads are slow, bisect, then time single loads at each size, four bytes apart."""
    (trace,) = yield [target.loads(target.smallest)]
    slow = MT22_SLOW * float(np.quantile(trace.cycles, MT22_QUANTILE))

    def is_slow(size: int) -> Ask[bool]:
        (trace,) = yield [target.loads(size)]
        return float(np.mean(trace.cycles > slow)) >= MT22_SLOW_SHARE

    method, high = OLDER_METHODS["mt22"], 2 * target.smallest
    while not (yield from is_slow(high)):
        high *= 2
        if high > target.largest:
            return Outcome(knowledge=(Reading(target.element, "capacity", method, None, NO_CHANGE),))
    low = high // 2
    while high - low > MT22_REGION:
        middle = (low + high) // 2 // MT22_WORD * MT22_WORD
        low, high = (low, middle) if (yield from is_slow(middle)) else (middle, high)
    step = max(MT22_WORD, target.path.word)
    window = range(max(low - MT22_MARGIN, step), min(high + MT22_MARGIN, target.largest) + 1, step)
    traces = yield [target.loads(size) for size in window]
    rows = [trace.cycles for trace in traces]
    reduced = {"distance": geometric_distance(rows), "angle": geometric_angle(rows)}
    readings = []
    for name, values in reduced.items():
        change = change_point(values)
        verdict = "accepted" if change.accepted else "rejected"
        note = f"KS distance {change.distance:.2f} against {change.critical:.2f}: {verdict}"
        size = window[change.index] if change.accepted else None  # the first with the change: what MT22 prints
        readings.append(Reading(target.element, "capacity", f"{method}, {name}", size, note))
    columns = {"size": tuple(map(float, window)), **{name: tuple(values.tolist()) for name, values in reduced.items()}}
    units = {"size": "B", "distance": "cycles", "angle": "rad"}
    evidence = tuple(trace.workload for trace in traces)
    series = Series(target.element, "geometric distance against size, MT22", columns, units, evidence)
    return Outcome(knowledge=tuple(readings), series=(series,))


METHODS = {"saavedra": _saavedra, "wong": _wong, "mt22": _mt22}


def _means(traces: Sequence[Trace], chases: Sequence[Chase]) -> list[float]:
    """Mean cycles of a load of each chase, median over its laps."""
    return [float(np.median(trace.cycles)) / chase.order.count for trace, chase in zip(traces, chases, strict=True)]


def _in_order(size: int, stride: int) -> Sequential:
    return Sequential(max(1, size // stride), stride)


def _classic(
    method: str,
    element: str,
    reading: ClassicReading,
    note: str,
    curve: Mapping[int, float] | None = None,
    chases: Sequence[Chase] = (),
) -> Outcome:
    values = {"capacity": reading.capacity, "line_size": reading.line, "sets": reading.sets, "ways": reading.ways}
    name = OLDER_METHODS[method]
    readings = tuple(Reading(element, attribute, name, value, note) for attribute, value in values.items())
    if curve is None:
        return Outcome(knowledge=readings)
    title, against = f"latency by {method.title()}'s method", "stride" if method == "saavedra" else "size"
    columns = {against: tuple(map(float, curve)), "latency": tuple(curve.values())}
    series = Series(element, title, columns, {against: "B", "latency": "cycles"}, tuple(map(digest, chases)))
    return Outcome(knowledge=readings, series=(series,))


EXPERIMENTS = tuple(
    Experiment(
        readings_of(method, element),
        partial(older_method_plan, method, element),
        quick=True,
        study=Study.COMPARE_METHODS,
        element=element,
    )
    for method in METHODS
    for element in PRIVATE_CACHES
)
