"""The host side of streams, on a board that answers as the kernels would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_board import FakeBoard, FakeKernel

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.device.cuda.layout import STREAM_REPORT
from gpudissect.device.cuda.plan import Machine
from gpudissect.device.cuda.streams import STREAMED, Streamer
from gpudissect.errors import DeviceError, KernelFailed, WorkloadError
from gpudissect.trace import Trace
from gpudissect.workload import Path, Stream
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import Transfer

RING: dict[str, Any] = {
    "path": Path.CLUSTER, "transfer": Transfer.READ, "footprint": 8192, "blocks": 8, "threads": 64, "ilp": 2,
    "width": 16, "cluster": 4, "passes": 3, "runs": 2,
}  # fmt: skip
BULK: dict[str, Any] = {
    "path": Path.TMA, "transfer": Transfer.READ, "footprint": 1 << 16, "blocks": 3, "threads": 1, "ilp": 2,
    "width": 1024, "passes": 5, "runs": 3,
}  # fmt: skip


class StreamBoard(FakeBoard):
    """Block b of run r begins at 1000 + b and lives for 10000 + 100 r + b nanoseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[tuple[str, str, int]] = []
        self.spoil: Any = lambda reports: None
        self.runs = 0

    def launch(
        self, kernel: FakeKernel, grid: tuple[int, int], block: int, shared: int, *arguments: int, cluster: int = 1
    ) -> None:
        self.kernels.append((kernel.name, kernel.path, shared))
        if kernel.name == "fill":
            self._view(arguments[0], np.dtype(np.uint64), arguments[1])[:] = 8 * np.arange(arguments[1]) + 1
            return
        reports = self._view(arguments[kernel.name == "stream_tma"], STREAM_REPORT, grid[0])
        numbers = np.arange(grid[0])
        reports["begin"], reports["end"] = 1000 + numbers, 11000 + 100 * self.runs + 2 * numbers
        reports["cycles"] = 2 * (reports["end"] - reports["begin"])
        reports["sm"], reports["rank"] = numbers, numbers % cluster
        if kernel.name == "stream_cluster":
            footprint, passes = arguments[1:]
            for report in reports:
                words = np.arange(footprint // 4, dtype=np.uint64)
                neighbour = (int(report["rank"]) + 1) % cluster
                words = (words + np.uint64((neighbour + 1) * 0x9E3779B9)) & np.uint64(0xFFFFFFFF)
                report["sum"] = passes * int(words.sum()) + (5 << 32)  # only the low half counts
        self.spoil(reports)
        self.runs += 1


def kernel(source: str, name: str, *macros: str) -> FakeKernel:
    return FakeKernel(name, " ".join((source, *macros)))


def run(stream: Stream, board: StreamBoard) -> Trace:
    streamer = Streamer(board, kernel, Arena(board, 1 << 22), name="fake", shared=49152)  # type: ignore[arg-type]
    return streamer.run(stream)


def test_a_ring_of_blocks() -> None:
    board, stream = StreamBoard(), Stream(**RING)
    trace = run(stream, board)
    assert trace.workload == digest(stream)
    assert trace.bytes.tolist() == [3 * 8192 * 8] * 2
    assert trace.nanoseconds.tolist() == [11000 + 100 * r + 14 - 1000 for r in (1, 2)], "the first run is not counted"
    assert trace.context.clock_hz == pytest.approx(2e9)
    assert (trace.context.notes["sms"], trace.context.notes["all_at_once"]) == ("8", "yes")
    assert board.kernels == [("stream_cluster", "stream_cluster.cu WIDTH=16 ILP=2 THREADS=64", 49152)] * 3


def test_bulk_copies() -> None:
    board = StreamBoard()
    trace = run(Stream(**BULK), board)
    assert trace.bytes.tolist() == [5 << 16] * 3
    assert [name for name, _, _ in board.kernels] == ["fill"] + ["stream_tma"] * 4
    assert board.kernels[1][2] == 2 * (1024 + 8)


def _no_sum(reports: Any) -> None:
    reports["sum"][2] ^= 1


def _other_rank(reports: Any) -> None:
    reports["rank"][1] = 3


def _no_end(reports: Any) -> None:
    reports["end"][1] = 0


@pytest.mark.parametrize(("fields", "spoil", "message"), [
    (RING, _no_sum, "not everything came"), (BULK, _no_sum, "not everything came"),
    (RING, _other_rank, "other ranks"), (BULK, _no_end, "not every block ran"), (RING, _no_end, "not every block ran"),
])  # fmt: skip
def test_what_did_not_happen_is_not_counted(fields: dict[str, Any], spoil: Any, message: str) -> None:
    board = StreamBoard()
    board.spoil = spoil
    with pytest.raises(KernelFailed, match=message):
        run(Stream(**fields), board)


@pytest.mark.parametrize("fields", [
    RING | {"footprint": 65536}, BULK | {"width": 32768, "ilp": 2}, BULK | {"footprint": 1 << 23},
    RING | {"ilp": 8},
])  # fmt: skip
def test_what_does_not_fit(fields: dict[str, Any]) -> None:
    with pytest.raises(DeviceError, match=r"this device has|may be used|at most 4 loads"):
        run(Stream(**fields), StreamBoard())


@pytest.mark.parametrize(("fields", "message"), [
    (RING | {"cluster": 1}, "two blocks or more"), (RING | {"blocks": 6}, "whole clusters"),
    (RING | {"footprint": 8200}, "no multiple"), (RING | {"transfer": Transfer.WRITE}, "can only read"),
    (RING | {"width": 32}, "4, 8 or 16"), (RING | {"cluster": 32, "blocks": 32}, "whole clusters of 1 to 16"),
    (BULK | {"width": 40}, "multiple of 16"), (BULK | {"threads": 2}, "one thread"),
    (BULK | {"footprint": 1000}, "no whole number of copies"), (BULK | {"transfer": Transfer.COPY}, "can only read"),
    (BULK | {"width": 1 << 17}, "multiple of 16"), (BULK | {"cluster": 3}, "no cluster"),
    (BULK | {"runs": 0}, "positive"), (RING | {"threads": 2048}, "at most"),
])  # fmt: skip
def test_a_stream_that_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Stream(**fields)


def test_streams_and_chases_of_a_batch_come_back_in_its_order() -> None:
    board = StreamBoard()
    gpu = object.__new__(CudaGpu)
    gpu._board, gpu._closed, gpu._broken = board, False, None  # type: ignore[assignment]
    gpu._info = type("Info", (), {"streams": STREAMED})()  # type: ignore[assignment]
    gpu._machine = Machine(4, {}, shared_largest=49152, shared_per_sm=49152, shared_free=1024)
    gpu._streamer = Streamer(board, kernel, Arena(board, 1 << 22), name="fake", shared=49152)  # type: ignore[arg-type]
    gpu._watched = lambda traces: traces  # type: ignore[method-assign]
    board.activate = lambda: None  # type: ignore[attr-defined]
    batch = [Stream(**RING), Stream(**BULK), Stream(**RING | {"repetition": 1})]
    assert [trace.workload for trace in gpu.run(batch)] == [digest(each) for each in batch]
    with pytest.raises(DeviceError, match="cannot run a Stream on path 'global'"):
        gpu.run([batch[0], Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=4, blocks=1, threads=1)])
