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
UNEQUAL = 0.2  # share of caches whose sets differ in ways
IN_PARTS = 0.3  # share of GPUs whose L2 has two parts
RATE_LAPS = 60  # of which the first ten are not counted
Truth = dict[tuple[str, str], Value]


@dataclass(frozen=True)
class RandomGpu:
    """A GPU, and what is true of it: exactly what may be found."""

    device: SimulatedGpu
    noise: Noise
    truth: Truth


def random_gpu(seed: int) -> RandomGpu:
    """A GPU with an L1, a texture cache in copies, an L2, perhaps in two parts, memory, and up to two TLBs."""
    draw = random.Random(seed)
    l1, texture, l2 = _caches(draw)
    near = draw.uniform(25, 90)
    hit = near + draw.uniform(80, 250)
    memory = hit + draw.uniform(120, 400)
    partition = None
    if draw.random() < IN_PARTS:
        home = sum(1 << bit for bit in draw.sample(range(9, 24), 4))
        partition = Partition("l2", home, draw.uniform(0.3, 0.7) * (memory - hit), draw.uniform(0.15, 0.4) * memory)
    tlbs, walk = _tlbs(draw)
    routes = {
        Path.GLOBAL: Route(("l1", "l2"), (near, hit), memory, timer=draw.randint(0, 30)),
        Path.GLOBAL_L2: Route(("l2",), (hit,), memory, timer=14),
        Path.TEXTURE: Route(("texture", "l2"), (near + 30, hit + 25), memory + 25, timer=11),
    }
    hierarchy = Hierarchy(
        caches={"l1": l1, "texture": texture, "l2": l2}, routes=routes, partition=partition, sm_count=8, tlbs=tlbs,
        tlb_walk_penalty=walk, limits=dict.fromkeys(routes, 8 * GIB),
    )  # fmt: skip
    truth: Truth = {
        ("l1", "miss_penalty"): hit - near, ("texture", "miss_penalty"): hit - near - 5,
        ("l1", "count_per_sm"): 1, ("texture", "count_per_sm"): texture.copies,
        ("l1", "shared_with"): "nothing", ("texture", "shared_with"): "nothing",
        **_of_tlbs(tlbs, walk),
    }  # fmt: skip
    for name, cache, cycles in (("l1", l1, near), ("texture", texture, near + 30), ("l2", l2, hit)):
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
    noise = _noise(draw, seed)
    device = SimulatedGpu(hierarchy, spec=f"sim:random-{seed}", name=f"random {seed}", noise=noise)
    return RandomGpu(device, noise, truth)


def _caches(draw: random.Random) -> tuple[Cache, Cache, Cache]:
    """L1, texture cache and L2; the L2 keeps four times the lines of the others, as in every published GPU."""
    while True:
        l1, l2 = _cache(draw, 2 * KIB, 96 * KIB), _cache(draw, 256 * KIB, 3 * MIB, Scope.GPU)
        texture = replace(_cache(draw, KIB, 48 * KIB), copies=draw.choice([1, 1, 2, 4]))
        if sum(l2.ways) >= 4 * max(sum(l1.ways), sum(texture.ways)):
            return l1, texture, l2


def _noise(draw: random.Random, seed: int) -> Noise:
    """None at all, or up to a hundredth of the accesses delayed."""
    if draw.random() < 0.2:
        return replace(Noise.none(), seed=seed)
    delayed = draw.choice([0, 0.0005, 0.002, 0.005, 0.01])
    return Noise(
        seed=seed, jitter=draw.choice([0.05, 0.1, 0.3]), outliers=delayed, drift=draw.choice([0, 0.0002, 0.002])
    )


