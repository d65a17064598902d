"""Which levels a path to memory has, and how to tell a hit in each from a miss.

Nearest level first: a tiny footprint, warm, is served by the nearest cache; pairs of accesses to fresh
memory show how much one miss brings along; a sweep over rising footprints shows the plateaus beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from gpudissect.measure.access_patterns import footprint, pairs
from gpudissect.measure.cache.infer_granularity import fetch_granularity
from gpudissect.measure.cache.infer_level import Absence, Levels, name_levels, slower_than
from gpudissect.measure.cache.infer_plateau import plateaus, summarise
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan
from gpudissect.series import Series
from gpudissect.trace import Trace
from gpudissect.vocabulary import PATHS
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest

SAMPLES = 384  # single accesses sampled of each footprint
WARMUP = 2
SWEEP_TOP = 2 << 20  # well above any private cache


CACHES_ON_PATH = {Path(path): elements for path, elements in PATHS.items()}


def levels_on(path: str) -> Key[Levels]:
    """Levels of a path; ``l2`` for the path past the caches private to an SM."""
    return Key(f"levels.{path}", (Levels,))


def levels_of(element: str) -> Key[Levels]:
    """Levels of the path that leads through a cache."""
    return levels_on(next((path for path, caches in CACHES_ON_PATH.items() if element in caches), element))


def sample(
    path: Path,
    size: int,
    stride: int,
    bench: Bench,
    *,
    alone: bool = False,
    warmup: int = WARMUP,
    samples: int = SAMPLES,
) -> Chase:
    """Time some of the accesses of a ring over `size` bytes one by one, evenly spread over a lap."""
    order = footprint(size, stride, bench.seed_for("sweep", path, size, stride))
    step = max(1, order.count // samples)
    laps = max(1, samples // order.count)
    picks = None if step == 1 else tuple(range(0, order.count, step))
    return Chase(path=path, order=order, timing=Timing.EACH, warmup=warmup, laps=laps, picks=picks, alone=alone)


def path_plan(path: Path, elements: tuple[str, ...], bench: Bench, known: Known) -> Plan:
    """The caches private to an SM on `path`, named by `elements` from the nearest on."""
    limit = bench.info.limit(path)
    if not limit:
        reason = bench.info.unsupported.get(path, "this device has no such path")
        return Outcome(knowledge=Levels(path, (), dict.fromkeys(elements, Absence(reason))))
    tiny = Chase(path=path, order=footprint(8 * path.word, path.word, 1), timing=Timing.EACH, warmup=8, laps=256)
    pair = pairs(path, limit, bench.rng("pairs", path))
    pair_chase = Chase(path=path, order=pair.order, timing=Timing.EACH, warmup=0, flush=True, alone=True)
    tiny_trace, pair_trace = yield [tiny, pair_chase]
    nearest = summarise([(8 * path.word, path.word)], [tiny_trace.cycles])
    near_fetch = fetch_granularity(pair.cycles(pair_trace), slower_than(nearest))
    stride = near_fetch.fetch or 32

    top = min(limit, SWEEP_TOP)
    steps = [stride, 4 * stride, 16 * stride] if path is Path.CONSTANT else [stride]
    sweep = [(each << i, each) for each in steps for i in range(1, 20) if each << i <= top]
    chases = [sample(path, size, each, bench) for size, each in sweep]
    traces = yield chases
    stairs = plateaus(sweep, [trace.cycles for trace in traces])
    evidence = tuple(digest(chase) for chase in (tiny, pair_chase, *chases))
    l2 = known[levels_of("l2")]
    levels = name_levels(path, elements, stairs, l2.level("l2"), pair.cycles(pair_trace), evidence)
    return Outcome(knowledge=levels, series=(latency_curve(elements[0], sweep, traces),))


def latency_curve(element: str, sweep: Sequence[tuple[int, int]], traces: Sequence[Trace]) -> Series:
    """The median of single accesses (timer included) against footprint and stride, in the order of `sweep`."""
    columns: dict[str, tuple[float | str, ...]] = {
        "footprint": tuple(size for size, _ in sweep),
        "stride": tuple(stride for _, stride in sweep),
        "latency": tuple(float(np.median(trace.cycles)) for trace in traces),
    }
    units = {"footprint": "B", "stride": "B", "latency": "cycles"}
    return Series(element, "latency against footprint", columns, units, tuple(trace.workload for trace in traces))


EXPERIMENTS = tuple(
    Experiment(
        key=levels_on(path),
        element=elements[0],
        plan=partial(path_plan, path, elements),
        needs=(levels_of("l2"),),
        quick=True,
    )
    for path, elements in CACHES_ON_PATH.items()
)
