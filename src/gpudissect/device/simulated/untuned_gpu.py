"""Random simulated GPUs beyond the ranges of `random_gpu`: one or two features that no inference was tuned on."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.random_gpu import GIB, KIB, MIB, random_cache, random_gpu
from gpudissect.simulation.cache.geometry import (
    PARTITION_COUNT,
    Distance,
    Hierarchy,
    Index,
    IndexKind,
    PageWindow,
    Partition,
    Policy,
    PolicyKind,
    Prefetch,
    Rows,
    Scope,
    Tlb,
)
from gpudissect.workload import Path

MODULO, LRU = Index(IndexKind.MODULO), Policy(PolicyKind.LRU)
PAIR_SHARE = 0.5  # of GPUs with two features


def untuned_gpu(seed: int) -> SimulatedGpu:
    """A random GPU with one or two of `FEATURES`, which its name lists."""
    rng = random.Random(f"untuned {seed}")
    tuned = random_gpu(seed)
    names = sorted(rng.sample(sorted(FEATURES), 2 if rng.random() < PAIR_SHARE else 1))
    hierarchy = tuned.hierarchy
    for name in names:
        hierarchy = FEATURES[name](hierarchy, rng)
    title = f"untuned GPU {seed} ({', '.join(names)})"
    return SimulatedGpu(hierarchy, spec=f"sim:untuned?seed={seed}", name=title, noise=tuned.noise)


def _rows(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    route = hierarchy.routes[Path.GLOBAL]
    saving = min(rng.uniform(15, 60), 0.3 * ((route.memory_latency or 0.0) - route.latency[-1]))
    return replace(hierarchy, rows=Rows(rng.choice([512, KIB, 2 * KIB, 4 * KIB]), rng.choice([8, 16, 48, 64]), saving))


def _next_lines(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    name = rng.choice(["l1", "l1", "l2"])
    reach = rng.choice([1, 1, 2]) * hierarchy.caches[name].line
    if name == "l2" and hierarchy.partition is not None:
        hierarchy = replace(hierarchy, partition=None)
    return replace(hierarchy, prefetch=Prefetch(name, reach, run=0))


def _stream_prefetch(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    prefetch = Prefetch("l2", rng.choice([KIB, 4 * KIB, 64 * KIB]), run=rng.randint(1, 3))
    return replace(hierarchy, prefetch=prefetch, partition=None)


def _l2_close_to_l1(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    size = max(64 * KIB, int(rng.uniform(1.2, 4) * hierarchy.caches["l1"].capacity))
    return _with(hierarchy, l2=random_cache(rng, size, int(1.1 * size), Scope.GPU))


def _small_l2(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    if "texture" not in hierarchy.caches:  # one array, whose sets fit the index functions of both paths
        size = 2 * hierarchy.caches["l1"].capacity
        return _with(hierarchy, l2=random_cache(rng, size, max(250 * KIB, size + 4 * KIB), Scope.GPU))
    l1, texture = (random_cache(rng, KIB, 4 * KIB) for _ in range(2))
    return _with(hierarchy, l1=l1, texture=texture, l2=random_cache(rng, 32 * KIB, 250 * KIB, Scope.GPU))


def _with(hierarchy: Hierarchy, **caches: object) -> Hierarchy:
    hierarchy = replace(hierarchy, caches={**hierarchy.caches, **caches})  # type: ignore[dict-item]
    partition, line = hierarchy.partition, hierarchy.caches["l2"].line
    if partition is not None and partition.home_mask % line:  # all bytes of a line have the same home
        lowest = partition.home_mask & -partition.home_mask
        return replace(hierarchy, partition=replace(partition, home_mask=partition.home_mask * (line // lowest)))
    return hierarchy


def _close_tlbs(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    page, entries = rng.choice([2, 4, 8]) * MIB, rng.randint(12, 40)
    policy = Policy(rng.choice([PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.NRU, PolicyKind.RANDOM]))
    first = rng.uniform(12, 80)
    walk = first + rng.uniform(30, 120)
    sizes = entries, int(entries * rng.uniform(1.1, 2.5)) + 1
    tlbs = tuple(Tlb((n,), page, MODULO, policy, cycles) for n, cycles in zip(sizes, (first, walk), strict=True))
    return replace(hierarchy, tlbs=tlbs, tlb_walk_penalty=walk)


def _small_pages(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    walk = rng.uniform(40, 200)
    tlb = Tlb((rng.choice([16, 32, 64]),), rng.choice([32, 64, 128, 512]) * KIB, MODULO, LRU, walk)
    return replace(hierarchy, tlbs=(tlb,), tlb_walk_penalty=walk)


def _page_window(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    return replace(hierarchy, page_window=PageWindow(rng.choice([64, 256, 512]) * MIB, rng.uniform(80, 300)))


def _few_home_bits(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    line = hierarchy.caches["l2"].line.bit_length() - 1
    bits = rng.choice([(line,), (line + 1,), (line, line + 2), (24,), (26, 29), (25, 31)])
    route = hierarchy.routes[Path.GLOBAL]
    memory = route.memory_latency or 0.0
    far = rng.uniform(0.3, 0.7) * (memory - route.latency[-1])
    mask = sum(1 << bit for bit in bits)
    return replace(hierarchy, partition=Partition("l2", mask, far, rng.uniform(0.15, 0.4) * memory), prefetch=None)


def _close_latencies(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    share = rng.uniform(0.7, 0.99)
    routes = dict(hierarchy.routes)
    for path in (Path.GLOBAL, Path.TEXTURE):
        _, far = routes[path].latency
        routes[path] = replace(routes[path], latency=(share * far, far))
    return replace(hierarchy, routes=routes)


def _distances(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    """SMs and slices of the L2 at different distances, as on every recorded GPU."""
    by_sm = tuple(rng.uniform(0, 30) for _ in range(hierarchy.sm_count))
    slices = rng.choice([8, 12, 16]) * (1 if hierarchy.partition is None else PARTITION_COUNT)
    return replace(hierarchy, distance=Distance("l2", by_sm, tuple(rng.uniform(0, 25) for _ in range(slices))))


def _tlbs_at_l2(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    routes = {
        path: replace(route, tlbs_at=1) if len(route.caches) > 1 else route for path, route in hierarchy.routes.items()
    }
    return replace(hierarchy, routes=routes)


def _little_memory(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    return replace(hierarchy, limits=dict.fromkeys(hierarchy.routes, rng.choice([1, 2]) * GIB))


FEATURES: dict[str, Callable[[Hierarchy, random.Random], Hierarchy]] = {
    "close_latencies": _close_latencies,
    "close_tlbs": _close_tlbs,
    "distances": _distances,
    "few_home_bits": _few_home_bits,
    "l2_close_to_l1": _l2_close_to_l1,
    "little_memory": _little_memory,
    "next_lines": _next_lines,
    "page_window": _page_window,
    "rows": _rows,
    "small_l2": _small_l2,
    "small_pages": _small_pages,
    "stream_prefetch": _stream_prefetch,
    "tlbs_at_l2": _tlbs_at_l2,
}
