"""The L2: what a hit and what memory costs, and whether there is a farther part between the two.

On GPUs whose L2 has two parts, an SM keeps copies of what it reads in the part near to it. Beyond its size near lines
come from memory, and far ones from the far part. A hit there is about as slow as the nearest memory: only when it is
known where a line lives, one can be told from the other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Status
from gpudissect.measure.access_patterns import footprint, pairs, scattered
from gpudissect.measure.cache.home_partition import first_touches, touches_of
from gpudissect.measure.cache.infer_anchors import bounds_between
from gpudissect.measure.cache.infer_granularity import fetch_granularity
from gpudissect.measure.cache.infer_home_partition import Homes, find_homes
from gpudissect.measure.cache.infer_level import SAME, Absence, Level, Levels, Parts
from gpudissect.measure.cache.infer_plateau import Plateau, summarise
from gpudissect.measure.cache.plan_levels import levels_of, sample
from gpudissect.measure.plan import Ask, Bench, Experiment, Known, Outcome, Plan
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest

WARM = (64 << 10, 256 << 10)
COLD_SPAN = 4 << 20
COLD_STRIDE = 256
STRIDE = 128
HOMES_SPAN = 16 << 20  # few pages, of any size
HOMES_LINES = 2048
FOOTPRINTS = tuple(step << i for i in range(16, 30) for step in (2, 3))  # 128 KiB, 192 KiB, 256 KiB, ... 1.5 GiB
TRANSLATED = 0.15  # of the way from the slowest hits to near memory: what a TLB miss may add to a hit
OVERFLOWING = 0.3  # share of accesses that are no near hits
ONE_PART = "hits take equally long at every footprint: no farther part shows"
SAMPLES = 1024
SEEN = 24  # far hits


def l2_plan(bench: Bench, known: Known) -> Plan:
    """Near hits on warm footprints far below any L2, memory by first touches after a flush, then rising footprints."""
    path = Path.GLOBAL_L2
    limit = bench.info.limit(path)
    if not limit:
        return Outcome(knowledge=Levels(path, (), {"l2": Absence(bench.info.unsupported.get(path, "no such path"))}))
    warm = [sample(path, min(size, limit), 256, bench, alone=True) for size in WARM]
    order = footprint(min(COLD_SPAN, limit), COLD_STRIDE, bench.seed_for("cold"))
    cold = Chase(path=path, order=order, timing=Timing.EACH, warmup=0, flush=True, alone=True,
                 picks=tuple(range(min(64, order.count // 2), order.count, 2)))  # fmt: skip
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
    level = Level("l2", path, True, hit, memory, bounds, fetch, evidence)
    return Outcome(knowledge=Levels(path, ((yield from _with_parts(level, bench)),), {}))


def _with_parts(level: Level, bench: Bench) -> Ask[Level]:
    """The level with its parts, if lines have homes and the far ones are faster than memory where nothing is near."""
    limit = bench.info.limit(level.path)
    lines = scattered(HOMES_LINES, 4 * STRIDE, min(HOMES_SPAN, limit), bench.rng("homes"))
    touching = first_touches(level.path, lines, bench)
    homes = find_homes(touches_of(lines, (yield touching)))
    evidence = (*level.evidence, *(digest(chase) for chase in touching))
    if homes is None:
        return replace(level, evidence=evidence)
    level = replace(level, homes=homes)
    slowest = float(np.quantile(level.hit.samples, 0.95))  # above it lie delayed hits, too
    far: Plateau | None = None
    for size in (each for each in FOOTPRINTS if each <= limit):
        chase = sample(level.path, size, STRIDE, bench, alone=True, samples=SAMPLES)
        offsets = chase.order.offsets()[list(chase.picks or range(chase.order.count))]
        touching = first_touches(level.path, offsets, bench, size)
        trace, *touches = yield [chase, *touching]
        evidence = (*evidence, *(digest(each) for each in (chase, *touching)))
        slow = trace.cycles > slowest + TRANSLATED * (homes.near - slowest)
        far_lines = homes.are_far(touches_of(trace.offsets, touches))
        far = _far_hits(trace.cycles[slow & far_lines], homes, size) or far
        if np.mean(slow) > OVERFLOWING:
            if far is None:
                break
            bounds = bounds_between(level.hit.samples, far.samples)
            return replace(level, evidence=evidence, parts=Parts(far, size), bounds=bounds)
    return replace(level, evidence=evidence)


def _far_hits(cycles: NDArray[np.int64], homes: Homes, size: int) -> Plateau | None:
    """What accesses to far lines that were no near hits have in common, if most of them were faster than far memory."""
    if cycles.size < SEEN or np.median(cycles) > SAME * homes.far:
        return None
    return summarise([(size, STRIDE)], [cycles[cycles <= np.median(cycles) / SAME]])


EXPERIMENTS = (Experiment(key=levels_of("l2"), element="l2", plan=l2_plan, quick=True),)
