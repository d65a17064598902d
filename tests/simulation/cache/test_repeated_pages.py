"""Accesses to the page of the access before: the shortcut in the compiled loop changes no state of any policy."""

import numpy as np
import pytest

from gpudissect.simulation.cache.geometry import Hierarchy, Index, IndexKind, Policy, PolicyKind, Route, Tlb
from gpudissect.simulation.cache.models import CacheModel, HierarchyModel
from gpudissect.workload import Path

PAGE, WALK = 4096, 100.0


@pytest.mark.parametrize("kind", [kind for kind in PolicyKind if kind is not PolicyKind.WEIGHTED])
@pytest.mark.parametrize("ways", [1, 4])
def test_a_tlb_misses_as_a_cache_of_pages(kind, ways):
    order = (1, ways) if kind is PolicyKind.ORDER else ()
    tlb = Tlb((ways,), PAGE, Index(IndexKind.MODULO), Policy(kind, order=order), WALK)
    route = Route((), (), 10.0)
    model = HierarchyModel(Hierarchy({}, {Path.GLOBAL: route}, tlbs=(tlb,), tlb_walk_penalty=WALK), seed=5)
    rng = np.random.default_rng(0)
    offsets = np.repeat(rng.integers(0, ways + 2, 400), rng.integers(1, 4, 400)) * PAGE
    latencies = np.empty(offsets.size)
    model.walk(Path.GLOBAL, offsets, 0, np.empty(offsets.size, dtype=np.int8), latencies)
    missed = CacheModel(tlb.as_cache(), seed=5).access_many(offsets)
    assert 50 < missed.sum() < 400
    if kind is not PolicyKind.RANDOM:  # whose stream depends on the number of arrays
        assert np.array_equal(latencies > WALK, missed == 1)
