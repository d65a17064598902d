"""Impossible geometries are refused."""

import math
from dataclasses import replace

import pytest
from tests.support.geometries import LRU, MODULO

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.check import check_hierarchy
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
    Room,
    Route,
    Scope,
    Tlb,
)
from gpudissect.workload import Path

L2 = Cache((4,) * 4, 128, 128, MODULO, LRU, scope=Scope.GPU)
VALID = Hierarchy(
    caches={"l1": replace(L2, scope=Scope.SM), "l2": L2},
    routes={Path.GLOBAL: Route(("l2",), (200.0,), 400.0)},
    partition=Partition("l2", 1 << 9, 100.0),
    sm_count=5,
)
BOTH = {"routes": {Path.GLOBAL: Route(("l1", "l2"), (30.0, 200.0), 400.0)}}
FOUR_WEIGHTS = (1 / 6, 1 / 2, 1 / 6, 1 / 6)


def cache(**changes):
    return {"caches": {"l1": L2, "l2": replace(L2, **changes)}}


def policy(ways, kind, weights=(), order=()):
    return cache(ways=ways, policy=Policy(kind, weights, order))


def index(kind, **fields):
    return cache(index=Index(kind, **fields))


def route(*arguments, **options):
    return {"routes": {Path.GLOBAL: Route(*arguments, **options)}}


def tlbs(*by_sm):
    """TLBs that SMs use by these numbers."""
    return {"tlbs": tuple(Tlb((16,), 1 << 20, MODULO, LRU, 1.0, by_sm=each) for each in by_sm)}


