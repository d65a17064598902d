"""The host side of streams, on a board that answers as the kernels would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.chase.layout import STREAM_REPORT
from gpudissect.device.cuda.chase.plan import Machine
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.device.cuda.stream.streams import STREAMED, Streamer
from gpudissect.device.cuda.stream.words import LOW
from gpudissect.errors import DeviceError, KernelFailed, WorkloadError
from gpudissect.trace import Trace
from gpudissect.workload import Path, Stream
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import Transfer
from tests.support.fake_board import FakeBoard, FakeKernel

RING: dict[str, Any] = {
    "path": Path.CLUSTER, "transfer": Transfer.READ, "footprint": 8192, "blocks": 8, "threads": 64, "ilp": 2,
    "width": 16, "cluster": 4, "passes": 3, "runs": 2,
}  # fmt: skip
TILES: dict[str, Any] = {
    "path": Path.GLOBAL, "transfer": Transfer.READ, "footprint": 7 * 96 * 3 * 8, "blocks": 3, "threads": 96, "ilp": 3,
    "width": 8, "passes": 3, "runs": 2,
}  # fmt: skip
INSIDE: dict[str, Any] = TILES | {"path": Path.SHARED, "footprint": 2 * 96 * 3 * 8}
BULK: dict[str, Any] = {
    "path": Path.TMA, "transfer": Transfer.READ, "footprint": 1 << 16, "blocks": 3, "threads": 1, "ilp": 2,
    "width": 1024, "passes": 5, "runs": 3,
}  # fmt: skip


class StreamBoard(FakeBoard):
    """Block b of run r begins at 1000 + b and lives for `life` + 100 r + b nanoseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[tuple[str, str, int]] = []
        self.carveouts: list[int] = []
        self.left_out = 0  # words at the end of what is written that do not get there
        self.spoil: Any = lambda reports: None
        self.runs = 0
        self.life = 50_000

    def launch(
        self, kernel: FakeKernel, grid: tuple[int, int], block: int, shared: int, *arguments: int, cluster: int = 1
    ) -> None:
        self.kernels.append((kernel.name, kernel.path, shared))
        if kernel.name == "fill":
            self._view(arguments[0], np.dtype(np.uint64), arguments[1])[:] = 8 * np.arange(arguments[1]) + 1
            return
        if kernel.name in ("lay_words", "check_words"):
            at, words, mask, salt = arguments[:4]
            there = self._view(at, np.dtype(np.uint32), words)
            due = words_at(np.arange(words), mask, salt)
            if kernel.name == "check_words":
                self._view(arguments[4], np.dtype(np.uint64), 1)[0] += np.uint64((there != due).sum())
            there[:] = due if kernel.name == "lay_words" else ~due
            return
        self.carveouts.append(kernel.carveout)
        reports = self._view(arguments[kernel.name == "stream_tma"], STREAM_REPORT, grid[0])
        numbers = np.arange(grid[0])
        reports["begin"] = 1000 + numbers
        reports["end"] = 1000 + self.life + 100 * self.runs + 2 * numbers
        reports["cycles"] = 2 * (reports["end"] - reports["begin"])
        reports["sm"], reports["rank"] = numbers, numbers % cluster
        if kernel.name == "stream_cluster":
            footprint, passes = arguments[1:]
            for report in reports:
                words = np.arange(footprint // 4, dtype=np.uint64)
                neighbour = (int(report["rank"]) + 1) % cluster
                words = (words + np.uint64((neighbour + 1) * 0x9E3779B9)) & np.uint64(0xFFFFFFFF)
                report["sum"] = passes * int(words.sum()) & LOW
        if kernel.name == "stream_global":
            self._stream_global(kernel, reports, block, *arguments[1:])
        if kernel.name == "stream_shared":
            _stream_shared(kernel, reports, *arguments[1:])
        self.spoil(reports)
        self.runs += 1

    def _stream_global(
        self,
        kernel: FakeKernel,
        reports: Any,
        block: int,
        source: int,
        target: int,
        tiles: int,
        around: int,
        passes: int,
        salt: int,
    ) -> None:
        macros = dict(part.split("=") for part in kernel.path.split() if "=" in part)
        words = block * int(macros["ILP"]) * int(macros["WIDTH"]) // 4  # of a tile
        mask = int(macros["LANES"]) * int(macros["WIDTH"]) // 4 - 1
        for tile in range(tiles):
            there = self._view(target + 4 * words * tile, np.dtype(np.uint32), words)
            here = self._view(source + 4 * words * tile, np.dtype(np.uint32), words)
            if "TRANSFER_READ" in kernel.path:
                reports["sum"][tile % around :: around] += np.uint32(passes * int(here.sum(dtype=np.uint64)) & LOW)
            elif "TRANSFER_WRITE" in kernel.path:
                there[:] = words_at(np.arange(words), mask, salt + passes - 1)
            else:
                there[:] = here
        if self.left_out:
            there[-self.left_out :] ^= 1


def _stream_shared(kernel: FakeKernel, reports: Any, footprint: int, passes: int, salt: int) -> None:
    if "TRANSFER_READ" in kernel.path:
        for block, report in enumerate(reports):
            words = words_at(np.arange(footprint // 4), LOW, ~(salt + block))
            report["sum"] = passes * int(words.sum(dtype=np.uint64)) & LOW


def words_at(index: Any, mask: int, salt: int) -> Any:
    """As ``kernels/words.cuh`` says it."""
    words = (index & mask).astype(np.uint64) * np.uint64(0x9E3779B9) + np.uint64(salt & LOW)
    return words.astype(np.uint32)


def kernel(source: str, name: str, *macros: str) -> FakeKernel:
    return FakeKernel(name, " ".join((source, *macros)))


def run(stream: Stream, board: StreamBoard) -> Trace:
    streamer = Streamer(board, kernel, Arena(board, 1 << 24), name="fake", shared=49152)  # type: ignore[arg-type]
    return streamer.run(stream)


def test_a_ring_of_blocks() -> None:
    board, stream = StreamBoard(), Stream(**RING)
    trace = run(stream, board)
    assert trace.workload == digest(stream)
    assert trace.bytes.tolist() == [3 * 8192 * 8] * 2
    assert trace.nanoseconds.tolist() == [50_000 + 100 * r + 14 for r in (1, 2)], "the first run is not counted"
    assert trace.context.clock_hz == pytest.approx(2e9)
    assert (trace.context.notes["sms"], trace.context.notes["all_at_once"]) == ("8", "yes")
    assert board.kernels == [("stream_cluster", "stream_cluster.cu WIDTH=16 ILP=2 THREADS=64", 49152)] * 3


def test_short_blocks_do_not_tell_the_clock() -> None:
    board = StreamBoard()
    board.life = 2000
    assert run(Stream(**TILES), board).context.clock_hz is None


@pytest.mark.parametrize(("late", "clock"), [(200_000, None), (60_000, 2e9)])
def test_blocks_that_come_and_go_do_not_tell_the_clock(late: int, clock: float | None) -> None:
    def later(reports: Any) -> None:
        if board.runs == 2:  # of three; the first is not timed
            reports["begin"][-1] += late
            reports["end"][-1] += late

    board = StreamBoard()
    board.spoil = later
    context = run(Stream(**TILES), board).context
    assert context.clock_hz == (clock and pytest.approx(clock))
    assert context.notes["all_at_once"] == "no"


def test_bulk_copies() -> None:
    board = StreamBoard()
    trace = run(Stream(**BULK), board)
    assert trace.bytes.tolist() == [5 << 16] * 3
    assert [name for name, _, _ in board.kernels] == ["fill"] + ["stream_tma"] * 4
    assert board.kernels[1][2] == 2 * (1024 + 8)


@pytest.mark.parametrize("transfer", list(Transfer))
@pytest.mark.parametrize(("fields", "shape"), [
    (TILES, ""), (TILES | {"path": Path.GLOBAL_L2, "blocks": 9}, "more blocks than tiles"),
    (TILES | {"threads": 20, "footprint": 11 * 20 * 3 * 8}, "no whole warps"), (INSIDE, ""),
    (TILES | {"passes": 2**32 - 1}, ""), (INSIDE | {"passes": 2**32 - 1}, ""),
    (TILES | {"blocks": 12, "waves": 4, "passes": 1}, "as many blocks again as go through it"),
])  # fmt: skip
def test_tiles(fields: dict[str, Any], shape: str, transfer: Transfer) -> None:
    board, stream = StreamBoard(), Stream(**fields | {"transfer": transfer})
    trace = run(stream, board)
    inside = stream.path is Path.SHARED
    copied = transfer is Transfer.COPY
    assert (
        trace.bytes.tolist()
        == [stream.footprint * stream.passes * stream.waves * (1 + copied) * (3 if inside else 1)] * 2
    )
    assert trace.cycles.shape == (2, stream.blocks)
    assert trace.cycles[1].tolist() == [2 * (50_200 + block) for block in range(stream.blocks)]
    assert trace.context.notes["blocks_per_sm"] == "1"
    ran = [each for each in board.kernels if each[0].startswith("stream_")]
    assert [shared for _, _, shared in ran] == [stream.footprint * (1 + copied) if inside else 0] * 3
    assert board.carveouts == [100 if inside else 0] * 3
    lanes = 4 if stream.threads == 20 else 32
    assert ran[0][1].endswith(f"WIDTH=8 ILP=3 LANES={lanes} THREADS=1024 TRANSFER_{transfer.name}")
    assert ("PATH_GLOBAL_L2" in ran[0][1]) == (stream.path is Path.GLOBAL_L2)


@pytest.mark.parametrize("transfer", [Transfer.WRITE, Transfer.COPY])
def test_what_was_not_written_is_not_counted(transfer: Transfer) -> None:
    board = StreamBoard()
    board.left_out = 1
    with pytest.raises(KernelFailed, match="not everything came"):
        run(Stream(**TILES | {"transfer": transfer}), board)


@pytest.mark.parametrize("transfer", [Transfer.WRITE, Transfer.COPY])
def test_a_run_cannot_pass_for_having_written_what_was_left(transfer: Transfer) -> None:
    board = StreamBoard()
    write, runs = board._stream_global, []

    def once(*arguments: Any) -> None:
        if not runs:
            write(*arguments)
        runs.append(arguments)

    board._stream_global = once  # type: ignore[method-assign]
    with pytest.raises(KernelFailed, match="not everything came"):
        run(Stream(**TILES | {"transfer": transfer}), board)
    assert len(runs) == 2


def test_several_blocks_of_an_sm() -> None:
    board = StreamBoard()
    board.spoil = lambda reports: reports["sm"].__setitem__(slice(None), [0, 0, 1])
    assert run(Stream(**TILES), board).context.notes["blocks_per_sm"] == "1 to 2"


@pytest.mark.parametrize(("fields", "most"), [
    ({"ilp": 10, "width": 16}, 1024), ({"ilp": 11, "width": 16}, 512), ({"ilp": 27, "width": 16}, 256),
    ({"ilp": 32, "width": 16}, 256), ({"ilp": 20, "width": 8}, 1024), ({"ilp": 32, "width": 4}, 1024),
    ({"ilp": 32, "width": 16, "transfer": Transfer.WRITE}, 1024),
])  # fmt: skip
def test_registers_for_what_is_in_flight(fields: dict[str, Any], most: int) -> None:
    for threads in (most, most + 1):
        footprint = threads * fields["ilp"] * fields["width"]
        if threads > 1024:
            continue
        stream = Stream(**TILES | {"threads": threads, "footprint": footprint, "blocks": 1} | fields)
        if threads <= most:
            board = StreamBoard()
            run(stream, board)
            assert f"THREADS={most} " in board.kernels[1][1]
        else:
            with pytest.raises(DeviceError, match=f"take more registers .* at most {most} threads"):
                run(stream, StreamBoard())


def _no_sum(reports: Any) -> None:
    reports["sum"][2] ^= 1


def _other_rank(reports: Any) -> None:
    reports["rank"][1] = 3


def _no_end(reports: Any) -> None:
    reports["end"][1] = 0


@pytest.mark.parametrize(("fields", "spoil", "message"), [
    (TILES, _no_sum, "not everything came"), (INSIDE, _no_sum, "not everything came"),
    (INSIDE | {"transfer": Transfer.WRITE}, _no_sum, "not everything came"), (TILES, _no_end, "not every block ran"),
    (RING, _no_sum, "not everything came"), (BULK, _no_sum, "not everything came"),
    (RING, _other_rank, "other ranks"), (BULK, _no_end, "not every block ran"), (RING, _no_end, "not every block ran"),
])  # fmt: skip
def test_what_did_not_happen_is_not_counted(fields: dict[str, Any], spoil: Any, message: str) -> None:
    board = StreamBoard()
    board.spoil = spoil
    with pytest.raises(KernelFailed, match=message):
        run(Stream(**fields), board)


@pytest.mark.parametrize("fields", [
    RING | {"footprint": 65536}, BULK | {"width": 32768, "ilp": 2}, BULK | {"footprint": 1 << 25},
    RING | {"ilp": 8}, INSIDE | {"footprint": 96 * 24 * 32}, TILES | {"footprint": 96 * 24 << 13},
    INSIDE | {"footprint": 96 * 24 * 16, "transfer": Transfer.COPY},
    TILES | {"footprint": 96 * 24 << 12, "transfer": Transfer.COPY}, TILES | {"blocks": 1 << 21},
    TILES | {"passes": 1 << 32}, TILES | {"threads": 1, "ilp": 1, "width": 4, "footprint": 1 << 34},
])  # fmt: skip
def test_what_does_not_fit(fields: dict[str, Any]) -> None:
    with pytest.raises(
        DeviceError, match=r"this device has|may be used|at most 4 loads|this device runs|can be told apart"
    ):
        run(Stream(**fields), StreamBoard())


@pytest.mark.parametrize(("fields", "message"), [
    (TILES | {"waves": 2}, "in one pass each"), (INSIDE | {"waves": 3, "passes": 1}, "only on paths"),
    (TILES | {"waves": 2, "passes": 1}, "whole waves"), (TILES | {"waves": 0}, "must be positive"),
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
    gpu._compile_ahead = lambda batch: None  # type: ignore[assignment]
    gpu._board, gpu._closed, gpu._broken = board, False, None  # type: ignore[assignment]
    gpu._info = type("Info", (), {"streams": STREAMED})()  # type: ignore[assignment]
    gpu._machine = Machine(4, {}, shared_largest=49152, shared_per_sm=49152, shared_free=1024)
    gpu._streamer = Streamer(board, kernel, Arena(board, 1 << 24), name="fake", shared=49152)  # type: ignore[arg-type]
    gpu._watched = lambda traces: traces  # type: ignore[method-assign]
    board.activate = lambda: None  # type: ignore[attr-defined]
    batch = [Stream(**RING), Stream(**BULK), Stream(**RING | {"repetition": 1})]
    assert [trace.workload for trace in gpu.run(batch)] == [digest(each) for each in batch]
    with pytest.raises(DeviceError, match="cannot run a Stream on path 'texture'"):
        gpu.run([batch[0], Stream(path=Path.TEXTURE, transfer=Transfer.READ, footprint=4, blocks=1, threads=1)])
