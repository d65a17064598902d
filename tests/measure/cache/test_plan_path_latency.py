"""Latency of memory through textures and constants on simulated GPUs whose paths have latencies of their own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_level import Absence, Levels
from gpudissect.measure.cache.plan_latency import L2Timing
from gpudissect.measure.infer_latency import Latency
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Route, Scope, Tlb
from gpudissect.workload import Path
from tests.support.driving import estimates
from tests.support.geometries import LRU, MODULO
from tests.support.one_cache import levels

TIMER = 12.0
PATHS = {"texture": Path.TEXTURE, "constant_l1": Path.CONSTANT}


def gpu_of(near, l2, memory, line, page, limit):
    private = Cache((4,) * 8, line, line, MODULO, LRU)
    caches = {"near": private, "l2": Cache((8,) * 512, 128, 32, MODULO, LRU, scope=Scope.GPU)}
    routes = {
        path: Route(("near", "l2"), (near, near + l2), near + l2 + memory, timer=TIMER)
        for path in (Path.GLOBAL, *PATHS.values())
    }
    tlbs = (Tlb((8,), page, MODULO, LRU, penalty=80.0),)
    limits = {Path.GLOBAL: 1 << 28, Path.TEXTURE: 1 << 27, Path.CONSTANT: limit}
    hierarchy = Hierarchy(caches, routes, tlbs, sm_count=4, limits=limits)
    return SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=Noise(seed=1))


def known_of(element, found=True):
    exact = Latency(TIMER, TIMER, TIMER)
    path = PATHS[element]
    named = levels(64, element, path) if found else Levels(path, (), {element: Absence("no step", Status.NOT_FOUND)})
    return {
        f"levels.{path.value}": named,
        "levels.l2": levels(128, "l2", Path.GLOBAL_L2),
        "latency.l2": L2Timing(exact, 0.0),
        "tlb.tlb_l1": None,
    }


@settings(max_examples=20, deadline=None)
@given(
    element=st.sampled_from(list(PATHS)),
    near=st.integers(20, 120),
    l2=st.integers(60, 300),
    memory=st.integers(100, 500),
    line=st.sampled_from([64, 128, 256]),
    limit=st.sampled_from([32 << 10, 64 << 10]),
)
def test_every_access_misses_every_cache(element, near, l2, memory, line, limit):
    gpu = gpu_of(near, l2, memory, line, 2 << 20, limit)
    estimate = estimates(gpu, [f"memory_latency.{element}"], known=known_of(element))[element, "memory_latency"]
    truth = near + l2 + memory
    assert estimate.low - 4 <= truth <= estimate.high + 4 and estimate.value == pytest.approx(truth, rel=0.03)


def test_a_path_without_a_cache_has_none():
    gpu = gpu_of(30, 100, 200, 64, 2 << 20, 64 << 10)
    known = known_of("texture", found=False)
    estimate = estimates(gpu, ["memory_latency.texture"], known=known)["texture", "memory_latency"]
    assert estimate.status is Status.NOT_FOUND and estimate.reason == "no step"
