"""On a real GPU with clusters and bulk copies: correct data, plausible times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.errors import DeviceError, OutOfMemory
from gpudissect.workload import Bounds, Chase, Explicit, Order, Path, Sequential, Shuffled, Stream, Timing
from gpudissect.workload.stream import Transfer

pytestmark = pytest.mark.gpu
EACH, LAP, COUNT = Timing.EACH, Timing.LAP, Timing.COUNT
CHAIN = Shuffled(256, 16, seed=3)


@pytest.fixture(scope="module")
def gpu() -> Iterator[CudaGpu]:
    with CudaGpu.open(0) as device:
        if not device.info.limit(Path.CLUSTER):
            pytest.skip(device.info.unsupported[Path.CLUSTER])
        yield device


def cycles_per_link(gpu: CudaGpu, path: Path, order: Order, **fields: object) -> float:
    (trace,) = gpu.run([Chase(path=path, order=order, timing=LAP, warmup=2, laps=9, **fields)])  # type: ignore[arg-type]
    return float(np.quantile(trace.cycles, 0.25)) / order.count


def test_facts_about_clusters(gpu: CudaGpu) -> None:
    size = int(gpu.info.facts["cluster_size"])
    counts = {n: int(gpu.info.facts[f"clusters_{n}"]) for n in (2, 4, 8, 16) if f"clusters_{n}" in gpu.info.facts}
    assert max(counts) == size >= 8
    assert all(n * count <= gpu.info.sm_count for n, count in counts.items()), "one block an SM"
    assert gpu.info.streams[-2:] == (Path.CLUSTER, Path.TMA)


def test_every_rank_has_an_sm_of_its_own(gpu: CudaGpu) -> None:
    ranks = range(int(gpu.info.facts["cluster_size"]))
    traces = gpu.run([Chase(path=Path.CLUSTER, order=CHAIN, timing=LAP, laps=9, peer=rank) for rank in ranks])
    latencies = [float(np.median(trace.cycles)) / CHAIN.count for trace in traces]
    assert 20 < latencies[0] < 60 < 120 < min(latencies[1:]) and max(latencies[1:]) < 400
    for rank, trace in enumerate(traces):
        assert (trace.context.notes["peer_sm"] == str(trace.context.sm)) == (rank == 0)
        assert trace.context.notes["cluster_size"] == str(len(ranks))


def test_single_accesses_of_a_cluster(gpu: CudaGpu) -> None:
    order = Explicit(np.random.default_rng(1).permutation(500) * 24)
    each, count = gpu.run(
        [
            Chase(path=Path.CLUSTER, order=order, timing=EACH, laps=3, peer=2),
            Chase(path=Path.CLUSTER, order=order, timing=COUNT, laps=3, peer=2, bounds=Bounds(500, 501, 5000)),
        ]
    )
    assert np.array_equal(each.offsets, np.tile(order.offsets(), 3))
    assert 120 < np.median(each.cycles) < 400
    assert (count.counts.sum(axis=1) == 500).all() and (count.counts[:, 0] > 480).all()


def test_the_largest_chain_in_another_block(gpu: CudaGpu) -> None:
    order = Sequential(gpu.info.limit(Path.CLUSTER) // 8, 8)
    (trace,) = gpu.run([Chase(path=Path.CLUSTER, order=order, timing=LAP, peer=1)])
    assert 100 < trace.cycles[0] / order.count < 400
    with pytest.raises(OutOfMemory):
        gpu.run([Chase(path=Path.CLUSTER, order=Sequential(order.count + 1, 8), timing=LAP)])


@pytest.mark.parametrize(
    "order",
    [
        Sequential(1, 16),
        Sequential(17, 48, start=16),
        Shuffled(256, 128, seed=5),
        Shuffled(1000, 4096, seed=6),
    ],
    ids=["single", "sequential", "shuffled", "wide"],
)
def test_copies_take_longer_than_loads_past_the_l1(gpu: CudaGpu, order: Order) -> None:
    load = cycles_per_link(gpu, Path.GLOBAL_L2, order, alone=True)
    copy = cycles_per_link(gpu, Path.TMA, order, alone=True)
    assert load + 30 < copy < load + 400


def test_a_flushed_chain_is_copied_from_memory(gpu: CudaGpu) -> None:
    warm = cycles_per_link(gpu, Path.TMA, Shuffled(256, 128, seed=5), alone=True)
    order = Shuffled(4096, 1024, seed=7)
    (cold,) = gpu.run([Chase(path=Path.TMA, order=order, timing=LAP, warmup=0, flush=True, alone=True)])
    assert cold.cycles[0] / order.count > warm + 150


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize(("width", "ilp"), [(4, 1), (8, 2), (16, 4)])
def test_blocks_of_a_cluster_read_their_neighbors(gpu: CudaGpu, size: int, width: int, ilp: int) -> None:
    blocks = size * int(gpu.info.facts[f"clusters_{size}"])
    stream = Stream(
        path=Path.CLUSTER,
        transfer=Transfer.READ,
        footprint=65536,
        blocks=blocks,
        threads=1024,
        ilp=ilp,
        width=width,
        passes=64,
        cluster=size,
        runs=2,
    )
    (trace,) = gpu.run([stream])
    rates = trace.bytes / trace.nanoseconds * 1e9
    assert (rates > 1e11).all() and (rates < blocks * 128 * float(gpu.info.facts["clock_hz"])).all()
    assert trace.context.notes["all_at_once"] == "yes" and trace.context.notes["sms"] == str(blocks)


@pytest.mark.parametrize(("width", "ilp"), [(16, 1), (1024, 3), (16384, 4), (65536, 3)])
def test_bulk_copies_are_correct(gpu: CudaGpu, width: int, ilp: int) -> None:
    copies = gpu.info.sm_count * 5 + 3  # not the same number for all blocks
    blocks = gpu.info.sm_count
    stream = Stream(
        path=Path.TMA,
        transfer=Transfer.READ,
        footprint=copies * width,
        blocks=blocks,
        threads=1,
        ilp=ilp,
        width=width,
        passes=7,
        runs=2,
    )
    (trace,) = gpu.run([stream])
    assert trace.bytes.tolist() == [7 * copies * width] * 2
    assert (trace.nanoseconds > 0).all()


def test_more_blocks_than_copies(gpu: CudaGpu) -> None:
    stream = Stream(path=Path.TMA, transfer=Transfer.READ, footprint=4096, blocks=300, threads=1, width=1024, ilp=8)
    (trace,) = gpu.run([stream])
    assert trace.bytes.tolist() == [4096]


def test_errors_leave_the_device_usable(gpu: CudaGpu) -> None:
    with pytest.raises(DeviceError, match="shared memory"):
        gpu.run(
            [
                Stream(
                    path=Path.TMA, transfer=Transfer.READ, footprint=1 << 20, blocks=1, threads=1, width=1 << 16, ilp=4
                )
            ]
        )
    assert cycles_per_link(gpu, Path.CLUSTER, CHAIN) > 0
