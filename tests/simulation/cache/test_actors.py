"""Whoever accesses memory meets arrays of their own: the same as a hierarchy with a route for each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.geometries import addresses, hierarchies
from tests.support.oracle import OracleHierarchy

from gpudissect.simulation.cache.geometry import Cache, Hierarchy, PolicyKind, Scope
from gpudissect.simulation.cache.models import Actor, HierarchyModel
from gpudissect.workload import Path

SMS = 3
ACTORS = [Actor(sm, warp) for sm in range(SMS) for warp in (0, 1, 2, 5)]


def array_of(name: str, cache: Cache, actor: Actor) -> str:
    sm = 0 if cache.scope is Scope.GPU else actor.sm
    return f"{name} of SM {sm}, copy {actor.warp % cache.copies}"


def spelt_out(hierarchy: Hierarchy) -> Hierarchy:
    """The hierarchy with one array a copy and an SM, and one route an actor instead of a path."""
    route = hierarchy.routes[Path.GLOBAL]
    routes, caches = {}, {}
    for actor in ACTORS:
        names = [array_of(name, hierarchy.caches[name], actor) for name in route.caches]
        caches |= {array: hierarchy.caches[name] for array, name in zip(names, route.caches, strict=True)}
        routes[actor] = replace(route, caches=tuple(names))
    return replace(hierarchy, caches=caches, routes=routes)


@st.composite
def shared_hierarchies(draw) -> Hierarchy:
    """Several copies and both scopes; no prefetcher, and no random policy: its draws would come from other seeds."""
    hierarchy = draw(hierarchies())
    random = (PolicyKind.RANDOM, PolicyKind.WEIGHTED)
    assume(not any(array.policy.kind in random for array in (*hierarchy.caches.values(), *hierarchy.tlbs)))
    caches = {
        name: replace(cache, copies=draw(st.integers(1, 4)), scope=draw(st.sampled_from(list(Scope))))
        for name, cache in hierarchy.caches.items()
    }
    return replace(hierarchy, caches=caches, prefetch=None, partition=None)


@settings(max_examples=100)
@given(shared_hierarchies(), st.lists(st.tuples(st.sampled_from(ACTORS), addresses(60)), min_size=1, max_size=5))
def test_actors_meet_the_arrays_that_are_theirs(hierarchy: Hierarchy, turns: list[tuple[Actor, list[int]]]) -> None:
    model, oracle = HierarchyModel(hierarchy, sms=SMS), OracleHierarchy(spelt_out(hierarchy))
    for actor, sequence in turns:
        ring = np.array(sequence, dtype=np.int64)
        levels, latencies = np.empty(ring.size, np.int8), np.empty(ring.size)
        model.walk(Path.GLOBAL, ring, 0, levels, latencies, actor)
        assert list(zip(levels.tolist(), latencies.tolist(), strict=True)) == [
            oracle.access(actor, address) for address in sequence
        ]
