"""On a real GPU: streams move all their bytes, at plausible rates."""

import numpy as np
import pytest

from gpudissect.device.cuda.stream.backends import GlobalStream, SharedStream
from gpudissect.errors import DeviceError, KernelFailed, OutOfMemory
from gpudissect.workload import MOVES, Path, Transfer
from gpudissect.workload.stream import ACCESS_WIDTHS
from tests.support.workloads import stream

pytestmark = pytest.mark.gpu
PATHS = [Path.GLOBAL, Path.GLOBAL_L2, Path.SHARED]
READ, COPY, WRITE = Transfer.READ, Transfer.COPY, Transfer.WRITE
SHAPES = [(96, 3, 5, 2), (40, 5, 7, 3), (1, 7, 3, 5), (1024, 1, 1, 1), (33, 2, 4, 9), (256, 9, 1, 4)]
every_transfer = pytest.mark.parametrize("transfer", MOVES)


@pytest.mark.parametrize("path", PATHS, ids=str)
@every_transfer
@pytest.mark.parametrize("width", ACCESS_WIDTHS)
@pytest.mark.parametrize(("threads", "ilp", "tiles", "blocks"), SHAPES)
def test_odd_shapes(gpu, path, transfer, width, threads, ilp, tiles, blocks):
    if threads * width % 4:
        pytest.skip("no whole words")
    footprint = threads * ilp * width * tiles
    odd = stream(path, transfer, footprint, blocks, threads, ilp=ilp, width=width, passes=3, runs=2)
    (trace,) = gpu.run([odd])
    assert trace.bytes.tolist() == [odd.moved] * 2
    assert (trace.nanoseconds > 0).all() and trace.cycles.shape == (2, blocks) and (trace.cycles > 0).all()


@pytest.mark.parametrize("path", [Path.READONLY, Path.TEXTURE], ids=str)
@pytest.mark.parametrize("width", ACCESS_WIDTHS)
@pytest.mark.parametrize(("threads", "ilp", "tiles", "blocks"), SHAPES)
def test_odd_shapes_through_read_only_caches(gpu, path, width, threads, ilp, tiles, blocks):
    test_odd_shapes(gpu, path, READ, width, threads, ilp, tiles, blocks)


@pytest.mark.parametrize("path", [Path.READONLY, Path.TEXTURE], ids=str)
@pytest.mark.parametrize("width", ACCESS_WIDTHS)
def test_rates_through_read_only_caches(gpu, path, width):
    """A fetch of a warp takes a cycle or more; hits are far faster than the L2 would be."""
    sms = gpu.info.sm_count
    footprint, passes = (32 << 10) * sms, 100 * width
    (trace,) = gpu.run([stream(path, READ, footprint, 2 * sms, 512, ilp=2, width=width, passes=passes, runs=3)])
    per_cycle = trace.bytes / sms / trace.cycles.mean(axis=1)
    assert (per_cycle < 32.5 * width).all() and (per_cycle < 128.5).all() and (per_cycle > 4 * min(width, 8)).all()


@every_transfer
@pytest.mark.parametrize("path", [Path.GLOBAL, Path.GLOBAL_L2], ids=str)
def test_waves(gpu, path, transfer):
    waves = stream(path, transfer, 7 * 512 * 3 * 16, 2000 * 4, 512, ilp=3, width=16, waves=2000, runs=2)
    (trace,) = gpu.run([waves])
    assert trace.bytes.tolist() == [waves.moved] * 2


@every_transfer
@pytest.mark.parametrize(
    ("backend", "path", "argument"),
    [(GlobalStream, Path.GLOBAL, 3), (GlobalStream, Path.GLOBAL_L2, 5), (SharedStream, Path.SHARED, 2)],
    ids=["tile", "pass", "shared pass"],
)
def test_a_kernel_that_moves_less_is_an_error(gpu, monkeypatch, backend, path, argument, transfer):
    arguments_of = backend.arguments

    def less(self, reports, run):
        arguments = arguments_of(self, reports, run)
        arguments[argument] -= 1
        return arguments

    if backend is SharedStream and transfer is WRITE:
        pytest.skip("the kernel itself checks its words, and would take the smaller number of passes")
    if transfer is COPY and argument != 3:
        pytest.skip("the same words copied once more are equal to those copied before")
    monkeypatch.setattr(backend, "arguments", less)
    with pytest.raises(KernelFailed, match="not all bytes"):
        gpu.run([stream(path, transfer, 1 << 15, 2, 256, ilp=2, width=16, passes=2)])


@every_transfer
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_no_rate_is_above_the_peak(gpu, path, transfer):
    sms, clock = gpu.info.sm_count, gpu.info.facts["clock_hz"]
    footprint = (32 << 10) * (1 if path is Path.SHARED else sms)
    (trace,) = gpu.run([stream(path, transfer, footprint, sms, 512, ilp=4, width=16, passes=2000, runs=3)])
    per_cycle = trace.bytes / sms / trace.cycles.mean(axis=1)
    assert (per_cycle < 128.5).all() and (per_cycle > (100 if path is Path.SHARED else 4)).all()
    assert (trace.bytes / trace.nanoseconds * 1e9 < 129 * sms * clock).all()
    assert np.ptp(trace.nanoseconds) < 0.2 * trace.nanoseconds.min()


