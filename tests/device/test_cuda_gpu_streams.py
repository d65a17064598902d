"""On a real GPU: streams move all their bytes, at plausible rates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.device.cuda.stream.backends import GlobalStream, SharedStream
from gpudissect.errors import DeviceError, KernelFailed, OutOfMemory
from gpudissect.workload import Path, Stream, Transfer

pytestmark = pytest.mark.gpu
PATHS = [Path.GLOBAL, Path.GLOBAL_L2, Path.SHARED]
every_path = pytest.mark.parametrize("path", PATHS, ids=str)
every_transfer = pytest.mark.parametrize("transfer", list(Transfer))


@pytest.fixture(scope="module")
def gpu() -> Iterator[CudaGpu]:
    with CudaGpu.open(0) as device:
        yield device


@every_path
@every_transfer
@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize(
    ("threads", "ilp", "tiles", "blocks"),
    [
        (96, 3, 5, 2),
        (40, 5, 7, 3),
        (1, 7, 3, 5),
        (1024, 1, 1, 1),
        (33, 2, 4, 9),
        (256, 9, 1, 4),
    ],
)
def test_odd_shapes(
    gpu: CudaGpu, path: Path, transfer: Transfer, width: int, threads: int, ilp: int, tiles: int, blocks: int
) -> None:
    footprint = threads * ilp * width * tiles
    stream = Stream(
        path=path,
        transfer=transfer,
        footprint=footprint,
        blocks=blocks,
        threads=threads,
        ilp=ilp,
        width=width,
        passes=3,
        runs=2,
    )
    (trace,) = gpu.run([stream])
    assert trace.bytes.tolist() == [stream.moved] * 2
    assert (trace.nanoseconds > 0).all() and trace.cycles.shape == (2, blocks) and (trace.cycles > 0).all()


@every_transfer
@pytest.mark.parametrize("path", [Path.GLOBAL, Path.GLOBAL_L2], ids=str)
def test_waves(gpu: CudaGpu, path: Path, transfer: Transfer) -> None:
    stream = Stream(
        path=path,
        transfer=transfer,
        footprint=7 * 512 * 3 * 16,
        blocks=2000 * 4,
        threads=512,
        ilp=3,
        width=16,
        waves=2000,
        runs=2,
    )
    (trace,) = gpu.run([stream])
    assert trace.bytes.tolist() == [stream.moved] * 2


@every_transfer
@pytest.mark.parametrize(
    ("backend", "path", "argument"),
    [
        (GlobalStream, Path.GLOBAL, 3),
        (GlobalStream, Path.GLOBAL_L2, 5),
        (SharedStream, Path.SHARED, 2),
    ],
    ids=["tile", "pass", "shared pass"],
)
def test_a_kernel_that_moves_less_is_an_error(
    gpu: CudaGpu, monkeypatch: pytest.MonkeyPatch, backend: type, path: Path, argument: int, transfer: Transfer
) -> None:
    arguments_of = backend.arguments

    def less(self: object, reports: int, run: int) -> list[int]:
        arguments: list[int] = arguments_of(self, reports, run)
        arguments[argument] -= 1
        return arguments

    if backend is SharedStream and transfer is Transfer.WRITE:
        pytest.skip("the kernel itself checks its words, and would take the smaller number of passes")
    if transfer is Transfer.COPY and argument != 3:
        pytest.skip("the same words copied once more are equal to those copied before")
    monkeypatch.setattr(backend, "arguments", less)
    stream = Stream(path=path, transfer=transfer, footprint=1 << 15, blocks=2, threads=256, ilp=2, width=16, passes=2)
    with pytest.raises(KernelFailed, match="not all bytes"):
        gpu.run([stream])


@every_transfer
def test_no_rate_is_above_the_peak(gpu: CudaGpu, transfer: Transfer) -> None:
    sms, clock = gpu.info.sm_count, float(gpu.info.facts["clock_hz"])
    batch = [
        Stream(
            path=path,
            transfer=transfer,
            footprint=(32 << 10) * (1 if path is Path.SHARED else sms),
            blocks=sms,
            threads=512,
            ilp=4,
            width=16,
            passes=2000,
            runs=3,
        )
        for path in PATHS
    ]
    for stream, trace in zip(batch, gpu.run(batch), strict=True):
        per_cycle = trace.bytes / sms / trace.cycles.mean(axis=1)
        assert (per_cycle < 128.5).all() and (per_cycle > 4).all()
        assert (trace.bytes / trace.nanoseconds * 1e9 < 129 * sms * clock).all()
        if stream.path is Path.SHARED:
            assert (per_cycle > 100).all()
        assert np.ptp(trace.nanoseconds) < 0.2 * trace.nanoseconds.min()


def test_the_l1_is_faster_than_the_l2_and_the_l2_than_memory(gpu: CudaGpu) -> None:
    sms, l2 = gpu.info.sm_count, int(gpu.info.facts["l2_size"])
    tile = 512 * 4 * 16

    def stream(path: Path, tiles: int, passes: int) -> Stream:
        return Stream(
            path=path,
            transfer=Transfer.READ,
            footprint=tiles * tile * sms,
            blocks=sms,
            threads=512,
            ilp=4,
            width=16,
            passes=passes,
            runs=3,
        )

    in_memory = stream(Path.GLOBAL_L2, 8 * l2 // (tile * sms), 1)
    l1, l2_trace, memory = gpu.run([stream(Path.GLOBAL, 1, 2000), stream(Path.GLOBAL_L2, 1, 2000), in_memory])
    rates = [float(np.median(trace.bytes / trace.nanoseconds)) for trace in (l1, l2_trace, memory)]
    assert rates[0] > 1.5 * rates[1] > 1.5 * rates[2]
    assert l1.context.notes["blocks_per_sm"] == "1" and l1.context.notes["all_at_once"] == "yes"


def test_errors_leave_the_device_usable(gpu: CudaGpu) -> None:
    some = {"blocks": 1, "threads": 1024, "width": 16, "transfer": Transfer.COPY}
    with pytest.raises(OutOfMemory, match="smaller footprint"):
        gpu.run([Stream(path=Path.GLOBAL, footprint=1 << 44, **some)])  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="shared memory"):
        gpu.run([Stream(path=Path.SHARED, footprint=1 << 18, **some)])  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="registers"):
        gpu.run([Stream(path=Path.GLOBAL, footprint=1 << 20, ilp=32, **some)])  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="at most"):
        gpu.run([Stream(path=Path.GLOBAL, footprint=1 << 14, **(some | {"blocks": 1 << 24}))])  # type: ignore[arg-type]
    (trace,) = gpu.run([Stream(path=Path.SHARED, footprint=1 << 14, **some)])  # type: ignore[arg-type]
    assert trace.nanoseconds[0] > 0


@every_transfer
def test_many_more_blocks_than_run_at_once(gpu: CudaGpu, transfer: Transfer) -> None:
    """Nothing is left out or done twice, and no rate is above the peak of memory."""
    blocks = 256 * gpu.info.sm_count
    stream = Stream(
        path=Path.GLOBAL_L2,
        transfer=transfer,
        footprint=blocks * 1024 * 16,
        blocks=blocks,
        threads=1024,
        width=16,
        runs=3,
    )
    (trace,) = gpu.run([stream])
    clock, bus = (float(gpu.info.facts[name]) for name in ("memory_clock_hz", "memory_bus_bits"))
    assert "cycles" not in trace.arrays
    assert (trace.bytes / trace.nanoseconds * 1e9 < 1.05 * 2 * clock * bus / 8).all()