def distance(name, *arguments, **options):
    return {"distance": Distance(name, *arguments, **options)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            cache(line=192, sector=64, index=Index(IndexKind.BITS, bits=(7, 8))) | {"partition": None},
            "a power of two of bytes, not of 192",
        ),
        (cache(line=0), "cannot have sectors"),
        (cache(sector=0), "cannot have sectors"),
        (cache(sector=48), "cannot have sectors"),
        (cache(sector=256), "cannot have sectors"),
        (cache(sector=2), "1 to 32 per line"),
        (cache(copies=0), "at least one copy"),
        (policy((), PolicyKind.LRU), "at least one set"),
        (policy((4, 0), PolicyKind.LRU), "at least one way"),
        (policy((3,), PolicyKind.PLRU), "power of two"),
        (policy((65,), PolicyKind.SLRU), "up to 64 ways"),
        (policy((4,), PolicyKind.LRU, FOUR_WEIGHTS), "weights belong to"),
        (policy((4, 3), PolicyKind.WEIGHTED, FOUR_WEIGHTS), "4 weights for sets"),
        (policy((4,), PolicyKind.WEIGHTED, (0.5, 0.5, 0.5, -0.5)), "probabilities"),
        (policy((4,), PolicyKind.WEIGHTED, (0.5, 0.1, 0.1, 0.1)), "probabilities"),
        (policy((4,), PolicyKind.ORDER), "1 to 64 ways, got 0"),
        (policy((4, 3), PolicyKind.ORDER, order=(1, 4)), "ways 1 to 3, which every set has, got 1..4"),
        (policy((4,), PolicyKind.ORDER, order=(0, 1)), "got 0..1"),
        (policy((4,), PolicyKind.LRU, order=(1,)), "an order belongs to"),
        (index(IndexKind.BITS, bits=(7,)), "has 2 sets, not 4"),
        (index(IndexKind.BITS, bits=(6, 7)), "inside a line"),
        (index(IndexKind.BITS, bits=(7, 63)), r"address bits in \[0, 63\)"),
        (index(IndexKind.XOR, masks=(128, 0)), "every row"),
        (index(IndexKind.MODULO, granule=192), "multiple of the line"),
        (index(IndexKind.TABLE), "empty table"),
        (index(IndexKind.TABLE, table=(0, 4)), r"set numbers in \[0, 4\)"),
        (route(("l3",), (1.0,), 2.0), "uses .'l3'., but the caches are"),
        (route(("l2", "l2"), (1.0, 2.0), 3.0), "uses a cache twice"),
        (route(("l2",), (), 2.0), "1 caches but 0 latencies"),
        (route(("l2",), (1.0,), None), "ends before memory"),
        (route(("l2",), (1.0,), 2.0, tlbs_at=1), "positions in its caches"),
        ({"prefetch": Prefetch("l3", 100)}, "prefetch into 'l3'"),
        ({"prefetch": Prefetch("l2", 0)}, "a reach of at least 1"),
        ({"page_window": PageWindow(0, 1.0)}, "page window needs a size"),
        ({"tlbs": (Tlb((16,), 3 << 20, MODULO, LRU, 1.0),)}, "TLB 1: a page must be a power of two"),
        ({"tlbs": (Tlb((16,), 1 << 20, MODULO, LRU, 1.0, miss_cache=-1),)}, "TLB 1: a miss cache has 0 or more"),
        (tlbs((0, 1)), "TLB 1: by_sm states its number for each of 5 SMs"),
        (tlbs((0, 1, 1, 3, 3)), "TLB 1: by_sm states .* none left out"),
        (tlbs((0, 0, 1, 1, 1), (0, 1, 1, 1, 1)), "TLB 1: SMs that share it must share TLB 2"),
        (tlbs((), (0, 0, 0, 0, 1)), "TLB 1: SMs that share it must share TLB 2"),
        ({"partition": Partition("l1", 1 << 9, 1.0)}, "scope gpu"),
        ({"partition": Partition("l2", 1, 1.0)}, "whole lines"),
        ({"partition": Partition("l2", 1 << 9, 1.0, count=3)}, "3 partitions alternate by a granule"),
        ({"partition": Partition("l2", 0, 1.0, count=17, granule=4096)}, "2 to 16 partitions"),
        ({"partition": Partition("l2", 0, 1.0, count=3, granule=100)}, "whole lines and without a mask"),
        ({"partition": Partition("l2", 1 << 9, 1.0, granule=4096)}, "whole lines and without a mask"),
        (cache(line=256, fill=Fill.VICTIMS) | {"partition": None} | BOTH, "lines and sectors of the one before it"),
        (cache(fill=Fill.VICTIMS) | {"partition": Partition("l2", 1 << 9, 1.0)}, "filled by misses, 'l2' by victims"),
        (distance("l3"), "scope gpu"),
        (distance("l1"), "scope gpu"),
        (distance("l2", by_sm=(1.0,)), "1 distances for 5 SMs"),
        (distance("l2", by_slice=(1.0, 2.0, 3.0)), "3 slices do not divide into 2 equal partitions"),
        (distance("l2", by_slice=(1.0,) * 6, index=Index(IndexKind.BITS, bits=(7,))), "has 2 sets, not 3"),
        (distance("l2", by_slice=(math.nan, 1.0)), "finite"),
        (distance("l2", by_sm=(-1.0,) * 5), "not negative"),
    ],
)
def test_impossible_geometries_are_refused(changes, message):
    check_hierarchy(VALID)
    with pytest.raises(UsageError, match=message):
        check_hierarchy(replace(VALID, **changes))


@pytest.mark.parametrize(
    ("room", "policy", "message"),
    [
        (Room(17), LRU, "room for 1 to 16 lines, its ways, got 17"),
        (Room(0), LRU, "room for 1 to 16 lines, its ways, got 0"),
        (Room(10), Policy(PolicyKind.NRU), "with policies lru, fifo, last-two-hits, not with 'nru'"),
    ],
)
def test_rooms_for_data_that_are_not_simulated_are_refused(room, policy, message):
    with pytest.raises(UsageError, match=message):
        check_hierarchy(replace(VALID, caches={**VALID.caches, "l1": replace(L2, policy=policy, room=room)}))


def test_a_path_with_its_own_index_leads_to_no_cache_with_a_room():
    l1 = replace(L2, scope=Scope.SM, room=Room(10))
    indexed = replace(VALID.routes[Path.GLOBAL], caches=("l1",), latency=(1.0,), index=MODULO)
    with pytest.raises(UsageError, match="must not have a room"):
        check_hierarchy(replace(VALID, caches={**VALID.caches, "l1": l1}, routes={Path.GLOBAL: indexed}))
