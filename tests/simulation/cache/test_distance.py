"""What an SM and a slice add to a load, against a sum done by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.geometries import addresses

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.check import check_hierarchy
from gpudissect.simulation.cache.geometry import (
    Cache,
    Distance,
    Hierarchy,
    Index,
    IndexKind,
    Partition,
    Policy,
    PolicyKind,
    Route,
    Scope,
)
from gpudissect.simulation.cache.models import Actor, HierarchyModel
from gpudissect.workload import Path

LRU, MODULO = Policy(PolicyKind.LRU), Index(IndexKind.MODULO)
SMS, SLICES = 5, 3
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
    sm_count=SMS,
)
IN_PARTS = replace(PLAIN, partition=Partition("l2", home_mask=1 << 9, far_penalty=100.0, far_memory_penalty=50.0))
cycles = st.floats(0, 64).map(lambda x: round(x * 4) / 4)


def walked(hierarchy: Hierarchy, path: Path, sequence: list[int], sm: int) -> tuple[list[int], list[float]]:
    ring = np.array(sequence, dtype=np.int64)
    levels, latencies = np.empty(2 * ring.size, np.int8), np.empty(2 * ring.size)
    HierarchyModel(hierarchy).walk(path, ring, 1 % ring.size, levels, latencies, Actor(first_sm=sm))
    return levels.tolist(), latencies.tolist()


@settings(max_examples=100)
@given(
    st.sampled_from([PLAIN, IN_PARTS]), addresses(60), st.integers(0, SMS - 1),
    st.lists(cycles, min_size=SMS, max_size=SMS), st.lists(cycles, min_size=2 * SLICES, max_size=2 * SLICES),
)  # fmt: skip
def test_distances_come_on_top_of_what_goes_that_far(
    hierarchy: Hierarchy, sequence: list[int], sm: int, by_sm: list[float], by_slice: list[float]
) -> None:
    levels, bare = walked(hierarchy, Path.GLOBAL, sequence, sm)
    far = replace(hierarchy, distance=Distance("l2", tuple(by_sm), tuple(by_slice)))
    levels_too, cycles = walked(far, Path.GLOBAL, sequence, sm)
    assert levels_too == levels
    slices, first = (SLICES, SLICES * (sm % 2)) if hierarchy is IN_PARTS else (2 * SLICES, 0)
    for i, (level, before, after) in enumerate(zip(levels, bare, cycles, strict=True)):
        line = sequence[(1 + i) % len(sequence)] // 32
        added = by_sm[sm] + by_slice[first + line % slices] if level >= 1 else 0
        assert after == before + added


def test_the_part_that_is_near_goes_by_the_sm() -> None:
    lines = [0, 1 << 9]  # one home each
    near, far = 500.0, 550.0
    assert walked(IN_PARTS, Path.GLOBAL, lines, 0)[1][:2] == [far, near]
    assert walked(IN_PARTS, Path.GLOBAL, lines, 1)[1][:2] == [near, far]


def test_other_routes_do_not_pass_by() -> None:
    far = replace(PLAIN, distance=Distance("l2", by_sm=(7.0,) * SMS))
    assert walked(far, Path.CONSTANT, [0], 0) == walked(PLAIN, Path.CONSTANT, [0], 0)


@pytest.mark.parametrize(("distance", "message"), [
    (Distance("l3"), "scope gpu"),
    (Distance("l1"), "scope gpu"),
    (Distance("l2", by_sm=(1.0,)), "1 distances for 5 SMs"),
    (Distance("l2", by_slice=(1.0, 2.0, 3.0)), "3 slices do not divide into 2 equal partitions"),
    (Distance("l2", by_slice=(1.0,) * 6, index=Index(IndexKind.BITS, bits=(7,))), "has 2 sets, not 3"),
    (Distance("l2", by_slice=(float("nan"), 1.0)), "finite"),
    (Distance("l2", by_sm=(-1.0,) * SMS), "not negative"),
])  # fmt: skip
def test_distances_that_cannot_be(distance: Distance, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_hierarchy(replace(IN_PARTS, distance=distance))
