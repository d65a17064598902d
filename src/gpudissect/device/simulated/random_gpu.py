"""A random simulated GPU: policies, index functions, unequal sets, sectors, copies, TLBs, noise."""

from __future__ import annotations

import random
from dataclasses import replace

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.simulation.cache.check import MAX_ORDER_LENGTH
from gpudissect.simulation.cache.geometry import (
    Cache,
    Hierarchy,
    Index,
    IndexKind,
    PageWindow,
    Partition,
    Policy,
    PolicyKind,
    Prefetch,
    Room,
    Route,
    Scope,
    Tlb,
)
from gpudissect.workload import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNEQUAL_SHARE = 0.2  # of caches whose sets differ in ways
PARTITIONED_SHARE = 0.3  # of GPUs whose L2 has two partitions
VIRTUAL_L1_SHARE = 0.25  # of GPUs that translate after the L1 (MC16 s5.2: Maxwell)
COLD_WALK_SHARE = 0.15  # of GPUs with TLBs whose page walks cost more where the data come from memory (MC14 table 3)
WINDOW_SHARE = 0.15  # of GPUs with TLBs that walk faster within a page window (MC16 s5.2)
PREFETCH_SHARE = 0.15  # of GPUs without partitions that prefetch streams into the L2 (MC16 s4.6)
BY_PATH_SHARE = 0.1  # of GPUs whose textures are in the L1, with an index function of their own
ROOM_SHARE = 0.2  # of the other GPUs, whose L1 has more tags than room for data (the L1 of an H200 has 2048 for 1928)
XOR_TLB_SHARE = 0.2  # of GPUs with TLBs: the second has sets by XOR and, in half of them, a miss cache (as in an H200)
TLB_BY_SM_SHARE = 0.5  # of GPUs with two TLBs: a first one for each SM, second ones for some SMs each (as in an H200)
OTHER_USERS_SHARE = 0.1  # of GPUs that others use between the chases
_WITHOUT_PARAMETERS = (PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.NRU, PolicyKind.SRRIP, PolicyKind.RANDOM)
TLB_POLICIES = (*_WITHOUT_PARAMETERS, PolicyKind.ORDER)


def random_gpu(seed: int) -> SimulatedGpu:
    """A GPU with an L1 and a texture cache in copies, an L2, perhaps partitioned, memory, and up to two TLBs."""
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
    hierarchy = _with_observed_features(hierarchy, rng)
    noise = _noise(rng, seed)
    rng = random.Random(f"L1 {seed}")
    if (kind := rng.random()) < BY_PATH_SHARE:
        hierarchy = _index_by_path(hierarchy, rng)
    elif kind < BY_PATH_SHARE + ROOM_SHARE:
        hierarchy = _with_room(hierarchy, rng)
    if rng.random() < OTHER_USERS_SHARE:
        noise = replace(noise, other_users=rng.choice([256, 1024]))
    rng = random.Random(f"TLB {seed}")
    if rng.random() < XOR_TLB_SHARE and hierarchy.tlbs:
        hierarchy = _with_xor_tlb(hierarchy, rng)
    rng = random.Random(f"SMs {seed}")
    if rng.random() < TLB_BY_SM_SHARE and len(hierarchy.tlbs) == 2:
        hierarchy = _with_tlbs_by_sm(hierarchy, rng)
    return SimulatedGpu(hierarchy, spec=f"sim:random?seed={seed}", name=f"random GPU {seed}", noise=noise)


