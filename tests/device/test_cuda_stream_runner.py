"""The host side of streams, on a context that answers as the kernels would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpudissect.device.cuda.layout import STREAM_REPORT
from gpudissect.device.cuda.memory import Arena
from gpudissect.device.cuda.stream.backends import check_shared
from gpudissect.device.cuda.stream.runner import StreamRunner
from gpudissect.errors import KernelFailed, UnsupportedWorkload, WorkloadError
from gpudissect.trace import Trace
from gpudissect.workload import Path, Stream
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import Transfer
from tests.support.fake_context import FakeContext, FakeKernel, parts

LOW_32 = 0xFFFFFFFF
MAX_SHARED = 48 << 10
CLUSTER: dict[str, Any] = {
    "path": Path.CLUSTER,
    "transfer": Transfer.READ,
    "footprint": 8192,
    "blocks": 8,
    "threads": 64,
    "ilp": 2,
    "width": 16,
    "cluster": 4,
    "passes": 3,
    "runs": 2,
}
GLOBAL: dict[str, Any] = {
    "path": Path.GLOBAL,
    "transfer": Transfer.READ,
    "footprint": 7 * 96 * 3 * 8,
    "blocks": 3,
    "threads": 96,
    "ilp": 3,
    "width": 8,
    "passes": 3,
    "runs": 2,
}
SHARED = GLOBAL | {"path": Path.SHARED, "footprint": 2 * 96 * 3 * 8}
BULK: dict[str, Any] = {
    "path": Path.TMA,
    "transfer": Transfer.READ,
    "footprint": 1 << 16,
    "blocks": 3,
    "threads": 1,
    "ilp": 2,
    "width": 1024,
    "passes": 5,
    "runs": 3,
}
WRITE, COPY = {"transfer": Transfer.WRITE}, {"transfer": Transfer.COPY}


class StreamContext(FakeContext):
    """Block b of run r begins at 1000 + b and lives for `duration` + 100 r + b nanoseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[FakeKernel, int]] = []  # with their shared memory
        self.missing_words = 0  # at the end of what is written
        self.missing_runs = False  # all but the first
        self.tamper_reports: Any = lambda reports: None
        self.runs = 0
        self.duration = 50_000

    def launch(
        self, kernel: FakeKernel, grid: tuple[int, int], block: int, shared: int, *arguments: int, cluster: int = 1
    ) -> None:
        if kernel.name == "fill":
            self.launches.append(kernel.name)
            self.view(arguments[0], np.uint64, arguments[1])[:] = 8 * np.arange(arguments[1]) + 1
        elif kernel.name in ("write_words", "check_words"):
            address, count, mask, salt = arguments[:4]
            words, expected = self.view(address, np.uint32, count), words_at(np.arange(count), mask, salt)
            if kernel.name == "check_words":
                self.view(arguments[4], np.uint64, 1)[0] += np.uint64((words != expected).sum())
            words[:] = expected if kernel.name == "write_words" else ~expected
        else:
            self._stream(kernel, grid[0], block, shared, arguments, cluster)

    def _stream(
        self, kernel: FakeKernel, blocks: int, threads: int, shared: int, arguments: tuple[int, ...], cluster: int
    ) -> None:
        self.requests.append((kernel, shared))
        self.launches.append(kernel.name)
        reports = self.view(arguments[kernel.name == "stream_tma"], STREAM_REPORT, blocks)
        numbers = np.arange(blocks)
        reports["begin"] = 1000 + numbers
        reports["end"] = 1000 + self.duration + 100 * self.runs + 2 * numbers
        reports["cycles"] = 2 * (reports["end"] - reports["begin"])
        reports["sm"], reports["rank"] = numbers, numbers % cluster
        if kernel.name == "stream_cluster":
            footprint, passes = arguments[1:]
            for report in reports:
                neighbor = (int(report["rank"]) + 1) % cluster
                words = np.arange(footprint // 4, dtype=np.uint64) + np.uint64((neighbor + 1) * 0x9E3779B9)
                report["sum"] = passes * int((words & np.uint64(LOW_32)).sum()) & LOW_32
        elif kernel.name == "stream_global" and not (self.missing_runs and self.runs):
            self._stream_global(kernel, reports, threads, *arguments[1:])
        elif kernel.name == "stream_shared" and "TRANSFER_READ" in kernel.macros:
            footprint, passes, salt = arguments[1:]
            for block, report in enumerate(reports):
                words = words_at(np.arange(footprint // 4), LOW_32, ~(salt + block))
                report["sum"] = passes * int(words.sum(dtype=np.uint64)) & LOW_32
        self.tamper_reports(reports)
        self.runs += 1

    def _stream_global(
        self, kernel: FakeKernel, reports: Any, threads: int, source: int, target: int, *arguments: int
    ) -> None:
        tiles, stride, passes, salt = arguments
        macros = {name: int(value) for name, _, value in (macro.partition("=") for macro in kernel.macros) if value}
        words = threads * macros["ILP"] * macros["WIDTH"] // 4  # of a tile
        mask = macros["LANES"] * macros["WIDTH"] // 4 - 1
        for tile in range(tiles):
            read = self.view(source + 4 * words * tile, np.uint32, words)
            written = self.view(target + 4 * words * tile, np.uint32, words)
            if "TRANSFER_READ" in kernel.macros:
                total = np.uint32(passes * int(read.sum(dtype=np.uint64)) & LOW_32)
                reports["sum"][tile % stride :: stride] += total
            elif "TRANSFER_WRITE" in kernel.macros:
                written[:] = words_at(np.arange(words), mask, salt + passes - 1)
            else:
                written[:] = read
        if self.missing_words:
            written[-self.missing_words :] ^= 1


def words_at(index: Any, mask: int, salt: int) -> Any:
    """As ``kernels/words.cuh`` computes them."""
    words = (index & mask).astype(np.uint64) * np.uint64(0x9E3779B9) + np.uint64(salt & LOW_32)
    return words.astype(np.uint32)


def run(context: StreamContext, fields: dict[str, Any]) -> Trace:
    return StreamRunner(*parts(context), Arena(context, 1 << 24), MAX_SHARED).run(Stream(**fields))


def test_a_cluster() -> None:
    context = StreamContext()
    trace = run(context, CLUSTER)
    assert trace.workload == digest(Stream(**CLUSTER))
    assert trace.bytes.tolist() == [3 * 8192 * 8] * 2
    assert trace.nanoseconds.tolist() == [50_000 + 100 * r + 14 for r in (1, 2)], "the first run is not counted"
    assert trace.context.clock_hz == pytest.approx(2e9)
    assert (trace.context.notes["sms"], trace.context.notes["all_at_once"]) == ("8", "yes")
    assert context.launches == ["stream_cluster"] * 3
    assert context.requests[0][0].macros == ("WIDTH=16", "ILP=2", "THREADS=64") and context.requests[0][1] == MAX_SHARED


def test_bulk_copies() -> None:
    context = StreamContext()
    assert run(context, BULK).bytes.tolist() == [5 << 16] * 3
    assert context.launches == ["fill"] + ["stream_tma"] * 4
    assert context.requests[0][1] == 2 * (1024 + 8)


def test_short_blocks_give_no_clock_rate() -> None:
    context = StreamContext()
    context.duration = 2000
    assert run(context, GLOBAL).context.clock_hz is None


@pytest.mark.parametrize(("delay", "clock"), [(200_000, None), (60_000, 2e9)])
def test_blocks_of_several_waves_give_no_clock_rate(delay: int, clock: float | None) -> None:
    context = StreamContext()

    def delay_last(reports: Any) -> None:
        if context.runs == 2:  # of three; the first is not timed
            reports["begin"][-1] += delay
            reports["end"][-1] += delay

    context.tamper_reports = delay_last
    trace = run(context, GLOBAL)
    assert trace.context.clock_hz == (clock and pytest.approx(clock))
    assert trace.context.notes["all_at_once"] == "no"


@pytest.mark.parametrize("transfer", list(Transfer))
@pytest.mark.parametrize(
    "fields",
    [
        GLOBAL,
        GLOBAL | {"path": Path.GLOBAL_L2, "blocks": 9},
        GLOBAL | {"threads": 20, "footprint": 11 * 20 * 3 * 8},
        GLOBAL | {"passes": 2**32 - 1},
        GLOBAL | {"blocks": 12, "waves": 4, "passes": 1},
        SHARED,
        SHARED | {"passes": 2**32 - 1},
    ],
    ids=["global", "more blocks than tiles", "no whole warps", "passes", "waves", "shared", "passes on shared"],
)
def test_tiles(fields: dict[str, Any], transfer: Transfer) -> None:
    context, stream = StreamContext(), Stream(**fields | {"transfer": transfer})
    trace = run(context, fields | {"transfer": transfer})
    shared = stream.path is Path.SHARED
    copies = 2 if transfer is Transfer.COPY else 1
    moved = stream.footprint * stream.passes * stream.waves * copies * (stream.blocks if shared else 1)
    assert trace.bytes.tolist() == [moved] * 2
    assert trace.cycles.shape == (2, stream.blocks)
    assert trace.cycles[1].tolist() == [2 * (50_200 + block) for block in range(stream.blocks)]
    assert trace.context.notes["blocks_per_sm"] == "1"
    assert [size for _, size in context.requests] == [stream.footprint * copies if shared else 0] * 3
    kernel = context.requests[0][0]
    assert kernel.carveout == (100 if shared else 0)
    lanes = 4 if stream.threads == 20 else 32
    path = () if shared else (f"PATH_{stream.path.name}",)
    assert kernel.macros == (*path, "WIDTH=8", "ILP=3", f"LANES={lanes}", "THREADS=1024", f"TRANSFER_{transfer.name}")


@pytest.mark.parametrize("transfer", [WRITE, COPY])
def test_words_that_were_not_written_are_an_error(transfer: dict[str, Any]) -> None:
    context = StreamContext()
    context.missing_words = 1
    with pytest.raises(KernelFailed, match="not all bytes"):
        run(context, GLOBAL | transfer)


@pytest.mark.parametrize("transfer", [WRITE, COPY])
def test_words_of_an_earlier_run_do_not_pass(transfer: dict[str, Any]) -> None:
    context = StreamContext()
    context.missing_runs = True
    with pytest.raises(KernelFailed, match="not all bytes"):
        run(context, GLOBAL | transfer)
    assert context.runs == 2


def test_several_blocks_of_an_sm() -> None:
    context = StreamContext()
    context.tamper_reports = lambda reports: reports["sm"].__setitem__(slice(None), [0, 0, 1])
    assert run(context, GLOBAL).context.notes["blocks_per_sm"] == "1 to 2"


@pytest.mark.parametrize(
    ("fields", "threads"),
    [
        ({"ilp": 10, "width": 16}, 1024),
        ({"ilp": 11, "width": 16}, 512),
        ({"ilp": 27, "width": 16}, 256),
        ({"ilp": 32, "width": 16}, 256),
        ({"ilp": 20, "width": 8}, 1024),
        ({"ilp": 32, "width": 4}, 1024),
        ({"ilp": 32, "width": 16, "transfer": Transfer.WRITE}, 1024),
    ],
)
def test_registers_for_accesses_in_flight(fields: dict[str, Any], threads: int) -> None:
    def of_threads(count: int) -> dict[str, Any]:
        footprint = count * fields["ilp"] * fields["width"]
        return GLOBAL | {"threads": count, "footprint": footprint, "blocks": 1} | fields

    context = StreamContext()
    run(context, of_threads(threads))
    assert f"THREADS={threads}" in context.requests[0][0].macros
    if threads < 1024:
        with pytest.raises(UnsupportedWorkload, match=f"take more registers .* at most {threads} threads"):
            run(StreamContext(), of_threads(threads + 1))


def _wrong_sum(reports: Any) -> None:
    reports["sum"][2] ^= 1


def _wrong_rank(reports: Any) -> None:
    reports["rank"][1] = 3


def _no_end(reports: Any) -> None:
    reports["end"][1] = 0


@pytest.mark.parametrize(
    ("fields", "tamper", "message"),
    [
        *((fields, _wrong_sum, "not all bytes") for fields in (GLOBAL, SHARED, SHARED | WRITE, CLUSTER, BULK)),
        *((fields, _no_end, "not every block ran") for fields in (GLOBAL, CLUSTER, BULK)),
        (CLUSTER, _wrong_rank, "ranks"),
    ],
)
def test_wrong_reports_are_errors(fields: dict[str, Any], tamper: Any, message: str) -> None:
    context = StreamContext()
    context.tamper_reports = tamper
    with pytest.raises(KernelFailed, match=message):
        run(context, fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (CLUSTER | {"footprint": 65536}, "shared memory, this device has"),
        (CLUSTER | {"ilp": 8}, "at most 4 loads"),
        (BULK | {"width": 32768, "ilp": 2}, "shared memory, this device has"),
        (BULK | {"footprint": 1 << 25}, "may be used"),
        (SHARED | {"footprint": 96 * 24 * 32}, "shared memory, this device has"),
        (SHARED | COPY | {"footprint": 96 * 24 * 16}, "shared memory, this device has"),
        (GLOBAL | {"footprint": 96 * 24 << 13}, "may be used"),
        (GLOBAL | COPY | {"footprint": 96 * 24 << 12}, "may be used"),
        (GLOBAL | {"blocks": 1 << 21}, "at most 1048576 blocks"),
        (GLOBAL | {"passes": 1 << 32}, "4294967295 passes"),
        (GLOBAL | {"threads": 1, "ilp": 1, "width": 4, "footprint": 1 << 34}, "at most 4294967295 tiles"),
    ],
)
def test_unsupported_streams_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedWorkload, match=message):
        run(StreamContext(), fields)


def test_shared_memory_may_be_used_to_the_last_byte() -> None:
    check_shared(MAX_SHARED, MAX_SHARED)
    with pytest.raises(UnsupportedWorkload, match=r"needs 48\.0009"):
        check_shared(MAX_SHARED + 1, MAX_SHARED)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (GLOBAL | {"waves": 2}, "in one pass each"),
        (SHARED | {"waves": 3, "passes": 1}, "only on paths"),
        (GLOBAL | {"waves": 2, "passes": 1}, "whole waves"),
        (GLOBAL | {"waves": 0}, "must be positive"),
        (CLUSTER | {"cluster": 1}, "two blocks or more"),
        (CLUSTER | {"blocks": 6}, "whole clusters"),
        (CLUSTER | {"footprint": 8200}, "no multiple"),
        (CLUSTER | WRITE, "can only read"),
        (CLUSTER | {"width": 32}, "4, 8 or 16"),
        (CLUSTER | {"cluster": 32, "blocks": 32}, "whole clusters of 1 to 16"),
        (BULK | {"width": 40}, "multiple of 16"),
        (BULK | {"threads": 2}, "one thread"),
        (BULK | {"footprint": 1000}, "no whole number of copies"),
        (BULK | COPY, "can only read"),
        (BULK | {"width": 1 << 17}, "multiple of 16"),
        (BULK | {"cluster": 3}, "no cluster"),
        (BULK | {"runs": 0}, "positive"),
        (CLUSTER | {"threads": 2048}, "at most"),
    ],
)
def test_an_invalid_stream(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Stream(**fields)
