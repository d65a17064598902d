"""What the experiments should find on a simulated GPU: the values of its hierarchy, by element and attribute."""

from dataclasses import replace

import numpy as np

from gpudissect.estimate import Value
from gpudissect.measure.cache.plan_policy import RATE_SIZES
from gpudissect.measure.cache.plan_sets import MIN_INDEX_SPAN
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Policy, PolicyKind, Route, Tlb
from gpudissect.simulation.cache.index import canonical
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.vocabulary import EVERY_ACCESS, MISSES_ONLY
from gpudissect.workload import Path

WARMUP_LAPS, MIN_RATE_LAPS, RATE_ACCESSES = 10, 10, 1 << 17
Truth = dict[tuple[str, str], Value]
DEPEND_ON_DISTANCE = {
    *((cache, "miss_penalty") for cache in ("l1", "texture", "l2")),
    *(("l2", latency) for latency in ("hit_latency", "far_latency")),
    *(("dram", latency) for latency in ("hit_latency", "near_latency", "far_latency")),
}
"""What has no single value where SMs and slices of the L2 are at different distances."""


def truth_of(hierarchy: Hierarchy) -> Truth:
    """Values of a GPU with caches ``l1``, ``texture`` and ``l2`` on the paths of global and texture memory.

    Left out is what has no single value: the latency of memory with open rows, the miss rate of a prefetching cache and
    of one that replaces ways in a fixed order (it depends on where in the order a lap begins), latencies that depend on
    the SM and the slice of the L2.
    """
    l1, texture, l2 = (_nearest(hierarchy, path) for path in (Path.GLOBAL, Path.TEXTURE, Path.GLOBAL_L2))
    is_shared = hierarchy.routes[Path.TEXTURE].caches[0] == "l1"
    l1_hit, next_hit, *_ = hierarchy.routes[Path.GLOBAL].latency
    hit, memory = hierarchy.routes[Path.GLOBAL_L2].latency[0], hierarchy.routes[Path.GLOBAL_L2].memory_latency
    texture_hit, texture_miss, *_ = hierarchy.routes[Path.TEXTURE].latency
    partition = hierarchy.partition
    assert memory is not None  # of a path to memory
    truth: Truth = {
        ("l1", "miss_penalty"): next_hit - l1_hit,
        ("texture", "miss_penalty"): texture_miss - texture_hit,
        ("l1", "count_per_sm"): l1.copies,
        ("texture", "count_per_sm"): texture.copies,
        ("l1", "shared_with"): "texture" if is_shared else "nothing",
        ("texture", "shared_with"): "l1" if is_shared else "nothing",
        **_tlb_truth(hierarchy.tlbs, hierarchy.tlb_walk_penalty),
    }
    if len(hierarchy.tlbs) > 1:
        second = hierarchy.tlbs[1]
        truth["tlb_l2", "tlb_by_sm"] = tuple(float(second.of_sm(sm)) for sm in range(hierarchy.sm_count))
    if hierarchy.tlbs:
        truth |= {("l1", "translated"): _translated(hierarchy.routes[Path.GLOBAL])}
        truth |= {("texture", "translated"): _translated(hierarchy.routes[Path.TEXTURE])}
    if hierarchy.page_window is not None and hierarchy.tlbs:
        window = hierarchy.page_window
        truth |= {("page_table", "window"): window.size, ("page_table", "switch_penalty"): window.penalty}
    for name, cache, cycles in (("l1", l1, l1_hit), ("texture", texture, texture_hit), ("l2", l2, hit)):
        truth |= {(name, "line_size"): cache.line, (name, "fetch_granularity"): cache.sector}
        truth |= {(name, "capacity"): cache.capacity, (name, "hit_latency"): cycles}
        if partition is None or name != "l2":
            truth |= _structure(name, cache)
        if name != "l2":
            truth |= _replacement(name, cache)
    if partition is not None:
        truth |= {("l2", "capacity"): partition.count * l2.capacity, ("l2", "segment_size"): l2.capacity}
        truth |= {("l2", "far_latency"): hit + partition.far_penalty, ("dram", "near_latency"): memory}
        truth |= {("dram", "far_latency"): memory + partition.far_memory_penalty}
    else:
        truth |= _replacement("l2", l2)
        if hierarchy.rows is None:
            truth |= {("l2", "miss_penalty"): memory - hit, ("dram", "hit_latency"): memory}
    if hierarchy.distance is not None:
        truth = {name: value for name, value in truth.items() if name not in DEPEND_ON_DISTANCE}
    if hierarchy.prefetch is not None:
        truth.pop((hierarchy.prefetch.cache, "max_miss_rate"), None)
    return truth


