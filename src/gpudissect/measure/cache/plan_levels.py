"""Levels of each path to memory, and the bounds of hits and misses in each.

Private caches: a tiny warm footprint is served by the nearest cache; pairs of accesses to cold memory show how much one
miss fetches; a sweep over rising footprints shows the plateaus beyond.

L2: warm footprints far smaller than any L2 hit, first accesses after a flush miss. On GPUs whose L2 has two partitions,
an SM keeps copies of what it reads in the near one. Beyond its size near lines come from memory, and far lines from the
far partition. A hit there is about as slow as the nearest memory, so the home of each line must be known.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Series, Status
from gpudissect.measure.access_patterns import cold_pairs, filled, footprint, next_accesses, scattered_offsets
from gpudissect.measure.cache.infer_l2_partitions import HomePartition, find_home_partition
from gpudissect.measure.cache.infer_level import (
    MAX_LATENCY_RATIO,
    Absence,
    FarPartition,
    Level,
    Levels,
    Plateau,
    bounds_between,
    find_plateaus,
    include_fastest_misses,
    largest_before,
    max_hit_cycles,
    name_levels,
    nearest_plateau,
    plateau_of,
)
from gpudissect.measure.cache.infer_line import fastest_misses, fetch_granularity
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.trace import Array, Trace
from gpudissect.vocabulary import CACHES, PATHS
from gpudissect.workload import Chase, Explicit, Path, Timing

SAMPLES, L2_SAMPLES = 384, 1024  # single accesses of each footprint
WARMUP_LAPS = 2
MAX_SWEEP_BYTES = 2 << 20  # well above any private cache
DEFAULT_FETCH = 32
WARM_BYTES, COLD_BYTES = (64 << 10, 256 << 10), 4 << 20
SMALL_WARM_BYTES = (32 << 10, 16 << 10, 8 << 10, 4 << 10)  # of an L2 that does not hold those
WARM_STRIDE, COLD_STRIDE, L2_STRIDE = 256, 256, 128
SPARSE_STRIDE = 4096  # bytes between first accesses if a miss may also fetch the next lines
HOME_LINES, HOME_SPAN = 2048, 16 << 20  # few pages, of any size
HOME_REGIONS, HOME_REGION_BYTES, HOME_REGION_GRAIN = 16, 512 << 10, 16 << 20  # pieces of memory, far apart
L2_FOOTPRINTS = tuple(step << i for i in range(16, 30) for step in (2, 3))  # 128 KiB, 192 KiB, 256 KiB, ... 1.5 GiB
MAX_TLB_SHARE = 0.15  # of the distance from hits to the nearest memory, that a TLB miss may add to a hit
MIN_OVERFLOW_SHARE = 0.3  # of accesses that are not near hits, for a footprint to overflow the near partition
MIN_FAR_HITS = 24
PAGE_GRAIN, MAX_PAGE_LINES = 16 << 10, 4096  # one line per grain is accessed, for its translation only
MAX_SLOW_TRANSLATIONS = 0.05  # share of these accesses that may be slower than near hits; some near hits are delayed
FIRST_ACCESS_REPETITIONS = 4  # one in ten is delayed by memory refresh
MAYBE_L2 = "the L2 was not found, so what answers faster than memory may be the L2"
NO_FAR_PARTITION = "hits take equally long at every footprint: no far partition"

CACHES_ON_PATH = {Path(path): elements for path, elements in PATHS.items()}
Mask = NDArray[np.bool_]
PRIVATE_CACHES = tuple(cache for caches in PATHS.values() for cache in caches)


def levels_on(path: str) -> Key[Levels]:
    """Levels of a path; ``l2`` for the path past the private caches."""
    return Key(f"levels.{path}", (Levels,))


def levels_of(element: str) -> Key[Levels]:
    """Levels of the path that leads through a cache."""
    return levels_on(next((path for path, caches in CACHES_ON_PATH.items() if element in caches), element))


L2 = levels_of("l2")


def level_of(element: str, known: Known) -> Level | None:
    """A cache, None if absent."""
    return known[levels_of(element)].level(element)


def absent(element: str, known: Known, *attributes: str) -> Outcome:
    """The outcome for a cache that is absent."""
    absence = known[levels_of(element)].absent[element]
    return Outcome(without(absence.status, element, absence.reason, *attributes))


def for_each_cache(
    key: Callable[[str], Key[Any]],
    plan: Callable[[str, Bench, Known], Plan],
    *needs: Callable[[str], Key[Any]],
    caches: tuple[str, ...] = CACHES,
    revises: str = "",
    **declared: Any,
) -> tuple[Experiment, ...]:
    """An experiment for each cache; `key`, `plan` and `needs` take its name, `revises` is one of its attributes."""
    experiments = []
    for name in caches:
        needed, revised = tuple(need(name) for need in needs), (f"{name}.{revises}",) if revises else ()
        experiments.append(Experiment(key(name), partial(plan, name), needs=needed, revises=revised, **declared))
    return tuple(experiments)


def sample_chase(path: Path, size: int, stride: int, bench: Bench, *, alone: bool = False) -> Chase:
    """Time single accesses of a chain over `size` bytes, evenly spread over a lap."""
    order = footprint(size, stride, bench.seed_for("sweep", path, size, stride))
    step, laps = max(1, order.count // SAMPLES), max(1, SAMPLES // order.count)
    picks = None if step == 1 else tuple(range(0, order.count, step))
    return Chase(path=path, order=order, timing=Timing.EACH, warmup=WARMUP_LAPS, laps=laps, picks=picks, alone=alone)


def path_plan(path: Path, elements: tuple[str, ...], bench: Bench, known: Known) -> Plan:
    """The private caches on `path`; `elements` are their names, nearest first."""
    limit = bench.info.limit(path)
    if not limit:
        reason = bench.info.unsupported.get(path, "this device has no such path")
        return Outcome(knowledge=Levels(path, (), dict.fromkeys(elements, Absence(reason))))
    tiny = Chase(path=path, order=footprint(8 * path.word, path.word, 1), timing=Timing.EACH, warmup=8, laps=256)
    pairs = cold_pairs(path, limit, bench.rng("pairs", path))
    pair_chase = Chase(path=path, order=pairs.order, timing=Timing.EACH, warmup=0, flush=True, alone=True)
    tiny_trace, pair_trace = yield [tiny, pair_chase]
    nearest = plateau_of([(8 * path.word, path.word)], [tiny_trace.cycles])
    seconds = pairs.second_accesses(pair_trace)
    stride = fetch_granularity(seconds, max_hit_cycles(nearest)).fetch or DEFAULT_FETCH

    largest = min(limit, MAX_SWEEP_BYTES)
    strides = [stride, 4 * stride, 16 * stride] if path is Path.CONSTANT else [stride]
    sweep = [(step << i, step) for step in strides for i in range(1, 20) if step << i <= largest]
    traces = yield [sample_chase(path, size, step, bench) for size, step in sweep]
    plateaus = find_plateaus(sweep, [trace.cycles for trace in traces])
    l2 = level_of("l2", known)
    if l2 is not None and (size := largest_before(l2, plateaus)):
        between = [(size * eighths // 8 // stride * stride, stride) for eighths in range(9, 16)]
        traces += yield [sample_chase(path, size, step, bench) for size, step in between]
        sweep += between
        plateaus = find_plateaus(sweep, [trace.cycles for trace in traces])
    evidence = tuple(trace.workload for trace in (tiny_trace, pair_trace, *traces))
    levels = name_levels(path, elements, plateaus, l2, nearest, seconds, evidence)
    if known[L2].absent.get("l2", Absence("")).status is Status.NOT_FOUND and len(plateaus) < len(elements) + 2:
        levels = Levels(path, (), dict.fromkeys(elements, Absence(MAYBE_L2, Status.NOT_FOUND)))
    return Outcome(knowledge=levels, series=(latency_curve(elements[0], sweep, traces),))


def latency_curve(element: str, sweep: Sequence[tuple[int, int]], traces: Sequence[Trace]) -> Series:
    """Median of single accesses (timer included) against footprint and stride, in the order of `sweep`."""
    columns: dict[str, tuple[float | str, ...]] = {
        "footprint": tuple(size for size, _ in sweep),
        "stride": tuple(stride for _, stride in sweep),
        "latency": tuple(float(np.median(trace.cycles)) for trace in traces),
    }
    units = {"footprint": "B", "stride": "B", "latency": "cycles"}
    return Series(element, "latency against footprint", columns, units, tuple(trace.workload for trace in traces))


def l2_plan(bench: Bench, known: Known) -> Plan:
    """The L2: hits on warm footprints, misses on first accesses after a flush, then rising footprints."""
    path = Path.GLOBAL_L2
    limit = bench.info.limit(path)
    if not limit:
        return _no_l2(bench.info.unsupported.get(path, "no such path"))
    warm = [sample_chase(path, min(size, limit), WARM_STRIDE, bench, alone=True) for size in WARM_BYTES]
    cold = memory_chase(path, COLD_STRIDE, bench)
    pairs = cold_pairs(path, limit, bench.rng("pairs", path))
    traces = yield [*warm, cold, replace(cold, order=pairs.order, picks=None)]
    hit = nearest_plateau([(size, WARM_STRIDE) for size in WARM_BYTES], [trace.cycles for trace in traces[:2]])
    memory = plateau_of([(COLD_BYTES, COLD_STRIDE)], [traces[2].cycles])
    if hit.median > MAX_LATENCY_RATIO * memory.median:
        small = yield [sample_chase(path, size, L2_STRIDE, bench, alone=True) for size in SMALL_WARM_BYTES]
        hits = [i for i, each in enumerate(small) if np.median(each.cycles) <= MAX_LATENCY_RATIO * memory.median]
        if hits:
            hit = plateau_of([(SMALL_WARM_BYTES[i], L2_STRIDE) for i in hits], [small[i].cycles for i in hits])
            traces += small
    bounds = bounds_between(hit.samples, memory.samples)
    if bounds is None or hit.median > MAX_LATENCY_RATIO * memory.median:
        sparse = yield [memory_chase(path, SPARSE_STRIDE, bench)]
        memory = plateau_of([(COLD_BYTES, SPARSE_STRIDE)], [sparse[0].cycles])
        bounds, traces = bounds_between(hit.samples, memory.samples), [*traces, *sparse]
    cycles = f"a second access takes {hit.median:.0f} cycles, a first one {memory.median:.0f}"
    if hit.median > MAX_LATENCY_RATIO * memory.median:
        return _no_l2(f"{cycles}: nothing is cached")
    if bounds is None:
        return _no_l2(f"{cycles}, but hits and misses overlap", Status.NOT_FOUND)
    seconds = pairs.second_accesses(traces[3])
    fetch = fetch_granularity(seconds, bounds.hit_max)
    bounds = include_fastest_misses(bounds, hit.samples, fastest_misses(seconds, fetch))
    level = Level("l2", path, True, hit, memory, bounds, fetch, tuple(trace.workload for trace in traces))
    level = yield from _add_partitions(level, bench)
    return Outcome(knowledge=Levels(path, (level,), {}))


def memory_chase(path: Path, stride: int, bench: Bench) -> Chase:
    """First accesses after a flush; at `SPARSE_STRIDE`, so far apart that none hits what another one fetched ahead."""
    sparse = stride == SPARSE_STRIDE
    order = footprint(min(COLD_BYTES, bench.info.limit(path)), stride, bench.seed_for("sparse" if sparse else "cold"))
    first, step = (order.count // 2, 1) if sparse else (min(64, order.count // 2), 2)
    picks = tuple(range(first, order.count, step))
    return Chase(path=path, order=order, timing=Timing.EACH, warmup=0, flush=True, alone=True, picks=picks)


def _no_l2(reason: str, status: Status = Status.NOT_SUPPORTED) -> Outcome:
    return Outcome(knowledge=Levels(Path.GLOBAL_L2, (), {"l2": Absence(reason, status)}))


def _add_partitions(level: Level, bench: Bench) -> Ask[Level]:
    """The level with its partitions, if lines have a home and far ones are served by more than memory."""
    limit = bench.info.limit(level.path)
    lines = scattered_offsets(HOME_LINES, 4 * L2_STRIDE, min(HOME_SPAN, limit), bench.rng("homes"))
    traces = yield first_access_chases(level.path, lines, bench)
    home = find_home_partition(first_accesses(lines, traces))
    level = replace(level, evidence=(*level.evidence, *(trace.workload for trace in traces)), home_partition=home)
    if home is None:  # its bits may be lower or higher than those of the lines sampled
        starts = bench.rng("homes", "regions").permutation(max(1, limit // HOME_REGION_GRAIN))[:HOME_REGIONS]
        within = scattered_offsets(HOME_LINES, L2_STRIDE, HOME_REGION_BYTES, bench.rng("homes", "lines"))
        lines = np.unique(np.resize(starts, within.size) * HOME_REGION_GRAIN + within)
        lines = lines[lines + L2_STRIDE <= limit]
        traces = yield first_access_chases(level.path, lines, bench, "regions")
        home = find_home_partition(first_accesses(lines, traces))
        level = replace(level, evidence=(*level.evidence, *(trace.workload for trace in traces)), home_partition=home)
    if home is None:
        return level
    far: Plateau | None = None
    for size in (size for size in L2_FOOTPRINTS if size <= limit):
        chase, offsets = overflow_chase(level.path, size, bench)
        trace, *touches = yield [chase, *first_access_chases(level.path, offsets, bench, size)]
        evidence = (*level.evidence, trace.workload, *(touch.workload for touch in touches))
        level = replace(level, evidence=evidence)
        hits, slow_share = far_hits(level, home, size, trace, touches)
        far = hits or far
        if slow_share > MIN_OVERFLOW_SHARE:
            if far is None or (yield from _translations_miss(level, home, size, bench)):
                break
            bounds = bounds_between(level.hit.samples, far.samples)
            return replace(level, far_partition=FarPartition(far, size), bounds=bounds)
    return level


def overflow_chase(path: Path, size: int, bench: Bench) -> tuple[Chase, Array]:
    """A chase over `size` bytes of the L2 in which single accesses are timed, and the offsets of those in bytes."""
    prior = filled(path, footprint(size, L2_STRIDE, bench.seed_for("sweep", path, size, L2_STRIDE)))
    order = next_accesses(prior, L2_SAMPLES)
    return Chase(path=path, order=order, timing=Timing.EACH, warmup=0, alone=True, before=(prior,)), order.offsets()


def far_hits(
    level: Level, home: HomePartition, size: int, trace: Trace, touches: Sequence[Trace]
) -> tuple[Plateau | None, float]:
    """Hits in the far partition among the accesses of an `overflow_chase`, and the share of what was no near hit.

    `touches` are the first accesses of the same SM to the same lines. The hits are accesses to far lines that were no
    near hits, if most were faster than memory behind them; else None.
    """
    slow = _are_slow(level, home, trace.cycles)
    cycles, share = trace.cycles[slow & home.are_far(first_accesses(trace.offsets, touches))], float(np.mean(slow))
    if cycles.size < MIN_FAR_HITS or np.median(cycles) > MAX_LATENCY_RATIO * home.far:
        return None, share
    return plateau_of([(size, L2_STRIDE)], [cycles[cycles <= np.median(cycles) / MAX_LATENCY_RATIO]]), share


def _are_slow(level: Level, home: HomePartition, cycles: Array) -> Mask:
    """Which accesses are slower than near hits."""
    slowest = float(np.quantile(level.hit.samples, 0.95))  # above it lie delayed hits as well
    return np.asarray(cycles > slowest + MAX_TLB_SHARE * (home.near - slowest))


def _translations_miss(level: Level, home: HomePartition, size: int, bench: Bench) -> Ask[bool]:
    """Whether accesses to the pages of a footprint of `size` bytes are slow even if they touch few lines.

    Then a slow access to a far line may be a near hit delayed by a page walk: no evidence of the far partition.
    """
    rng = bench.rng("translations", size)
    pages = rng.permutation(size // PAGE_GRAIN)[:MAX_PAGE_LINES].astype(np.int64)
    offsets = pages * PAGE_GRAIN + rng.integers(0, PAGE_GRAIN // L2_STRIDE, pages.size) * L2_STRIDE
    chase = Chase(path=level.path, order=Explicit(offsets), timing=Timing.EACH, warmup=WARMUP_LAPS, laps=1, alone=True)
    (trace,) = yield [chase]
    return bool(np.mean(_are_slow(level, home, trace.cycles)) > MAX_SLOW_TRANSLATIONS)


def first_access_chases(path: Path, offsets: Array, bench: Bench, *parts: int | str) -> list[Chase]:
    """Chases that access `offsets` (bytes, distinct lines) first after a flush, each in another order.

    On a device that reallocates its memory for a larger chase, they must follow the chase whose lines they are about in
    the same batch: it allocates the memory that they use.
    """
    distinct = np.unique(offsets)
    orders = [bench.rng("touch", path, i, *parts).permutation(distinct) for i in range(FIRST_ACCESS_REPETITIONS)]
    chase = Chase(path=path, order=Explicit(distinct), timing=Timing.EACH, warmup=0, flush=True, alone=True)
    return [replace(chase, order=Explicit(order)) for order in orders]


def first_accesses(offsets: Array, traces: Sequence[Trace]) -> Array:
    """Cycles of the first accesses to `offsets` in their order, from traces of `first_access_chases`; (chases, n)."""
    rows = []
    for trace in traces:
        order = np.argsort(trace.offsets)
        rows.append(trace.cycles[order][np.searchsorted(trace.offsets[order], offsets)])
    return np.stack(rows)


EXPERIMENTS = (
    *(
        Experiment(levels_on(path), partial(path_plan, path, caches), element=caches[0], needs=(L2,), quick=True)
        for path, caches in CACHES_ON_PATH.items()
    ),
    Experiment(L2, l2_plan, quick=True),
)
