"""Levels of a path to memory: plateaus of its latency curve, and the bounds of hits and misses in each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_l2_partitions import HomePartition
from gpudissect.measure.cache.infer_line import Granularity, SecondAccesses, fetch_granularity
from gpudissect.trace import Array
from gpudissect.units import format_bytes
from gpudissect.workload import Bounds, Path

MIN_STEP_RATIO, MIN_STEP_CYCLES = 1.10, 5.0  # medians further apart than both are two plateaus
MIN_PURE_SHARE = 0.97  # of a footprint's samples that lie on one plateau, for the footprint to count as served there
MIN_MIXED_SHARE = 0.1  # of some footprint's samples around the centre of a plateau; fewer are delayed accesses
MAX_PLATEAU_DEVIATION = 0.22  # relative distance of a sample from the median of its plateau
UNKNOWN_BELOW_MISSES = (0.30, 0.08)  # band of unknown accesses below the fastest misses, in shares of the gap
UNKNOWN_ABOVE_MISSES = 0.15  # distance above the slowest misses, in shares of the distance from hits to misses
MIN_NEXT_RATIO = 4  # largest footprint of the next level to that of a level
EQUAL_CYCLES = 1.5  # largest difference between medians of the same level
MIN_SLOWER_HITS, MIN_SLOWER_SHARE = 24, 0.05  # of the hits; delays make one in a hundred slower
MAX_LATENCY_RATIO = 0.85  # hit latency of a level relative to that of the next


@dataclass(frozen=True)
class Plateau:
    """One plateau of a latency curve; cycles of single timed accesses."""

    median: float
    low: float  # 0.5 % quantile
    high: float  # 99.5 % quantile
    points: tuple[tuple[int, int], ...]  # (footprint, stride) in bytes of the chains served here, nearly all of them
    samples: Array  # of those chains
    limits: tuple[float, float] = (-np.inf, np.inf)  # of the samples: others lay on no plateau, or on another
    medians: tuple[float, ...] = ()  # of those chains, which may have run on different SMs

    @property
    def deviation(self) -> float:
        """Standard deviation of the medians; 0 for one chain."""
        return float(np.std(self.medians, ddof=1)) if len(self.medians) > 1 else 0.0

    @property
    def range(self) -> float:
        """Difference between the largest and the smallest median."""
        return max(self.medians) - min(self.medians) if self.medians else 0.0

    @property
    def largest(self) -> int:
        """The largest footprint in bytes at the smallest stride."""
        finest = min(stride for _, stride in self.points)
        return max(size for size, stride in self.points if stride == finest)

    def select(self, cycles: Array) -> Array:
        """Those of the accesses to a chain of this plateau that lie on it."""
        fastest, slowest = self.limits
        return np.compress((cycles >= fastest) & (cycles <= slowest), cycles)


def plateau_of(points: Sequence[tuple[int, int]], samples: Sequence[Array]) -> Plateau:
    """One plateau from samples known to belong together."""
    pooled = np.concatenate(samples)
    low, median, high = np.quantile(pooled, [0.005, 0.5, 0.995])
    medians = tuple(float(np.median(each)) for each in samples)
    return Plateau(float(median), float(low), float(high), tuple(points), pooled, medians=medians)


def nearest_plateau(points: Sequence[tuple[int, int]], samples: Sequence[Array]) -> Plateau:
    """The plateau of the first of some rising footprints, and of those after it that lie on it.

    In a small cache, and in one of two partitions, the larger ones may overflow, if only in part.
    """
    centre = float(np.median(samples[0]))
    reach = max(MAX_PLATEAU_DEVIATION * centre, MIN_STEP_CYCLES)
    shares = [float(np.mean(np.abs(cycles - centre) <= reach)) for cycles in samples]
    alike = [i for i, share in enumerate(shares) if i == 0 or share >= MIN_PURE_SHARE]
    return plateau_of([points[i] for i in alike], [samples[i] for i in alike])


def find_plateaus(points: Sequence[tuple[int, int]], samples: Sequence[Array]) -> list[Plateau]:
    """Split a sweep over footprints and strides into plateaus, fastest first.

    `samples[i]` are cycles of single accesses at `points[i]`. The median of a chain lies on some plateau, so plateaus
    are groups of medians with a gap between them; that of an even mixture may be a single delayed access between two
    plateaus, and is none. A chain that mixes two plateaus defines neither.
    """
    medians = [float(np.quantile(cycles, 0.5, method="lower")) for cycles in samples]  # never between two plateaus
    groups: list[list[int]] = []
    for i in np.argsort(medians, kind="stable").tolist():
        last = medians[groups[-1][-1]] if groups else -np.inf
        if medians[i] <= max(last * MIN_STEP_RATIO, last + MIN_STEP_CYCLES):
            groups[-1].append(i)
        else:
            groups.append([i])
    found = []
    for group in map(sorted, groups):
        centre = float(np.quantile([medians[i] for i in group], 0.5, method="lower"))
        reach = max(MAX_PLATEAU_DEVIATION * centre, MIN_STEP_CYCLES)
        shares = {i: float(np.mean(np.abs(samples[i] - centre) <= reach)) for i in group}
        if max(shares.values()) < MIN_MIXED_SHARE:
            continue
        pure = [i for i, share in shares.items() if share >= MIN_PURE_SHARE]
        # Faster accesses were served by a nearer level. Where no chain is pure, slower ones do not belong either.
        slowest = np.inf if pure else centre + reach
        members = pure or group
        cycles = [samples[i][(samples[i] >= centre - reach) & (samples[i] <= slowest)] for i in members]
        plateau = plateau_of([points[i] for i in members], cycles)
        found.append(replace(plateau, limits=(centre - reach, float(slowest))))
    return found


def bounds_between(hits: Array, misses: Array) -> Bounds | None:
    """Bounds for single accesses (cycles, timer included), or None if the two distributions overlap.

    The threshold lies just below the fastest forced misses, not half way: a hit can be delayed, a miss is never early.
    Between the classes lies a band of unknown accesses, and all slower than the forced misses are unknown, so that a
    delayed hit seldom looks like a miss.
    """
    hit_high = float(np.quantile(hits, 0.95))
    miss_low, miss_median, miss_high = (float(q) for q in np.quantile(misses, [0.01, 0.5, 0.99]))
    gap = miss_low - hit_high
    if gap < 3:
        return None
    highest_hit, lowest_miss = (miss_low - share * gap for share in UNKNOWN_BELOW_MISSES)
    hit_max = int(np.floor(highest_hit))
    margin = max(UNKNOWN_ABOVE_MISSES * (miss_median - hit_high), 4)
    return Bounds(hit_max, max(int(np.ceil(lowest_miss)), hit_max + 1), int(np.ceil(miss_high + margin)))


def include_fastest_misses(bounds: Bounds, hits: Array, fastest: Array | None) -> Bounds:
    """Bounds below which lie the `fastest` misses too: a row of memory that is open answers sooner than others."""
    if fastest is None or np.median(fastest) >= bounds.miss_min:
        return bounds
    lower = bounds_between(hits, np.compress(fastest <= np.median(fastest) + MIN_STEP_CYCLES, fastest))
    return replace(lower, miss_max=bounds.miss_max) if lower is not None else bounds


@dataclass(frozen=True)
class FarPartition:
    """The far partition of a cache whose near partition keeps copies of its lines."""

    hits: Plateau
    overflow_footprint: int  # smallest sampled footprint in bytes that the near partition did not hold


@dataclass(frozen=True)
class Level:
    """One cache as reached by one path."""

    element: str
    path: Path
    alone: bool  # all SMs share the cache, so that each chase must run alone
    hit: Plateau
    behind: Plateau | None  # of the next level, which serves its misses
    bounds: Bounds | None  # of hits and misses (of the near partition if there is a far one); None where they overlap
    fetch: Granularity
    evidence: tuple[str, ...]
    home_partition: HomePartition | None = None  # if first accesses to lines differ
    far_partition: FarPartition | None = None  # then `home_partition` is known as well
    nearest: bool = True  # no other cache of this path comes before it

    def split(self, cycles: Array) -> tuple[int, int]:
        """Count hits and misses among timed accesses; hits in a far partition are misses, unknown ones left out.

        Raises `ValueError` where hits and misses overlap.
        """
        if self.behind is None:
            return cycles.size, 0
        if self.bounds is None:
            raise ValueError(f"{self.element}: hits and misses overlap")
        hits = int(np.sum(cycles <= self.bounds.hit_max))
        return hits, int(np.sum(cycles >= self.bounds.miss_min))  # no upper limit: translation may add to a miss


@dataclass(frozen=True)
class SlowerHits:
    """Hits that a level between two known ones serves: their share, and how much longer they take, in cycles."""

    share: float
    cycles: float

    def __str__(self) -> str:
        return (
            f"{self.share:.0%} of the hits take {self.cycles:.0f} cycles longer: another level is counted as this one"
        )


def slower_hits(level: Level, cycles: Array) -> SlowerHits | None:
    """Hits slower than the level's own in a footprint that overflows it; None if there are few, or misses are as late.

    A missing translation delays hits and misses alike, a level in between only hits.
    """
    if level.behind is None or level.bounds is None:
        return None
    slowest = max_hit_cycles(level.hit)
    hits, misses = cycles[cycles <= level.bounds.hit_max], cycles[cycles >= level.bounds.miss_min]
    late = hits[hits > slowest]
    share = late.size / max(1, hits.size)
    late_misses = float(np.mean(misses > level.behind.median + slowest - level.hit.median)) if misses.size else 0.0
    if late.size < MIN_SLOWER_HITS or share < max(MIN_SLOWER_SHARE, 2 * late_misses):
        return None
    return SlowerHits(share, float(np.median(late)) - level.hit.median)


@dataclass(frozen=True)
class Absence:
    """Why a level was not found: the device has none, or the measurement is inconclusive."""

    reason: str
    status: Status = Status.NOT_SUPPORTED


@dataclass(frozen=True)
class Levels:
    """The levels of a path, nearest first; `absent` gives the reason for each element that is not among them."""

    path: Path
    found: tuple[Level, ...]
    absent: Mapping[str, Absence]

    def level(self, element: str) -> Level | None:
        """The level of that name, None if absent."""
        return next((level for level in self.found if level.element == element), None)


def name_levels(
    path: Path,
    elements: Sequence[str],
    plateaus: Sequence[Plateau],
    l2: Level | None,
    few_words: Plateau,
    seconds: SecondAccesses,
    evidence: tuple[str, ...],
) -> Levels:
    """Assign the plateaus of a path, fastest first, to its private caches `elements`, nearest first.

    A plateau as slow as the L2 is none of them; without an L2 the last plateau is memory. `few_words`, fewer than any
    of their footprints, show whether there is a smaller cache.
    """
    private = [p for p in plateaus if l2 is None or p.median < MAX_LATENCY_RATIO * l2.hit.median]
    if l2 is None and len(private) == len(plateaus):
        private = private[:-1]
    found: list[Level] = []
    absent: dict[str, Absence] = {}
    for i, element in enumerate(elements):
        if i >= len(private):
            next_level = plateaus[min(i, len(plateaus) - 1)]
            absent[element] = _absence(next_level, l2, next_level if found else few_words)
            continue
        hit = private[i]
        behind = plateaus[i + 1] if i + 1 < len(plateaus) else None
        bounds = bounds_between(hit.samples, behind.samples) if behind else None
        if bounds and behind and behind.largest < MIN_NEXT_RATIO * hit.largest and len(plateaus) > i + 2:
            bounds = replace(bounds, miss_max=int(2 * plateaus[-1].high))  # what overflows one may overflow the next
        fetch = fetch_granularity(seconds, bounds.hit_max if bounds else max_hit_cycles(hit))
        found.append(Level(element, path, False, hit, behind, bounds, fetch, evidence, nearest=not found))
    return Levels(path, tuple(found), absent)


def _absence(next_level: Plateau, l2: Level | None, few_words: Plateau) -> Absence:
    """Why no cache faster than the next level was found."""
    cycles = next_level.median
    if few_words.median < MAX_LATENCY_RATIO * cycles:
        small = f"{format_bytes(few_words.largest)} are accessed in {few_words.median:.0f} cycles"
        return Absence(f"{small}, larger footprints in {cycles:.0f}: this cache is too small", Status.NOT_FOUND)
    if l2 is not None and cycles < l2.hit.median - EQUAL_CYCLES:
        both = f"the fastest accesses ({cycles:.0f} cycles) and those of the L2 ({l2.hit.median:.0f} cycles)"
        return Absence(f"{both} are too close to separate another cache from the L2", Status.NOT_FOUND)
    name = "memory" if l2 is None else "the L2"
    return Absence(f"no footprint is served faster than by {name} ({cycles:.0f} cycles)")


def largest_before(l2: Level, plateaus: Sequence[Plateau]) -> int | None:
    """The largest footprint of the caches before the L2 if larger ones were served by memory, not by the L2; or None.

    Then the L2 holds little more than they do: only footprints between show its hits.
    """
    nearer = [each for each in plateaus if each.median < MAX_LATENCY_RATIO * l2.hit.median]
    beyond = plateaus[len(nearer)].median if len(nearer) < len(plateaus) else 0.0
    is_memory = l2.behind is not None and beyond > MAX_LATENCY_RATIO * l2.behind.median
    return nearer[-1].largest if nearer and is_memory else None


def max_hit_cycles(hit: Plateau) -> int:
    """Cycles up to which an access is a hit, where the next level is not known yet."""
    return int(hit.high * 1.15 + 5)
