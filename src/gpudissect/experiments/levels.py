"""Which levels a path to memory has, and how to tell a hit in each from a miss.

Nearest level first: a tiny footprint, warm, is served by the nearest cache; pairs of accesses to fresh
memory show how much one miss brings along; a sweep over rising footprints shows the plateaus beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.experiments.base import Bench, Known, Outcome, Plan
from gpudissect.experiments.rings import footprint, pairs
from gpudissect.inference.anchors import bounds_between
from gpudissect.inference.granularity import Granularity, fetch_granularity
from gpudissect.inference.plateau import Plateau, plateaus, summarise
from gpudissect.trace import Trace
from gpudissect.workload import Bounds, Chase, Path, Timing
from gpudissect.workload.digest import digest

SAMPLES = 384  # single accesses sampled of each footprint
WARMUP = 2
SWEEP_TOP = 1 << 20  # no private cache is larger
L2_WARM = (64 << 10, 256 << 10)
COLD_SPAN = 1 << 20
SAME = 0.85  # a level must be faster than this share of what lies behind it


@dataclass(frozen=True)
class Level:
    """One cache as seen through one path.

    Attributes:
        element, path: what it is and how it is reached; `alone` if it is shared by all SMs.
        hit, behind: single-access latencies of this level and of the next one that answers its misses.
        bounds: hit or miss; None when the two cannot be told apart.
        fetch: what one miss brings along.
        evidence: digests of the workloads behind all this.
    """

    element: str
    path: Path
    alone: bool
    hit: Plateau
    behind: Plateau | None
    bounds: Bounds | None
    fetch: Granularity
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Levels:
    """The levels of a path, nearest first; `absent` says why a named element is not among them."""

    path: Path
    found: tuple[Level, ...]
    absent: dict[str, str]

    def level(self, element: str) -> Level | None:
        """The level of that name, None if absent."""
        return next((level for level in self.found if level.element == element), None)


def _sample(path: Path, size: int, stride: int, bench: Bench, alone: bool = False) -> Chase:
    order = footprint(size, stride, bench.seed_for("sweep", path, size, stride))
    step = max(1, order.count // SAMPLES)
    laps = max(1, SAMPLES // order.count)
    picks = None if step == 1 else tuple(range(0, order.count, step))
    return Chase(path=path, order=order, timing=Timing.EACH, warmup=WARMUP, laps=laps, picks=picks, alone=alone)


def l2_plan(bench: Bench, known: Known) -> Plan:
    """The L2 against memory: warm footprints far below any L2, and first touches after a flush."""
    path = Path.GLOBAL_L2
    if not bench.info.limit(path):
        return Outcome(knowledge=Levels(path, (), {"l2": bench.info.unsupported.get(path, "no such path")}))
    warm = [_sample(path, size, 256, bench, alone=True) for size in L2_WARM]
    cold_order = footprint(COLD_SPAN, 256, bench.seed_for("cold"))
    cold = Chase(path=path, order=cold_order, timing=Timing.EACH, warmup=0, flush=True, alone=True,
                 picks=tuple(range(64, cold_order.count, 4)))  # fmt: skip
    pair = pairs(path, bench.info.limit(path), bench.rng("pairs", path))
    pair_chase = Chase(path=path, order=pair.order, timing=Timing.EACH, warmup=0, flush=True, alone=True)
    traces = yield [*warm, cold, pair_chase]
    hit = summarise([(size, 256) for size in L2_WARM], [trace.cycles for trace in traces[:2]])
    miss = summarise([(COLD_SPAN, 256)], [traces[2].cycles])
    evidence = tuple(digest(chase) for chase in (*warm, cold, pair_chase))
    bounds = bounds_between(hit.samples, miss.samples)
    if bounds is None or hit.median > SAME * miss.median:
        reason = (
            f"a second visit ({hit.median:.0f} cycles) is no faster than a first ({miss.median:.0f}): nothing is cached"
        )
        return Outcome(knowledge=Levels(path, (), {"l2": reason}))
    fetch = _fetch(traces[3], pair.seconds, bounds.miss_min)
    level = Level("l2", path, True, hit, miss, bounds, fetch, evidence)
    return Outcome(knowledge=Levels(path, (level,), {}))


def path_plan(path: Path, elements: tuple[str, ...], bench: Bench, known: Known) -> Plan:
    """The caches private to an SM on `path`, named by `elements` from the nearest on."""
    limit = bench.info.limit(path)
    if not limit:
        reason = bench.info.unsupported.get(path, "this device has no such path")
        return Outcome(knowledge=Levels(path, (), dict.fromkeys(elements, reason)))
    tiny = Chase(path=path, order=footprint(8 * path.word, path.word, 1), timing=Timing.EACH, warmup=8, laps=256)
    pair = pairs(path, limit, bench.rng("pairs", path))
    pair_chase = Chase(path=path, order=pair.order, timing=Timing.EACH, warmup=0, flush=True, alone=True)
    tiny_trace, pair_trace = yield [tiny, pair_chase]
    nearest = summarise([(8 * path.word, path.word)], [tiny_trace.cycles])
    near_fetch = _fetch(pair_trace, pair.seconds, int(max(nearest.median * 1.15, nearest.median + 6)))
    stride = near_fetch.fetch or 32

    top = min(limit, SWEEP_TOP)
    steps = [stride, 4 * stride, 16 * stride] if path is Path.CONSTANT else [stride]
    sweep = [(each << i, each) for each in steps for i in range(1, 20) if each << i <= top]
    chases = [_sample(path, size, each, bench) for size, each in sweep]
    traces = yield chases
    stairs = plateaus(sweep, [trace.cycles for trace in traces])
    evidence = tuple(digest(chase) for chase in (tiny, pair_chase, *chases))
    return Outcome(knowledge=_name_levels(path, elements, stairs, pair_trace, pair.seconds, known, evidence))


def _name_levels(
    path: Path,
    elements: tuple[str, ...],
    stairs: list[Plateau],
    pair_trace: Trace,
    seconds: dict[int, NDArray[np.int64]],
    known: Known,
    evidence: tuple[str, ...],
) -> Levels:
    """Give the plateaus of a path their names; what is as slow as the L2 is not a cache of this path's own."""
    l2 = known["levels.l2"].level("l2")
    own = [stair for stair in stairs if l2 is None or stair.median < SAME * l2.hit.median]
    if l2 is None and len(own) == len(stairs):
        own = stairs[:-1]  # without an L2 the last plateau is memory
    found: list[Level] = []
    absent: dict[str, str] = {}
    for i, element in enumerate(elements):
        if i >= len(own):
            slowest = stairs[min(i, len(stairs) - 1)].median
            behind_name = "the L2" if l2 is not None else "memory"
            absent[element] = f"no footprint is answered faster than by {behind_name} ({slowest:.0f} cycles)"
            continue
        hit = own[i]
        behind = stairs[i + 1] if i + 1 < len(stairs) else None
        bounds = bounds_between(hit.samples, behind.samples) if behind else None
        miss_min = bounds.miss_min if bounds else int(hit.high * 1.15 + 6)
        fetch = _fetch(pair_trace, seconds, miss_min)
        found.append(Level(element, path, False, hit, behind, bounds, fetch, evidence))
    return Levels(path, tuple(found), absent)


def _fetch(trace: Trace, seconds: dict[int, NDArray[np.int64]], miss_min: int) -> Granularity:
    return fetch_granularity({d: trace.cycles[positions] for d, positions in seconds.items()}, miss_min)
