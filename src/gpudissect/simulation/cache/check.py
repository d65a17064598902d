"""Checks of a geometry, without simulation or numba."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf, isfinite

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import (
    PARTITION_COUNT,
    ROOM_POLICIES,
    Cache,
    Distance,
    Fill,
    Hierarchy,
    Partition,
    Policy,
    PolicyKind,
    Route,
    Scope,
)
from gpudissect.simulation.cache.index import check_index
from gpudissect.workload import Path

MAX_HOME_MASK = 1 << 48
MAX_PARTITIONS = 16
MAX_BANKS = 1 << 16
MAX_SECTORS = 32  # per line: their valid bits are one 32-bit word
MAX_RANKED_WAYS = 64  # whose ranks are 8-bit numbers
MAX_ORDER_LENGTH = 64  # replacements of a period: places are 8-bit numbers
WEIGHT_TOLERANCE = 1e-6  # difference of the sum of weights from 1: GPU files have them as decimals


def check_policy(policy: Policy, ways: Sequence[int]) -> None:
    """Raise `UsageError` unless `policy` supports sets of `ways` lines."""
    if not ways or min(ways) < 1:
        raise UsageError("a cache needs at least one set, and each set at least one way")
    if policy.kind is PolicyKind.PLRU and any(count & (count - 1) for count in ways):
        raise UsageError(f"policy 'plru' needs a power of two of ways, got {sorted(set(ways))}")
    if policy.kind in (PolicyKind.SLRU, PolicyKind.LAST_TWO_HITS) and max(ways) > MAX_RANKED_WAYS:
        raise UsageError(f"policy {policy.kind.value!r} supports up to {MAX_RANKED_WAYS} ways, got {max(ways)}")
    _check_order(policy, ways)
    if policy.kind is not PolicyKind.WEIGHTED:
        if policy.weights:
            raise UsageError(f"weights belong to policy 'weighted', not to {policy.kind.value!r}")
        return
    if set(ways) != {len(policy.weights)}:
        raise UsageError(f"policy 'weighted' has {len(policy.weights)} weights for sets of {sorted(set(ways))} ways")
    if min(policy.weights) < 0 or abs(sum(policy.weights) - 1) > WEIGHT_TOLERANCE:
        raise UsageError(f"weights must be probabilities that sum to 1, got {policy.weights}")


def _check_order(policy: Policy, ways: Sequence[int]) -> None:
    """Raise `UsageError` unless the order belongs to the policy and names ways that every set has."""
    order = policy.order
    if policy.kind is not PolicyKind.ORDER:
        if order:
            raise UsageError(f"an order belongs to policy 'order', not to {policy.kind.value!r}")
        return
    if not 1 <= len(order) <= MAX_ORDER_LENGTH:
        raise UsageError(f"an order has 1 to {MAX_ORDER_LENGTH} ways, got {len(order)}")
    if min(order) < 1 or max(order) > min(ways):
        raise UsageError(f"an order has ways 1 to {min(ways)}, which every set has, got {min(order)}..{max(order)}")


def check_cache(cache: Cache) -> None:
    """Raise `UsageError` for an impossible cache."""
    if min(cache.line, cache.sector) < 1 or cache.line % cache.sector or cache.line // cache.sector > MAX_SECTORS:
        sizes = f"a line of {cache.line} bytes cannot have sectors of {cache.sector} bytes"
        raise UsageError(f"{sizes} (1 to {MAX_SECTORS} per line)")
    if cache.copies < 1:
        raise UsageError(f"a cache has at least one copy, got {cache.copies}")
    check_policy(cache.policy, cache.ways)
    if cache.room is not None and cache.fill is not Fill.MISSES:
        raise UsageError("room for data is only simulated in caches that are filled by misses")
    if cache.room is not None and cache.policy.kind not in ROOM_POLICIES:
        known, kind = ", ".join(ROOM_POLICIES), cache.policy.kind
        raise UsageError(f"room for data is only simulated with policies {known}, not with {kind.value!r}")
    if cache.room is not None and not 1 <= cache.room.lines <= sum(cache.ways):
        raise UsageError(f"a cache has room for 1 to {sum(cache.ways)} lines, its ways, got {cache.room.lines}")
    check_index(cache.index, cache.line, cache.sets)


def check_hierarchy(hierarchy: Hierarchy) -> None:
    """Raise `UsageError` for impossible caches and TLBs, unknown names, or latencies that do not fit a route."""
    tlbs = {f"TLB {level}": tlb.as_cache() for level, tlb in enumerate(hierarchy.tlbs, start=1)}
    for name, cache in (*hierarchy.caches.items(), *tlbs.items()):
        try:
            check_cache(cache)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    for level, tlb in enumerate(hierarchy.tlbs, start=1):
        if tlb.page & (tlb.page - 1):
            raise UsageError(f"TLB {level}: a page must be a power of two of bytes, got {tlb.page}")
        if tlb.miss_cache < 0:
            raise UsageError(f"TLB {level}: a miss cache has 0 or more entries, got {tlb.miss_cache}")
        if tlb.by_sm and (len(tlb.by_sm) != hierarchy.sm_count or {*tlb.by_sm} != {*range(tlb.count)}):
            numbers = f"its number for each of {hierarchy.sm_count} SMs, from 0, none left out"
            raise UsageError(f"TLB {level}: by_sm states {numbers}, got {tlb.by_sm}")
    for level, (tlb, behind) in enumerate(pairwise(hierarchy.tlbs), start=1):
        if len({(tlb.of_sm(sm), behind.of_sm(sm)) for sm in range(hierarchy.sm_count)}) > tlb.count:
            raise UsageError(f"TLB {level}: SMs that share it must share TLB {level + 1}")
    for path, route in hierarchy.routes.items():
        for problem in _route_problems(path, route, hierarchy):
            raise UsageError(problem)
        if route.index is not None:
            nearest = hierarchy.caches[route.caches[0]]
            check_index(route.index, nearest.line, nearest.sets)
            if nearest.room is not None:
                raise UsageError(f"path {path} has its own index into {route.caches[0]!r}, which must not have a room")
    for problem in _problems(hierarchy):
        raise UsageError(problem)
    if hierarchy.distance is not None:
        _check_distance(hierarchy.distance, hierarchy)


def _problems(hierarchy: Hierarchy) -> Iterator[str]:
    prefetch, partition, window = hierarchy.prefetch, hierarchy.partition, hierarchy.page_window
    rows = hierarchy.rows
    if prefetch is not None:
        if prefetch.cache not in hierarchy.caches:
            yield f"prefetch into {prefetch.cache!r}, but the caches are {sorted(hierarchy.caches)}"
        if prefetch.run < 0 or prefetch.reach < 1:
            yield f"prefetch needs a run of at least 0 and a reach of at least 1, got {prefetch.run}, {prefetch.reach}"
    if partition is not None:
        cache = hierarchy.caches.get(partition.cache)
        if cache is None or cache.scope is not Scope.GPU or cache.copies > 1:
            yield f"a partition splits a single cache of scope gpu, not {partition.cache!r}"
        else:
            yield from _home_problems(partition, cache)
    if rows is not None and (min(rows.size, rows.banks) < 1 or rows.banks > MAX_BANKS or rows.saving < 0):
        yield f"rows need a size and 1 to {MAX_BANKS} banks, and save cycles, got {rows}"
    if rows is not None and any(rows.saving > _gap(route) for route in hierarchy.routes.values()):
        yield f"an open row saves {rows.saving:g} cycles, more than memory takes beyond the cache before it"
    if window is not None and window.size < 1:
        yield f"a page window needs a size of at least 1 byte, got {window.size}"


def _home_problems(partition: Partition, cache: Cache) -> Iterator[str]:
    if cache.fill is not Fill.MISSES:
        yield f"a partitioned cache is filled by misses, {partition.cache!r} by {cache.fill.value}"
    if not 2 <= partition.count <= MAX_PARTITIONS:
        yield f"a cache has 2 to {MAX_PARTITIONS} partitions, got {partition.count}"
    if partition.granule:
        if partition.granule < 0 or partition.granule % cache.line or partition.home_mask:
            yield f"partitions alternate by whole lines and without a mask, got {partition.granule} bytes"
    elif partition.count != PARTITION_COUNT:
        yield f"lines of {partition.count} partitions alternate by a granule: give one"
    elif not 0 < partition.home_mask < MAX_HOME_MASK or partition.home_mask % cache.line:
        yield f"a home is chosen by address bits of whole lines, got mask {partition.home_mask:#x}"


def _gap(route: Route) -> float:
    """Cycles that memory takes beyond the last cache of a route; infinite if the route ends before memory."""
    return inf if route.memory_latency is None else route.memory_latency - max(route.latency, default=0.0)


def _route_problems(path: Path, route: Route, hierarchy: Hierarchy) -> Iterator[str]:
    if unknown := sorted(set(route.caches) - set(hierarchy.caches)):
        yield f"path {path} uses {unknown}, but the caches are {sorted(hierarchy.caches)}"
    if len(set(route.caches)) < len(route.caches):
        yield f"path {path} uses a cache twice: {list(route.caches)}"
    if route.memory_latency is None:
        if route.caches or not route.latency or (len(route.latency) > 1 and path is not Path.CLUSTER):
            yield f"path {path} ends before memory: it has one latency and no caches"
        return
    if not unknown:
        yield from _fill_problems(path, [hierarchy.caches[name] for name in route.caches])
    if len(route.latency) != len(route.caches):
        yield f"path {path} has {len(route.caches)} caches but {len(route.latency)} latencies"
    if route.translated_from < 0 or not 0 <= route.tlbs_at < max(1, len(route.caches)):
        yield f"path {path}: translated_from and tlbs_at are positions in its caches"
    if route.index is not None and not route.caches:
        yield f"path {path} has an index function for its nearest cache, but no caches"


def _fill_problems(path: Path, caches: Sequence[Cache]) -> Iterator[str]:
    for giver, receiver in pairwise(caches):
        if receiver.fill is Fill.MISSES:
            continue
        if (giver.line, giver.sector) != (receiver.line, receiver.sector):
            yield f"path {path}: a cache filled by {receiver.fill.value} has the lines and sectors of the one before it"
        if giver.room is not None or giver.fill is not Fill.MISSES:
            yield f"path {path}: victims come from a cache that is filled by misses and has room for every way"


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
        partitions = partition.count if partition is not None and partition.cache == distance.cache else 1
        if len(distance.by_slice) % partitions:
            raise UsageError(f"{len(distance.by_slice)} slices do not divide into {partitions} equal partitions")
        check_index(distance.index, cache.line, len(distance.by_slice) // partitions)
