"""`HierarchyModel`: every cache and TLB of a GPU, simulated along one route at a time.

What an access does, in this order:

1. It asks the route's caches, nearest first, until one hits; every cache asked on the way fetches the sector.
2. On arriving at position `Route.translated_from` it first asks the TLBs, in order, until one hits; every TLB
   asked fetches the page. A hit in the first adds nothing, a hit in TLB i > 0 adds the penalty of TLB i - 1
   alone, a miss in all adds `tlb_walk_penalty` alone (`tlb_cold_walk_penalty` if memory then serves the access).
   A position equal to the number of caches means before memory; a larger one, or a route that ends before
   memory, means never. When the first TLB missed, the access costs at least the latency of `Route.tlbs_at`
   before penalties.
3. Only when every TLB missed, the page window is looked at (MC16 s5.2: the switch of page tables is part of a
   page walk). Windows are aligned blocks of `PageWindow.size` bytes; the one around offset 0 is active at first.
4. If the prefetching cache was asked and missed, the prefetcher takes note. A miss is cold when it lies above
   every earlier miss of that cache. `Prefetch.run` cold misses in a row, each the same step of at most
   `PREFETCH_STEP_MAX` bytes above the one before (so one more miss starts the row), make it fetch the next
   `Prefetch.reach` bytes, as if accessed in rising order, but not beyond the end of memory. A random
   order hardly ever does that, and nothing that was seen before counts: later laps do not prefetch
   (MC16 s4.6, finding 3).

5. Of a cache in two parts (`Partition`) the near one is asked, and if it lacks the line and its home is far, the far
   one. A hit there costs `far_penalty` more than a near one, memory behind it `far_memory_penalty` more.

The latency of an access is that of the place that served it plus all penalties met; if it got as far as a cache with
a `Distance`, what its SM and the slice that it arrived at add.

Whose access it is decides which arrays it meets: an SM has caches of its own but for those of scope GPU, and of a
cache with several copies a warp meets number ``warp mod copies`` (MT22 s4.6). The TLBs belong to the whole GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.cache.check import check_hierarchy, tlb_as_cache
from gpudissect.simulation.cache.geometry import PARTS, Distance, Hierarchy, Route, Scope
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.workload import Path

PREFETCH_STEP_MAX = 512  # bytes; what "small" means for a prefetcher's stride

NOWHERE = 2**62  # an offset that no memory reaches; no step from its negative is small


@dataclass(frozen=True)
class Actor:
    """Who accesses memory: a warp of an SM, both counted from 0.

    Which private caches it meets, `sm` says. `seat` is the place of SM 0 among all SMs, which decides what is near to
    it: so one set of private caches will do for chases that run one after the other, on whatever SM.
    """

    sm: int = 0
    warp: int = 0
    seat: int = 0

    @property
    def part(self) -> int:
        """The part of a cache in parts that is near to it."""
        return (self.seat + self.sm) % PARTS


FIRST = Actor()


@dataclass(frozen=True)
class Program:
    """A route as one actor meets it, compiled: what the inner loop follows. Arrays as `_kernel.walk` documents them."""

    steps: NDArray[np.int64]
    costs: NDArray[np.float64]
    extras: NDArray[np.float64]
    prefetch: NDArray[np.int64]
    levels: int


class HierarchyModel:
    """The caches and TLBs of a hierarchy and what they hold. Begins empty.

    The first one made in a process loads numba (see `CacheModel`). It has the private caches of `sms` SMs.

    Raises:
        UsageError: for a hierarchy that cannot be: unknown names, latencies that do not fit, impossible caches.

    """

    def __init__(self, hierarchy: Hierarchy, seed: int = 0, sms: int = 1) -> None:
        from gpudissect.simulation.cache import _kernel, _pack

        check_hierarchy(hierarchy)
        self.hierarchy = hierarchy
        self._numbers = {(name, 0, 0): number for number, name in enumerate(hierarchy.caches)}
        self._tlbs_at = len(self._numbers)
        arrays = [*hierarchy.caches.values(), *map(tlb_as_cache, hierarchy.tlbs)]
        for sm in range(sms):
            for name, cache in hierarchy.caches.items():
                for copy in range(self._arrays_of(name)):
                    if (name, sm, copy) not in self._numbers and (sm == 0 or cache.scope is Scope.SM):
                        self._numbers[name, sm, copy] = len(arrays)
                        arrays.append(cache)
        self._arrays = _pack.pack(arrays)
        self._reaches = [_pack.reach(array) for array in arrays]
        self._programs: dict[tuple[Path, Actor], Program] = {}
        self._end = NOWHERE
        self._state = np.zeros(_kernel.S_SIZE, dtype=np.int64)
        self.reset(seed)

    def reset(self, seed: int = 0, end: int = NOWHERE) -> None:
        """Empty every cache and TLB; start the random replacement over from `seed`; memory ends at byte `end`."""
        from gpudissect.simulation.cache import _kernel, _pack

        _kernel.reset(self._arrays)
        _pack.seed_draws(self._arrays, seed)
        self._state[:] = 0
        self._state[_kernel.S_HIGHEST] = -NOWHERE
        self._end = end

    def levels(self, path: Path) -> int:
        """Number of caches on a route: the level that `walk` reports for memory."""
        return len(self.hierarchy.routes[path].caches)

    def walk(
        self,
        path: Path,
        ring: NDArray[np.int64],
        position: int,
        levels: NDArray[np.int8],
        latencies: NDArray[np.float64],
        actor: Actor = FIRST,
    ) -> int:
        """Follow a ring of accesses from where the last walk left the caches.

        Args:
            path: the route, a key of `Hierarchy.routes`.
            ring: byte offsets of one lap, shape (count,), int64, not negative, contiguous and writeable, below `reach`.
            position: place in the ring of the first access.
            levels: out, shape (n,), n being how many accesses to make: the position in the route's caches of the
                one that served each, or the number of caches for memory.
            latencies: out, shape (n,), cycles of each access; or shape (0,) to leave them out.
            actor: whose accesses these are; its SM below the number that the model was made with.

        Returns:
            Place in the ring of the next access.

        """
        from gpudissect.simulation.cache._kernel import P_END, walk

        program = self._program(path, actor)
        program.prefetch[P_END] = self._end
        end = int(
            walk(
                self._arrays, program.steps, program.costs, program.extras, program.prefetch, self._state,
                ring, position, levels, latencies,
            )
        )  # fmt: skip
        if self.hierarchy.distance is not None and latencies.size:
            visited = ring[(position + np.arange(levels.size)) % ring.size]
            latencies += self._distances(self.hierarchy.distance, path, visited, levels, actor)
        return end

    def reach(self, path: Path) -> int:
        """End of the offsets that can be simulated on a route (line numbers have 31 bits)."""
        from gpudissect.simulation.cache._kernel import PAGE_WALK

        steps = self._program(path, FIRST).steps.tolist()
        return min((self._reaches[array] for kind, array, _ in steps if kind != PAGE_WALK), default=NOWHERE)

    def _distances(
        self, distance: Distance, path: Path, offsets: NDArray[np.int64], levels: NDArray[np.int8], actor: Actor
    ) -> NDArray[np.float64]:
        """Cycles that lie between an SM and what served its accesses, shape of `offsets`."""
        added = np.zeros(offsets.size)
        caches = self.hierarchy.routes[path].caches
        if distance.cache not in caches:
            return added
        if distance.by_sm:
            added += distance.by_sm[actor.seat + actor.sm]
        if distance.by_slice:
            part = actor.part if self._in_parts(distance.cache) else 0
            slices = len(distance.by_slice) // (PARTS if self._in_parts(distance.cache) else 1)
            numbers = set_numbers(distance.index, self.hierarchy.caches[distance.cache].line, slices, offsets)
            added += np.array(distance.by_slice)[part * slices + numbers]
        return np.where(levels >= caches.index(distance.cache), added, 0.0)

    def _program(self, path: Path, actor: Actor) -> Program:
        if (path, actor) not in self._programs:
            self._programs[path, actor] = self._compile(self.hierarchy.routes[path], actor)
        return self._programs[path, actor]

    def _number(self, name: str, actor: Actor) -> int:
        """Number of the array that an actor meets under the name of a cache."""
        cache = self.hierarchy.caches[name]
        if self._in_parts(name):
            return self._numbers[name, 0, actor.part]
        return self._numbers[name, actor.sm if cache.scope is Scope.SM else 0, actor.warp % cache.copies]

    def _in_parts(self, name: str) -> bool:
        return self.hierarchy.partition is not None and self.hierarchy.partition.cache == name

    def _arrays_of(self, name: str) -> int:
        """Arrays that an SM, or the GPU, has of a cache."""
        return PARTS if self._in_parts(name) else self.hierarchy.caches[name].copies

    def _compile(self, route: Route, actor: Actor) -> Program:
        """Lay out what a load on this route asks, one step after the other."""
        from gpudissect.simulation.cache import _kernel as kernel

        steps: list[tuple[int, int, int]] = []
        costs: list[float] = []

        def translate() -> None:
            after = len(steps) + len(self.hierarchy.tlbs) + 1
            penalties = [0.0, *(tlb.penalty for tlb in self.hierarchy.tlbs)]
            for number in range(len(self.hierarchy.tlbs)):
                steps.append((kernel.TLB, self._tlbs_at + number, after))
                costs.append(penalties[number])
            steps.append((kernel.PAGE_WALK, -1, after))
            costs.append(self.hierarchy.tlb_walk_penalty)

        for level, name in enumerate(route.caches):
            if level == route.translated_from:
                translate()
            steps.append((kernel.CACHE, self._number(name, actor), level))
            costs.append(route.latency[level])
            partition = self.hierarchy.partition
            if partition is not None and partition.cache == name:
                far = self._numbers[name, 0, (actor.part + 1) % PARTS]
                steps.append((kernel.FAR_PART, far, level))
                costs.append(route.latency[level] + partition.far_penalty)
        if route.translated_from == len(route.caches) and route.memory_latency is not None:
            translate()
        costs.append(route.latency[0] if route.memory_latency is None else route.memory_latency)
        return Program(
            steps=np.array(steps, dtype=np.int64).reshape(-1, 3),
            costs=np.array(costs, dtype=np.float64),
            extras=self._extras(route, actor),
            prefetch=self._prefetch(actor),
            levels=len(route.caches),
        )

    def _prefetch(self, actor: Actor) -> NDArray[np.int64]:
        from gpudissect.simulation.cache import _kernel as kernel

        ahead = self.hierarchy.prefetch
        if ahead is None:
            return np.full(kernel.P_SIZE, -1, dtype=np.int64)
        settings = [self._number(ahead.cache, actor), ahead.reach, ahead.run, PREFETCH_STEP_MAX, NOWHERE]
        return np.array(settings, dtype=np.int64)

    def _extras(self, route: Route, actor: Actor) -> NDArray[np.float64]:
        from gpudissect.simulation.cache import _kernel as kernel

        extras = np.zeros(kernel.X_SIZE)
        window = self.hierarchy.page_window
        if window is not None:
            extras[[kernel.X_WINDOW, kernel.X_SWITCH]] = window.size, window.penalty
        if route.caches:
            extras[kernel.X_FLOOR] = route.latency[route.tlbs_at]
        if self.hierarchy.tlb_cold_walk_penalty is not None:
            extras[kernel.X_COLD] = self.hierarchy.tlb_cold_walk_penalty - self.hierarchy.tlb_walk_penalty
        partition = self.hierarchy.partition
        if partition is not None and partition.cache in route.caches:
            own = [partition.home, actor.part, partition.far_memory_penalty]
            extras[[kernel.X_HOME, kernel.X_PART, kernel.X_FAR_MEMORY]] = own
        return extras
