"""The L2: what a hit and what memory costs, and whether there is a farther part between the two.

On GPUs whose L2 has partitions, an SM keeps what it reads in the part near to it as long as that has room; beyond
that it is served from afar, in about the time that the nearest memory takes. Then no threshold tells a hit from a
miss, and shares of distributions take the place of counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Status
from gpudissect.experiments.base import Ask, Bench, Known, Outcome, Plan
from gpudissect.experiments.levels import sample
from gpudissect.experiments.rings import footprint, pairs
from gpudissect.inference.anchors import bounds_between
from gpudissect.inference.granularity import fetch_granularity
from gpudissect.inference.level import SAME, Absence, Level, Levels, far_part
from gpudissect.inference.plateau import Plateau, summarise
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest

WARM = (64 << 10, 256 << 10)
COLD_SPAN = 4 << 20
COLD_STRIDE = 256
SWEEP = tuple(step << (19 + i) for i in range(11) for step in (2, 3))  # 1 MiB, 1.5 MiB, 2 MiB, ...
SWEEP_STRIDE = 128
ONE_PART = "hits take equally long at every footprint: no farther part shows"
AS_SLOW = 0.95  # slower than this share of memory's median is memory, or as slow

Samples = NDArray[np.int64]


def l2_plan(bench: Bench, known: Known) -> Plan:
    """Near hits on warm footprints far below any L2, memory by first touches after a flush, then rising footprints."""
    path = Path.GLOBAL_L2
    limit = bench.info.limit(path)
    if not limit:
        return Outcome(knowledge=Levels(path, (), {"l2": Absence(bench.info.unsupported.get(path, "no such path"))}))
    warm = [sample(path, size, 256, bench, alone=True) for size in WARM]
    order = footprint(COLD_SPAN, COLD_STRIDE, bench.seed_for("cold"))
    cold = Chase(path=path, order=order, timing=Timing.EACH, warmup=0, flush=True, alone=True,
                 picks=tuple(range(64, order.count, 2)))  # fmt: skip
    pair = pairs(path, limit, bench.rng("pairs", path))
    pair_chase = Chase(path=path, order=pair.order, timing=Timing.EACH, warmup=0, flush=True, alone=True)
    traces = yield [*warm, cold, pair_chase]
    hit = summarise([(size, 256) for size in WARM], [trace.cycles for trace in traces[:2]])
    memory = summarise([(COLD_SPAN, COLD_STRIDE)], [traces[2].cycles])
    bounds = bounds_between(hit.samples, memory.samples)
    said = f"a second visit takes {hit.median:.0f} cycles, a first {memory.median:.0f}"
    if hit.median > SAME * memory.median:
        return Outcome(knowledge=Levels(path, (), {"l2": Absence(f"{said}: nothing is cached")}))
    if bounds is None:
        noisy = Absence(f"{said}, but the timings scatter too much to tell them apart", Status.NOT_FOUND)
        return Outcome(knowledge=Levels(path, (), {"l2": noisy}))
    fetch = fetch_granularity(pair.cycles(traces[3]), bounds.miss_min)
    evidence = tuple(digest(chase) for chase in (*warm, cold, pair_chase))
    sweep, swept = yield from _sweep(path, memory, bench)
    far = far_part(sweep, SWEEP_STRIDE, hit, memory)
    if far:  # then what can be told from a near hit by a threshold is a far one
        bounds = bounds_between(hit.samples, far.samples)
    level = Level("l2", path, True, hit, memory, bounds, fetch, (*evidence, *swept), far, sweep)
    return Outcome(knowledge=Levels(path, (level,), {}))


def _sweep(path: Path, memory: Plateau, bench: Bench) -> Ask[tuple[dict[int, Samples], tuple[str, ...]]]:
    """Rising footprints until memory serves a good part of them: cycles by size, and the digests."""
    sweep: dict[int, Samples] = {}
    evidence: tuple[str, ...] = ()
    for size in (each for each in SWEEP if each <= bench.info.limit(path)):
        chase = sample(path, size, SWEEP_STRIDE, bench, alone=True, warmup=1)
        (trace,) = yield [chase]
        sweep[size] = trace.cycles
        evidence = (*evidence, digest(chase))
        if np.quantile(trace.cycles, 0.75) > AS_SLOW * memory.median:
            break
    return sweep, evidence