def _index_by_path(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    """Textures in the array of the L1, with an index function other than that of global loads."""
    l1, bits = hierarchy.caches["l1"], rng.randint(1, 6)
    ways = max(2, min(24, sum(l1.ways) >> bits))
    low = l1.line.bit_length() - 1
    masks = [1 << low + bit | 1 << low + bits + rng.randint(0, 2 * bits) for bit in range(bits)]
    policy = Policy(rng.choice(_WITHOUT_PARAMETERS))
    l1 = replace(l1, ways=(ways,) * 2**bits, index=Index(IndexKind.BITS, bits=tuple(range(low, low + bits))))
    caches = {"l1": replace(l1, policy=policy), "l2": hierarchy.caches["l2"]}
    index, first = Index(IndexKind.XOR, masks=tuple(masks)), hierarchy.routes[Path.GLOBAL].translated_from
    texture = replace(hierarchy.routes[Path.TEXTURE], caches=("l1", "l2"), index=index, translated_from=first)
    return replace(hierarchy, caches=caches, routes={**hierarchy.routes, Path.TEXTURE: texture})


def _with_room(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    """An L1 with more tags than room: for at least half of them, or in half of the GPUs, for three quarters."""
    l1, least = hierarchy.caches["l1"], 0.5 if rng.random() < 0.5 else 0.75
    if l1.sets == 1:
        return hierarchy  # it would be one with fewer ways
    fewest = max(l1.ways) + 1  # with less room no set ever has too many lines
    lines = max(l1.sets, fewest, int(rng.uniform(least, 0.97) * sum(l1.ways)))
    l1 = replace(l1, policy=Policy(rng.choice([PolicyKind.LRU, PolicyKind.FIFO])), room=Room(lines))
    return replace(hierarchy, caches={**hierarchy.caches, "l1": l1})


def _with_xor_tlb(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    """A second TLB of 192 to 1536 entries with an XOR index, perhaps with a miss cache beside it."""
    first, ways = hierarchy.tlbs[0], rng.choice([4, 6, 8, 12])
    bits = rng.randint(5 if ways > 4 else 6, 7)
    page = first.page * rng.choice([1, 2])
    low, above = page.bit_length() - 1, ways.bit_length() - 1  # bits that vary over as many pages as entries
    masks = [1 << bit | sum(1 << bits + n for n in range(above) if rng.random() < 1 / 3) for bit in range(bits)]
    index = Index(IndexKind.XOR, masks=tuple(mask << low for mask in masks))
    miss_cache = rng.choice([0, 0, 0, 4, 16, 32])
    walk = first.penalty + rng.uniform(12, 80)
    second = Tlb((ways,) * 2**bits, page, index, Policy(rng.choice(_WITHOUT_PARAMETERS)), walk, miss_cache)
    dearer = None if hierarchy.tlb_cold_walk_penalty is None else walk + rng.uniform(20, 300)
    limits = dict.fromkeys(hierarchy.routes, 64 * GIB)
    return replace(hierarchy, tlbs=(first, second), tlb_walk_penalty=walk, tlb_cold_walk_penalty=dearer, limits=limits)


def _with_tlbs_by_sm(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    """A first TLB for each SM, and second ones that random SMs share."""
    (first, second), sms, most = hierarchy.tlbs, range(hierarchy.sm_count), rng.randint(2, hierarchy.sm_count)
    groups = [rng.randrange(most) for _ in sms]
    numbers = {each: number for number, each in enumerate(dict.fromkeys(groups))}
    shared = replace(second, by_sm=tuple(numbers[each] for each in groups))
    return replace(hierarchy, tlbs=(replace(first, by_sm=tuple(sms)), shared))


def _with_observed_features(hierarchy: Hierarchy, rng: random.Random) -> Hierarchy:
    """Perhaps with an L1 before the TLBs, dearer walks from memory, a page window, and prefetch into the L2."""
    virtual_l1, cold_walks, window, prefetch = (rng.random() for _ in range(4))
    if virtual_l1 < VIRTUAL_L1_SHARE:
        route = replace(hierarchy.routes[Path.GLOBAL], translated_from=1)
        hierarchy = replace(hierarchy, routes={**hierarchy.routes, Path.GLOBAL: route})
    if hierarchy.tlbs and cold_walks < COLD_WALK_SHARE:
        dearer = hierarchy.tlb_walk_penalty + rng.uniform(20, 300)
        hierarchy = replace(hierarchy, tlb_cold_walk_penalty=dearer)
    if hierarchy.tlbs and window < WINDOW_SHARE:
        size = rng.choice([128, 256, 512]) * MIB
        hierarchy = replace(hierarchy, page_window=PageWindow(size, rng.uniform(80, 300)))
    if hierarchy.partition is None and prefetch < PREFETCH_SHARE:
        hierarchy = replace(hierarchy, prefetch=Prefetch("l2", rng.choice([KIB, 4 * KIB, 64 * KIB]), run=2))
    return hierarchy


def _caches(rng: random.Random) -> tuple[Cache, Cache, Cache]:
    """L1, texture cache and L2; the L2 holds at least four times the lines of the others, as in published GPUs."""
    while True:
        l1, l2 = random_cache(rng, 2 * KIB, 96 * KIB), random_cache(rng, 256 * KIB, 3 * MIB, Scope.GPU)
        l1 = replace(l1, copies=rng.choice([1, 1, 1, 2]))
        texture = replace(random_cache(rng, KIB, 48 * KIB), copies=rng.choice([1, 1, 2, 4]))
        if sum(l2.ways) >= 4 * max(sum(l1.ways), sum(texture.ways)):
            return l1, texture, l2


def _noise(rng: random.Random, seed: int) -> Noise:
    """No noise, or up to a hundredth of the accesses delayed."""
    if rng.random() < 0.2:
        return replace(Noise.none(), seed=seed)
    delayed = rng.choice([0, 0.0005, 0.002, 0.005, 0.01])
    return Noise(seed=seed, jitter=rng.choice([0.05, 0.1, 0.3]), outliers=delayed, drift=rng.choice([0, 0.0002, 0.002]))


def random_cache(rng: random.Random, min_size: int, max_size: int, scope: Scope = Scope.SM) -> Cache:
    """About `min_size` to `max_size` bytes: any policy, three kinds of index, sectors, sometimes unequal sets."""
    sector = rng.choice([32, 32, 64, 128])
    line = min(256, sector * rng.choice([1, 1, 2, 4]))
    kind: PolicyKind = rng.choice([kind for kind in PolicyKind if kind is not PolicyKind.LAST_TWO_HITS])
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
    if (
        kind not in (PolicyKind.PLRU, PolicyKind.WEIGHTED, PolicyKind.ORDER)
        and rng.random() < UNEQUAL_SHARE
        and sets > 1
    ):
        ways_of_sets = tuple(max(1, ways + rng.choice([-1, 0, 0, 1, 2])) for _ in range(sets))
    weights = [rng.randint(1, 6) for _ in range(ways)]
    shares = tuple(weight / sum(weights) for weight in weights) if kind is PolicyKind.WEIGHTED else ()
    replaces_slru = weights[0] % 2 == 1  # no further random number: seeds give the GPUs of earlier versions otherwise
    if kind is PolicyKind.SLRU and replaces_slru:
        kind = PolicyKind.LAST_TWO_HITS
    policy = Policy(kind, shares, random_order(rng, ways) if kind is PolicyKind.ORDER else ())
    return Cache(ways_of_sets, line, sector, index, policy, scope)


def random_order(rng: random.Random, ways: int) -> tuple[int, ...]:
    """A fixed order of victims: every way once, and up to twice as many repeats (MC16 fig 11: six victims, four ways).

    `ways` is at most `MAX_ORDER_LENGTH`.
    """
    named = range(1, ways + 1)
    order = [*named, *rng.choices(named, k=rng.randint(0, min(2 * ways, MAX_ORDER_LENGTH - ways)))]
    return tuple(rng.sample(order, len(order)))


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
        kind = rng.choice(TLB_POLICIES if min(ways) <= MAX_ORDER_LENGTH else TLB_POLICIES[:-1])
        penalty += rng.uniform(12, 80)
        if kind is PolicyKind.ORDER:
            ways = (min(ways),) * len(ways)  # no order would name the further way of a set: its entry stays for good
        order = random_order(rng, min(ways)) if kind is PolicyKind.ORDER else ()
        levels.append(Tlb(ways, page, Index(IndexKind.MODULO), Policy(kind, order=order), penalty))
        page, entries = page * rng.choice([1, 1, 4]), sum(ways) * rng.randint(3, 6)
    return tuple(levels), penalty
