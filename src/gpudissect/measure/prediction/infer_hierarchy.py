"""The hierarchy as inferred: what was found of the caches and TLBs on a path, put together so that it is simulated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.prediction.infer_disagreement import UNCLEAR, Forecast, Places
from gpudissect.measure.prediction.infer_prediction import DRAWN, TRIES
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Route, Tlb
from gpudissect.simulation.cache.hierarchy import HierarchyModel
from gpudissect.workload import Path

Array = NDArray[np.int64]
AMPLE_WAYS = 16  # of a cache that is taken to hold all that is asked for
FEW_WAYS = 4  # of a cache of unknown sets, one way or the other
HASHED = 64  # lines of each set that a map of no pattern names


@dataclass(frozen=True)
class Stage:
    """A cache on a path, as inferred.

    Attributes:
        element: its name.
        cache: what is simulated.
        hit: cycles of a hit, as a single access is timed.
        bounds: cycles of the slowest hit and of the quickest miss; None if none was seen to miss.
        sure: sets and policy were found.
        assumed: what had to be taken for what was not found; empty if nothing.
        known: bytes over which its index was looked at; None: nothing depends on it.
        room: bytes that it may be asked for at most, where more is not known of its size; None if it is.
        instead: other caches that it may as well be: only what all of them answer alike is foretold.

    """

    element: str
    cache: Cache
    hit: float
    bounds: tuple[float, float] | None
    sure: bool
    assumed: str
    known: int | None = None
    room: int | None = None
    instead: tuple[Cache, ...] = ()


@dataclass(frozen=True)
class Translation:
    """A TLB as inferred: a cache of pages; missing in it and all before it costs `cycles`, at least `threshold`."""

    element: str
    cache: Cache
    cycles: float
    threshold: float


def structured(level: Level, structure: Structure, policy: Policy, sure: bool) -> Stage:
    """The stage of a cache whose sets are known; `sure` if its policy is, too."""
    cache = Cache(structure.ways, structure.line, _fetch(level, structure.line), structure.index, policy)
    assumed = "" if sure else f"{policy.kind} for its policy: that comes nearest"
    return replace(_stage(level, cache, assumed), sure=sure, known=structure.lines * structure.line)


def of_capacity(level: Level, line: int, capacity: int) -> Stage:
    """The stage of a cache of which only line and capacity (bytes) are known: any of several structures."""
    lines, fetch = max(1, capacity // line), _fetch(level, line)
    one_set, modulo = (lines,), Index(IndexKind.MODULO)
    sets = max(1, lines // FEW_WAYS)
    few_ways = tuple(lines // sets + (number < lines % sets) for number in range(sets))
    scattered = np.random.default_rng(0).permutation(np.arange(HASHED * sets) % sets)
    hashed = Index(IndexKind.TABLE, table=tuple(scattered.tolist()))
    lru, drawn = Policy(PolicyKind.LRU), Policy(PolicyKind.RANDOM)
    instead = tuple(
        Cache(ways, line, fetch, index, policy)
        for ways, index, policy in ((few_ways, modulo, lru), (few_ways, hashed, lru), (one_set, modulo, drawn))
    )
    assumed = "its sets are not known: foretold is what one set or many, LRU or drawn, answer alike"
    return replace(_stage(level, Cache(one_set, line, fetch, modulo, lru), assumed), instead=instead)


def ample(level: Level, line: int, size: int) -> Stage:
    """The stage of a cache that is asked for no more than `size` bytes, of which nothing is lost."""
    sets = 1 << (4 * size // (line * AMPLE_WAYS)).bit_length()
    cache = Cache((AMPLE_WAYS,) * sets, line, _fetch(level, line), Index(IndexKind.MODULO), Policy(PolicyKind.LRU))
    return replace(_stage(level, cache, "room for all that is asked for: its sets are not known"), room=size)


def _fetch(level: Level, line: int) -> int:
    return min(level.fetch.fetch or line, line)


def _stage(level: Level, cache: Cache, assumed: str) -> Stage:
    bounds = None if level.bounds is None else (float(level.bounds.hit_max), float(level.bounds.miss_min))
    return Stage(level.element, cache, level.hit.median, bounds, False, assumed)


def farther(stage: Stage, hit: float) -> Stage:
    """The same cache on a path on which a hit takes so long: its bounds move with it."""
    more = hit - stage.hit
    bounds = None if stage.bounds is None else (stage.bounds[0] + more, stage.bounds[1] + more)
    return replace(stage, hit=hit, bounds=bounds)


@dataclass(frozen=True)
class Inferred:
    """A path as inferred.

    Attributes:
        path: which.
        stages: its caches, nearest first; none where only the translations are asked about.
        memory: cycles of an access that none of them answers.
        translations: the TLBs, in the order they are asked.
        asked_from: position among the stages from which on the TLBs are asked.
        beside: position of the stage beside which they sit (see `Route.tlbs_at`).

    """

    path: Path
    stages: tuple[Stage, ...]
    memory: float
    translations: tuple[Translation, ...] = ()
    asked_from: int = 0
    beside: int = 0

    @property
    def known(self) -> int | None:
        """Bytes over which the index of every cache was looked at."""
        return min((stage.known for stage in self.stages if stage.known is not None), default=None)

    @property
    def fetch(self) -> int:
        """Bytes that some stage brings along at most: a first access to them comes from memory, whatever is there."""
        return max(stage.cache.sector for stage in self.stages)

    def variants(self) -> list[Inferred]:
        """The path with its TLBs wherever they can be asked: what is so, accesses must tell."""
        if not self.translations:
            return [self]
        last = len(self.stages)
        places = [(asked, beside) for asked in range(last, -1, -1) for beside in range(min(asked, last - 1), last)]
        return [replace(self, asked_from=asked, beside=beside) for asked, beside in places]

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """What is simulated."""
        hits = np.maximum.accumulate(np.array([stage.hit for stage in self.stages])).tolist()
        names = tuple(stage.element for stage in self.stages)
        route = Route(names, tuple(hits), max([self.memory, *hits]), self.asked_from, tlbs_at=self.beside)
        tlbs = tuple(
            Tlb(each.cache.ways, each.cache.line, each.cache.index, each.cache.policy, each.cycles)
            for each in self.translations
        )
        walk = self.translations[-1].cycles if self.translations else 0.0
        caches = dict(zip(names, (stage.cache for stage in self.stages), strict=True))
        return Hierarchy(caches=caches, routes={self.path: route}, tlbs=tlbs, tlb_walk_penalty=walk)

    def places(self, cycles: Array | NDArray[np.float64]) -> Places:
        """The number of the stage, or else of the TLB, that answered accesses that took so long, or `UNCLEAR`."""
        bounds = [stage.bounds for stage in self.stages if stage.bounds is not None]
        if not self.stages:
            bounds = [(each.threshold, each.threshold) for each in self.translations]
        places = np.asarray(np.sum([cycles >= miss for _, miss in bounds], axis=0, dtype=np.int8))
        for hit, miss in bounds:
            places[(cycles > hit) & (cycles < miss)] = UNCLEAR
        return places

    @property
    def drawn(self) -> bool:
        """Whether some victims are drawn by lot."""
        caches = [*(stage.cache for stage in self.stages), *(each.cache for each in self.translations)]
        return any(cache.policy.kind in DRAWN for cache in caches)

    def foretold(self, offsets: Array) -> Forecast:
        """Where accesses to these bytes must be answered, cold at first.

        Where victims are drawn by lot it is what most of several simulations say. Where a cache may as well be another
        nothing is foretold, unless both say the same.
        """
        places, fresh = self._foretold(offsets)
        for number, stage in enumerate(self.stages):
            for cache in stage.instead:
                stages = [*self.stages]
                stages[number] = replace(stage, cache=cache)
                other = replace(self, stages=tuple(stages))
                same = places == other.places(other.cycles(offsets))
                places = np.where(same, places, UNCLEAR).astype(np.int8)
        return Forecast(places, fresh)

    def _foretold(self, offsets: Array) -> tuple[Places, Places]:
        if not self.drawn:
            places = self.places(self.cycles(offsets))
            return places, places
        tries = np.stack([self.places(self.cycles(offsets, seed)) for seed in range(TRIES)])
        numbers = np.arange(UNCLEAR, tries.max() + 1)
        votes = np.stack([np.sum(tries == number, axis=0) for number in numbers])
        places = numbers[np.argmax(votes, axis=0)].astype(np.int8)
        return places, self.places(self.cycles(offsets, TRIES))

    def cycles(self, offsets: Array, seed: int = 0) -> NDArray[np.float64]:
        """Cycles of accesses to these bytes one after the other, cold at first."""
        ring = np.array(offsets, dtype=np.int64)
        latencies = np.empty(ring.size)
        model = HierarchyModel(self.hierarchy, seed)
        model.walk(self.path, ring, 0, np.empty(ring.size, dtype=np.int8), latencies)
        return latencies


def repeated(offsets: Array, size: int) -> NDArray[np.bool_]:
    """Which accesses are not the first to their `size` bytes."""
    again = np.ones(offsets.size, dtype=bool)
    again[np.unique(offsets // size, return_index=True)[1]] = False
    return again
