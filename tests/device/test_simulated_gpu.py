"""The simulated GPU as a device: results of each timing, the SM that runs a chase, and unsupported workloads."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.simulated import Noise, SimulatedGpu, memory
from gpudissect.device_info import Origin
from gpudissect.errors import DeviceError, OutOfMemory
from gpudissect.simulation.cache.geometry import (
    Cache,
    Distance,
    Hierarchy,
    Index,
    IndexKind,
    Partition,
    Policy,
    PolicyKind,
    Prefetch,
    Route,
    Scope,
)
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
    Transfer,
)

LRU, MODULO = Policy(PolicyKind.LRU), Index(IndexKind.MODULO)
GPU = Hierarchy(
    caches={
        "l1": Cache((4,) * 8, 128, 128, Index(IndexKind.BITS, bits=(7, 8, 9)), LRU),
        "l2": Cache((16,) * 64, 32, 32, MODULO, Policy(PolicyKind.RANDOM)),
    },
    routes={
        Path.GLOBAL: Route(("l1", "l2"), (80.0, 350.0), 580.0, timer=14.0),
        Path.GLOBAL_L2: Route(("l2",), (340.0,), 570.0, timer=14.0),
        Path.SHARED: Route((), (50.5,), None, timer=12.0),
        Path.CLUSTER: Route((), (33.0, 181.0, 200.0), None, timer=10.0),
    },
    sm_count=14,
    cluster_size=4,
    clock_hz=1.15e9,
    limits={Path.GLOBAL: 1 << 20, Path.SHARED: 48 * 1024, Path.CLUSTER: 4096},
)
FITS = Sequential(32, 128)  # fills the L1 exactly
BOUNDS = Bounds(hit_max=100, miss_min=300, miss_max=700)
EACH, LAP, COUNT = Timing.EACH, Timing.LAP, Timing.COUNT


def open_gpu(hierarchy=GPU, noise=None, **options):
    return SimulatedGpu(hierarchy, spec="sim:test", name="Test", noise=noise or Noise.none(), **options)


def chase(order=FITS, timing=LAP, path=Path.GLOBAL, **options):
    return Chase(path=path, order=order, timing=timing, **options)


def run(workload, noise=None, hierarchy=GPU):
    return open_gpu(hierarchy, noise).run([workload])[0]


def cycles(*arguments, hierarchy=GPU, **options):
    return run(chase(*arguments, **options), hierarchy=hierarchy).cycles.tolist()


def test_each_reports_offset_and_latency_with_the_timer():
    trace = run(chase(Sequential(2, 128), EACH, warmup=0, laps=2))
    assert (trace.offsets.tolist(), trace.cycles.tolist()) == ([0, 128, 0, 128], [594, 594, 94, 94])
    assert run(chase(Explicit(np.array([640, 0, 128])), EACH)).offsets.tolist() == [640, 0, 128]


def test_picks_select_positions_of_every_lap():
    whole = chase(Sequential(33, 128), EACH, laps=3)
    picked = run(replace(whole, picks=(1, 8, 32)))
    assert picked.offsets.tolist() == [128, 1024, 4096] * 3
    assert picked.cycles.tolist() == run(whole).cycles.reshape(3, 33)[:, [1, 8, 32]].ravel().tolist()


def test_lap_sums_latencies_without_the_timer():
    assert cycles(warmup=0, laps=3) == [32 * 580, 32 * 80, 32 * 80]
    assert cycles(warmup=2, laps=1) == [32 * 80]


def test_count_classifies_the_readings_of_each():
    assert run(chase(Sequential(33, 128), COUNT, bounds=BOUNDS, laps=2)).counts.tolist() == [[28, 5, 0]] * 2  # one set
    assert run(chase(FITS, COUNT, bounds=replace(BOUNDS, hit_max=93))).counts.tolist() == [[0, 0, 32]]


def test_count_and_each_have_the_same_noise():
    """With the same digest, so that only the timing differs."""
    each = chase(Shuffled(200, 32, seed=1), EACH, laps=20)
    gpu = open_gpu(noise=Noise(jitter=0.5, outliers=0.05))
    read = gpu._memory(1).run(each, "digest", 14.0)["cycles"].reshape(20, 200)
    counts = gpu._memory(1).run(replace(each, timing=COUNT, bounds=BOUNDS), "digest", 14.0)["counts"]
    assert counts[:, 0].tolist() == (read <= 100).sum(axis=1).tolist()
    assert counts[:, 1].tolist() == ((read >= 300) & (read <= 700)).sum(axis=1).tolist()
    assert counts.sum(axis=1).tolist() == [200] * 20


@pytest.mark.parametrize("options", [{"timing": EACH, "picks": (0, 7, 99)}, {}, {"timing": COUNT, "bounds": BOUNDS}])
def test_the_size_of_chunks_changes_nothing(options, monkeypatch):
    workload, noise = chase(Shuffled(100, 96, seed=2), **options, laps=25), Noise(drift=0.3)
    whole = run(workload, noise)
    monkeypatch.setattr(memory, "CHUNK_ACCESSES", 33)
    pieces = run(workload, noise)
    assert all(pieces.arrays[name].tolist() == array.tolist() for name, array in whole.arrays.items())


def test_shared_memory_has_one_latency_with_its_fraction():
    order = Sequential(1000, 4)
    assert cycles(order, path=Path.SHARED) == [50_500]
    read = cycles(order, EACH, Path.SHARED)
    assert set(read) == {62, 63} and np.mean(read) == pytest.approx(62.5, abs=0.001)


def test_an_empty_window_takes_the_timer_of_global_memory_or_its_own():
    assert cycles(Sequential(3, 8), EACH, Path.NOTHING) == [14, 14, 14]
    own = replace(GPU, routes={**GPU.routes, Path.NOTHING: Route((), (0.0,), None, timer=20.0)})
    assert cycles(Sequential(1, 8), EACH, Path.NOTHING, hierarchy=own) == [20]


def test_every_chase_starts_cold():
    first, second = open_gpu().run([chase(FITS, EACH, warmup=0)] * 2)
    assert second.cycles.tolist() == first.cycles.tolist() == [594] * 32


def test_prefetch_ends_with_the_chase():
    """The prefetcher does not fill the L2 with lines outside the chase."""
    ahead = replace(GPU, prefetch=Prefetch("l2", reach=32 * 1024))
    read = cycles(Sequential(1000, 32), EACH, Path.GLOBAL_L2, warmup=0, laps=2, hierarchy=ahead)
    assert np.flatnonzero(np.array(read) > 400).tolist() == [0, 1, 2]


def test_random_replacement_differs_by_repetition():
    workload = chase(Sequential(1500, 32), path=Path.GLOBAL_L2)
    once, again, other = open_gpu().run([workload, workload, replace(workload, repetition=1)])
    assert once.cycles.tolist() == again.cycles.tolist() != other.cycles.tolist()


def test_info_and_context():
    gpu = open_gpu(facts={"l2_size": 1}, unsupported={Path.TEXTURE: "no texture units"}, catalogue="x")
    info = gpu.info
    assert (info.spec, info.name, info.origin, info.catalogue) == ("sim:test", "Test", Origin.SIMULATED, "x")
    assert (info.sm_count, info.facts) == (14, {"clock_hz": 1.15e9, "l2_size": 1})
    assert (info.limit(Path.GLOBAL), info.limit(Path.TEXTURE)) == (1 << 20, 0)
    context = gpu.run([chase()])[0].context
    assert (context.device, context.clock_hz, context.sm) == ("Test", 1.15e9, 0)


def test_latencies_of_a_cluster_go_by_rank():
    order = Sequential(8, 16)
    traces = open_gpu().run([chase(order, path=Path.CLUSTER, peer=peer) for peer in range(4)])
    assert [int(trace.cycles[0]) // 8 for trace in traces] == [33, 181, 200, 200]
    assert traces[2].context.notes == {"peer_sm": "2", "cluster_size": "4"}
    assert set(cycles(order, EACH, Path.CLUSTER)) == {191}


@pytest.mark.parametrize(
    ("workload", "error", "message"),
    [
        (chase(path=Path.TEXTURE), DeviceError, "Test has no path 'texture': no texture units"),
        (chase(Sequential(12289, 4), path=Path.SHARED), OutOfMemory, "has 49152 bytes, got 49156"),
        (chase(Explicit(np.array([1 << 36]))), OutOfMemory, "has 68719476736 bytes, got 68719476740"),
        (chase(Sequential((1 << 24) + 1, 32)), DeviceError, "at most 16777216"),
        (chase(Sequential(8, 16), path=Path.CLUSTER, peer=4), DeviceError, "clusters of 4 blocks: there is no rank 4"),
        (chase(sm=14), DeviceError, r"has 14 SMs: there is no SM 14$"),
        (Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=1024, blocks=1, threads=32), DeviceError, "no Str"),
        (Mix(body=(Step(Instruction.FADD),), warps=1, block_size=32, iterations=1), DeviceError, "chases only, no Mix"),
    ],
)
def test_unsupported_workloads_are_refused(workload, error, message):
    large = replace(GPU, limits=GPU.limits | {Path.GLOBAL: 1 << 40})
    with pytest.raises(error, match=message):
        open_gpu(large, unsupported={Path.TEXTURE: "no texture units"}).run([workload])


def test_an_impossible_hierarchy_is_refused():
    with pytest.raises(DeviceError, match="Test: path global uses"):
        open_gpu(replace(GPU, caches={}))
    with pytest.raises(DeviceError, match="has one latency"):
        open_gpu(replace(GPU, routes={**GPU.routes, Path.SHARED: Route((), (30.0, 40.0), None)}))


def test_opening_one_does_not_load_the_compiler_and_closing_twice_is_fine():
    with open_gpu() as gpu:
        gpu.close()
    code = (
        "import sys; from gpudissect.simulation.cache.geometry import Hierarchy; "
        "from gpudissect.device.simulated import SimulatedGpu; "
        "SimulatedGpu(Hierarchy(caches={}, routes={}), spec='', name=''); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


PARTITIONED = Hierarchy(
    caches={"l1": Cache((4,) * 8, 32, 32, MODULO, LRU), "l2": Cache((16,) * 64, 32, 32, MODULO, LRU, scope=Scope.GPU)},
    routes={Path.GLOBAL: Route(("l1", "l2"), (40, 200), 500), Path.GLOBAL_L2: Route(("l2",), (200,), 500)},
    partition=Partition("l2", home_mask=1 << 5, far_penalty=100, far_memory_penalty=150),
    distance=Distance("l2", by_sm=(0.0, 10.0, 20.0, 30.0)),
    sm_count=4,
)


@pytest.mark.parametrize("sm", [0, 1, 2, 3, None])
def test_near_partition_and_distance_go_by_the_sm_and_private_caches_do_not(sm):
    def on_sm(path, warmup):
        trace = run(chase(Sequential(4, 32), EACH, path, warmup=warmup, sm=sm), hierarchy=PARTITIONED)
        assert trace.context.sm == (sm or 0)
        return trace.cycles.tolist()

    number = sm or 0
    memory_latencies = [650, 500] * 2 if number % 2 else [500, 650] * 2
    assert on_sm(Path.GLOBAL_L2, warmup=0) == [latency + 10 * number for latency in memory_latencies]
    assert on_sm(Path.GLOBAL_L2, warmup=1) == [200 + 10 * number] * 4
    assert on_sm(Path.GLOBAL, warmup=1) == [40] * 4


@pytest.mark.parametrize(("path", "count", "hits"), [(Path.GLOBAL, 32, True), (Path.GLOBAL_L2, 1024, False)])
def test_other_users_leave_lines_in_the_l2_alone(path, count, hits):
    """A random policy replaces lines of the chase too before those of others are gone."""
    twice = chase(Sequential(count, 4096 // 32 if hits else 32), EACH, path, warmup=0, laps=2)
    laps = run(twice, noise=replace(Noise.none(), other_users=1 << 15)).cycles.reshape(2, -1)
    assert (laps[0] >= 580).all() and (laps[1] < 400).all() == hits


def test_accesses_of_other_users_depend_on_the_workload_only():
    workload, noise = chase(Sequential(1024, 32), EACH, Path.GLOBAL_L2), Noise(other_users=500)
    assert run(workload, noise=noise).cycles.tolist() == run(workload, noise=noise).cycles.tolist()


def test_a_trace_takes_less_memory_than_its_arrays():
    """Cycles of 16 bits are read as int64, and offsets follow from the workload."""
    (trace,) = open_gpu().run([chase(order=Sequential(4096, 128), timing=EACH, laps=8)])
    assert trace.nbytes == 2 * 8 * 4096 * 8
    assert trace.cycles.dtype == trace.offsets.dtype == np.int64 and not trace.offsets.flags.writeable
    assert trace.offsets.tolist() == [128 * position for _ in range(8) for position in range(4096)]
    assert len(pickle.dumps(trace.measured())) < 0.15 * trace.nbytes
