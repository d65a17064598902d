"""Whose turn it was before decides what a simulated chase finds in its caches (MT22 s4.5-4.6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpudissect.catalogue import load
from gpudissect.device.find import open_device
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
MINE, OTHERS = Sequential(FULL // 32, 32), Sequential(FULL // 32, 32, start=4 * FULL)


def seen(path: Path, *before: PriorAccesses, warmup: int = 0) -> set[int]:
    """Cycles of one lap over MINE after these turns."""
    chase = Chase(path=path, order=MINE, timing=Timing.EACH, warmup=warmup, before=before)
    device = SimulatedGpu(GPU, spec="sim:test", name="test", noise=Noise.none())
    return set(device.run([chase])[0].cycles.tolist())


def turn(path: Path, order: Sequential = OTHERS, warp: int = 0, sm: int = 0) -> PriorAccesses:
    return PriorAccesses(path=path, order=order, warp=warp, sm=sm)


def test_what_shares_an_array_evicts() -> None:
    mine = turn(Path.TEXTURE, MINE)
    assert seen(Path.TEXTURE, mine) == {L1}
    assert seen(Path.TEXTURE, mine, turn(Path.READONLY)) == {L2}
    assert seen(Path.TEXTURE, mine, turn(Path.GLOBAL)) == {L1}


def test_what_shares_an_array_hits_on_the_others_lines() -> None:
    lines = Sequential(MINE.count, MINE.stride, start=16)  # other words of them: a texel is no pointer
    assert seen(Path.TEXTURE, turn(Path.READONLY, lines)) == {L1}
    assert seen(Path.TEXTURE, turn(Path.GLOBAL, lines)) == {L2}


@pytest.mark.parametrize("warp", range(8))
def test_every_fourth_warp_meets_the_same_of_four_copies(warp: int) -> None:
    shared = warp % COPIES == 0
    assert seen(Path.TEXTURE, turn(Path.TEXTURE, MINE), turn(Path.TEXTURE, warp=warp)) == {L2 if shared else L1}
    assert seen(Path.TEXTURE, turn(Path.TEXTURE, MINE, warp=warp)) == {L1 if shared else L2}


def test_another_sm_shares_the_l2_only() -> None:
    assert seen(Path.GLOBAL, turn(Path.GLOBAL, MINE, sm=1)) == {L2}
    assert seen(Path.GLOBAL, turn(Path.GLOBAL, MINE), turn(Path.GLOBAL, sm=1)) == {L1}


def test_laps_before_timing_come_after_the_turns() -> None:
    assert seen(Path.GLOBAL, turn(Path.GLOBAL), warmup=1) == {L1}


def test_constant_memory_is_other_memory() -> None:
    assert seen(Path.GLOBAL, turn(Path.CONSTANT, MINE)) == {MEMORY}
    assert seen(Path.CONSTANT, turn(Path.GLOBAL, MINE)) == {MEMORY}
    assert seen(Path.CONSTANT, turn(Path.CONSTANT, MINE)) == {L2}


def test_code_is_other_memory_and_evicts_where_it_shares_an_array() -> None:
    shared = Cache((4,) * 8, 128, 128, MODULO, LRU)
    routes = {
        Path.CONSTANT: Route(("shared", "l2"), (L1, L2), MEMORY),
        Path.CODE: Route(("own", "shared", "l2"), (10, 20, 50), 100),
    }
    gpu = Hierarchy(caches={"own": shared, "shared": shared, "l2": GPU.caches["l2"]}, routes=routes)
    ring = Sequential(16, 128)  # half of the array
    for units, seen_then in ((2, {L1}), (4, {L2})):
        code_turn = turn(Path.CODE, Sequential(8 * units, 128))
        chase = Chase(path=Path.CONSTANT, order=ring, timing=Timing.EACH, warmup=0,
                      before=(turn(Path.CONSTANT, ring), code_turn))  # fmt: skip
        device = SimulatedGpu(gpu, spec="sim:test", name="test", noise=Noise.none())
        assert set(device.run([chase])[0].cycles.tolist()) == seen_then
    laps = [Chase(path=Path.CODE, order=Sequential(n, 128), timing=Timing.LAP, laps=2) for n in (32, 40)]
    within, beyond = (trace.cycles.tolist() for trace in device.run(laps))
    assert within == [320, 320]
    assert beyond == [40 * 50] * 2


def test_a_turn_on_an_sm_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeviceError, match="has 2 SMs"):
        seen(Path.GLOBAL, turn(Path.GLOBAL, sm=2))


def test_a_turn_on_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeviceError, match="no path 'global_l2'"):
        seen(Path.GLOBAL, turn(Path.GLOBAL_L2))


def test_one_copy_is_met_by_every_warp() -> None:
    single = replace(GPU, caches={**GPU.caches, "texture": replace(GPU.caches["texture"], copies=1)})
    before = (turn(Path.TEXTURE, MINE), turn(Path.TEXTURE, warp=3))
    chase = Chase(path=Path.TEXTURE, order=MINE, timing=Timing.EACH, warmup=0, before=before)
    device = SimulatedGpu(single, spec="sim:test", name="test", noise=Noise.none())
    assert set(device.run([chase])[0].cycles.tolist()) == {L2}


@pytest.mark.parametrize(("gpu", "copies"), [("k20c", 4), ("840m", 2), ("p6000", 2), ("v100", 1), ("a100", 1)])
def test_the_published_copies_of_the_texture_cache_show(gpu: str, copies: int) -> None:
    """MT22's own test: warps that evict each other's lines share a copy."""
    array = load(gpu).hierarchy().routes[Path.TEXTURE].caches[0]
    cache = load(gpu).hierarchy().caches[array]
    fill = Sequential(cache.capacity // cache.line, cache.line)
    other = Sequential(fill.count, cache.line, start=4 * cache.capacity)
    mine = PriorAccesses(path=Path.TEXTURE, order=fill, laps=2)
    chases = [
        Chase(path=Path.TEXTURE, order=fill, timing=Timing.LAP, warmup=0,
              before=(mine, PriorAccesses(path=Path.TEXTURE, order=other, warp=warp, laps=2)))
        for warp in range(8)
    ]  # fmt: skip
    with open_device(f"sim:{gpu}") as device:
        laps = [int(trace.cycles[0]) for trace in device.run(chases)]
    evicted = [lap > 1.2 * min(laps) for lap in laps] if copies > 1 else [True] * 8
    assert evicted == [warp % copies == 0 for warp in range(8)]
    assert copies > 1 or max(laps) < 1.2 * min(laps)