def _translated(route: Route) -> str:
    """Accesses to the nearest cache of a route that go through the TLBs."""
    return MISSES_ONLY if route.translated_from else EVERY_ACCESS


def _tlb_truth(tlbs: tuple[Tlb, ...], walk: float) -> Truth:
    """A miss of the last level costs the walk, one before it the penalty of the next level."""
    truth: Truth = {}
    previous = 0.0
    for element, tlb in zip(("tlb_l1", "tlb_l2"), tlbs, strict=False):
        count, entries = len(tlb.ways), sum(tlb.ways)
        index = canonical(tlb.index, tlb.page, count)
        truth |= {(element, "entries"): entries, (element, "page_size"): tlb.page, (element, "sets"): count}
        truth |= {(element, "reach"): entries * tlb.page, (element, "ways"): _ways(tlb.ways)}
        truth |= {(element, "index_function"): index.replace("line", "page")}
        truth |= {(element, "replacement_policy"): _policy_name(tlb.policy, tlb.ways)}
        if count > 1:
            truth |= {(element, "miss_cache"): tlb.miss_cache}
        penalty = walk if tlb is tlbs[-1] else tlb.penalty
        truth |= {(element, "miss_penalty"): penalty - previous}
        previous = penalty
    return truth


def _nearest(hierarchy: Hierarchy, path: Path) -> Cache:
    """The nearest cache of a path, with the index function that loads on the path use."""
    route = hierarchy.routes[path]
    cache = hierarchy.caches[route.caches[0]]
    return cache if route.index is None else replace(cache, index=route.index)


def _ways(ways: tuple[int, ...]) -> Value:
    """The numbers of sets are arbitrary: unequal ways are compared in order of size."""
    return ways[0] if len(set(ways)) == 1 else tuple(sorted(ways))


def _structure(name: str, cache: Cache) -> Truth:
    masks = tuple(mask % MIN_INDEX_SPAN for mask in cache.index.masks)  # bits below the tested range
    index = replace(cache.index, masks=masks)
    name_of_index = canonical(index, cache.line, cache.sets)
    return {(name, "sets"): cache.sets, (name, "ways"): _ways(cache.ways), (name, "index_function"): name_of_index}


def _replacement(name: str, cache: Cache) -> Truth:
    truth: Truth = {(name, "replacement_policy"): _policy_name(cache.policy, cache.ways)}
    return truth if cache.policy.kind is PolicyKind.ORDER else truth | {(name, "max_miss_rate"): _max_miss_rate(cache)}


def _policy_name(policy: Policy, ways: tuple[int, ...]) -> str:
    """The policy as reported: its simplest name.

    With two ways, tree and bit PLRU are LRU, and ``last-two-hits`` is SLRU. Equal weights are random replacement. A
    fixed order is reported by its shortest period, as FIFO if that is all ways in sequence.
    """
    common = max(set(ways), key=ways.count)
    if common == 2 and policy.kind in (PolicyKind.PLRU, PolicyKind.MRU):
        return PolicyKind.LRU.value
    if common == 2 and policy.kind is PolicyKind.LAST_TWO_HITS:
        return PolicyKind.SLRU.value
    if policy.weights and len(set(policy.weights)) == 1:
        return PolicyKind.RANDOM.value
    if policy.kind is PolicyKind.ORDER:
        length = len(policy.order)
        periods = (policy.order[:n] for n in range(1, length + 1) if length % n == 0)
        order = next(period for period in periods if period * (length // len(period)) == policy.order)
        return str(PolicyKind.FIFO if order == tuple(range(1, common + 1)) else replace(policy, order=order))
    return str(policy)


def _max_miss_rate(cache: Cache) -> float:
    count = sum(cache.ways)
    rates = []
    for size in {count + max(1, count * i // (2 * RATE_SIZES)) for i in range(1, RATE_SIZES + 1)}:
        laps = WARMUP_LAPS + max(MIN_RATE_LAPS, RATE_ACCESSES // size)
        missed = CacheModel(cache).access_many(np.tile(np.arange(size) * cache.line, laps)).reshape(laps, -1)
        rates.append(float(missed[WARMUP_LAPS:].mean()))
    return max(rates)
