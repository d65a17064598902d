"""The host side of streams, on a context that answers as the kernels would."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.cuda import memory
from gpudissect.device.cuda.layout import STREAM_REPORT, STREAM_SUMMARY
from gpudissect.device.cuda.stream.backends import check_shared
from gpudissect.device.cuda.stream.runner import StreamRunner
from gpudissect.errors import KernelFailed, UnsupportedWorkload, WorkloadError
from gpudissect.workload import MOVES, Path, Transfer
from gpudissect.workload.digest import digest
from tests.support.fake_context import BASE, FakeContext, arenas, run_tasks
from tests.support.workloads import stream

LOW_32 = 0xFFFFFFFF
MAX_SHARED = 48 << 10
READ, WRITE, COPY = Transfer.READ, Transfer.WRITE, Transfer.COPY
CLUSTER = stream(Path.CLUSTER, READ, 8192, 8, 64, ilp=2, width=16, cluster=4, passes=3, runs=2)
GLOBAL = stream(Path.GLOBAL, READ, 7 * 96 * 3 * 8, 3, 96, ilp=3, width=8, passes=3, runs=2)
SHARED = replace(GLOBAL, path=Path.SHARED, footprint=2 * 96 * 3 * 8)
BULK = stream(Path.TMA, READ, 1 << 16, 3, 1, ilp=2, width=1024, passes=5, runs=3)


class StreamContext(FakeContext):
    """Block b of run r begins at 1000 + b and lives for `duration` + 100 r + b nanoseconds."""

    def __init__(self):
        super().__init__()
        self.requests = []  # with their shared memory
        self.missing_words = 0  # at the end of what is written
        self.missing_runs = False  # all but the first
        self.tamper_reports = lambda reports: None
        self.runs = 0
        self.duration = 50_000

    def launch(self, kernel, grid, block, shared, *arguments, cluster=1):
        if kernel.name == "fill":
            self.launches.append(kernel.name)
            self.view(arguments[0], np.uint64, arguments[1])[:] = 8 * np.arange(arguments[1]) + 1
        elif kernel.name in ("write_words", "check_words"):
            address, count, mask, salt = arguments[:4]
            words, expected = self.view(address, np.uint32, count), words_at(np.arange(count), mask, salt)
            if kernel.name == "check_words":
                self.view(arguments[4], np.uint64, 1)[0] += np.uint64((words != expected).sum())
            else:
                words[:] = expected
        elif kernel.name == "summarize":
            self._summarize(*arguments)
        else:
            self._stream(kernel, grid[0], block, shared, arguments, cluster)

    def _summarize(self, reports, blocks, summary, outcomes, cycles):
        reports, summary = self.view(reports, STREAM_REPORT, blocks), self.view(summary, STREAM_SUMMARY, 1)[0]
        for name in ("begin", "end"):
            summary[f"first_{name}"], summary[f"last_{name}"] = reports[name].min(), reports[name].max()
        summary["block_ns"], summary["cycles"] = (reports["end"] - reports["begin"]).sum(), reports["cycles"].sum()
        is_missing = (reports["begin"] == 0) | (reports["cycles"] == 0) | (reports["end"] < reports["begin"])
        summary["missing"] = is_missing.sum()
        np.add.at(summary["blocks_by_sm"], reports["sm"], 1)
        columns = self.view(outcomes, np.uint32, 2 * blocks)
        columns[::2], columns[1::2] = reports["sum"], reports["rank"]
        self.view(cycles, np.uint64, blocks)[:] = reports["cycles"]

    def _stream(self, kernel, blocks, threads, shared, arguments, cluster):
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

    def _stream_global(self, kernel, reports, threads, source, target, *arguments):
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


def words_at(index, mask, salt):
    """As ``kernels/words.cuh`` computes them."""
    words = (index & mask).astype(np.uint64) * np.uint64(0x9E3779B9) + np.uint64(salt & LOW_32)
    return words.astype(np.uint32)


def run(context, workload):
    return run_tasks(StreamRunner(context, arenas(context, 1 << 24), MAX_SHARED), [workload])[0]


def test_a_cluster():
    context = StreamContext()
    trace = run(context, CLUSTER)
    assert trace.workload == digest(CLUSTER)
    assert trace.bytes.tolist() == [3 * 8192 * 8] * 2
    assert trace.nanoseconds.tolist() == [50_000 + 100 * r + 14 for r in (1, 2)], "the first run is not counted"
    assert trace.context.clock_hz == pytest.approx(2e9)
    assert (trace.context.notes["sms"], trace.context.notes["all_at_once"]) == ("8", "yes")
    assert context.launches == ["stream_cluster"] * 3
    kernel, shared = context.requests[0]
    assert kernel.macros == ("WIDTH=16", "ILP=2", "THREADS=64") and shared == MAX_SHARED


class Reusing(StreamContext):
    """What was freed is allocated next, larger and without its content."""

    slot_bytes = 1 << 25

    def __init__(self):
        self.slots = list(range(16))
        super().__init__()

    def allocate(self, size):
        assert size <= self.slot_bytes
        return BASE + self.slots.pop(0) * self.slot_bytes

    allocate_host = allocate

    def free(self, address):
        self.bytes_at(address, self.slot_bytes)[:] = 0
        self.slots.insert(0, (address - BASE) // self.slot_bytes)


def test_a_copy_after_reads_finds_its_source_where_memory_grew(monkeypatch):
    monkeypatch.setattr(memory, "_GRANULE", memory.MIN_ALIGNMENT)
    monkeypatch.setattr(memory, "MAX_ALIGNMENT", memory.MIN_ALIGNMENT)
    context = Reusing()
    runner = StreamRunner(context, arenas(context, 1 << 23), MAX_SHARED)
    wanted = [GLOBAL, replace(GLOBAL, transfer=COPY), GLOBAL, replace(GLOBAL, repetition=1), SHARED, GLOBAL]
    traces = run_tasks(runner, wanted)
    assert [trace.workload for trace in traces] == [digest(each) for each in wanted]


def test_consecutive_reads_share_their_source():
    context = StreamContext()
    written = []
    launch = context.launch

    def counted(kernel, *arguments, **options):
        written.extend([1] * (kernel.name == "write_words"))
        launch(kernel, *arguments, **options)

    context.launch = counted
    runner = StreamRunner(context, arenas(context, 1 << 24), MAX_SHARED)
    run_tasks(runner, [GLOBAL, replace(GLOBAL, repetition=1), replace(GLOBAL, repetition=2)])
    assert len(written) == 1
    runner.arenas.near.user = "a chase"
    run_tasks(runner, [GLOBAL])
    assert len(written) == 2, "others use the memory in between"


def test_bulk_copies():
    context = StreamContext()
    assert run(context, BULK).bytes.tolist() == [5 << 16] * 3
    assert context.launches == ["fill"] + ["stream_tma"] * 4
    assert context.requests[0][1] == 2 * (1024 + 8)


def test_short_blocks_give_no_clock_rate():
    context = StreamContext()
    context.duration = 2000
    assert run(context, GLOBAL).context.clock_hz is None


@pytest.mark.parametrize(("delay", "clock"), [(200_000, None), (60_000, 2e9)])
def test_blocks_of_several_waves_give_no_clock_rate(delay, clock):
    context = StreamContext()

    def delay_last(reports):
        if context.runs == 2:  # of three; the first is not timed
            reports["begin"][-1] += delay
            reports["end"][-1] += delay

    context.tamper_reports = delay_last
    trace = run(context, GLOBAL)
    assert trace.context.clock_hz == (clock and pytest.approx(clock))
    assert trace.context.notes["all_at_once"] == "no"


TILES = {
    "global": GLOBAL,
    "more blocks than tiles": replace(GLOBAL, path=Path.GLOBAL_L2, blocks=9),
    "no whole warps": replace(GLOBAL, threads=20, footprint=11 * 20 * 3 * 8),
    "passes": replace(GLOBAL, passes=2**32 - 1),
    "waves": replace(GLOBAL, blocks=12, waves=4, passes=1),
    "passes of waves": replace(GLOBAL, blocks=12, waves=4, passes=3),
    "shared": SHARED,
    "passes on shared": replace(SHARED, passes=2**32 - 1),
}


@pytest.mark.parametrize("transfer", MOVES)
@pytest.mark.parametrize("tiles", TILES.values(), ids=TILES)
def test_tiles(tiles, transfer):
    context, tiles = StreamContext(), replace(tiles, transfer=transfer)
    trace = run(context, tiles)
    shared, copies = tiles.path is Path.SHARED, 2 if transfer is COPY else 1
    moved = tiles.footprint * tiles.passes * tiles.waves * copies * (tiles.blocks if shared else 1)
    assert trace.bytes.tolist() == [moved] * 2
    assert trace.cycles.shape == (2, tiles.blocks)
    assert trace.cycles[1].tolist() == [2 * (50_200 + block) for block in range(tiles.blocks)]
    assert trace.context.notes["blocks_per_sm"] == "1"
    assert [size for _, size in context.requests] == [tiles.footprint * copies if shared else 0] * 3
    kernel = context.requests[0][0]
    assert kernel.carveout == (100 if shared else 0)
    path, lanes = () if shared else (f"PATH_{tiles.path.name}",), 4 if tiles.threads == 20 else 32
    assert kernel.macros == (*path, "WIDTH=8", "ILP=3", f"LANES={lanes}", "THREADS=1024", f"TRANSFER_{transfer.name}")


@pytest.mark.parametrize("transfer", [WRITE, COPY])
@pytest.mark.parametrize("fault", ["missing_words", "missing_runs"])
def test_words_that_were_not_written_are_an_error(transfer, fault):
    """Those of an earlier run do not pass for those of the next."""
    context = StreamContext()
    setattr(context, fault, 1)
    with pytest.raises(KernelFailed, match="not all bytes"):
        run(context, replace(GLOBAL, transfer=transfer))


def test_several_blocks_of_an_sm():
    context = StreamContext()
    context.tamper_reports = lambda reports: reports["sm"].__setitem__(slice(None), [0, 0, 1])
    assert run(context, GLOBAL).context.notes["blocks_per_sm"] == "1 to 2"


REGISTERS = [(10, 16, READ, 1024), (11, 16, READ, 512), (27, 16, READ, 256), (32, 16, READ, 256)]
REGISTERS += [(20, 8, READ, 1024), (32, 4, READ, 1024), (32, 16, WRITE, 1024)]


@pytest.mark.parametrize(("ilp", "width", "transfer", "threads"), REGISTERS)
def test_registers_for_accesses_in_flight(ilp, width, transfer, threads):
    context = StreamContext()
    run(context, stream(Path.GLOBAL, transfer, threads * ilp * width, 1, threads, ilp=ilp, width=width))
    assert f"THREADS={threads}" in context.requests[0][0].macros
    if threads < 1024:
        more = stream(Path.GLOBAL, transfer, (threads + 1) * ilp * width, 1, threads + 1, ilp=ilp, width=width)
        with pytest.raises(UnsupportedWorkload, match=f"take more registers .* at most {threads} threads"):
            run(StreamContext(), more)


def wrong_sum(reports):
    reports["sum"][2] ^= 1


def wrong_rank(reports):
    reports["rank"][1] = 3


def no_end(reports):
    reports["end"][1] = 0


FAULTS = [
    (wrong_sum, "not all bytes", each) for each in (GLOBAL, SHARED, replace(SHARED, transfer=WRITE), CLUSTER, BULK)
]
FAULTS += [(no_end, "not every block ran", each) for each in (GLOBAL, CLUSTER, BULK)]


@pytest.mark.parametrize(("tamper", "message", "workload"), [*FAULTS, (wrong_rank, "ranks", CLUSTER)])
def test_wrong_reports_are_errors(tamper, message, workload):
    context = StreamContext()
    context.tamper_reports = tamper
    with pytest.raises(KernelFailed, match=message):
        run(context, workload)


NO_SHARED, NO_MEMORY, TILE = "shared memory, this device has", "may be used", 96 * 24


@pytest.mark.parametrize(
    ("workload", "fields", "message"),
    [
        (CLUSTER, {"footprint": 65536}, NO_SHARED),
        (CLUSTER, {"ilp": 8}, "at most 4 loads"),
        (BULK, {"width": 32768, "ilp": 2}, NO_SHARED),
        (BULK, {"footprint": 1 << 25}, NO_MEMORY),
        (SHARED, {"footprint": TILE * 32}, NO_SHARED),
        (SHARED, {"footprint": TILE * 16, "transfer": COPY}, NO_SHARED),
        (GLOBAL, {"footprint": TILE << 13}, NO_MEMORY),
        (GLOBAL, {"footprint": TILE << 12, "transfer": COPY}, NO_MEMORY),
        (GLOBAL, {"blocks": 1 << 21}, "at most 1048576 blocks"),
        (GLOBAL, {"passes": 1 << 32}, "4294967295 passes"),
        (GLOBAL, {"threads": 1, "ilp": 1, "width": 4, "footprint": 1 << 34}, "at most 4294967295 tiles"),
    ],
)
def test_unsupported_streams_are_refused(workload, fields, message):
    with pytest.raises(UnsupportedWorkload, match=message):
        run(StreamContext(), replace(workload, **fields))


def test_shared_memory_may_be_used_to_the_last_byte():
    check_shared(MAX_SHARED, MAX_SHARED)
    with pytest.raises(UnsupportedWorkload, match=r"needs 48\.0009"):
        check_shared(MAX_SHARED + 1, MAX_SHARED)


INVALID = [(GLOBAL, {"waves": 2}), (GLOBAL, {"waves": 2, "passes": 1}), (GLOBAL, {"waves": 0})]
INVALID += [(SHARED, {"waves": 3, "passes": 1}), (CLUSTER, {"cluster": 1}), (CLUSTER, {"blocks": 6})]
INVALID += [(CLUSTER, {"footprint": 8200}), (CLUSTER, {"transfer": WRITE}), (CLUSTER, {"width": 32})]
INVALID += [(CLUSTER, {"cluster": 32, "blocks": 32}), (CLUSTER, {"threads": 2048}), (BULK, {"width": 40})]
INVALID += [(BULK, {"threads": 2}), (BULK, {"footprint": 1000}), (BULK, {"transfer": COPY}), (BULK, {"width": 1 << 17})]
INVALID += [(BULK, {"cluster": 3}), (BULK, {"runs": 0})]


@pytest.mark.parametrize(("workload", "fields"), INVALID)
def test_an_invalid_stream_cannot_be_built(workload, fields):
    with pytest.raises(WorkloadError):
        replace(workload, **fields)
