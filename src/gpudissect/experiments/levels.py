"""Which levels a path to memory has, and how to tell a hit in each from a miss.

Nearest level first: a tiny footprint, warm, is served by the nearest cache; pairs of accesses to fresh
memory show how much one miss brings along; a sweep over rising footprints shows the plateaus beyond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Status
from gpudissect.experiments.base import Bench, Known, Outcome, Plan
from gpudissect.experiments.rings import footprint, pairs
from gpudissect.inference.anchors import bounds_between
from gpudissect.inference.granularity import Granularity, fetch_granularity
from gpudissect.inference.mixture import shares
from gpudissect.inference.plateau import Plateau, plateaus, summarise
from gpudissect.trace import Trace
from gpudissect.workload import Bounds, Chase, Path, Timing
from gpudissect.workload.digest import digest

SAMPLES = 384  # single accesses sampled of each footprint
WARMUP = 2
SWEEP_TOP = 2 << 20  # well above any private cache
SAME = 0.85  # a level must be faster than this share of what lies behind it


@dataclass(frozen=True)
class Level:
    """One cache as seen through one path.

    Attributes:
        element, path: what it is and how it is reached; `alone` if it is shared by all SMs.
        hit, behind: single-access latencies of this level and of the next one that answers its misses.
        bounds: hit or miss by a threshold (of the near part if there is a far one); None where they overlap.
        fetch: what one miss brings along.
        evidence: digests of the workloads behind all this.
        far: slower hits, of a part of the cache that is farther away.
        nearest: no other cache of this path stands before it.
        sweep: sampled cycles by footprint (bytes), where rising footprints were looked at.
    """

    element: str
    path: Path
    alone: bool
    hit: Plateau
    behind: Plateau | None
    bounds: Bounds | None
    fetch: Granularity
    evidence: tuple[str, ...]
    far: Plateau | None = None
    sweep: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    nearest: bool = True

    def split(self, cycles: NDArray[np.int64]) -> tuple[int, int]:
        """How many of some timed accesses hit and how many missed this level, or its near part if it has a far one.

        By threshold where there is one, unknown accesses left out; else by the shares of the latency distributions.
        """
        if self.behind is None:
            return cycles.size, 0
        if self.bounds is not None:
            hits = int(np.sum(cycles <= self.bounds.hit_max))
            return hits, int(np.sum(cycles >= self.bounds.miss_min))  # however slow: translation may come on top
        missed = round(self.missing(cycles) * cycles.size)
        return cycles.size - missed, missed

    def missing(self, cycles: NDArray[np.int64]) -> float:
        """Share of some timed accesses that the next level answered, by their latency distributions."""
        assert self.behind is not None
        faster = [plateau.samples for plateau in (self.hit, self.far) if plateau is not None]
        return float(shares(cycles, [*faster, self.behind.samples])[-1])


@dataclass(frozen=True)
class Absence:
    """Why a level is not there: because the device has none, or because it could not be told."""

    reason: str
    status: Status = Status.NOT_SUPPORTED


@dataclass(frozen=True)
class Levels:
    """The levels of a path, nearest first; `absent` says why a named element is not among them."""

    path: Path
    found: tuple[Level, ...]
    absent: dict[str, Absence]

    def level(self, element: str) -> Level | None:
        """The level of that name, None if absent."""
        return next((level for level in self.found if level.element == element), None)


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
    near_fetch = fetch_of(pair_trace, pair.seconds, int(max(nearest.median * 1.15, nearest.median + 6)))
    stride = near_fetch.fetch or 32

    top = min(limit, SWEEP_TOP)
    steps = [stride, 4 * stride, 16 * stride] if path is Path.CONSTANT else [stride]
    sweep = [(each << i, each) for each in steps for i in range(1, 20) if each << i <= top]
    chases = [sample(path, size, each, bench) for size, each in sweep]
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
    absent: dict[str, Absence] = {}
    for i, element in enumerate(elements):
        if i >= len(own):
            slowest = stairs[min(i, len(stairs) - 1)].median
            behind_name = "the L2" if l2 is not None else "memory"
            absent[element] = Absence(f"no footprint is answered faster than by {behind_name} ({slowest:.0f} cycles)")
            continue
        hit = own[i]
        behind = stairs[i + 1] if i + 1 < len(stairs) else None
        bounds = bounds_between(hit.samples, behind.samples) if behind else None
        miss_min = bounds.miss_min if bounds else int(hit.high * 1.15 + 6)
        fetch = fetch_of(pair_trace, seconds, miss_min)
        found.append(Level(element, path, False, hit, behind, bounds, fetch, evidence, nearest=not found))
    return Levels(path, tuple(found), absent)


def fetch_of(trace: Trace, seconds: dict[int, NDArray[np.int64]], miss_min: int) -> Granularity:
    """Fetch granularity from the trace of `rings.pairs`, whose second accesses stand at `seconds`."""
    return fetch_granularity({d: trace.cycles[positions] for d, positions in seconds.items()}, miss_min)
