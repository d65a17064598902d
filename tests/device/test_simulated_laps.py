"""Laps that are copied, compared with the same accesses simulated one by one."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated import memory
from gpudissect.device.simulated.memory import _Laps
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, PageWindow, Route
from gpudissect.simulation.cache.models import Actor, HierarchyModel
from gpudissect.workload import Path
from tests.support.geometries import LRU, MODULO, addresses, hierarchies

READS = st.lists(st.integers(1, 64), min_size=1, max_size=9)


def read(laps, sizes):
    parts = [np.empty(size) for size in sizes]
    for part in parts:
        laps.read(part)
    return np.concatenate(parts)


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    """Chunks of 64 accesses, so that a warm-up has several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "CHUNK_ACCESSES", 64)
        yield


WINDOWED = Hierarchy(
    {"l1": Cache((4,) * 2, 32, 32, MODULO, LRU)},
    {Path.GLOBAL: Route(("l1",), (30.0,), 200.0, translated_from=0)},
    page_window=PageWindow(64, 1000.0),
)


@settings(max_examples=200)
@example(WINDOWED, [0, 64, 96, 128, 32], 0, 5, 29, [20])
@given(hierarchies(), addresses(), st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 30), READS)
def test_copied_laps_equal_simulated_ones(hierarchy, sequence, seed, size, warmup, reads):
    chain, path = np.array(sequence[:size], dtype=np.int64), next(iter(hierarchy.routes))
    laps = _Laps(HierarchyModel(hierarchy, seed), path, chain, Actor())
    laps.skip(warmup)
    skipped = warmup * chain.size
    latencies = np.empty(skipped + sum(reads))
    HierarchyModel(hierarchy, seed).walk(path, chain, 0, np.empty(latencies.size, np.int8), latencies)
    assert np.array_equal(read(laps, reads), latencies[skipped:])


def simulated(lines, laps):
    """Accesses that are simulated, of so many laps over lines of a cache of 8 lines."""
    model = HierarchyModel(
        Hierarchy({"l1": Cache((4,) * 2, 32, 32, MODULO, LRU)}, {Path.GLOBAL: Route(("l1",), (30.0,), 200.0)})
    )
    walk, counts = model.walk, []
    model.walk = lambda *arguments: counts.append(arguments[3].size) or walk(*arguments)
    chain = np.arange(lines) * 32
    read(_Laps(model, Path.GLOBAL, chain, Actor()), [lines * 2] * (laps // 2))
    return sum(counts)


def test_only_laps_without_a_miss_are_copied():
    assert simulated(8, 100) == 3 * 8, "those of the first read, in the second of which all hit, and one that is kept"
    assert simulated(9, 100) == 100 * 9
