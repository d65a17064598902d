"""A simulated hierarchy, compared with the plain-Python one, with published behaviour and with sums by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.geometries import LRU, MODULO, addresses, hierarchies
from tests.support.oracle import OracleHierarchy

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import (
    Cache,
    Distance,
    Fill,
    Hierarchy,
    Index,
    IndexKind,
    PageWindow,
    Partition,
    Policy,
    PolicyKind,
    Prefetch,
    Route,
    Scope,
    Tlb,
)
from gpudissect.simulation.cache.models import DEFAULT_ACTOR, NOWHERE, Actor, HierarchyModel
from gpudissect.units import KIB, MIB
from gpudissect.workload import Path

KEPLER = Hierarchy(
    caches={"l2": Cache((16,) * 3072, 32, 32, MODULO, LRU)},
    routes={Path.GLOBAL: Route(("l2",), (230.0,), 371.0)},
    tlbs=(Tlb((16,), 2 * MIB, MODULO, LRU, 6.0), Tlb((65,), 2 * MIB, MODULO, LRU, 0.0)),
    tlb_walk_penalty=59.0,
    tlb_cold_walk_penalty=363.0,
    page_window=PageWindow(512 * MIB, 266.0),
)


def walk(model, offsets, path=Path.GLOBAL, actor=DEFAULT_ACTOR, position=0, laps=1):
    """Level and cycles of each access."""
    chain = np.array(offsets, dtype=np.int64)
    levels, latencies = np.empty(laps * chain.size, np.int8), np.empty(laps * chain.size)
    model.walk(path, chain, position % chain.size, levels, latencies, actor)
    return list(zip(levels.tolist(), latencies.tolist(), strict=True))


def levels(hierarchy, offsets):
    return [level for level, _ in walk(HierarchyModel(hierarchy), offsets)]


def cycles(hierarchy, offsets):
    return [latency for _, latency in walk(HierarchyModel(hierarchy), offsets)]


@settings(max_examples=250)
@given(hierarchies(), addresses(), st.integers(0, 2**64 - 1))
def test_random_hierarchies_agree_with_the_oracle(hierarchy, sequence, seed):
    end = max(sequence) + 8
    oracle = OracleHierarchy(hierarchy, seed, end)
    model = HierarchyModel(hierarchy)
    model.reset(seed, end)
    assert walk(model, sequence) == [oracle.access(Path.GLOBAL, address) for address in sequence]


def test_kepler_spectrum():
    """MC14 table 3, from one chain: P6 window, P5 cold walk, P4 cold line, P1 hit, P2 and P3 TLB misses."""
    cold_pages = [page * 32 * MIB for page in range(17)]
    latencies = cycles(KEPLER, [*cold_pages, cold_pages[16] + 32, cold_pages[16] + 32, cold_pages[0]])
    assert latencies[:16] == [734.0] * 16  # P5: the first page of the window that is active at first
    assert latencies[16:] == [1000.0, 371.0, 230.0, 236.0]


def test_two_tlb_misses_on_a_cache_hit():
    """MC14 table 3, Kepler P3: 289 cycles."""
    pages = [page * 2 * MIB + page * 32 for page in range(66)]
    assert cycles(KEPLER, [*pages, pages[0]])[-1] == 289.0


def test_hits_before_the_translation_are_not_translated():
    """MC16 s5.2 finding 2, Maxwell: no TLB miss shows when the L1 hits."""
    maxwell = replace(
        KEPLER,
        caches={"l1": Cache((64,), 32, 32, MODULO, LRU), **KEPLER.caches},
        routes={Path.GLOBAL: Route(("l1", "l2"), (82.0, 230.0), 371.0, translated_from=1)},
    )
    pages = [page * 2 * MIB + page * 32 for page in range(20)]
    assert cycles(maxwell, pages * 2)[20:] == [82.0] * 20


def test_a_far_tlb_delays_a_near_cache():
    """MC16 s5.2 finding 3, Fermi: an L1 TLB miss costs an L1 hit 288 cycles, an L2 hit 27."""
    cache = Cache((64,), 128, 128, MODULO, LRU)
    fermi = Hierarchy(
        caches={"l1": cache, "l2": cache},
        routes={Path.GLOBAL: Route(("l1", "l2"), (116.0, 377.0), 488.0, tlbs_at=1)},
        tlbs=(Tlb((1,), MIB, MODULO, LRU, 27.0), Tlb((16,), MIB, MODULO, LRU, 0.0)),
        tlb_walk_penalty=300.0,
    )
    assert cycles(fermi, [0, MIB + 128, 0])[-1] == 116.0 + 288.0


def test_an_unequal_l2_tlb_misses_set_by_set():
    """MC16 fig 8-9: 130 MB fit; each further page overflows one set, one of 17 pages, then six of 8."""
    table = (0, 1, 2, 3, 4, 5, 6) * 8 + (0,) * 9
    tlb = Tlb((17, 8, 8, 8, 8, 8, 8), 2 * MIB, Index(IndexKind.TABLE, table=table), LRU, 0.0)
    hierarchy = replace(KEPLER, caches={}, tlbs=(tlb,), page_window=None, routes={Path.GLOBAL: Route((), (), 500.0)})
    laps = {count: cycles(hierarchy, np.tile(np.arange(count) * 2 * MIB, 3))[2 * count :] for count in range(65, 73)}
    assert [sum(latency > 500 for latency in lap) for lap in laps.values()] == [0, 18, 27, 36, 45, 54, 63, 72]


class TestPrefetch:
    hierarchy = Hierarchy(KEPLER.caches, KEPLER.routes, prefetch=Prefetch("l2", reach=MIB))

    def test_only_the_first_accesses_of_a_cold_sweep_miss_up_to_its_reach(self):
        """MC16 s4.6 finding 3: below 2/3 of the L2 there is no pattern of cold misses."""
        assert np.flatnonzero(levels(self.hierarchy, np.arange(MIB // 64) * 64)).tolist() == [0, 1, 2]
        far, reach = np.arange(MIB // 32 + 100) * 32, MIB // 32
        assert np.flatnonzero(levels(self.hierarchy, far)).tolist() == [0, 1, 2, reach + 3, reach + 4, reach + 5]

    @pytest.mark.parametrize(
        "offsets", [np.random.default_rng(0).permutation(MIB // 32) * 32, np.arange(100) * KIB], ids=["random", "large"]
    )
    def test_random_orders_and_large_steps_do_not_trigger_it(self, offsets):
        assert np.mean(levels(self.hierarchy, offsets)) == 1

    def test_it_does_not_pass_the_end_of_memory(self):
        model = HierarchyModel(self.hierarchy)
        model.reset(end=10 * 32)
        walk(model, np.arange(10) * 32)
        assert walk(model, [10 * 32])[0][0] == 1

    def test_repeated_misses_and_later_laps_do_not_trigger_it(self):
        tiny = replace(self.hierarchy, caches={"l2": Cache((1,), 32, 32, MODULO, LRU)}, prefetch=Prefetch("l2", 32))
        assert levels(tiny, [0, 32, 0, 64, 96, 128]) == [1, 1, 1, 1, 1, 0]
        small = replace(tiny, caches={"l2": Cache((16,), 32, 32, MODULO, LRU)})
        assert np.mean(levels(small, np.tile(np.arange(64) * 32, 2))[64:]) == 1


def test_reset_empties_everything():
    model = HierarchyModel(KEPLER)
    chain = [0, 600 * MIB, 0, 32, 600 * MIB]
    first = walk(model, chain)
    model.reset()
    assert walk(model, chain) == first


def test_a_walk_goes_on_lap_after_lap():
    model = HierarchyModel(KEPLER)
    read, latencies = np.empty(5, np.int8), np.empty(0)
    assert model.walk(Path.GLOBAL, np.arange(3) * 32, 1, read, latencies) == 0
    assert read.tolist() == [1, 1, 1, 0, 0]
    assert KEPLER.reach(KEPLER.routes[Path.GLOBAL]) < NOWHERE


SMS = 3
ACTORS = [Actor(sm, warp) for sm in range(SMS) for warp in (0, 1, 2, 5)]


def expand(hierarchy):
    """The hierarchy with one array per copy and SM, and one route per actor instead of a path."""
    route = hierarchy.routes[Path.GLOBAL]
    routes, caches = {}, {}
    for actor in ACTORS:
        names = []
        for name in route.caches:
            cache = hierarchy.caches[name]
            sm = 0 if cache.scope is Scope.GPU else actor.sm
            names.append(f"{name} of SM {sm}, copy {actor.warp % cache.copies}")
            caches[names[-1]] = cache
        routes[actor] = replace(route, caches=tuple(names))
    return replace(hierarchy, caches=caches, routes=routes)


@st.composite
def shared_hierarchies(draw):
    """Several copies and both scopes; no prefetcher, and no random policy, which would have other seeds."""
    hierarchy = draw(hierarchies())
    random = (PolicyKind.RANDOM, PolicyKind.WEIGHTED, PolicyKind.BIP)
    assume(not any(array.policy.kind in random for array in (*hierarchy.caches.values(), *hierarchy.tlbs)))
    caches = {
        name: replace(cache, copies=draw(st.integers(1, 4)), scope=draw(st.sampled_from(list(Scope))))
        for name, cache in hierarchy.caches.items()
    }
    return replace(hierarchy, caches=caches, prefetch=None, partition=None)


@settings(max_examples=100)
@given(shared_hierarchies(), st.lists(st.tuples(st.sampled_from(ACTORS), addresses(60)), min_size=1, max_size=5))
def test_every_actor_uses_its_own_arrays(hierarchy, sequences):
    """As in a hierarchy with a route for each actor."""
    model, oracle = HierarchyModel(hierarchy, sms=SMS), OracleHierarchy(expand(hierarchy))
    for actor, sequence in sequences:
        assert walk(model, sequence, actor=actor) == [oracle.access(actor, address) for address in sequence]


SLICES = 3
PLAIN = Hierarchy(
    caches={
        "l1": Cache((2,) * 4, 32, 32, MODULO, LRU),
        "l2": Cache((4,) * 16, 32, 32, MODULO, LRU, scope=Scope.GPU),
        "constant": Cache((4,) * 16, 32, 32, MODULO, LRU, scope=Scope.GPU),
    },
    routes={
        Path.GLOBAL: Route(("l1", "l2"), (40.0, 200.0), 500.0),
        Path.CONSTANT: Route(("constant",), (30.0,), 500.0),
    },
    sm_count=5,
)
PARTITIONED = replace(PLAIN, partition=Partition("l2", home_mask=1 << 9, far_penalty=100.0, far_memory_penalty=50.0))


def cycle_lists(size):
    return st.lists(st.floats(0, 64).map(lambda x: round(x * 4) / 4), min_size=size, max_size=size)


def walk_on_sm(hierarchy, path, sequence, sm, **options):
    return walk(HierarchyModel(hierarchy), sequence, path, Actor(first_sm=sm), **options)


@settings(max_examples=100)
@given(st.sampled_from([PLAIN, PARTITIONED]), addresses(60), st.integers(0, 4), cycle_lists(5), cycle_lists(2 * SLICES))
def test_distances_are_added_to_loads_that_reach_the_cache(hierarchy, sequence, sm, by_sm, by_slice):
    plain = walk_on_sm(hierarchy, Path.GLOBAL, sequence, sm, position=1, laps=2)
    distant = replace(hierarchy, distance=Distance("l2", tuple(by_sm), tuple(by_slice)))
    slices, first = (SLICES, SLICES * (sm % 2)) if hierarchy is PARTITIONED else (2 * SLICES, 0)
    visited = [*sequence[1:], *sequence, sequence[0]]
    distances = [by_sm[sm] + by_slice[first + address // 32 % slices] for address in visited]
    assert walk_on_sm(distant, Path.GLOBAL, sequence, sm, position=1, laps=2) == [
        (level, latency + (distance if level else 0))
        for (level, latency), distance in zip(plain, distances, strict=True)
    ]


def test_the_near_partition_goes_by_the_sm():
    lines = [0, 1 << 9]  # at home in either partition
    near, far = (2, 500.0), (2, 550.0)
    assert walk_on_sm(PARTITIONED, Path.GLOBAL, lines, 0) == [near, far]
    assert walk_on_sm(PARTITIONED, Path.GLOBAL, lines, 1) == [far, near]


def test_distances_leave_other_routes_alone():
    distant = replace(PLAIN, distance=Distance("l2", by_sm=(7.0,) * 5))
    assert walk_on_sm(distant, Path.CONSTANT, [0], 0) == walk_on_sm(PLAIN, Path.CONSTANT, [0], 0)


@pytest.mark.parametrize("kind", ["lru", "fifo", "plru", "slru", "lip", "order"])
@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from([Path.GLOBAL, Path.TEXTURE]), addresses(40)), min_size=1, max_size=6))
def test_paths_into_one_array_may_have_index_functions_of_their_own(kind, sequences):
    policy = Policy(PolicyKind(kind), order=(2, 1, 4, 3, 3) if kind == "order" else ())
    routes = {
        Path.GLOBAL: Route(("l1",), (40.0,), 500.0, translated_from=2),
        Path.TEXTURE: Route(("l1",), (70.0,), 500.0, translated_from=2, index=Index(IndexKind.BITS, bits=(9, 7))),
    }
    hierarchy = Hierarchy({"l1": Cache((4,) * 4, 64, 32, MODULO, policy)}, routes)
    model, oracle = HierarchyModel(hierarchy), OracleHierarchy(hierarchy)
    for _ in range(2):
        for path, sequence in sequences:
            assert walk(model, sequence, path) == [oracle.access(path, address) for address in sequence]
        model.reset()
        oracle = OracleHierarchy(hierarchy)


@pytest.mark.parametrize("kind", ["lru", "slru", "last-two-hits"])
@pytest.mark.parametrize("ways", [3, 4, 6])
def test_a_removed_line_leaves_the_order_of_the_others_as_it_is(kind, ways):
    """An exclusive cache loses the lines that hit."""
    far = Cache((ways,), 128, 32, MODULO, Policy(PolicyKind(kind)), fill=Fill.EXCLUSIVE)
    caches = {"l1": Cache((2,), 128, 32, MODULO, Policy(PolicyKind.LRU)), "l2": far}
    hierarchy = Hierarchy(caches, {Path.GLOBAL: Route(("l1", "l2"), (30.0, 100.0), 600.0, translated_from=3)})
    rng = np.random.default_rng(ways)
    sequence = (rng.integers(0, ways + 4, 6000) * 128 + rng.integers(0, 4, 6000) * 32).tolist()
    oracle = OracleHierarchy(hierarchy)
    assert walk(HierarchyModel(hierarchy), sequence) == [oracle.access(Path.GLOBAL, each) for each in sequence]


def test_an_index_of_a_path_must_fit_its_nearest_cache():
    for route in (Route(("l1", "l2"), (40.0, 200.0), 500.0), Route((), (), 500.0)):
        wrong = replace(PLAIN, routes={Path.GLOBAL: replace(route, index=Index(IndexKind.BITS, bits=(7,)))})
        with pytest.raises(UsageError, match="index"):
            HierarchyModel(wrong)


@pytest.mark.parametrize("first_sm", [0, 3])
def test_sms_that_share_a_tlb_find_each_others_pages_there_and_no_others_do(first_sm):
    by_sm = (0, 0, 1, 1, 0)
    first, second = KEPLER.tlbs
    tlbs = replace(first, by_sm=(0, 1, 2, 3, 4)), replace(second, by_sm=by_sm, miss_cache=2)
    caches = {"l2": replace(KEPLER.caches["l2"], scope=Scope.GPU)}
    model = HierarchyModel(replace(KEPLER, caches=caches, tlbs=tlbs, sm_count=5, page_window=None), sms=5)

    def load(sm):
        return walk(model, [0], actor=Actor(sm, first_sm=first_sm))[0][1]

    for loading in range(5):
        for other in range(5):
            model.reset()
            load(loading)
            hit = load(loading)
            missed = {0.0: "none", first.penalty: "first"}.get(load(other) - hit, "both")
            shares = by_sm[(first_sm + loading) % 5] == by_sm[(first_sm + other) % 5]
            assert missed == ("none" if other == loading else "first" if shares else "both")
