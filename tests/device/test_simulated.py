"""The simulated GPU as a device: what each timing reports, and what it refuses. Without noise, unless it matters."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.simulated import Noise, SimulatedGpu, memory
from gpudissect.device_info import Origin
from gpudissect.errors import DeviceError, OutOfMemory
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Prefetch, Route
from gpudissect.trace import Trace
from gpudissect.workload import (
    Bounds,
    Chase,
    Explicit,
    Instruction,
    Mix,
    Path,
    Sequential,
    Shuffled,
    Step,
    Stream,
    Timing,
    Workload,
)
from gpudissect.workload.stream import Transfer

LRU = Policy(PolicyKind.LRU)
GPU = Hierarchy(
    caches={
        "l1": Cache((4,) * 8, 128, 128, Index(IndexKind.BITS, bits=(7, 8, 9)), LRU),
        "l2": Cache((16,) * 64, 32, 32, Index(IndexKind.MODULO), Policy(PolicyKind.RANDOM)),
    },
    routes={
        Path.GLOBAL: Route(("l1", "l2"), (80.0, 350.0), 580.0, timer=14.0),
        Path.GLOBAL_L2: Route(("l2",), (340.0,), 570.0, timer=14.0),
        Path.SHARED: Route((), (50.5,), None, timer=12.0),
    },
    sm_count=14,
    clock_hz=1.15e9,
    limits={Path.GLOBAL: 1 << 20, Path.SHARED: 48 * 1024},
)
FITS = Sequential(32, 128)  # the L1 exactly
BOUNDS = Bounds(hit_max=100, miss_min=300, miss_max=700)


def open_gpu(hierarchy: Hierarchy = GPU, noise: Noise | None = None) -> SimulatedGpu:
    return SimulatedGpu(hierarchy, spec="sim:test", name="Test", noise=noise or Noise.none())


def run(workload: Workload, noise: Noise | None = None) -> Trace:
    return open_gpu(noise=noise).run([workload])[0]


def test_each_reports_latency_and_timer() -> None:
    trace = run(Chase(path=Path.GLOBAL, order=Sequential(2, 128), timing=Timing.EACH, warmup=0, laps=2))
    assert trace.offsets.tolist() == [0, 128, 0, 128]
    assert trace.cycles.tolist() == [594, 594, 94, 94]


def test_each_visits_in_the_order_given() -> None:
    trace = run(Chase(path=Path.GLOBAL, order=Explicit(np.array([640, 0, 128])), timing=Timing.EACH))
    assert trace.offsets.tolist() == [640, 0, 128]


def test_picks_select_positions_of_every_lap() -> None:
    chase = Chase(path=Path.GLOBAL, order=Sequential(33, 128), timing=Timing.EACH, laps=3)
    everything, picked = run(chase), run(replace(chase, picks=(1, 8, 32)))
    assert picked.offsets.tolist() == [128, 1024, 4096] * 3
    assert picked.cycles.tolist() == everything.cycles.reshape(3, 33)[:, [1, 8, 32]].ravel().tolist()


def test_lap_sums_latencies_without_the_timer() -> None:
    trace = run(Chase(path=Path.GLOBAL, order=FITS, timing=Timing.LAP, warmup=0, laps=3))
    assert trace.cycles.tolist() == [32 * 580, 32 * 80, 32 * 80]


def test_warm_up_laps_are_not_timed() -> None:
    trace = run(Chase(path=Path.GLOBAL, order=FITS, timing=Timing.LAP, warmup=2, laps=1))
    assert trace.cycles.tolist() == [32 * 80]


def test_count_classifies_what_each_reports() -> None:
    chase = Chase(path=Path.GLOBAL, order=Sequential(33, 128), timing=Timing.COUNT, bounds=BOUNDS, laps=2)
    assert run(chase).counts.tolist() == [[28, 5, 0]] * 2  # LRU: the five lines of one set miss


def test_count_leaves_the_gap_unknown() -> None:
    bounds = Bounds(hit_max=93, miss_min=300, miss_max=700)
    trace = run(Chase(path=Path.GLOBAL, order=FITS, timing=Timing.COUNT, bounds=bounds))
    assert trace.counts.tolist() == [[0, 0, 32]]


def test_count_and_each_see_the_same_noise() -> None:
    """Run under one digest, so that only the way of reporting differs."""
    chase = Chase(path=Path.GLOBAL, order=Shuffled(200, 32, seed=1), timing=Timing.EACH, laps=20)
    noise = Noise(jitter=0.5, outliers=0.05)
    gpu = open_gpu(noise=noise)
    each = gpu._memory(1).run(chase, "digest", 14.0)["cycles"].reshape(20, 200)
    counted = gpu._memory(1).run(replace(chase, timing=Timing.COUNT, bounds=BOUNDS), "digest", 14.0)["counts"]
    assert counted[:, 0].tolist() == (each <= 100).sum(axis=1).tolist()
    assert counted[:, 1].tolist() == ((each >= 300) & (each <= 700)).sum(axis=1).tolist()
    assert counted.sum(axis=1).tolist() == [200] * 20


@pytest.mark.parametrize("timing", list(Timing))
def test_chunks_do_not_show(timing: Timing, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = BOUNDS if timing is Timing.COUNT else None
    chase = Chase(path=Path.GLOBAL, order=Shuffled(100, 96, seed=2), timing=timing, bounds=bounds, laps=25)
    if timing is Timing.EACH:
        chase = replace(chase, picks=(0, 7, 99))
    noise = Noise(drift=0.3)
    whole = run(chase, noise)
    monkeypatch.setattr(memory, "CHUNK_ACCESSES", 33)
    pieces = run(chase, noise)
    for name, array in whole.arrays.items():
        assert pieces.arrays[name].tolist() == array.tolist()


def test_fractional_latencies_keep_their_mean() -> None:
    trace = run(Chase(path=Path.SHARED, order=Sequential(1000, 4), timing=Timing.EACH))
    assert set(trace.cycles.tolist()) == {62, 63}
    assert trace.cycles.mean() == pytest.approx(62.5, abs=0.001)


def test_shared_memory_is_flat() -> None:
    assert run(Chase(path=Path.SHARED, order=Sequential(1000, 4), timing=Timing.LAP)).cycles.tolist() == [50_500]


def test_nothing_takes_the_timer_alone() -> None:
    assert run(Chase(path=Path.NOTHING, order=Sequential(3, 8), timing=Timing.EACH)).cycles.tolist() == [14, 14, 14]


def test_nothing_may_have_a_timer_of_its_own() -> None:
    own = replace(GPU, routes={**GPU.routes, Path.NOTHING: Route((), (0.0,), None, timer=20.0)})
    [trace] = open_gpu(own).run([Chase(path=Path.NOTHING, order=Sequential(1, 8), timing=Timing.EACH)])
    assert trace.cycles.tolist() == [20]


def test_every_chase_starts_cold() -> None:
    chase = Chase(path=Path.GLOBAL, order=FITS, timing=Timing.EACH, warmup=0)
    first, second = open_gpu().run([chase, chase])
    assert second.cycles.tolist() == first.cycles.tolist() == [594] * 32


def test_prefetch_ends_with_the_chase() -> None:
    """The prefetcher may not fill the L2 with lines that the chase does not have."""
    ahead = replace(GPU, prefetch=Prefetch("l2", reach=32 * 1024))
    chase = Chase(path=Path.GLOBAL_L2, order=Sequential(1000, 32), timing=Timing.EACH, warmup=0, laps=2)
    [trace] = open_gpu(ahead).run([chase])
    assert np.flatnonzero(trace.cycles > 400).tolist() == [0, 1, 2]


def test_random_replacement_differs_by_repetition() -> None:
    chase = Chase(path=Path.GLOBAL_L2, order=Sequential(1500, 32), timing=Timing.LAP)
    once, again, other = open_gpu().run([chase, chase, replace(chase, repetition=1)])
    assert once.cycles.tolist() == again.cycles.tolist() != other.cycles.tolist()


def test_info() -> None:
    gpu = SimulatedGpu(
        GPU, spec="sim:x", name="X", facts={"l2_size": 1}, unsupported={Path.TEXTURE: "no texture units"}, catalogue="x"
    )
    info = gpu.info
    assert (info.spec, info.name, info.origin, info.catalogue) == ("sim:x", "X", Origin.SIMULATED, "x")
    assert info.sm_count == 14
    assert info.facts == {"clock_hz": 1.15e9, "l2_size": 1}
    assert info.limit(Path.GLOBAL) == 1 << 20
    assert info.limit(Path.TEXTURE) == 0


def test_context() -> None:
    context = run(Chase(path=Path.GLOBAL, order=FITS, timing=Timing.LAP)).context
    assert (context.device, context.clock_hz, context.sm) == ("Test", 1.15e9, 0)


def test_a_path_it_lacks() -> None:
    gpu = SimulatedGpu(GPU, spec="sim:x", name="X", unsupported={Path.TEXTURE: "no texture units"})
    with pytest.raises(DeviceError, match="X has no path 'texture': no texture units"):
        gpu.run([Chase(path=Path.TEXTURE, order=FITS, timing=Timing.LAP)])


def test_more_than_a_path_has() -> None:
    with pytest.raises(OutOfMemory, match="has 49152 bytes, got 49156"):
        run(Chase(path=Path.SHARED, order=Sequential(12289, 4), timing=Timing.LAP))


@pytest.mark.parametrize(
    ("order", "message"),
    [(Explicit(np.array([1 << 36])), "is simulated up to byte"), (Sequential((1 << 24) + 1, 32), "at most 16777216")],
)
def test_more_than_can_be_simulated(order: Explicit | Sequential, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        open_gpu(replace(GPU, limits={Path.GLOBAL: 1 << 40})).run(
            [Chase(path=Path.GLOBAL, order=order, timing=Timing.LAP)]
        )


@pytest.mark.parametrize(
    "workload",
    [
        Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=1024, blocks=1, threads=32),
        Mix(body=(Step(Instruction.FADD),), warps=1, block_size=32, iterations=1),
    ],
)
def test_without_a_processor_it_runs_chases_only(workload: Workload) -> None:
    with pytest.raises(DeviceError, match=r"chases only, no (Stream|Mix): its GPU file"):
        run(workload)


def test_an_impossible_hierarchy_names_the_gpu() -> None:
    with pytest.raises(DeviceError, match="Test: path global uses"):
        open_gpu(replace(GPU, caches={}))


def test_closing_twice() -> None:
    with open_gpu() as gpu:
        gpu.close()


def test_opening_one_does_not_load_the_compiler() -> None:
    code = (
        "import sys; from gpudissect.simulation.cache.geometry import Hierarchy; "
        "from gpudissect.device.simulated import SimulatedGpu; "
        "SimulatedGpu(Hierarchy(caches={}, routes={}), spec='', name=''); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_blocks_memory_takes_as_long_as_its_rank_says() -> None:
    routes = {**GPU.routes, Path.CLUSTER: Route((), (33.0, 181.0, 200.0), None, timer=10.0)}
    limits = {**GPU.limits, Path.CLUSTER: 4096}
    gpu = open_gpu(replace(GPU, routes=routes, limits=limits, cluster_size=4))
    ring = Sequential(8, 16)
    traces = gpu.run([Chase(path=Path.CLUSTER, order=ring, timing=Timing.LAP, peer=peer) for peer in range(4)])
    assert [int(trace.cycles[0]) // 8 for trace in traces] == [33, 181, 200, 200]
    assert traces[2].context.notes == {"peer_sm": "2", "cluster_size": "4"}
    (each,) = gpu.run([Chase(path=Path.CLUSTER, order=ring, timing=Timing.EACH)])
    assert set(each.cycles.tolist()) == {191}
    with pytest.raises(DeviceError, match="clusters of 4 blocks: there is no rank 4"):
        gpu.run([Chase(path=Path.CLUSTER, order=ring, timing=Timing.LAP, peer=4)])


def test_latencies_by_rank_belong_to_clusters() -> None:
    with pytest.raises(DeviceError, match="has one latency"):
        open_gpu(replace(GPU, routes={**GPU.routes, Path.SHARED: Route((), (30.0, 40.0), None)}))
