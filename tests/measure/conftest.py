"""Simulated GPUs of any shape."""

from collections.abc import Callable

import pytest

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Route, Scope
from gpudissect.workload import Path

KIB = 1024


def bits(low: int, count: int) -> Index:
    return Index(IndexKind.BITS, bits=tuple(range(low, low + count)))


def plain_l2(kib: int = 1024, line: int = 32, policy: PolicyKind = PolicyKind.LRU) -> Cache:
    ways = (16,) * (kib * KIB // line // 16)
    return Cache(ways, line, line, Index(IndexKind.MODULO), Policy(policy), scope=Scope.GPU)


@pytest.fixture(scope="session")
def gpu_with() -> Callable[..., SimulatedGpu]:
    """A GPU whose global loads go through the given L1 (None: none) and L2 (None: none)."""

    def make(l1: Cache | None, l2: Cache | None, noise: Noise | None = None) -> SimulatedGpu:
        caches = {name: cache for name, cache in (("l1", l1), ("l2", l2)) if cache is not None}
        hit = {"l1": 40.0, "l2": 230.0}

        def route(*names: str) -> Route:
            return Route(names, tuple(hit[name] for name in names), 500, timer=12)

        past_l1 = tuple(name for name in caches if name != "l1")
        routes = {Path.GLOBAL: route(*caches), Path.GLOBAL_L2: route(*past_l1)}
        hierarchy = Hierarchy(caches=caches, routes=routes, sm_count=8)
        return SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=noise or Noise(seed=1))

    return make
