"""On a real GPU: memory of the host, and of other GPUs if there are any, is as far and as fast as links are."""

import numpy as np
import pytest

from gpudissect.catalogue.link_rates import pcie_bandwidth
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.estimate import Status
from gpudissect.survey.links import measure_link, pairs_of
from gpudissect.survey.run import run_survey
from gpudissect.workload import MOVES, Path, Sequential, Shuffled
from tests.support.workloads import EACH, LAP, chase, stream

pytestmark = pytest.mark.gpu
FEW_LINES = Shuffled(1024, 256, seed=1)
MIN_NS, MAX_NS = 300, 5000  # of a load over PCIe or C2C; PCIe of generation 5: 500 to 1500
MIN_RATE, MAX_RATE = 1e9, 600e9  # B/s: PCIe of generation 1 with 8 lanes; C2C of 450 GB/s in one direction


def nanoseconds(gpu, path):
    """Of a load that no cache of the GPU answers."""
    (trace,) = gpu.run([chase(path, FEW_LINES, LAP, warmup=0, flush=True, alone=True)])
    return float(trace.cycles[0]) / FEW_LINES.count / trace.context.clock_hz * 1e9


def test_loads_cross_the_link(gpu):
    host, own = nanoseconds(gpu, Path.HOST), nanoseconds(gpu, Path.GLOBAL_L2)
    print(f"host {host:.0f} ns, device memory {own:.0f} ns")
    assert MIN_NS < host < MAX_NS and host > 1.2 * own


def test_chains_in_memory_of_the_host_are_as_the_workload_says(gpu):
    order = Shuffled(3000, 72, seed=5)
    (trace,) = gpu.run([chase(Path.HOST, order, EACH, warmup=0)])
    assert np.array_equal(trace.offsets, order.offsets())


def test_what_a_second_lap_finds_in_the_l2(gpu):
    """No more than a statement: whether lines of the host stay in the L2 differs by GPU."""
    (trace,) = gpu.run([chase(Path.HOST, Sequential(256, 256), LAP, warmup=0, laps=4, flush=True, alone=True)])
    print("cycles of a load, lap by lap:", (trace.cycles / 256).round().tolist())
    assert trace.cycles[0] >= 0.9 * trace.cycles[1:].min()


@pytest.mark.parametrize("transfer", MOVES, ids=str)
def test_the_rate_is_one_that_a_link_has(gpu, transfer):
    blocks, footprint = 2 * gpu.info.sm_count, 128 << 20
    if footprint * 2 > gpu.info.limit(Path.HOST):
        pytest.skip("the host has too little free memory")
    (trace,) = gpu.run([stream(Path.HOST, transfer, footprint, blocks, 512, ilp=4, width=16, passes=2, runs=5)])
    rate = float(np.median(trace.bytes / trace.nanoseconds)) * 1e9
    stated = pcie_bandwidth(gpu.info.facts)
    print(f"{transfer}: {rate / 1e9:.1f} GB/s; PCIe {gpu.info.facts.get('pcie_generation')}: {stated}")
    assert MIN_RATE < rate < 2 * MAX_RATE


def test_a_survey_finds_the_link(gpu):
    survey = run_survey(gpu, elements=("host",))
    assert not survey.failures
    found = {each.attribute: each for each in survey.findings}
    for each in found.values():
        print(each.attribute, each.status, each.value, each.low, each.high, each.caveats)
    assert found["link_latency"].status is Status.FOUND and MIN_NS < found["link_latency"].value < MAX_NS
    for attribute in ("read_bandwidth", "write_bandwidth", "copy_bandwidth"):
        assert found[attribute].status in (Status.FOUND, Status.AMBIGUOUS)


@pytest.fixture
def peer(gpu):
    """The number of another GPU whose memory this one can access."""
    if not gpu.info.limit(Path.PEER):
        pytest.skip(gpu.info.unsupported[Path.PEER])
    return int(gpu.info.facts["peers"].split()[0])


def test_chains_in_memory_of_another_gpu_are_as_the_workload_says(gpu, peer):
    order = Shuffled(3000, 72, seed=5)
    (trace,) = gpu.run([chase(Path.PEER, order, EACH, warmup=0, peer=peer)])
    assert np.array_equal(trace.offsets, order.offsets())


@pytest.mark.parametrize("transfer", MOVES, ids=str)
def test_what_is_written_to_another_gpu_arrives(gpu, peer, transfer):
    """The runner reads back what the last run wrote; NVLink 4 gives about 400 GB/s in one direction."""
    blocks = 2 * gpu.info.sm_count
    shape = {"ilp": 4, "width": 16, "passes": 2, "runs": 5, "peer": peer}
    (trace,) = gpu.run([stream(Path.PEER, transfer, 128 << 20, blocks, 512, **shape)])
    rate = float(np.median(trace.bytes / trace.nanoseconds)) * 1e9
    print(f"{transfer}: {rate / 1e9:.1f} GB/s")
    assert MIN_RATE < rate < 4 * MAX_RATE


def test_the_links_of_a_gpu(gpu, peer):
    links = [measure_link(gpu, target) for _, target in pairs_of("cuda:0", gpu.info)]
    for link in links:
        assert not link.failures
        print(link.target, dict(link.values))
        assert MIN_NS < link.values["link_latency"][0] < MAX_NS
        assert all(low <= value <= high for value, low, high in link.values.values())
    assert [link.target for link in links] == [
        "host",
        *(f"cuda:{number}" for number in gpu.info.facts["peers"].split()),
    ]


def test_several_gpus_are_open_at_once(gpu, peer):
    """Each accesses the memory of the other; closing one leaves the other usable."""
    far = {"warmup": 0, "flush": True, "alone": True}
    with CudaGpu.open(peer) as other:
        other.run([chase(Path.PEER, FEW_LINES, LAP, peer=0, **far)])
        (before,) = gpu.run([chase(Path.PEER, FEW_LINES, LAP, peer=peer, **far)])
    (after,) = gpu.run([chase(Path.PEER, FEW_LINES, LAP, peer=peer, **far)])
    assert after.cycles[0] == pytest.approx(before.cycles[0], rel=0.2)
    gpu.run([chase(Path.GLOBAL_L2, FEW_LINES, LAP)])
