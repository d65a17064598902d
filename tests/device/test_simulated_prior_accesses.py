"""Prior accesses decide what a simulated chase finds in its caches (MT22 s4.5-4.6)."""

from dataclasses import replace

import pytest

from gpudissect.catalogue import load
from gpudissect.device.kinds import open_device
from gpudissect.device.simulated import Noise, SimulatedGpu
from gpudissect.errors import DeviceError
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Route, Scope
from gpudissect.workload import Chase, Path, PriorAccesses, Sequential, Timing

LRU, MODULO = Policy(PolicyKind.LRU), Index(IndexKind.MODULO)
L1, L2, MEMORY = 40, 200, 500
COPIES = 4
GPU = Hierarchy(
    caches={
        "l1": Cache((4,) * 8, 32, 32, MODULO, LRU),
        "texture": Cache((4,) * 8, 32, 32, MODULO, LRU, copies=COPIES),
        "l2": Cache((16,) * 64, 32, 32, MODULO, LRU, scope=Scope.GPU),
    },
    routes={
        Path.GLOBAL: Route(("l1", "l2"), (L1, L2), MEMORY),
        Path.READONLY: Route(("texture", "l2"), (L1, L2), MEMORY),
        Path.TEXTURE: Route(("texture", "l2"), (L1, L2), MEMORY),
        Path.CONSTANT: Route(("l2",), (L2,), MEMORY),
    },
    sm_count=2,
)
FULL = 1024  # bytes of either private cache
OWN, OTHER = Sequential(FULL // 32, 32), Sequential(FULL // 32, 32, start=4 * FULL)


def prior(path, order=OTHER, warp=0, sm=0):
    return PriorAccesses(path=path, order=order, warp=warp, sm=sm)


def latencies(path, *before, warmup=0, order=OWN, gpu=GPU):
    """Different latencies of one lap after these prior accesses."""
    chase = Chase(path=path, order=order, timing=Timing.EACH, warmup=warmup, before=before)
    device = SimulatedGpu(gpu, spec="sim:test", name="test", noise=Noise.none())
    return set(device.run([chase])[0].cycles.tolist())


def test_paths_that_share_an_array_evict_each_other():
    own = prior(Path.TEXTURE, OWN)
    assert latencies(Path.TEXTURE, own) == {L1}
    assert latencies(Path.TEXTURE, own, prior(Path.READONLY)) == {L2}
    assert latencies(Path.TEXTURE, own, prior(Path.GLOBAL)) == {L1}


def test_paths_that_share_an_array_hit_on_each_others_lines():
    lines = Sequential(OWN.count, OWN.stride, start=16)  # other words of them: a texel is no pointer
    assert latencies(Path.TEXTURE, prior(Path.READONLY, lines)) == {L1}
    assert latencies(Path.TEXTURE, prior(Path.GLOBAL, lines)) == {L2}


@pytest.mark.parametrize("threads", [1, 5, 32])
def test_many_threads_fill_a_cache_as_one_does(threads):
    own = replace(prior(Path.GLOBAL, OWN), threads=threads)
    assert latencies(Path.GLOBAL, own) == {L1}
    assert latencies(Path.GLOBAL, own, replace(prior(Path.GLOBAL), threads=threads)) == {L2}


@pytest.mark.parametrize("warp", range(8))
def test_every_fourth_warp_uses_the_same_of_four_copies(warp):
    shared = warp % COPIES == 0
    before = prior(Path.TEXTURE, OWN), prior(Path.TEXTURE, warp=warp)
    assert latencies(Path.TEXTURE, *before) == {L2 if shared else L1}
    assert latencies(Path.TEXTURE, prior(Path.TEXTURE, OWN, warp=warp)) == {L1 if shared else L2}
    single = replace(GPU, caches={**GPU.caches, "texture": replace(GPU.caches["texture"], copies=1)})
    assert latencies(Path.TEXTURE, *before, gpu=single) == {L2}


def test_another_sm_shares_only_the_l2():
    assert latencies(Path.GLOBAL, prior(Path.GLOBAL, OWN, sm=1)) == {L2}
    assert latencies(Path.GLOBAL, prior(Path.GLOBAL, OWN), prior(Path.GLOBAL, sm=1)) == {L1}


def test_warm_up_laps_follow_prior_accesses():
    assert latencies(Path.GLOBAL, prior(Path.GLOBAL), warmup=1) == {L1}


def test_constant_memory_is_separate():
    assert latencies(Path.GLOBAL, prior(Path.CONSTANT, OWN)) == {MEMORY}
    assert latencies(Path.CONSTANT, prior(Path.GLOBAL, OWN)) == {MEMORY}
    assert latencies(Path.CONSTANT, prior(Path.CONSTANT, OWN)) == {L2}


def test_code_is_separate_memory_and_evicts_in_shared_arrays():
    shared = Cache((4,) * 8, 128, 128, MODULO, LRU)
    constant, code = Route(("shared", "l2"), (L1, L2), MEMORY), Route(("own", "shared", "l2"), (10, 20, 50), 100)
    gpu = Hierarchy(
        caches={"own": shared, "shared": shared, "l2": GPU.caches["l2"]},
        routes={Path.CONSTANT: constant, Path.CODE: code},
    )
    half = Sequential(16, 128)
    for units, expected in ((2, {L1}), (4, {L2})):
        before = prior(Path.CONSTANT, half), prior(Path.CODE, Sequential(8 * units, 128))
        assert latencies(Path.CONSTANT, *before, order=half, gpu=gpu) == expected
    laps = [Chase(path=Path.CODE, order=Sequential(n, 128), timing=Timing.LAP, laps=2) for n in (32, 40)]
    traces = SimulatedGpu(gpu, spec="", name="", noise=Noise.none()).run(laps)
    assert [trace.cycles.tolist() for trace in traces] == [[320] * 2, [40 * 50] * 2]


def test_a_missing_sm_or_path_is_refused():
    with pytest.raises(DeviceError, match="has 2 SMs"):
        latencies(Path.GLOBAL, prior(Path.GLOBAL, sm=2))
    with pytest.raises(DeviceError, match="no path 'global_l2'"):
        latencies(Path.GLOBAL, prior(Path.GLOBAL_L2))


@pytest.mark.parametrize(("gpu", "copies"), [("k20c", 4), ("840m", 2), ("p6000", 2), ("v100", 1), ("a100", 1)])
def test_published_copies_of_the_texture_cache(gpu, copies):
    """The test of MT22: warps that evict each other's lines share a copy."""
    hierarchy = load(gpu).hierarchy()
    cache = hierarchy.caches[hierarchy.routes[Path.TEXTURE].caches[0]]
    fill = Sequential(cache.capacity // cache.line, cache.line)
    other = Sequential(fill.count, cache.line, start=4 * cache.capacity)
    own = PriorAccesses(path=Path.TEXTURE, order=fill, laps=2)
    chases = [
        Chase(
            path=Path.TEXTURE, order=fill, timing=Timing.LAP, warmup=0, before=(own, replace(own, order=other, warp=w))
        )
        for w in range(8)
    ]
    with open_device(f"sim:{gpu}") as device:
        laps = [int(trace.cycles[0]) for trace in device.run(chases)]
    evicted = [lap > 1.2 * min(laps) for lap in laps] if copies > 1 else [True] * 8
    assert evicted == [warp % copies == 0 for warp in range(8)]
    assert copies > 1 or max(laps) < 1.2 * min(laps)
