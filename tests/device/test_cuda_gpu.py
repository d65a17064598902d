"""On a real GPU: chases follow their chains, hits and misses take the times of such, errors leave it usable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.cuda.driver import list_gpus
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.device_info import Origin
from gpudissect.errors import DeviceError, OutOfMemory
from gpudissect.survey.run import run_survey
from gpudissect.workload import Bounds, Chase, Explicit, Order, Path, PriorAccesses, Sequential, Shuffled, Timing

pytestmark = pytest.mark.gpu
EACH, LAP, COUNT = Timing.EACH, Timing.LAP, Timing.COUNT
# bulk copies and code are timed in laps only
CHAINED = [path for path in Path if path not in (Path.NOTHING, Path.TMA, Path.CODE)]


@pytest.fixture(scope="module")
def gpu() -> Iterator[CudaGpu]:
    with CudaGpu.open(0) as device:
        yield device


def test_list_and_info(gpu: CudaGpu) -> None:
    assert (0, gpu.info.name, None) in list_gpus()
    assert gpu.info.origin is Origin.MEASURED and gpu.info.sm_count > 0
    assert gpu.info.facts["l2_size"] and gpu.info.environment["nvrtc"]
    assert all((gpu.info.limit(path) > 0) != (path in gpu.info.unsupported) for path in Path)


@pytest.mark.parametrize("path", CHAINED, ids=str)
@pytest.mark.parametrize(
    "order",
    [
        Sequential(1, 8),
        Sequential(777, 24, start=16),
        Shuffled(2, 8, seed=1),
        Shuffled(1500, 40, seed=5),
        Explicit(np.random.default_rng(2).permutation(2000) * 32),
    ],
    ids=["single", "sequential", "pair", "shuffled", "explicit"],
)
def test_every_path_follows_every_order(gpu: CudaGpu, path: Path, order: Order) -> None:
    if order.span > gpu.info.limit(path):
        pytest.skip("the GPU has less of it")
    (trace,) = gpu.run([Chase(path=path, order=order, timing=EACH, warmup=1, laps=2)])
    assert np.array_equal(trace.offsets, np.tile(order.offsets(), 2))
    assert (trace.cycles > 0).all() and (trace.cycles < 100_000).all()


def test_a_large_chain_is_as_the_host_computes_it(gpu: CudaGpu) -> None:
    picks = tuple(range(0, 1_000_003, 100_000))
    order = Shuffled(1_000_003, 64, seed=11)
    (trace,) = gpu.run([Chase(path=Path.GLOBAL_L2, order=order, timing=EACH, warmup=0, picks=picks)])
    assert np.array_equal(trace.offsets, order.offsets()[list(picks)])


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.READONLY, Path.TEXTURE], ids=str)
def test_first_touch_misses_and_the_second_hits(gpu: CudaGpu, path: Path) -> None:
    (trace,) = gpu.run([Chase(path=path, order=Sequential(64, 128), timing=EACH, warmup=0, laps=3)])
    first, *later = trace.cycles.reshape(3, 64)
    assert np.median(first) > np.median(later) + 50
    assert np.ptp(np.concatenate(later)) <= 4, "hits of the L1 take the same time"


def test_the_empty_window_is_short_and_constant(gpu: CudaGpu) -> None:
    (trace,) = gpu.run([Chase(path=Path.NOTHING, order=Sequential(256, 8), timing=EACH)])
    assert np.ptp(trace.cycles) <= 2 and trace.cycles.max() < 40


@pytest.mark.parametrize("path", CHAINED, ids=str)
def test_lap_and_each_agree(gpu: CudaGpu, path: Path) -> None:
    """The window of one access adds a constant, the same on every path that shares the data pipe."""
    if not gpu.info.limit(path):
        pytest.skip("the GPU has no such path")
    lap, each = gpu.run(
        [
            Chase(path=path, order=Sequential(16, 64), timing=LAP, warmup=2, laps=5),
            Chase(path=path, order=Sequential(16, 64), timing=EACH, warmup=2, laps=5),
        ]
    )
    slack = 60 if path is Path.GLOBAL_L2 else 30  # two SMs, at different distances from the L2
    assert abs(np.median(lap.cycles) / 16 - np.median(each.cycles)) < slack


def test_count_classifies(gpu: CudaGpu) -> None:
    (each,) = gpu.run([Chase(path=Path.GLOBAL, order=Sequential(64, 128), timing=EACH, warmup=0, laps=2)])
    hit, miss = int(each.cycles[64:].max()), int(each.cycles[:64].min())
    bounds = Bounds(hit_max=hit + 5, miss_min=max(miss - 20, hit + 6), miss_max=5000)
    (count,) = gpu.run(
        [Chase(path=Path.GLOBAL, order=Sequential(64, 128), timing=COUNT, warmup=0, laps=3, bounds=bounds)]
    )
    assert (count.counts.sum(axis=1) == 64).all()
    assert count.counts[0, 1] >= 60 and (count.counts[1:, 0] == 64).all()


def test_a_flushed_chain_is_in_memory(gpu: CudaGpu) -> None:
    warm, cold = gpu.run(
        [
            Chase(
                path=Path.GLOBAL_L2, order=Shuffled(1024, 128, seed=1), timing=EACH, warmup=0, alone=True, flush=flush
            )
            for flush in (False, True)
        ]
    )
    assert np.median(cold.cycles) > 1.4 * np.median(warm.cycles)


def test_all_sms_run_a_chase_each_in_one_launch(gpu: CudaGpu) -> None:
    count = gpu.info.sm_count
    traces = gpu.run([Chase(path=Path.GLOBAL, order=Sequential(n + 1, 128), timing=LAP) for n in range(count)])
    assert len({trace.context.sm for trace in traces}) == count
    assert all("sm_shared" not in trace.context.notes for trace in traces)
    rates = [trace.context.clock_hz or 0.0 for trace in traces]
    assert max(rates) < 1.01 * min(rates) and min(rates) > 1e8


def test_a_long_trace_is_joined_from_windows(gpu: CudaGpu) -> None:
    (trace,) = gpu.run([Chase(path=Path.GLOBAL, order=Sequential(512, 128), timing=EACH, warmup=1, laps=40)])
    assert int(trace.context.notes["windows"]) > 1
    assert len(trace.cycles) == 512 * 40 and np.ptp(trace.cycles) <= 4


def test_the_carveout_reduces_the_l1(gpu: CudaGpu) -> None:
    shared = int(gpu.info.facts["shared_per_sm"])
    lines = shared // 2 // 128 + 32
    hits = []
    for carveout in (None, 100):
        bounds = Bounds(hit_max=120, miss_min=150, miss_max=5000)
        order = Sequential(lines, 128)
        chase = Chase(path=Path.GLOBAL, order=order, timing=COUNT, warmup=2, bounds=bounds, carveout=carveout)
        hits.append(int(gpu.run([chase])[0].counts[0, 0]))
    assert hits[0] == lines and hits[1] < lines // 2


def test_errors_leave_the_device_usable(gpu: CudaGpu) -> None:
    with pytest.raises(OutOfMemory):
        gpu.run([Chase(path=Path.GLOBAL_L2, order=Sequential(2**20, 2**24), timing=LAP)])
    prior = PriorAccesses(path=Path.GLOBAL, order=Sequential(4, 8, start=64), sm=10**6)
    with pytest.raises(DeviceError, match="there is no SM"):
        gpu.run([Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=LAP, before=(prior,))])
    (trace,) = gpu.run([Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=LAP)])
    assert trace.cycles[0] > 0


def test_a_closed_device_runs_nothing() -> None:
    device = CudaGpu.open(0)
    device.run([Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=LAP)])
    device.close()
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        device.run([])


def test_no_such_gpu() -> None:
    with pytest.raises(DeviceError, match="no CUDA GPU 99: this machine has"):
        CudaGpu.open(99)


def _after(gpu: CudaGpu, path: Path, *before: PriorAccesses) -> float:
    """Median cycles of an access over 4 KiB after these, without the first few."""
    chase = Chase(path=path, order=SMALL, timing=EACH, warmup=0, before=before)
    (trace,) = gpu.run([chase])
    return float(np.median(trace.cycles[4:]))


SMALL = Sequential(32, 128)
CLEAR = Sequential(4096, 128, start=1 << 20)  # 512 KiB: more than any L1


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.READONLY])
def test_prior_accesses_fill_the_cache_or_evict_from_it(gpu: CudaGpu, path: Path) -> None:
    prior = PriorAccesses(path=path, order=SMALL)
    hit = _after(gpu, path, prior)
    assert hit < 0.4 * _after(gpu, path, prior, PriorAccesses(path=path, order=CLEAR))
    assert (
        _after(gpu, path, prior, PriorAccesses(path=path, order=CLEAR, warp=7)) > 2 * hit
    )  # another warp, the same L1
    assert _after(gpu, path, PriorAccesses(path=path, order=SMALL, warp=3)) < 1.1 * hit


def test_another_sm_fills_the_l2_but_not_the_l1(gpu: CudaGpu) -> None:
    prior = PriorAccesses(path=Path.GLOBAL, order=SMALL)
    hit = _after(gpu, Path.GLOBAL, prior)
    assert _after(gpu, Path.GLOBAL, prior, PriorAccesses(path=Path.GLOBAL, order=CLEAR, sm=1)) < 1.1 * hit
    chase = Chase(path=Path.GLOBAL, order=SMALL, timing=EACH, warmup=0, flush=True)
    (cold,) = gpu.run([chase])
    (filled,) = gpu.run([replace(chase, before=(PriorAccesses(path=Path.GLOBAL, order=SMALL, sm=1),))])
    assert 2 * hit < np.median(filled.cycles) < 0.8 * np.median(cold.cycles)


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.GLOBAL_L2], ids=str)
def test_every_sm_runs_its_chases(gpu: CudaGpu, path: Path) -> None:
    """In any order."""
    order = np.random.default_rng(1).permutation(gpu.info.sm_count).tolist()
    batch = [
        Chase(path=path, order=Shuffled(64, 128, seed=2), timing=EACH, warmup=1, laps=2, alone=True, sm=sm)
        for sm in order
    ]
    traces = gpu.run(batch)
    assert [trace.context.sm for trace in traces] == order
    if path is Path.GLOBAL:
        assert all(np.ptp(trace.cycles) <= 4 for trace in traces), "hits of the L1 take the same time on every SM"


def test_a_required_sm_changes_nothing_else(gpu: CudaGpu) -> None:
    plain = Chase(path=Path.GLOBAL_L2, order=Shuffled(256, 128, seed=3), timing=EACH, laps=4, alone=True)
    (free,) = gpu.run([plain])
    assert free.context.sm is not None
    (same,) = gpu.run([replace(plain, sm=free.context.sm)])
    assert abs(np.median(free.cycles) - np.median(same.cycles)) <= 2
    lap, each = gpu.run([replace(plain, timing=LAP, sm=0, laps=9), replace(plain, sm=0, laps=9)])
    assert abs(np.median(lap.cycles) / 256 - np.median(each.cycles.reshape(9, -1).mean(axis=1))) < 20


def test_a_flush_before_a_chase_on_an_sm(gpu: CudaGpu) -> None:
    chase = Chase(
        path=Path.GLOBAL_L2,
        order=Shuffled(256, 128, seed=4),
        timing=EACH,
        warmup=0,
        laps=3,
        flush=True,
        alone=True,
        sm=1,
    )
    first, *later = gpu.run([chase])[0].cycles.reshape(3, -1)
    assert np.median(first) > 1.4 * np.median(later)


def test_an_sm_that_does_not_exist(gpu: CudaGpu) -> None:
    chase = Chase(path=Path.GLOBAL_L2, order=Sequential(4, 8), timing=LAP, sm=gpu.info.sm_count)
    with pytest.raises(DeviceError, match="there is no SM"):
        gpu.run([chase])
    (trace,) = gpu.run([replace(chase, sm=gpu.info.sm_count - 1)])
    assert trace.context.sm == gpu.info.sm_count - 1


def test_the_map_of_the_l2(gpu: CudaGpu) -> None:
    found = {each.attribute: each for each in run_survey(gpu, elements=["l2"]).findings}
    latency, part = found["latency_by_sm"], found["partition_by_sm"]
    assert isinstance(latency.value, tuple) and len(latency.value) == gpu.info.sm_count
    assert 100 < min(latency.value) <= max(latency.value) < 600
    one = found["hit_latency"].value
    assert isinstance(one, float) and min(latency.value) - 5 <= one <= max(latency.value) + 5
    if isinstance(part.value, tuple):
        assert 0.2 <= np.mean(part.value) <= 0.8


def test_every_cached_path_can_have_prior_accesses(gpu: CudaGpu) -> None:
    texels = Sequential(32, 128, start=8)
    before = tuple(
        PriorAccesses(path=path, order=texels if path is Path.TEXTURE else SMALL, warp=i, laps=2)
        for i, path in enumerate((Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.TEXTURE, Path.CONSTANT))
    )
    for path in (Path.GLOBAL, Path.TEXTURE, Path.CONSTANT):
        order = texels if path is Path.TEXTURE else SMALL
        (trace,) = gpu.run([Chase(path=path, order=order, timing=EACH, warmup=1, before=before)])
        assert trace.offsets.tolist() == order.offsets().tolist()


def _code(units: int, **changed: int) -> Chase:
    return Chase(
        path=Path.CODE, order=Sequential(8 * units, 128), timing=LAP, warmup=4, alone=True, **({"laps": 16} | changed)
    )


def test_code_runs_at_nearly_an_instruction_a_cycle_while_it_fits(gpu: CudaGpu) -> None:
    short, long = gpu.run([_code(1), _code(5)])
    per_line = (np.quantile(long.cycles, 0.25) - np.quantile(short.cycles, 0.25)) / 32
    assert 8 <= per_line < 20
    assert np.quantile(long.cycles, 0.75) - np.quantile(long.cycles, 0.25) < 10


def test_more_code_than_a_cache_holds_takes_longer(gpu: CudaGpu) -> None:
    little, much = gpu.run([_code(4), _code(512)])
    assert np.median(much.cycles) / 512 > 1.3 * np.median(little.cycles) / 4
    assert np.ptp(gpu.run([_code(4, laps=200)])[0].cycles[1:]) < 0.5 * np.median(little.cycles)


def test_prior_code_leaves_a_chase_over_constants_intact(gpu: CudaGpu) -> None:
    before = (
        PriorAccesses(path=Path.CONSTANT, order=SMALL),
        PriorAccesses(path=Path.CODE, order=Sequential(8 * 512, 128), laps=2),
    )
    for timing in (EACH, LAP):
        chase = Chase(path=Path.CONSTANT, order=SMALL, timing=timing, warmup=1, before=before)
        (trace,) = gpu.run([chase])
        assert (trace.cycles > 0).all() and np.median(trace.cycles) < 50_000
