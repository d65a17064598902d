"""Model of a path: its caches and TLBs as inferred, simulated together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.prediction.infer_agreement import SIMULATIONS, UNCLEAR, Levels, may_exceed_room
from gpudissect.simulation.cache.geometry import (
    RANDOM_POLICIES,
    Cache,
    Hierarchy,
    Index,
    IndexKind,
    Policy,
    PolicyKind,
    Route,
    Tlb,
)
from gpudissect.simulation.cache.models import HierarchyModel
from gpudissect.workload import Path

Array = NDArray[np.int64]
AMPLE_WAYS = 16  # of a cache simulated so large that it holds all accesses
FEW_WAYS = 4  # of an alternative for a cache of unknown sets
HASHED_LINES = 64  # lines of each set in an index without a pattern


@dataclass(frozen=True)
class Stage:
    """A cache on a path, as inferred."""

    element: str  # its name
    cache: Cache  # what is simulated
    hit: float  # cycles of a hit timed as a single access
    bounds: tuple[float, float] | None  # cycles of slowest hit and fastest miss; None if no miss was observed
    certain: bool  # sets and policy were found
    assumed: str  # what was assumed for what was not found; empty if nothing
    indexed_bytes: int | None = None  # over which its index was measured; None if nothing depends on it
    max_bytes: int | None = None  # footprint that it surely holds if its size is not known; None if it is
    predictable_lines: int | None = None  # resident ones, beyond which nothing is predicted; None without limit
    alternatives: tuple[Cache, ...] = ()  # other caches that it may be: only what all of them do alike is predicted


@dataclass(frozen=True)
class TlbModel:
    """A TLB as inferred: a cache of pages. A miss in it and all before it costs `cycles`, at least `threshold`."""

    element: str
    cache: Cache
    cycles: float
    threshold: float
    miss_cache: int = 0  # entries of a miss cache beside it


def stage_of_structure(level: Level, structure: Structure, policy: Policy, certain: bool) -> Stage:
    """The stage of a cache whose sets are known; `certain` if its policy is too."""
    cache = structure.cache(_fetch(level, structure.line), policy)
    assumed = "" if certain else f"policy {policy.kind}, the closest"
    stage, lines = _stage(level, cache, assumed), structure.predictable_lines(policy)
    indexed_bytes = structure.lines * structure.line
    return replace(stage, certain=certain, predictable_lines=lines, indexed_bytes=indexed_bytes)


def stage_of_capacity(level: Level, line: int, capacity: int) -> Stage:
    """The stage of a cache of which only line and capacity (bytes) are known: any of several structures."""
    lines, fetch = max(1, capacity // line), _fetch(level, line)
    one_set, modulo = (lines,), Index(IndexKind.MODULO)
    sets = max(1, lines // FEW_WAYS)
    few_ways = tuple(lines // sets + (number < lines % sets) for number in range(sets))
    scattered = np.random.default_rng(0).permutation(np.arange(HASHED_LINES * sets) % sets)
    hashed = Index(IndexKind.TABLE, table=tuple(scattered.tolist()))
    lru, random = Policy(PolicyKind.LRU), Policy(PolicyKind.RANDOM)
    alternatives = tuple(
        Cache(ways, line, fetch, index, policy)
        for ways, index, policy in ((few_ways, modulo, lru), (few_ways, hashed, lru), (one_set, modulo, random))
    )
    assumed = "unknown sets: predicted is what one set or many, LRU or random, do alike"
    return replace(_stage(level, Cache(one_set, line, fetch, modulo, lru), assumed), alternatives=alternatives)


def stage_of_ample_size(level: Level, line: int, size: int) -> Stage:
    """The stage of a cache that holds all of the at most `size` bytes accessed."""
    sets = 1 << (4 * size // (line * AMPLE_WAYS)).bit_length()
    cache = Cache((AMPLE_WAYS,) * sets, line, _fetch(level, line), Index(IndexKind.MODULO), Policy(PolicyKind.LRU))
    return replace(_stage(level, cache, "unknown sets: it holds all lines accessed"), max_bytes=size)


def _fetch(level: Level, line: int) -> int:
    return min(level.fetch.fetch or line, line)


def _stage(level: Level, cache: Cache, assumed: str) -> Stage:
    bounds = None if level.bounds is None else (float(level.bounds.hit_max), float(level.bounds.miss_min))
    return Stage(level.element, cache, level.hit.median, bounds, False, assumed)


def shift_latency(stage: Stage, hit: float) -> Stage:
    """The same cache on a path with another hit latency; its bounds shift equally."""
    shift = hit - stage.hit
    bounds = None if stage.bounds is None else (stage.bounds[0] + shift, stage.bounds[1] + shift)
    return replace(stage, hit=hit, bounds=bounds)


@dataclass(frozen=True)
class PathModel:
    """A path as inferred."""

    path: Path  # of the accesses
    stages: tuple[Stage, ...]  # its caches, nearest first; none if only the TLBs are simulated
    memory: float  # cycles of an access that none of them answers
    tlbs: tuple[TlbModel, ...] = ()  # in the order of their look-ups
    translated_from: int = 0  # position of the TLBs among the stages, as in `Route`
    tlbs_at: int = 0

    @property
    def indexed_bytes(self) -> int | None:
        """Bytes over which the index of every cache was measured."""
        return min((stage.indexed_bytes for stage in self.stages if stage.indexed_bytes is not None), default=None)

    @property
    def fetch(self) -> int:
        """Largest fetch of a stage in bytes: the first access to them comes from memory in any case."""
        return max(stage.cache.sector for stage in self.stages)

    def tlb_positions(self) -> list[PathModel]:
        """The path with its TLBs at every possible position."""
        if not self.tlbs:
            return [self]
        last = len(self.stages)
        positions = [(first, at) for first in range(last, -1, -1) for at in range(min(first, last - 1), last)]
        return [replace(self, translated_from=first, tlbs_at=at) for first, at in positions]

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """What is simulated."""
        hits = np.maximum.accumulate(np.array([stage.hit for stage in self.stages])).tolist()
        caches = {stage.element: stage.cache for stage in self.stages}
        memory = max([self.memory, *hits])
        route = Route(tuple(caches), tuple(hits), memory, self.translated_from, tlbs_at=self.tlbs_at)
        tlbs = tuple(
            Tlb(tlb.cache.ways, tlb.cache.line, tlb.cache.index, tlb.cache.policy, tlb.cycles, tlb.miss_cache)
            for tlb in self.tlbs
        )
        walk = self.tlbs[-1].cycles if self.tlbs else 0.0
        return Hierarchy(caches=caches, routes={self.path: route}, tlbs=tlbs, tlb_walk_penalty=walk)

    def classify(self, cycles: Array | NDArray[np.float64]) -> Levels:
        """The number of the stage that answered each access, by its cycles, or `UNCLEAR`; without stages of the TLB."""
        bounds = [stage.bounds for stage in self.stages if stage.bounds is not None]
        if not self.stages:
            bounds = [(tlb.threshold, tlb.threshold) for tlb in self.tlbs]
        levels = np.asarray(np.sum([cycles >= miss for _, miss in bounds], axis=0, dtype=np.int8))
        for hit, miss in bounds:
            levels[(cycles > hit) & (cycles < miss)] = UNCLEAR
        return levels

    def predict(self, offsets: Array) -> tuple[Levels, Levels]:
        """Which level must answer accesses to these bytes, cold at first, and the same in one other simulation.

        With random policies the majority of several simulations. Where a cache has alternatives nothing is predicted
        unless all agree, nor when it may lack room for data.
        """
        own = replace(self)  # with a simulator of its own, for other threads predict, too
        levels, resampled = own._predict(offsets)
        for number, stage in enumerate(self.stages):
            levels = np.where(may_exceed_room(stage.cache, stage.predictable_lines, offsets), np.int8(UNCLEAR), levels)
            for cache in stage.alternatives:
                stages = [*self.stages]
                stages[number] = replace(stage, cache=cache)
                other = replace(self, stages=tuple(stages))
                agree = levels == other.classify(other.simulate(offsets))
                levels = np.where(agree, levels, UNCLEAR).astype(np.int8)
        return levels, resampled

    def _predict(self, offsets: Array) -> tuple[Levels, Levels]:
        caches = [*(stage.cache for stage in self.stages), *(tlb.cache for tlb in self.tlbs)]
        if not any(cache.policy.kind in RANDOM_POLICIES for cache in caches):
            levels = self.classify(self.simulate(offsets))
            return levels, levels
        simulated = np.stack([self.classify(self.simulate(offsets, seed)) for seed in range(SIMULATIONS)])
        numbers = np.arange(UNCLEAR, simulated.max() + 1)
        votes = np.stack([np.sum(simulated == number, axis=0) for number in numbers])
        levels = numbers[np.argmax(votes, axis=0)].astype(np.int8)
        return levels, self.classify(self.simulate(offsets, SIMULATIONS))

    @cached_property
    def _simulated(self) -> HierarchyModel:
        return HierarchyModel(self.hierarchy)

    def simulate(self, offsets: Array, seed: int = 0) -> NDArray[np.float64]:
        """Cycles of accesses to these bytes one after the other, cold at first."""
        addresses = np.array(offsets, dtype=np.int64)
        latencies = np.empty(addresses.size)
        model = self._simulated
        model.reset(seed)
        model.walk(self.path, addresses, 0, np.empty(addresses.size, dtype=np.int8), latencies)
        return latencies
