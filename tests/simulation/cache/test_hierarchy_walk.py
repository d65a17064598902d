"""The walk through a whole hierarchy: against the oracle, and against what the papers saw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.geometries import addresses, hierarchies
from tests.support.oracle import OracleHierarchy

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.check import check_hierarchy
from gpudissect.simulation.cache.geometry import (
    Cache,
    Hierarchy,
    Index,
    IndexKind,
    PageWindow,
    Policy,
    PolicyKind,
    Prefetch,
    Route,
    Tlb,
)
from gpudissect.simulation.cache.models import HierarchyModel
from gpudissect.units import KIB, MIB
from gpudissect.workload import Path

LRU, MODULO = Policy(PolicyKind.LRU), Index(IndexKind.MODULO)

KEPLER = Hierarchy(
    caches={"l2": Cache((16,) * 3072, 32, 32, MODULO, LRU)},
    routes={Path.GLOBAL: Route(("l2",), (230.0,), 371.0)},
    tlbs=(Tlb((16,), 2 * MIB, MODULO, LRU, 6.0), Tlb((65,), 2 * MIB, MODULO, LRU, 0.0)),
    tlb_walk_penalty=59.0,
    tlb_cold_walk_penalty=363.0,
    page_window=PageWindow(512 * MIB, 266.0),
)


def walk(hierarchy: Hierarchy, offsets: object, end: int = 2**62) -> tuple[list[int], list[float]]:
    model = HierarchyModel(hierarchy)
    model.reset(0, end)
    return walk_on(model, offsets)


def walk_on(model: HierarchyModel, offsets: object) -> tuple[list[int], list[float]]:
    ring = np.array(offsets, dtype=np.int64)
    levels, latencies = np.empty(ring.size, np.int8), np.empty(ring.size)
    model.walk(Path.GLOBAL, ring, 0, levels, latencies)
    return levels.tolist(), latencies.tolist()


@settings(max_examples=250)
@given(hierarchies(), addresses(), st.integers(0, 2**64 - 1))
def test_random_hierarchies(hierarchy: Hierarchy, sequence: list[int], seed: int) -> None:
    end = max(sequence) + 8
    oracle = OracleHierarchy(hierarchy, seed, end)
    model = HierarchyModel(hierarchy)
    model.reset(seed, end)
    levels, latencies = walk_on(model, sequence)
    expected = [oracle.access(Path.GLOBAL, address) for address in sequence]
    assert levels == [level for level, _ in expected]
    assert latencies == [cycles for _, cycles in expected]


def test_kepler_spectrum() -> None:
    """MC14 table 3, from one chain: P6 window, P5 cold walk, P4 cold line, P1 hit, P2 and P3 TLB misses."""
    cold_pages = [page * 32 * MIB for page in range(17)]
    chain = [0, *cold_pages[1:], cold_pages[16] + 32, cold_pages[16] + 32, cold_pages[0]]
    _, cycles = walk(KEPLER, chain)
    assert cycles[0] == 734  # P5: the first page of the window that is active from the start
    assert cycles[1:16] == [734.0] * 15
    assert cycles[16:] == [1000.0, 371.0, 230.0, 236.0]


def test_two_tlb_misses_on_a_cache_hit() -> None:
    """MC14 table 3, Kepler P3: 289 cycles."""
    pages = [page * 2 * MIB + page * 32 for page in range(66)]
    assert walk(KEPLER, [*pages, pages[0]])[1][-1] == 289.0


def test_hits_before_the_translation_are_not_translated() -> None:
    """MC16 s5.2 finding 2, Maxwell: no TLB miss shows when the L1 hits."""
    maxwell = replace(
        KEPLER,
        caches={"l1": Cache((64,), 32, 32, MODULO, LRU), **KEPLER.caches},
        routes={Path.GLOBAL: Route(("l1", "l2"), (82.0, 230.0), 371.0, translated_from=1)},
    )
    pages = [page * 2 * MIB + page * 32 for page in range(20)]
    assert walk(maxwell, pages * 2)[1][20:] == [82.0] * 20


def test_a_far_tlb_holds_up_a_near_cache() -> None:
    """MC16 s5.2 finding 3, Fermi: an L1 TLB miss costs an L1 hit 288 cycles, an L2 hit 27."""
    fermi = Hierarchy(
        caches={"l1": Cache((64,), 128, 128, MODULO, LRU), "l2": Cache((64,), 128, 128, MODULO, LRU)},
        routes={Path.GLOBAL: Route(("l1", "l2"), (116.0, 377.0), 488.0, tlbs_at=1)},
        tlbs=(Tlb((1,), MIB, MODULO, LRU, 27.0), Tlb((16,), MIB, MODULO, LRU, 0.0)),
        tlb_walk_penalty=300.0,
    )
    assert walk(fermi, [0, MIB + 128, 0])[1][-1] == 116.0 + 288.0


def test_unequal_l2_tlb_misses_set_by_set() -> None:
    """MC16 fig 8-9: 130 MB fit; each further page overflows one set, one of 17 pages, then six of 8."""
    table = (0, 1, 2, 3, 4, 5, 6) * 8 + (0,) * 9
    tlb = Tlb((17, 8, 8, 8, 8, 8, 8), 2 * MIB, Index(IndexKind.TABLE, table=table), LRU, 0.0)
    hierarchy = replace(KEPLER, caches={}, tlbs=(tlb,), page_window=None, routes={Path.GLOBAL: Route((), (), 500.0)})
    missed = []
    for count in range(65, 73):
        _, cycles = walk(hierarchy, np.tile(np.arange(count) * 2 * MIB, 3))
        missed.append(sum(c > 500 for c in cycles[2 * count :]))
    assert missed == [0, 18, 27, 36, 45, 54, 63, 72]


class TestPrefetch:
    hierarchy = replace(KEPLER, tlbs=(), tlb_walk_penalty=0.0, tlb_cold_walk_penalty=None, page_window=None,
                        prefetch=Prefetch("l2", reach=MIB))  # fmt: skip

    def test_a_cold_sweep_sees_only_the_first_accesses_slow(self) -> None:
        """MC16 s4.6 finding 3: below 2/3 of the L2 there is no pattern of cold misses."""
        levels, _ = walk(self.hierarchy, np.arange(MIB // 64) * 64)
        assert levels == [1, 1, 1] + [0] * (len(levels) - 3)

    def test_beyond_its_reach_misses_come_again(self) -> None:
        levels, _ = walk(self.hierarchy, np.arange(MIB // 32 + 100) * 32)
        assert [i for i, level in enumerate(levels) if level] == [0, 1, 2, MIB // 32 + 3, MIB // 32 + 4, MIB // 32 + 5]

    def test_a_random_order_does_not_trigger_it(self) -> None:
        ring = np.random.default_rng(0).permutation(MIB // 32) * 32
        assert np.mean(walk(self.hierarchy, ring)[0]) == 1

    def test_large_steps_do_not_trigger_it(self) -> None:
        assert np.mean(walk(self.hierarchy, np.arange(100) * KIB)[0]) == 1

    def test_it_does_not_pass_the_end_of_memory(self) -> None:
        model = HierarchyModel(self.hierarchy)
        model.reset(end=10 * 32)
        walk_on(model, np.arange(10) * 32)
        assert walk_on(model, [10 * 32])[0] == [1]

    def test_a_miss_seen_before_breaks_the_run(self) -> None:
        tiny = replace(self.hierarchy, caches={"l2": Cache((1,), 32, 32, MODULO, LRU)}, prefetch=Prefetch("l2", 32))
        assert walk(tiny, [0, 32, 0, 64, 96, 128])[0] == [1, 1, 1, 1, 1, 0]

    def test_later_laps_do_not_trigger_it(self) -> None:
        small = replace(self.hierarchy, caches={"l2": Cache((16,), 32, 32, MODULO, LRU)})
        levels, _ = walk(replace(small, prefetch=Prefetch("l2", reach=32)), np.tile(np.arange(64) * 32, 2))
        assert np.mean(levels[64:]) == 1


def test_reset_forgets_everything() -> None:
    model = HierarchyModel(KEPLER)
    chain = [0, 600 * MIB, 0, 32, 600 * MIB]
    first = walk_on(model, chain)
    model.reset()
    assert walk_on(model, chain) == first


def test_a_walk_goes_on_round_its_ring() -> None:
    model = HierarchyModel(KEPLER)
    ring, levels, latencies = np.arange(3) * 32, np.empty(5, np.int8), np.empty(0)
    assert model.walk(Path.GLOBAL, ring, 1, levels, latencies) == 0
    assert levels.tolist() == [1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"routes": {Path.GLOBAL: Route(("l1",), (1.0,), 2.0)}}, "uses .'l1'., but the caches are"),
        ({"routes": {Path.GLOBAL: Route(("l2", "l2"), (1.0, 2.0), 3.0)}}, "uses a cache twice"),
        ({"routes": {Path.GLOBAL: Route(("l2",), (), 2.0)}}, "1 caches but 0 latencies"),
        ({"routes": {Path.GLOBAL: Route(("l2",), (1.0,), None)}}, "ends before memory"),
        ({"routes": {Path.GLOBAL: Route(("l2",), (1.0,), 2.0, tlbs_at=1)}}, "positions in its caches"),
        ({"prefetch": Prefetch("l1", 100)}, "prefetch into 'l1'"),
        ({"prefetch": Prefetch("l2", 0)}, "run and reach of at least 1"),
        ({"page_window": PageWindow(0, 1.0)}, "page window needs a size"),
        ({"tlbs": (Tlb((16,), 3 * MIB, MODULO, LRU, 1.0),)}, "TLB 1: a line must be a power of two"),
    ],
)
def test_hierarchies_that_cannot_be(change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_hierarchy(replace(KEPLER, **change))  # type: ignore[arg-type]
