"""A random simulated GPU and the truth: policies, index functions, unequal sets, sectors, copies, TLBs, noise."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Value
from gpudissect.measure.cache.plan_policy import RATE_SIZES
from gpudissect.measure.cache.plan_sets import MIN_INDEX_SPAN
from gpudissect.simulation.cache.geometry import (
    Cache,
    Hierarchy,
    Index,
    IndexKind,
    Partition,
    Policy,
    PolicyKind,
    Route,
    Scope,
    Tlb,
)
from gpudissect.simulation.cache.index import canonical
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.workload import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNEQUAL_SHARE = 0.2  # of caches whose sets differ in ways
PARTITIONED_SHARE = 0.3  # of GPUs whose L2 has two partitions
RATE_LAPS, WARMUP_LAPS = 60, 10
Truth = dict[tuple[str, str], Value]


@dataclass(frozen=True)
class RandomGpu:
    """A GPU and the true values of everything that may be found."""

    device: SimulatedGpu
    noise: Noise
    truth: Truth


def random_gpu(seed: int) -> RandomGpu:
    """A GPU with an L1, a texture cache in copies, an L2, perhaps partitioned, memory, and up to two TLBs."""
    rng = random.Random(seed)
    l1, texture, l2 = _caches(rng)
    l1_hit = rng.uniform(25, 90)
    hit = l1_hit + rng.uniform(80, 250)
    memory = hit + rng.uniform(120, 400)
    partition = None
    if rng.random() < PARTITIONED_SHARE:
        home = sum(1 << bit for bit in rng.sample(range(9, 24), 4))
        partition = Partition("l2", home, rng.uniform(0.3, 0.7) * (memory - hit), rng.uniform(0.15, 0.4) * memory)
    tlbs, walk = _tlbs(rng)
    routes = {
        Path.GLOBAL: Route(("l1", "l2"), (l1_hit, hit), memory, timer=rng.randint(0, 30)),
        Path.GLOBAL_L2: Route(("l2",), (hit,), memory, timer=14),
        Path.TEXTURE: Route(("texture", "l2"), (l1_hit + 30, hit + 25), memory + 25, timer=11),
    }
    hierarchy = Hierarchy(
        caches={"l1": l1, "texture": texture, "l2": l2},
        routes=routes,
        partition=partition,
        sm_count=8,
        tlbs=tlbs,
        tlb_walk_penalty=walk,
        limits=dict.fromkeys(routes, 8 * GIB),
    )
    return gpu_of(hierarchy, _noise(rng, seed), f"random-{seed}")


def gpu_of(hierarchy: Hierarchy, noise: Noise, name: str) -> RandomGpu:
    """A GPU of this hierarchy, and its truth."""
    truth = _truth(hierarchy)
    device = SimulatedGpu(hierarchy, spec=f"sim:{name}", name=name.replace("-", " "), noise=noise)
    return RandomGpu(device, noise, truth)


def _truth(hierarchy: Hierarchy) -> Truth:
    l1, texture, l2 = (hierarchy.caches[name] for name in ("l1", "texture", "l2"))
    (l1_hit, hit), memory = hierarchy.routes[Path.GLOBAL].latency, hierarchy.routes[Path.GLOBAL].memory_latency
    texture_hit, texture_miss = hierarchy.routes[Path.TEXTURE].latency
    partition = hierarchy.partition
    assert memory is not None  # of a path to memory
    truth: Truth = {
        ("l1", "miss_penalty"): hit - l1_hit,
        ("texture", "miss_penalty"): texture_miss - texture_hit,
        ("l1", "count_per_sm"): 1,
        ("texture", "count_per_sm"): texture.copies,
        ("l1", "shared_with"): "nothing",
        ("texture", "shared_with"): "nothing",
        **_tlb_truth(hierarchy.tlbs, hierarchy.tlb_walk_penalty),
    }
    for name, cache, cycles in (("l1", l1, l1_hit), ("texture", texture, texture_hit), ("l2", l2, hit)):
        truth |= {(name, "line_size"): cache.line, (name, "fetch_granularity"): cache.sector}
        truth |= {(name, "capacity"): cache.capacity, (name, "hit_latency"): cycles}
        if partition is None or name != "l2":
            truth |= _structure(name, cache)
        if name != "l2":
            truth |= _replacement(name, cache)
    if partition is not None:
        truth |= {("l2", "capacity"): 2 * l2.capacity, ("l2", "segment_size"): l2.capacity}
        truth |= {("l2", "far_latency"): hit + partition.far_penalty, ("dram", "near_latency"): memory}
        truth |= {("dram", "far_latency"): memory + partition.far_memory_penalty}
    else:
        truth |= {("l2", "miss_penalty"): memory - hit, ("dram", "hit_latency"): memory, **_replacement("l2", l2)}
    return truth


def _caches(rng: random.Random) -> tuple[Cache, Cache, Cache]:
    """L1, texture cache and L2; the L2 holds at least four times the lines of the others, as in published GPUs."""
    while True:
        l1, l2 = _cache(rng, 2 * KIB, 96 * KIB), _cache(rng, 256 * KIB, 3 * MIB, Scope.GPU)
        texture = replace(_cache(rng, KIB, 48 * KIB), copies=rng.choice([1, 1, 2, 4]))
        if sum(l2.ways) >= 4 * max(sum(l1.ways), sum(texture.ways)):
            return l1, texture, l2


def _noise(rng: random.Random, seed: int) -> Noise:
    """No noise, or up to a hundredth of the accesses delayed."""
    if rng.random() < 0.2:
        return replace(Noise.none(), seed=seed)
    delayed = rng.choice([0, 0.0005, 0.002, 0.005, 0.01])
    return Noise(seed=seed, jitter=rng.choice([0.05, 0.1, 0.3]), outliers=delayed, drift=rng.choice([0, 0.0002, 0.002]))


def _cache(rng: random.Random, min_size: int, max_size: int, scope: Scope = Scope.SM) -> Cache:
    """About `min_size` to `max_size` bytes: any policy, three kinds of index, sectors, sometimes unequal sets."""
    sector = rng.choice([32, 32, 64, 128])
    line = min(256, sector * rng.choice([1, 1, 2, 4]))
    kind = rng.choice([kind for kind in PolicyKind if kind is not PolicyKind.ORDER])
    ways = rng.choice([4, 8, 16] if kind is PolicyKind.PLRU else [2, 3, 4, 6, 8, 12, 16, 24])
    sets = max(1, int(rng.uniform(min_size, max_size)) // line // ways)
    low, bits = line.bit_length() - 1, sets.bit_length() - 1
    index = Index(IndexKind.MODULO)
    if (shape := rng.choice([IndexKind.BITS, IndexKind.XOR, IndexKind.MODULO, IndexKind.MODULO])) is IndexKind.BITS:
        index = Index(shape, bits=tuple(range(low, low + bits)))
    elif shape is IndexKind.XOR:
        places = range(low, low + bits)
        index = Index(shape, masks=tuple(1 << b | 1 << b + bits | 1 << b + 2 * bits + 1 for b in places))
    if shape is not IndexKind.MODULO:
        sets = 1 << bits
    ways_of_sets = (ways,) * sets
    if kind not in (PolicyKind.PLRU, PolicyKind.WEIGHTED) and rng.random() < UNEQUAL_SHARE and sets > 1:
        ways_of_sets = tuple(max(1, ways + rng.choice([-1, 0, 0, 1, 2])) for _ in range(sets))
    weights = [rng.randint(1, 6) for _ in range(ways)]
    shares = tuple(weight / sum(weights) for weight in weights) if kind is PolicyKind.WEIGHTED else ()
    return Cache(ways_of_sets, line, sector, index, Policy(kind, shares), scope)


def _tlbs(rng: random.Random) -> tuple[tuple[Tlb, ...], float]:
    """None, one or two levels, and the cycles of a walk.

    The first reaches at least 32 MiB, as all published ones do, the second at least about three times as far.
    """
    count = rng.choice([0, 1, 1, 2])
    page, entries = rng.choice([MIB, 2 * MIB, 4 * MIB]), rng.randint(8, 48)
    while page * entries < 40 * MIB:
        page *= 2
    levels: list[Tlb] = []
    penalty = 0.0
    for _ in range(count):
        ways: tuple[int, ...] = (entries,)
        if rng.random() < 0.4:
            sets = rng.choice([2, 4, 7, 8])
            ways = tuple(max(2, entries // sets) + (rng.random() < 0.2) for _ in range(sets))
        kind = rng.choice([PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.NRU, PolicyKind.SRRIP, PolicyKind.RANDOM])
        penalty += rng.uniform(12, 80)
        levels.append(Tlb(ways, page, Index(IndexKind.MODULO), Policy(kind), penalty))
        page, entries = page * rng.choice([1, 1, 4]), sum(ways) * rng.randint(3, 6)
    return tuple(levels), penalty


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
        truth |= {(element, "replacement_policy"): str(tlb.policy.kind)}
        penalty = walk if tlb is tlbs[-1] else tlb.penalty
        truth |= {(element, "miss_penalty"): penalty - previous}
        previous = penalty
    return truth


def _ways(ways: tuple[int, ...]) -> Value:
    """The numbers of sets are arbitrary: unequal ways are compared in order of size."""
    return ways[0] if len(set(ways)) == 1 else tuple(sorted(ways))


def _structure(name: str, cache: Cache) -> Truth:
    masks = tuple(mask % MIN_INDEX_SPAN for mask in cache.index.masks)  # bits below the tested range
    index = replace(cache.index, masks=masks)
    name_of_index = canonical(index, cache.line, cache.sets)
    return {(name, "sets"): cache.sets, (name, "ways"): _ways(cache.ways), (name, "index_function"): name_of_index}


def _replacement(name: str, cache: Cache) -> Truth:
    """With two ways, tree and bit PLRU are LRU; equal weights are random replacement."""
    policy = cache.policy
    text = " ".join([str(policy.kind), *(f"{weight:.3f}" for weight in policy.weights)])
    if max(set(cache.ways), key=cache.ways.count) == 2 and policy.kind in (PolicyKind.PLRU, PolicyKind.MRU):
        text = "lru"
    if policy.weights and len(set(policy.weights)) == 1:
        text = "random"
    return {(name, "replacement_policy"): text, (name, "max_miss_rate"): _max_miss_rate(cache)}


def _max_miss_rate(cache: Cache) -> float:
    count = sum(cache.ways)
    rates = []
    for size in {count + max(1, count * i // (2 * RATE_SIZES)) for i in range(1, RATE_SIZES + 1)}:
        missed = CacheModel(cache).access_many(np.tile(np.arange(size) * cache.line, RATE_LAPS)).reshape(RATE_LAPS, -1)
        rates.append(float(missed[WARMUP_LAPS:].mean()))
    return max(rates)
