"""Runs streams: many blocks at once, each of which reports when it began and ended.

A run lasts from the start of its first block to the end of its last, on the GPU's global timer. What was read is
checked for every run, what was written or copied for the last. The GPU sums up the reports: the host took 7 s for those
of a survey (H100).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.info import clock_rate
from gpudissect.device.cuda.layout import STREAM_REPORT, STREAM_SUMMARY
from gpudissect.device.cuda.links import Arenas
from gpudissect.device.cuda.memory import ResultMemory, Slots
from gpudissect.device.cuda.stream.backends import BACKENDS, GRID, SOURCE_RUN, THREADS, WORDS, Backend, salt
from gpudissect.errors import KernelFailed, UnsupportedWorkload
from gpudissect.trace import Array, Context, Trace
from gpudissect.workload import Path, Stream, Transfer
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import MAX_TIMED_BLOCKS

_TIMEOUT_S, _TIMEOUT_S_PER_BYTE = 20.0, 1e-9
_MAX_BLOCKS = 1 << 20  # so many fill any GPU hundreds of times over; each makes a report
_MAX_PASSES = 2**32 - 1
_MAX_SUMMARY_BLOCKS = 64
_LOW_32 = 0xFFFFFFFF
_OUTCOME = np.dtype([("sum", "u4"), ("rank", "u4")])  # of a block
_WRONG_OFFSET = STREAM_SUMMARY.fields["wrong"][1] if STREAM_SUMMARY.fields else 0
_MIN_CLOCK_NS = 20_000
"""Mean duration of a block from which on the clock rate is reported. A block reads its two clocks one after the other,
and where blocks begin and end beside others, the time between the reads varies: from shorter blocks an H200 seemed to
run at 1.90 to 2.10 GHz."""
_MIN_CLOCK_SHARE = 0.25  # of a run that a block takes on average, at least: only of blocks that do not come and go
_WITHOUT_CYCLES = (Path.CLUSTER, Path.TMA)  # paths whose traces do not hold the cycles of every block


@dataclass(frozen=True)
class StreamRun:
    """Results of one run: the summary of its reports, and the cycles of every block, or of none if there are many."""

    summary: Any  # a `STREAM_SUMMARY`
    cycles: NDArray[np.int64]

    @property
    def nanoseconds(self) -> int:
        """From the first block's begin to the last one's end."""
        return int(self.summary["last_end"]) - int(self.summary["first_begin"])

    @property
    def blocks_by_sm(self) -> NDArray[np.uint32]:
        """Blocks of each SM that ran any."""
        counts: NDArray[np.uint32] = self.summary["blocks_by_sm"]
        return counts[counts > 0]

    @property
    def all_at_once(self) -> bool:
        """Whether there was a moment at which all blocks ran."""
        return bool(self.summary["last_begin"] < self.summary["first_end"])


@dataclass(frozen=True, eq=False)
class QueuedStream:
    """A stream in flight: its runs, where their results come to stand here, and an event behind them."""

    stream: Stream
    backend: Backend
    memory: ResultMemory
    address: int
    sizes: tuple[int, ...]  # bytes of the summaries, of what blocks report, and of their cycles if they are kept
    end: Any


class StreamRunner:
    """Runs streams one after the other: the host prepares one while the GPU runs another.

    `arenas` hold footprints; a block has at most `max_shared` bytes.
    """

    at_once = 2

    def __init__(self, context: CudaContext, arenas: Arenas, max_shared: int) -> None:
        self.context, self.arenas, self.max_shared = context, arenas, max_shared
        total = context.free_memory()[1]
        self.slots = Slots(ResultMemory(context, total) for _ in range(self.at_once))
        self._source = (0, 0)  # address and bytes of words that reads find there

    def release(self) -> None:
        """Free the memory of reports and results."""
        for memory in self.slots.all:
            memory.release()

    def queue(self, stream: Stream) -> QueuedStream:
        """Queue an untimed run of a stream and then its timed runs, each with its check. Raises `DeviceError`."""
        with self.slots.taken() as memory:
            return self._queue(stream, memory)

    def _queue(self, stream: Stream, memory: ResultMemory) -> QueuedStream:
        if stream.blocks > _MAX_BLOCKS or stream.passes > _MAX_PASSES:
            raise UnsupportedWorkload(
                f"this device runs streams of at most {_MAX_BLOCKS} blocks and {_MAX_PASSES} passes, "
                f"got {stream.blocks} and {stream.passes}"
            )
        self.arenas.check(stream)
        arena = self.arenas.of(stream)
        backend = BACKENDS[stream.path](stream, self.context, arena, self.max_shared)
        if arena.user is not self:
            self._source, arena.user = (0, 0), self
        backend.kernel.configure(shared=backend.shared, carveout=backend.carveout)
        self._write_source(stream, backend)
        count, is_timed = 1 + stream.runs, stream.blocks <= MAX_TIMED_BLOCKS
        summaries = np.zeros(count, STREAM_SUMMARY)
        summaries["first_begin"] = summaries["first_end"] = np.iinfo(np.uint64).max
        sizes = (summaries.nbytes, *[8 * stream.blocks * count] * (1 + is_timed))
        reports_size = stream.blocks * STREAM_REPORT.itemsize
        reports = memory.device.reserve(reports_size + sum(sizes))
        results, *columns, _ = np.cumsum([reports + reports_size, *sizes]).tolist()
        host = memory.host.reserve(sum(sizes))
        staged = self.context.host_bytes(host, summaries.nbytes)
        staged[:] = summaries.view(np.uint8)
        self.context.upload(results, staged)
        for run in range(count):
            if is_last := run == count - 1:
                backend.spoil()
            self.context.fill_zeros(reports, reports_size)
            grid, arguments = (stream.blocks, 1), backend.arguments(reports, run)
            self.context.launch(
                backend.kernel, grid, stream.threads, backend.shared, *arguments, cluster=stream.cluster
            )
            summary = results + run * STREAM_SUMMARY.itemsize
            if is_last and (words := backend.written_words(run)) is not None:
                self._launch("check_words", GRID, *words, summary + _WRONG_OFFSET)
            places = [address + 8 * stream.blocks * run for address in columns]
            grid = (min(-(-stream.blocks // THREADS), _MAX_SUMMARY_BLOCKS), 1)
            self._launch("summarize", grid, reports, stream.blocks, summary, *places, *[0] * (2 - len(places)))
        self.context.copy_to_host(host, results, sum(sizes))
        return QueuedStream(stream, backend, memory, host, sizes, self.context.mark())

    def _write_source(self, stream: Stream, backend: Backend) -> None:
        """Queue the words that a stream reads, unless they are there: they depend on their position only."""
        (address, size), (written_at, written) = backend.source, self._source
        if size and (address != written_at or size > written):
            self._launch("write_words", GRID, address, size // 4, _LOW_32, salt(SOURCE_RUN))
            self._source = backend.source
        if stream.transfer is not Transfer.READ or not size:  # it may have written elsewhere
            self._source = (0, 0)

    def finish(self, queued: QueuedStream) -> list[Trace]:
        """Wait for a stream; its trace. Raises `KernelFailed`, also when bytes are missing."""
        stream, backend, sizes = queued.stream, queued.backend, queued.sizes
        count = 1 + stream.runs
        self.context.wait_for(queued.end, _TIMEOUT_S + _TIMEOUT_S_PER_BYTE * 2 * stream.moved * count)
        content = queued.memory.host.content(queued.address, sum(sizes))
        summaries = content[: sizes[0]].view(STREAM_SUMMARY)
        ends = content[sizes[0] :][: sizes[1]].view(_OUTCOME).reshape(count, -1)
        cycles = content[sum(sizes[:2]) :].view(np.int64).reshape(count, -1)
        for run, summary in enumerate(summaries):
            if summary["missing"]:
                raise KernelFailed(f"a stream on path {stream.path.value}: not every block ran")
            if summary["wrong"] or backend.is_wrong(ends[run], run):
                raise KernelFailed(f"a stream on path {stream.path.value}: not all bytes were moved")
        runs = [StreamRun(*each) for each in zip(summaries, cycles, strict=True)]
        return [_trace(stream, runs[1:], self.context.device.name, backend.shared)]

    def _launch(self, name: str, grid: tuple[int, int], *arguments: int) -> None:
        self.context.launch(self.context.kernel(*WORDS, name), grid, THREADS, 0, *arguments)


def _trace(stream: Stream, runs: Sequence[StreamRun], device: str, shared: int) -> Trace:
    """The trace of a stream's timed runs."""
    low, high = min(int(run.blocks_by_sm.min()) for run in runs), max(int(run.blocks_by_sm.max()) for run in runs)
    block_ns, cycles = ([int(run.summary[name]) for run in runs] for name in ("block_ns", "cycles"))
    min_ns = [max(_MIN_CLOCK_NS, _MIN_CLOCK_SHARE * run.nanoseconds) for run in runs]
    clocked = all(total >= ns * stream.blocks for total, ns in zip(block_ns, min_ns, strict=True))
    context = Context(
        device=device,
        clock_hz=clock_rate(cycles, block_ns) if clocked else None,
        notes={
            "shared_bytes": str(shared),
            "sms": str(runs[0].blocks_by_sm.size),
            "blocks_per_sm": str(high) if low == high else f"{low} to {high}",
            "all_at_once": "yes" if all(run.all_at_once for run in runs) else "no",
        },
    )
    arrays: dict[str, Array] = {
        "nanoseconds": np.array([run.nanoseconds for run in runs], np.int64),
        "bytes": np.full(len(runs), stream.moved, np.int64),
    }
    if stream.path not in _WITHOUT_CYCLES and runs[0].cycles.size:
        arrays["cycles"] = np.stack([run.cycles for run in runs])
    return Trace(workload=digest(stream), arrays=arrays, context=context)