def test_the_l1_is_faster_than_the_l2_and_the_l2_than_memory(gpu):
    sms, tile = gpu.info.sm_count, 512 * 4 * 16
    in_memory = 8 * gpu.info.facts["l2_size"] // (tile * sms)
    cases = [(Path.GLOBAL, 1, 2000), (Path.GLOBAL_L2, 1, 2000), (Path.GLOBAL_L2, in_memory, 1)]
    shape = {"ilp": 4, "width": 16, "runs": 3}
    traces = gpu.run([stream(path, READ, n * tile * sms, sms, 512, passes=p, **shape) for path, n, p in cases])
    l1, l2, memory = (float(np.median(trace.bytes / trace.nanoseconds)) for trace in traces)
    assert l1 > 1.5 * l2 > 1.5 * memory
    assert traces[0].context.notes["blocks_per_sm"] == "1" and traces[0].context.notes["all_at_once"] == "yes"


def test_errors_leave_the_device_usable(gpu):
    with pytest.raises(OutOfMemory, match="smaller footprint"):
        gpu.run([stream(Path.GLOBAL, COPY, 1 << 44, 1, 1024, width=16)])
    for message, path, footprint, blocks, ilp in (
        ("shared memory", Path.SHARED, 1 << 18, 1, 1),
        ("registers", Path.GLOBAL, 1 << 20, 1, 32),
        ("at most", Path.GLOBAL, 1 << 14, 1 << 24, 1),
    ):
        with pytest.raises(DeviceError, match=message):
            gpu.run([stream(path, COPY, footprint, blocks, 1024, width=16, ilp=ilp)])
    (trace,) = gpu.run([stream(Path.SHARED, COPY, 1 << 14, 1, 1024, width=16)])
    assert trace.nanoseconds[0] > 0


@every_transfer
def test_many_more_blocks_than_run_at_once(gpu, transfer):
    """Nothing is left out or done twice, and no rate is above the peak of memory."""
    blocks = 256 * gpu.info.sm_count
    (trace,) = gpu.run([stream(Path.GLOBAL_L2, transfer, blocks * 1024 * 16, blocks, 1024, width=16, runs=3)])
    peak = 2 * gpu.info.facts["memory_clock_hz"] * gpu.info.facts["memory_bus_bits"] / 8
    assert "cycles" not in trace.arrays
    assert (trace.bytes / trace.nanoseconds * 1e9 < 1.05 * peak).all()


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize(("width", "ilp"), [(4, 1), (8, 2), (16, 4)])
def test_blocks_of_a_cluster_read_their_neighbors(hopper, size, width, ilp):
    blocks = size * hopper.info.facts[f"clusters_{size}"]
    shape = {"ilp": ilp, "width": width, "passes": 64, "cluster": size, "runs": 2}
    (trace,) = hopper.run([stream(Path.CLUSTER, READ, 65536, blocks, 1024, **shape)])
    rates = trace.bytes / trace.nanoseconds * 1e9
    assert (rates > 1e11).all() and (rates < blocks * 128 * hopper.info.facts["clock_hz"]).all()
    assert trace.context.notes["all_at_once"] == "yes" and trace.context.notes["sms"] == str(blocks)


@pytest.mark.parametrize(("width", "ilp"), [(16, 1), (1024, 3), (16384, 4), (65536, 3)])
def test_bulk_copies_are_correct(hopper, width, ilp):
    blocks = hopper.info.sm_count
    copies = blocks * 5 + 3  # not the same number for all blocks
    (trace,) = hopper.run([stream(Path.TMA, READ, copies * width, blocks, 1, ilp=ilp, width=width, passes=7, runs=2)])
    assert trace.bytes.tolist() == [7 * copies * width] * 2 and (trace.nanoseconds > 0).all()


def test_more_blocks_than_copies(hopper):
    (trace,) = hopper.run([stream(Path.TMA, READ, 4096, 300, 1, width=1024, ilp=8)])
    assert trace.bytes.tolist() == [4096]


def test_copies_that_do_not_fit_leave_the_device_usable(hopper):
    with pytest.raises(DeviceError, match="shared memory"):
        hopper.run([stream(Path.TMA, READ, 1 << 20, 1, 1, width=1 << 16, ilp=4)])
    (trace,) = hopper.run([stream(Path.TMA, READ, 1 << 20, 1, 1, width=1 << 16, ilp=1)])
    assert trace.nanoseconds[0] > 0


@pytest.mark.parametrize(("threads", "ilp", "tiles", "blocks"), SHAPES)
def test_additions_all_arrive(gpu, threads, ilp, tiles, blocks):
    """Blocks of several waves add to the same words."""
    shape = {"ilp": ilp, "passes": 3, "runs": 2, "waves": 5}
    added = stream(Path.GLOBAL_L2, Transfer.ADD, threads * ilp * 4 * tiles, 5 * blocks, threads, **shape)
    (trace,) = gpu.run([added])
    assert trace.bytes.tolist() == [added.moved] * 2 and (trace.nanoseconds > 0).all()
