"""Simulated caches: `CacheModel`, one cache or TLB, and `HierarchyModel`, all caches and TLBs of a GPU.

An access to a hierarchy, in this order:

1. It accesses the caches of its route, nearest first, until one hits; every cache that misses fetches the sector.
2. At position `Route.translated_from` it first accesses the TLBs, each with its miss cache, in order, until one hits;
   every TLB that misses fetches the page. A hit in the first adds nothing, a hit in TLB i > 0 adds the penalty of TLB
   i - 1 alone, a miss in all adds `tlb_walk_penalty` alone (`tlb_cold_walk_penalty` if memory then serves the access).
   A position equal to the number of caches means before memory; a larger one, or a route that ends before memory, means
   never. After a miss in the first TLB, the access costs at least the latency of `Route.tlbs_at` before penalties.
3. The page window matters only after a miss in every TLB (MC16 s5.2: the switch of page tables is part of a page walk).
   Windows are aligned blocks of `PageWindow.size` bytes; the one around offset 0 is active at first.
4. A miss in the prefetching cache is cold if it is above every earlier miss of that cache. `Prefetch.run` cold misses
   in a row, each the same step of at most `MAX_PREFETCH_STEP` bytes above the one before (so one more miss starts the
   row), fetch the next `Prefetch.reach` bytes, as if accessed in rising order, but not beyond the end of memory. A
   random order hardly ever does that, and later laps never do (MC16 s4.6, finding 3). With a run of 0 any miss does.
5. Of a partitioned cache (`Partition`) the near partition is accessed, and if it lacks the line and the line's home is
   far, its home. A hit there costs `far_penalty` more than a near one, memory behind it `far_memory_penalty` more.
6. An access that memory serves opens its row (`Rows`); in the open row of its bank it takes `Rows.saving` cycles less.

7. A cache whose `Fill` is not MISSES, unless it is the nearest of the route, is only looked up. After the access, the
   line that the cache before it evicted moves in, sector by sector; victims of prefetches do not.

The latency of an access is that of the place that served it plus all penalties; if it reached a cache with a
`Distance`, plus the cycles of its SM and slice. Every SM has its own caches, except those of scope GPU, and of a cache
with several copies a warp uses number ``warp mod copies`` (MT22 s4.6). SMs share TLBs as `Tlb.by_sm` states.

The first model ever compiles for some seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpudissect.errors import UnsupportedWorkload, UsageError
from gpudissect.simulation.cache.check import check_hierarchy
from gpudissect.simulation.cache.geometry import Cache, Distance, Fill, Hierarchy, Route, Scope, Tlb
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.workload import Path

CHUNK_ACCESSES = 1 << 18  # simulated at a time; Ctrl-C is handled between chunks
MAX_PREFETCH_STEP = 512  # bytes
NOWHERE = 2**62  # an offset outside any memory; steps from its negative are never small


@dataclass(frozen=True)
class Actor:
    """The warp that accesses memory.

    `sm` and `warp` decide its private caches. `first_sm` is the number of SM 0 among all SMs, which decides its near
    partition and distances: so one set of private caches serves consecutive chases on any SM.
    """

    sm: int = 0
    warp: int = 0
    first_sm: int = 0

    def near_partition(self, partitions: int) -> int:
        """Number of the partition near to its SM."""
        return (self.first_sm + self.sm) % partitions


DEFAULT_ACTOR = Actor()
Program = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]
"""Steps, costs, extras and prefetcher of a route for one actor, as `_kernel.walk` documents them."""
MAX_SIMULATED_LINES = 1 << 25  # and sets, of all arrays: some 400 MB


class HierarchyModel:
    """The caches and TLBs of a hierarchy, empty at first, with the private caches of `sms` SMs.

    Raises `UsageError` for an impossible hierarchy: unknown names, latencies that do not fit, impossible caches.
    """

    def __init__(self, hierarchy: Hierarchy, seed: int = 0, sms: int = 1) -> None:
        from gpudissect.simulation.cache import _kernel, _pack, _replacement
        from gpudissect.simulation.cache.compiled import with_first

        check_hierarchy(hierarchy)
        self.hierarchy = hierarchy
        self._numbers = {(name, 0, 0): number for number, name in enumerate(hierarchy.caches)}
        arrays = [*hierarchy.caches.values()]
        self._tlbs: dict[tuple[int, int, bool], int] = {}  # by level, number of the TLB, whether it is the miss cache
        for copy in range(max((tlb.count for tlb in hierarchy.tlbs), default=0)):
            for is_miss_cache in (False, True):
                for level, tlb in enumerate(hierarchy.tlbs):
                    if copy < tlb.count and (tlb.miss_cache or not is_miss_cache):
                        self._tlbs[level, copy, is_miss_cache] = len(arrays)
                        arrays.append(tlb.miss_cache_as_cache() if is_miss_cache else tlb.as_cache())
        for sm in range(sms):
            for name, cache in hierarchy.caches.items():
                for copy in range(self._partitions(name) or cache.copies):
                    if (name, sm, copy) not in self._numbers and (sm == 0 or cache.scope is Scope.SM):
                        self._numbers[name, sm, copy] = len(arrays)
                        arrays.append(cache)
        if (lines := sum(sum(cache.ways) + cache.sets for cache in arrays)) > MAX_SIMULATED_LINES:
            raise UnsupportedWorkload(f"caches are simulated up to {MAX_SIMULATED_LINES} lines and sets, got {lines}")
        nearest = {(route.caches[0], route.index) for route in hierarchy.routes.values() if route.index is not None}
        views = [(n, index) for (name, *_), n in self._numbers.items() for other, index in nearest if other == name]
        self._views = {view: len(arrays) + number for number, view in enumerate(views)}
        self._arrays = _pack.pack(arrays, views)
        self._programs: dict[tuple[Path, Actor], tuple[Program, Callable[..., Any]]] = {}
        self._reset_arrays = with_first(_replacement.reset, self._arrays)
        self._end = NOWHERE
        banks = hierarchy.rows.banks if hierarchy.rows is not None else 0
        self._state = np.zeros(_kernel.S_SIZE + banks, dtype=np.int64)
        self.reset(seed)

    def reset(self, seed: int = 0, end: int = NOWHERE) -> None:
        """Empty every cache and TLB; restart the random policies from `seed`; memory ends at byte `end`."""
        from gpudissect.simulation.cache import _kernel, _pack

        self._reset_arrays()
        _pack.seed_draws(self._arrays, seed)
        self._state[:] = 0
        self._state[_kernel.S_HIGHEST] = -NOWHERE
        self._end = end

    def walk(
        self,
        path: Path,
        chain: NDArray[np.int64],
        position: int,
        levels: NDArray[np.int8],
        latencies: NDArray[np.float64],
        actor: Actor = DEFAULT_ACTOR,
    ) -> int:
        """Run accesses along a chain, with the caches as the last walk left them.

        Args:
            path: the route, a key of `Hierarchy.routes`.
            chain: byte offsets of one lap, shape (count,), int64, contiguous and writeable, in [0, `Hierarchy.reach`).
            position: position in the chain of the first access.
            levels: out, shape (n,) for n accesses: the position in the route's caches of the one that served each, or
                the number of caches for memory.
            latencies: out, shape (n,), cycles of each access; or shape (0,) to leave them out.
            actor: the warp; its SM is below the number of SMs of the model.

        Returns the position of the next access.
        """
        from gpudissect.simulation.cache._kernel import P_END

        program, run = self._program(path, actor)
        program[-1][P_END] = self._end
        end = int(run(chain, position, levels, latencies))
        if self.hierarchy.distance is not None and latencies.size:
            visited = chain[(position + np.arange(levels.size)) % chain.size]
            latencies += self._distances(self.hierarchy.distance, path, visited, levels, actor)
        return end

    @property
    def hits_in_a_row(self) -> int:
        """Accesses since the last one after which another access may find another content, window or open row."""
        from gpudissect.simulation.cache._kernel import S_HITS

        return int(self._state[S_HITS])

    def _distances(
        self, distance: Distance, path: Path, offsets: NDArray[np.int64], levels: NDArray[np.int8], actor: Actor
    ) -> NDArray[np.float64]:
        """Cycles from an SM to the slices that its accesses reach, shape of `offsets`."""
        cycles = np.zeros(offsets.size)
        caches = self.hierarchy.routes[path].caches
        if distance.cache not in caches:
            return cycles
        if distance.by_sm:
            cycles += distance.by_sm[actor.first_sm + actor.sm]
        if distance.by_slice:
            partitions = self._partitions(distance.cache)
            slices = len(distance.by_slice) // (partitions or 1)
            first = actor.near_partition(partitions) * slices if partitions else 0
            numbers = set_numbers(distance.index, self.hierarchy.caches[distance.cache].line, slices, offsets)
            cycles += np.array(distance.by_slice)[first + numbers]
        return np.where(levels >= caches.index(distance.cache), cycles, 0.0)

    def _program(self, path: Path, actor: Actor) -> tuple[Program, Callable[..., Any]]:
        """The program of a route for one actor, and `_kernel.walk` with its arguments before the chain."""
        from gpudissect.simulation.cache._kernel import walk
        from gpudissect.simulation.cache.compiled import with_first

        if (path, actor) not in self._programs:
            program = self._compile(self.hierarchy.routes[path], actor)
            self._programs[path, actor] = program, with_first(walk, self._arrays, *program, self._state)
        return self._programs[path, actor]

    def _number(self, name: str, actor: Actor) -> int:
        """Number of the array that an actor uses of a cache."""
        cache = self.hierarchy.caches[name]
        if partitions := self._partitions(name):
            return self._numbers[name, 0, actor.near_partition(partitions)]
        return self._numbers[name, actor.sm if cache.scope is Scope.SM else 0, actor.warp % cache.copies]

    def _number_on(self, route: Route, name: str, actor: Actor) -> int:
        """Number of the array of a cache on a route, which may have its own index function for its nearest cache."""
        number = self._number(name, actor)
        return number if route.index is None or name != route.caches[0] else self._views[number, route.index]

    def _partitions(self, name: str) -> int:
        """Partitions of a cache, 0 if it is not partitioned."""
        partition = self.hierarchy.partition
        return partition.count if partition is not None and partition.cache == name else 0

    def _compile(self, route: Route, actor: Actor) -> Program:
        """The steps of a load on this route, and their costs."""
        from gpudissect.simulation.cache import _kernel as kernel
        from gpudissect.simulation.cache import _replacement

        partition, caches = self.hierarchy.partition, self.hierarchy.caches
        far_penalty = partition.far_penalty if partition is not None else 0.0
        steps: list[tuple[int, int, int, int]] = []
        costs: list[float] = []

        def translate() -> None:
            after = len(steps) + len(self.hierarchy.tlbs) + 1
            penalty = 0.0
            for level, tlb in enumerate(self.hierarchy.tlbs):
                copy = tlb.of_sm(actor.first_sm + actor.sm)
                miss_cache = 1 + self._tlbs[level, copy, True] if tlb.miss_cache else 0
                steps.append((kernel.TLB, self._tlbs[level, copy, False], after, miss_cache))
                costs.append(penalty)
                penalty = tlb.penalty
            steps.append((kernel.PAGE_WALK, -1, after, 0))
            costs.append(self.hierarchy.tlb_walk_penalty)

        for level, name in enumerate(route.caches):
            if level == route.translated_from:
                translate()
            kind, receiver = kernel.CACHE, 0
            if level and (fill := caches[name].fill) is not Fill.MISSES:
                kind = kernel.EXCLUSIVE_CACHE if fill is Fill.EXCLUSIVE else kernel.VICTIM_CACHE
            if after := [each for each in route.caches[level + 1 : level + 2] if caches[each].fill is not Fill.MISSES]:
                receiver = 1 + self._number(after[0], actor)
                self._arrays.shape[self._number_on(route, name, actor), _replacement.FEEDS] = 1
            steps.append((kind, self._number_on(route, name, actor), level, receiver))
            costs.append(route.latency[level])
            for further in range(1, self._partitions(name)):
                far = replace(actor, first_sm=actor.first_sm + further)
                home = far.near_partition(self._partitions(name))
                steps.append((kernel.FAR_PARTITION, self._number_on(route, name, far), level, home))
                costs.append(route.latency[level] + far_penalty)
        if route.translated_from == len(route.caches) and route.memory_latency is not None:
            translate()
        costs.append(route.latency[0] if route.memory_latency is None else route.memory_latency)
        extras, prefetch = np.zeros(kernel.X_SIZE), np.full(kernel.P_SIZE, -1, dtype=np.int64)
        window, ahead, rows = self.hierarchy.page_window, self.hierarchy.prefetch, self.hierarchy.rows
        if window is not None:
            extras[[kernel.X_WINDOW, kernel.X_SWITCH]] = window.size, window.penalty
        if route.caches:
            extras[kernel.X_FLOOR] = route.latency[route.tlbs_at]
        if self.hierarchy.tlb_cold_walk_penalty is not None:
            extras[kernel.X_COLD] = self.hierarchy.tlb_cold_walk_penalty - self.hierarchy.tlb_walk_penalty
        if partition is not None and partition.cache in route.caches:
            extras[[kernel.X_HOME_MASK, kernel.X_HOME_GRANULE]] = partition.home_mask, partition.granule
            extras[[kernel.X_PARTITIONS, kernel.X_NEAR]] = partition.count, actor.near_partition(partition.count)
            extras[kernel.X_FAR_MEMORY] = partition.far_memory_penalty
        if rows is not None and route.memory_latency is not None:
            extras[[kernel.X_ROW, kernel.X_BANKS, kernel.X_SAVING]] = rows.size, rows.banks, rows.saving
        if ahead is not None:
            prefetch[:] = self._number_on(route, ahead.cache, actor), ahead.reach, ahead.run, MAX_PREFETCH_STEP, NOWHERE
        return np.array(steps, dtype=np.int64).reshape(-1, 4), np.array(costs), extras, prefetch


class CacheModel:
    """One cache (or TLB), empty at first. `seed` is that of the random policies.

    Raises `UsageError` for an impossible geometry.
    """

    def __init__(self, cache: Cache, seed: int = 0) -> None:
        route = Route(("cache",), (0.0,), 0.0, translated_from=2)
        self._model = HierarchyModel(hierarchy := Hierarchy({"cache": cache}, {Path.GLOBAL: route}), seed)
        self._reach = hierarchy.reach(route)

    def access_many(self, offsets: ArrayLike) -> NDArray[np.int8]:
        """Access byte addresses, shape (n,), one after the other; returns 0 for each hit and 1 for each miss.

        Raises `UsageError` for negative addresses and those beyond 2^31 lines.
        """
        chain = np.array(offsets, dtype=np.int64).reshape(-1)  # a copy: read-only arrays have another type in numba
        if chain.size and (chain.min() < 0 or chain.max() >= self._reach):
            limits = f"[0, {self._reach})"
            raise UsageError(f"addresses of this cache must be in {limits}, got {chain.min()}..{chain.max()}")
        levels = np.empty(chain.size, dtype=np.int8)
        for start in range(0, chain.size, CHUNK_ACCESSES):
            self._model.walk(Path.GLOBAL, chain, start, levels[start : start + CHUNK_ACCESSES], np.empty(0))
        return levels

    def reset(self, seed: int = 0) -> None:
        """Empty the cache and restart the random policies from `seed`."""
        self._model.reset(seed)


class TranslationModel:
    """TLBs as caches of pages in the order of their look-ups, empty at first, the last with a miss cache beside it."""

    def __init__(self, caches: Sequence[Cache], miss_cache: int = 0) -> None:
        self.count = len(caches)
        sizes = [0] * (self.count - 1) + [miss_cache]
        tlbs = [  # their penalties are 1, 2, ..., so that of an access is the number of TLBs that missed
            Tlb(cache.ways, cache.line, cache.index, cache.policy, number, size)
            for number, (cache, size) in enumerate(zip(caches, sizes, strict=True), start=1)
        ]
        routes = {Path.GLOBAL: Route((), (), 0.0)}
        self._model = HierarchyModel(Hierarchy({}, routes, tuple(tlbs), tlb_walk_penalty=len(tlbs)))

    def reset(self) -> None:
        """Empty the TLBs."""
        self._model.reset()

    def levels(self, offsets: ArrayLike) -> NDArray[np.int8]:
        """Access byte addresses, shape (n,), one after the other; returns how many TLBs miss for each."""
        addresses = np.array(offsets, dtype=np.int64)
        penalties = np.empty(addresses.size)
        if addresses.size:
            self._model.walk(Path.GLOBAL, addresses, 0, np.empty(addresses.size, dtype=np.int8), penalties)
        return penalties.astype(np.int8)
