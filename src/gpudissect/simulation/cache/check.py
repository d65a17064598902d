"""Whether a geometry can be: checks that need no simulation and no numba."""

from __future__ import annotations

from math import isfinite

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import PARTS, Cache, Distance, Hierarchy, Route, Scope, Tlb
from gpudissect.simulation.cache.index import check_index
from gpudissect.simulation.cache.policy import check_policy
from gpudissect.workload import Path

MAX_HOME = 1 << 48
MAX_SECTORS = 32  # a line's valid bits are one 32-bit word


def check_cache(cache: Cache) -> None:
    """Raise `UsageError` for a cache that cannot be."""
    for name, size in (("line", cache.line), ("sector", cache.sector)):
        if size < 1 or size & (size - 1):
            raise UsageError(f"a {name} must be a power of two of bytes, got {size}")
    if cache.sector > cache.line or cache.line // cache.sector > MAX_SECTORS:
        raise UsageError(
            f"a line of {cache.line} bytes cannot have sectors of {cache.sector} bytes (1 to {MAX_SECTORS} a line)"
        )
    if cache.copies < 1:
        raise UsageError(f"a cache has at least one copy, got {cache.copies}")
    check_policy(cache.policy, cache.ways)
    check_index(cache.index, cache.line, cache.sets)


def check_hierarchy(hierarchy: Hierarchy) -> None:
    """Raise `UsageError` for impossible caches and TLBs, unknown names, or latencies that do not fit a route."""
    tlbs = {f"TLB {level}": tlb_as_cache(tlb) for level, tlb in enumerate(hierarchy.tlbs, start=1)}
    for name, cache in (*hierarchy.caches.items(), *tlbs.items()):
        try:
            check_cache(cache)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    for path, route in hierarchy.routes.items():
        _check_route(path, route, hierarchy)
    ahead = hierarchy.prefetch
    if ahead is not None:
        if ahead.cache not in hierarchy.caches:
            raise UsageError(f"prefetch into {ahead.cache!r}, but the caches are {sorted(hierarchy.caches)}")
        if ahead.run < 1 or ahead.reach < 1:
            raise UsageError(f"prefetch needs run and reach of at least 1, got {ahead.run} and {ahead.reach}")
    partition = hierarchy.partition
    if partition is not None:
        split = hierarchy.caches.get(partition.cache)
        if split is None or split.scope is not Scope.GPU or split.copies > 1:
            raise UsageError(f"a partition splits a single cache of scope gpu, not {partition.cache!r}")
        if not 0 < partition.home < MAX_HOME or partition.home % split.line:
            raise UsageError(f"a home is chosen by address bits of whole lines, got mask {partition.home:#x}")
    if hierarchy.distance is not None:
        _check_distance(hierarchy.distance, hierarchy)
    window = hierarchy.page_window
    if window is not None and window.size < 1:
        raise UsageError(f"a page window needs a size of at least 1 byte, got {window.size}")


def _check_route(path: Path, route: Route, hierarchy: Hierarchy) -> None:
    unknown = set(route.caches) - set(hierarchy.caches)
    if unknown:
        raise UsageError(f"path {path} uses {sorted(unknown)}, but the caches are {sorted(hierarchy.caches)}")
    if len(set(route.caches)) < len(route.caches):
        raise UsageError(f"path {path} uses a cache twice: {list(route.caches)}")
    if route.memory_latency is None:
        if route.caches or not route.latency or (len(route.latency) > 1 and path is not Path.CLUSTER):
            raise UsageError(f"path {path} ends before memory: it takes one latency and no caches")
        return
    if len(route.latency) != len(route.caches):
        raise UsageError(f"path {path} has {len(route.caches)} caches but {len(route.latency)} latencies")
    if route.translated_from < 0 or not 0 <= route.tlbs_at < max(1, len(route.caches)):
        raise UsageError(f"path {path}: translated_from and tlbs_at are positions in its caches")


def _check_distance(distance: Distance, hierarchy: Hierarchy) -> None:
    cache = hierarchy.caches.get(distance.cache)
    if cache is None or cache.scope is not Scope.GPU:
        raise UsageError(f"distances are those of a cache of scope gpu, not of {distance.cache!r}")
    if len(distance.by_sm) not in (0, hierarchy.sm_count):
        raise UsageError(f"{len(distance.by_sm)} distances for {hierarchy.sm_count} SMs")
    if not all(isfinite(cycles) and cycles >= 0 for cycles in (*distance.by_sm, *distance.by_slice)):
        raise UsageError("distances are cycles, finite and not negative")
    if distance.by_slice:
        partition = hierarchy.partition
        parts = PARTS if partition is not None and partition.cache == distance.cache else 1
        if len(distance.by_slice) % parts:
            raise UsageError(f"{len(distance.by_slice)} slices cannot lie in {parts} equal parts")
        check_index(distance.index, cache.line, len(distance.by_slice) // parts)


def tlb_as_cache(tlb: Tlb) -> Cache:
    """A TLB level as what it is: a cache whose lines are pages."""
    return Cache(ways=tlb.ways, line=tlb.page, sector=tlb.page, index=tlb.index, policy=tlb.policy)