def _cache(draw: random.Random, least: int, most: int, scope: Scope = Scope.SM) -> Cache:
    """A cache of about `least` to `most` bytes: any policy, three kinds of index, sectors, sometimes unequal sets."""
    sector = draw.choice([32, 32, 64, 128])
    line = min(256, sector * draw.choice([1, 1, 2, 4]))
    kind = draw.choice(list(PolicyKind))
    ways = draw.choice([4, 8, 16] if kind is PolicyKind.PLRU else [2, 3, 4, 6, 8, 12, 16, 24])
    sets = max(1, int(draw.uniform(least, most)) // line // ways)
    low, bits = line.bit_length() - 1, sets.bit_length() - 1
    index = Index(IndexKind.MODULO)
    if (shape := draw.choice([IndexKind.BITS, IndexKind.XOR, IndexKind.MODULO, IndexKind.MODULO])) is IndexKind.BITS:
        index = Index(shape, bits=tuple(range(low, low + bits)))
    elif shape is IndexKind.XOR:
        places = range(low, low + bits)
        index = Index(shape, masks=tuple(1 << b | 1 << b + bits | 1 << b + 2 * bits + 1 for b in places))
    if shape is not IndexKind.MODULO:
        sets = 1 << bits
    of_sets = (ways,) * sets
    if kind not in (PolicyKind.PLRU, PolicyKind.WEIGHTED) and draw.random() < UNEQUAL and sets > 1:
        of_sets = tuple(max(1, ways + draw.choice([-1, 0, 0, 1, 2])) for _ in range(sets))
    weights = [draw.randint(1, 6) for _ in range(ways)]
    shares = tuple(weight / sum(weights) for weight in weights) if kind is PolicyKind.WEIGHTED else ()
    return Cache(of_sets, line, sector, index, Policy(kind, shares), scope)


def _tlbs(draw: random.Random) -> tuple[tuple[Tlb, ...], float]:
    """None, one or two levels, and the cycles of a walk.

    The first reaches 32 MiB at least, as all published ones do, the second about three times as far or farther.
    """
    count = draw.choice([0, 1, 1, 2])
    page, entries = draw.choice([MIB, 2 * MIB, 4 * MIB]), draw.randint(8, 48)
    while page * entries < 40 * MIB:
        page *= 2
    levels: list[Tlb] = []
    penalty = 0.0
    for _ in range(count):
        ways: tuple[int, ...] = (entries,)
        if draw.random() < 0.4:
            sets = draw.choice([2, 4, 7, 8])
            ways = tuple(max(2, entries // sets) + (draw.random() < 0.2) for _ in range(sets))
        kind = draw.choice([PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.NRU, PolicyKind.SRRIP, PolicyKind.RANDOM])
        penalty += draw.uniform(12, 80)
        levels.append(Tlb(ways, page, Index(IndexKind.MODULO), Policy(kind), penalty))
        page, entries = page * draw.choice([1, 1, 4]), sum(ways) * draw.randint(3, 6)
    return tuple(levels), penalty


def _of_tlbs(tlbs: tuple[Tlb, ...], walk: float) -> Truth:
    """A miss of the last level costs the walk, of one before it what the next level takes."""
    truth: Truth = {}
    before = 0.0
    for element, tlb in zip(("tlb_l1", "tlb_l2"), tlbs, strict=False):
        count, entries = len(tlb.ways), sum(tlb.ways)
        index = canonical(tlb.index, tlb.page, count)
        truth |= {(element, "entries"): entries, (element, "page_size"): tlb.page, (element, "sets"): count}
        truth |= {(element, "reach"): entries * tlb.page, (element, "ways"): _ways(tlb.ways)}
        truth |= {(element, "index_function"): index.replace("line", "page")}
        truth |= {(element, "replacement_policy"): str(tlb.policy.kind)}
        penalty = walk if tlb is tlbs[-1] else tlb.penalty
        truth |= {(element, "miss_penalty"): penalty - before}
        before = penalty
    return truth


def _ways(ways: tuple[int, ...]) -> Value:
    """Sets are numbered at will: unequal ways are compared in order of size."""
    return ways[0] if len(set(ways)) == 1 else tuple(sorted(ways))


def _structure(name: str, cache: Cache) -> Truth:
    seen = replace(
        cache.index, masks=tuple(mask % MIN_INDEX_SPAN for mask in cache.index.masks)
    )  # below the bytes looked at
    index = canonical(seen, cache.line, cache.sets)
    return {(name, "sets"): cache.sets, (name, "ways"): _ways(cache.ways), (name, "index_function"): index}


def _replacement(name: str, cache: Cache) -> Truth:
    """Of two ways tree and bit PLRU are the LRU; equal weights are no weights."""
    policy = cache.policy
    said = " ".join([str(policy.kind), *(f"{weight:.3f}" for weight in policy.weights)])
    if max(set(cache.ways), key=cache.ways.count) == 2 and policy.kind in (PolicyKind.PLRU, PolicyKind.MRU):
        said = "lru"
    if policy.weights and len(set(policy.weights)) == 1:
        said = "random"
    return {(name, "replacement_policy"): said, (name, "max_miss_rate"): _max_miss_rate(cache)}


def _max_miss_rate(cache: Cache) -> float:
    count = sum(cache.ways)
    rates = []
    for size in {count + max(1, count * i // (2 * RATE_SIZES)) for i in range(1, RATE_SIZES + 1)}:
        missed = CacheModel(cache).access_many(np.tile(np.arange(size) * cache.line, RATE_LAPS)).reshape(RATE_LAPS, -1)
        rates.append(float(missed[10:].mean()))
    return max(rates)
