"""On a real GPU: chases follow their chains, hits and misses take the times of such, errors leave it usable."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.cuda.driver import list_gpus
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.device_info import Origin
from gpudissect.errors import DeviceError, OutOfMemory
from gpudissect.survey.run import run_survey
from gpudissect.workload import Bounds, Explicit, Path, PriorAccesses, Sequential, Shuffled
from tests.support.workloads import CHAINED, COUNT, LAP, chase

pytestmark = pytest.mark.gpu
SMALL = Sequential(32, 128)
CLEAR = Sequential(4096, 128, start=1 << 20)  # 512 KiB: more than any L1
ORDERS = {
    "single": Sequential(1, 8),
    "sequential": Sequential(777, 24, start=16),
    "pair": Shuffled(2, 8, seed=1),
    "shuffled": Shuffled(1500, 40, seed=5),
    "explicit": Explicit(np.random.default_rng(2).permutation(2000) * 32),
}
COPIED_ORDERS = (Sequential(1, 16), Sequential(17, 48, start=16), Shuffled(256, 128, 5), Shuffled(1000, 4096, 6))


def test_list_and_info(gpu):
    assert (0, gpu.info.name, None) in list_gpus()
    assert gpu.info.origin is Origin.MEASURED and gpu.info.sm_count > 0
    assert gpu.info.facts["l2_size"] and gpu.info.environment["nvrtc"]
    provenance = gpu.info.provenance
    assert provenance["gpu_uuid"].startswith("GPU-") and provenance["pci_address"] and provenance["time"]
    assert all((gpu.info.limit(path) > 0) != (path in gpu.info.unsupported) for path in Path)


@pytest.mark.parametrize("path", CHAINED, ids=str)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_every_path_follows_every_order(gpu, path, order):
    if order.span > gpu.info.limit(path):
        pytest.skip("the GPU has less of it")
    (trace,) = gpu.run([chase(path, order, laps=2)])
    assert np.array_equal(trace.offsets, np.tile(order.offsets(), 2))
    assert (trace.cycles > 0).all() and (trace.cycles < 100_000).all()


def test_a_large_chain_is_as_the_host_computes_it(gpu):
    picks, order = tuple(range(0, 1_000_003, 100_000)), Shuffled(1_000_003, 64, seed=11)
    (trace,) = gpu.run([chase(Path.GLOBAL_L2, order, warmup=0, picks=picks)])
    assert np.array_equal(trace.offsets, order.offsets()[list(picks)])


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.READONLY, Path.TEXTURE], ids=str)
def test_first_touch_misses_and_the_second_hits(gpu, path):
    (trace,) = gpu.run([chase(path, Sequential(64, 128), warmup=0, laps=3)])
    first, *later = trace.cycles.reshape(3, 64)
    assert np.median(first) > np.median(later) + 50
    assert np.ptp(np.concatenate(later)) <= 4, "hits of the L1 take the same time"


def test_the_empty_window_is_short_and_constant(gpu):
    (trace,) = gpu.run([chase(Path.NOTHING, Sequential(256, 8))])
    assert np.ptp(trace.cycles) <= 2 and trace.cycles.max() < 40


@pytest.mark.parametrize("path", CHAINED, ids=str)
def test_lap_and_each_agree(gpu, path):
    """The window of one access adds a constant, the same on every path that shares the data pipe."""
    if not gpu.info.limit(path):
        pytest.skip("the GPU has no such path")
    each = chase(path, Sequential(16, 64), warmup=2, laps=5)
    lap, each = gpu.run([replace(each, timing=LAP), each])
    slack = 60 if path is Path.GLOBAL_L2 else 30  # two SMs, at different distances from the L2
    assert abs(np.median(lap.cycles) / 16 - np.median(each.cycles)) < slack


def test_count_classifies(gpu):
    cold = chase(Path.GLOBAL, Sequential(64, 128), warmup=0, laps=3)
    (each,) = gpu.run([replace(cold, laps=2)])
    hit, miss = int(each.cycles[64:].max()), int(each.cycles[:64].min())
    bounds = Bounds(hit_max=hit + 5, miss_min=max(miss - 20, hit + 6), miss_max=5000)
    (count,) = gpu.run([replace(cold, timing=COUNT, bounds=bounds)])
    assert (count.counts.sum(axis=1) == 64).all()
    assert count.counts[0, 1] >= 60 and (count.counts[1:, 0] == 64).all()


def test_a_flushed_chain_is_in_memory(gpu):
    warm = chase(Path.GLOBAL_L2, Shuffled(1024, 128, seed=1), warmup=0, alone=True)
    warm, cold = gpu.run([warm, replace(warm, flush=True)])
    assert np.median(cold.cycles) > 1.4 * np.median(warm.cycles)


def test_all_sms_run_a_chase_each_in_one_launch(gpu):
    count = gpu.info.sm_count
    traces = gpu.run([chase(Path.GLOBAL, Sequential(n + 1, 128), LAP) for n in range(count)])
    assert len({trace.context.sm for trace in traces}) == count
    rates = [trace.context.clock_hz or 0.0 for trace in traces]
    assert max(rates) < 1.01 * min(rates) and min(rates) > 1e8


def test_a_long_trace_is_joined_from_windows(gpu):
    (trace,) = gpu.run([chase(Path.GLOBAL, Sequential(512, 128), laps=40)])
    assert int(trace.context.notes["windows"]) > 1
    assert len(trace.cycles) == 512 * 40 and np.ptp(trace.cycles) <= 4


def test_the_carveout_reduces_the_l1(gpu):
    lines = int(gpu.info.facts["shared_per_sm"]) // 2 // 128 + 32
    bounds = Bounds(hit_max=120, miss_min=150, miss_max=5000)
    count = chase(Path.GLOBAL, Sequential(lines, 128), COUNT, warmup=2, bounds=bounds)
    large, small = (int(gpu.run([replace(count, carveout=share)])[0].counts[0, 0]) for share in (None, 100))
    assert large == lines and small < lines // 2


def test_errors_leave_the_device_usable(gpu):
    with pytest.raises(OutOfMemory):
        gpu.run([chase(Path.GLOBAL_L2, Sequential(2**20, 2**24), LAP)])
    before = (PriorAccesses(path=Path.GLOBAL, order=Sequential(4, 8, start=64), sm=10**6),)
    with pytest.raises(DeviceError, match="there is no SM"):
        gpu.run([chase(Path.GLOBAL, Sequential(4, 8), LAP, before=before)])
    (trace,) = gpu.run([chase(Path.GLOBAL, Sequential(4, 8), LAP)])
    assert trace.cycles[0] > 0


def test_a_closed_device_runs_nothing():
    device = CudaGpu.open(0)
    device.run([chase(Path.GLOBAL, Sequential(4, 8), LAP)])
    device.close()
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        device.run([])


def test_no_such_gpu():
    with pytest.raises(DeviceError, match="no CUDA GPU 99: this machine has"):
        CudaGpu.open(99)


# ---- accesses before a chase -----------------------------------------------------------------------------------
def prior(path, order=SMALL, **fields):
    return PriorAccesses(path=path, order=order, **fields)


def latency_after(gpu, path, *before):
    """Median cycles of an access over 4 KiB after these, without the first few."""
    (trace,) = gpu.run([chase(path, SMALL, warmup=0, before=before)])
    return float(np.median(trace.cycles[4:]))


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.READONLY])
def test_prior_accesses_fill_the_cache_or_evict_from_it(gpu, path):
    hit = latency_after(gpu, path, prior(path))
    assert hit < 0.4 * latency_after(gpu, path, prior(path), prior(path, CLEAR))
    assert latency_after(gpu, path, prior(path), prior(path, CLEAR, warp=7)) > 2 * hit, "another warp, the same L1"
    assert latency_after(gpu, path, prior(path, warp=3)) < 1.1 * hit


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.READONLY, Path.TEXTURE])
def test_many_threads_fill_the_cache_as_one_does(gpu, path):
    hit, many = latency_after(gpu, path, prior(path)), prior(path, threads=32)
    assert latency_after(gpu, path, many) < 1.1 * hit
    assert latency_after(gpu, path, many, prior(path, CLEAR, threads=1024)) > 2 * hit


def test_prior_accesses_on_a_required_sm(gpu):
    filled = chase(Path.GLOBAL, SMALL, warmup=0, sm=5, before=(prior(Path.GLOBAL, threads=32),))
    (trace,) = gpu.run([filled])
    assert trace.context.sm == 5 and trace.context.notes["prior_access_sms"] == "5"
    assert np.median(trace.cycles) < 1.1 * latency_after(gpu, Path.GLOBAL, prior(Path.GLOBAL))


def test_another_sm_fills_the_l2_but_not_the_l1(gpu):
    path = Path.GLOBAL
    hit = latency_after(gpu, path, prior(path))
    assert latency_after(gpu, path, prior(path), prior(path, CLEAR, sm=1)) < 1.1 * hit
    cold = chase(path, SMALL, warmup=0, flush=True)
    cold, filled = gpu.run([cold, replace(cold, before=(prior(path, sm=1),))])
    assert 2 * hit < np.median(filled.cycles) < 0.8 * np.median(cold.cycles)


def test_every_cached_path_can_have_prior_accesses(gpu):
    orders = dict.fromkeys((Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.TEXTURE, Path.CONSTANT), SMALL)
    orders[Path.TEXTURE] = Sequential(32, 128, start=8)
    before = tuple(prior(path, order, warp=warp, laps=2) for warp, (path, order) in enumerate(orders.items()))
    for path in (Path.GLOBAL, Path.TEXTURE, Path.CONSTANT):
        (trace,) = gpu.run([chase(path, orders[path], before=before)])
        assert trace.offsets.tolist() == orders[path].offsets().tolist()


# ---- a certain SM ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", [Path.GLOBAL, Path.GLOBAL_L2], ids=str)
def test_every_sm_runs_its_chases(gpu, path):
    """In any order."""
    sms = np.random.default_rng(1).permutation(gpu.info.sm_count).tolist()
    traces = gpu.run([chase(path, Shuffled(64, 128, seed=2), laps=2, alone=True, sm=sm) for sm in sms])
    assert [trace.context.sm for trace in traces] == sms
    if path is Path.GLOBAL:
        assert all(np.ptp(trace.cycles) <= 4 for trace in traces), "hits of the L1 take the same time on every SM"


def test_a_required_sm_changes_nothing_else(gpu):
    plain = chase(Path.GLOBAL_L2, Shuffled(256, 128, seed=3), laps=4, alone=True)
    (free,) = gpu.run([plain])
    assert free.context.sm is not None
    (same,) = gpu.run([replace(plain, sm=free.context.sm)])
    assert abs(np.median(free.cycles) - np.median(same.cycles)) <= 2
    lap, each = gpu.run([replace(plain, timing=LAP, sm=0, laps=9), replace(plain, sm=0, laps=9)])
    assert abs(np.median(lap.cycles) / 256 - np.median(each.cycles.reshape(9, -1).mean(axis=1))) < 20


def test_a_flush_before_a_chase_on_an_sm(gpu):
    order = Shuffled(256, 128, seed=4)
    (trace,) = gpu.run([chase(Path.GLOBAL_L2, order, warmup=0, laps=3, flush=True, alone=True, sm=1)])
    first, *later = trace.cycles.reshape(3, -1)
    assert np.median(first) > 1.4 * np.median(later)


def test_an_sm_that_does_not_exist(gpu):
    missing = chase(Path.GLOBAL_L2, Sequential(4, 8), LAP, sm=gpu.info.sm_count)
    with pytest.raises(DeviceError, match="there is no SM"):
        gpu.run([missing])
    (trace,) = gpu.run([replace(missing, sm=gpu.info.sm_count - 1)])
    assert trace.context.sm == gpu.info.sm_count - 1


def test_the_map_of_the_l2(gpu):
    found = {finding.attribute: finding.value for finding in run_survey(gpu, elements=["l2"]).findings}
    latencies, partitions, latency = (found[name] for name in ("latency_by_sm", "partition_by_sm", "hit_latency"))
    assert isinstance(latencies, tuple) and len(latencies) == gpu.info.sm_count
    assert 100 < min(latencies) <= max(latencies) < 600
    assert isinstance(latency, float) and min(latencies) - 5 <= latency <= max(latencies) + 5
    if isinstance(partitions, tuple):
        assert 0.2 <= np.mean(partitions) <= 0.8


# ---- straight-line code ----------------------------------------------------------------------------------------
def code(units, laps=16):
    return chase(Path.CODE, Sequential(8 * units, 128), LAP, warmup=4, alone=True, laps=laps)


def test_code_runs_at_nearly_an_instruction_a_cycle_while_it_fits(gpu):
    short, long = gpu.run([code(1), code(5)])
    per_line = (np.quantile(long.cycles, 0.25) - np.quantile(short.cycles, 0.25)) / 32
    assert 8 <= per_line < 20
    assert np.quantile(long.cycles, 0.75) - np.quantile(long.cycles, 0.25) < 10


def test_more_code_than_a_cache_holds_takes_longer(gpu):
    little, much = gpu.run([code(4), code(512)])
    assert np.median(much.cycles) / 512 > 1.3 * np.median(little.cycles) / 4
    assert np.ptp(gpu.run([code(4, laps=200)])[0].cycles[1:]) < 0.5 * np.median(little.cycles)


def test_prior_code_leaves_a_chase_over_constants_intact(gpu):
    before = (prior(Path.CONSTANT), prior(Path.CODE, Sequential(8 * 512, 128), laps=2))
    each = chase(Path.CONSTANT, SMALL, before=before)
    for trace in gpu.run([each, replace(each, timing=LAP)]):
        assert (trace.cycles > 0).all() and np.median(trace.cycles) < 50_000


# ---- clusters and bulk copies ----------------------------------------------------------------------------------
def cycles_per_link(gpu, path, order, **fields):
    (trace,) = gpu.run([chase(path, order, LAP, warmup=2, laps=9, **fields)])
    return float(np.quantile(trace.cycles, 0.25)) / order.count


def test_facts_about_clusters(hopper):
    facts = hopper.info.facts
    counts = {size: facts[f"clusters_{size}"] for size in (2, 4, 8, 16) if f"clusters_{size}" in facts}
    assert max(counts) == facts["cluster_size"] >= 8
    assert all(size * count <= hopper.info.sm_count for size, count in counts.items()), "one block an SM"
    assert hopper.info.streams[-2:] == (Path.CLUSTER, Path.TMA)


def test_every_rank_has_an_sm_of_its_own(hopper):
    ranks, order = range(hopper.info.facts["cluster_size"]), Shuffled(256, 16, seed=3)
    traces = hopper.run([chase(Path.CLUSTER, order, LAP, laps=9, peer=rank) for rank in ranks])
    near, *far = (float(np.median(trace.cycles)) / order.count for trace in traces)
    assert 20 < near < 60 < 120 < min(far) and max(far) < 400
    for rank, trace in enumerate(traces):
        assert (trace.context.notes["peer_sm"] == str(trace.context.sm)) == (rank == 0)
        assert trace.context.notes["cluster_size"] == str(len(ranks))


def test_single_accesses_of_a_cluster(hopper):
    each = chase(Path.CLUSTER, Explicit(np.random.default_rng(1).permutation(500) * 24), laps=3, peer=2)
    count = replace(each, timing=COUNT, bounds=Bounds(500, 501, 5000))
    single, classified = hopper.run([each, count])
    assert np.array_equal(single.offsets, np.tile(each.order.offsets(), 3))
    assert 120 < np.median(single.cycles) < 400
    assert (classified.counts.sum(axis=1) == 500).all() and (classified.counts[:, 0] > 480).all()


def test_the_largest_chain_in_another_block(hopper):
    order = Sequential(hopper.info.limit(Path.CLUSTER) // 8, 8)
    (trace,) = hopper.run([chase(Path.CLUSTER, order, LAP)])
    assert 100 < trace.cycles[0] / order.count < 400
    with pytest.raises(OutOfMemory):
        hopper.run([chase(Path.CLUSTER, Sequential(order.count + 1, 8), LAP)])


@pytest.mark.parametrize("order", COPIED_ORDERS, ids=["single", "sequential", "shuffled", "wide"])
def test_copies_take_longer_than_loads_past_the_l1(hopper, order):
    load = cycles_per_link(hopper, Path.GLOBAL_L2, order, alone=True)
    copy = cycles_per_link(hopper, Path.TMA, order, alone=True)
    assert load + 30 < copy < load + 400


def test_a_flushed_chain_is_copied_from_memory(hopper):
    warm = cycles_per_link(hopper, Path.TMA, Shuffled(256, 128, seed=5), alone=True)
    order = Shuffled(4096, 1024, seed=7)
    (cold,) = hopper.run([chase(Path.TMA, order, LAP, warmup=0, flush=True, alone=True)])
    assert cold.cycles[0] / order.count > warm + 150
