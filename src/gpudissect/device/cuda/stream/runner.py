"""Runs streams: many blocks at once, each of which reports when it began and ended.

A run lasts from the start of its first block to the end of its last, on the GPU's global timer. What was read, written
or copied is checked after every run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.context import CudaContext, LaunchBuffers
from gpudissect.device.cuda.info import clock_rate
from gpudissect.device.cuda.layout import STREAM_REPORT
from gpudissect.device.cuda.memory import Arena
from gpudissect.device.cuda.stream.backends import BACKENDS
from gpudissect.errors import KernelFailed, UnsupportedWorkload
from gpudissect.trace import Array, Context, Trace
from gpudissect.workload import Path, Stream
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import MAX_TIMED_BLOCKS

_TIMEOUT_S, _TIMEOUT_S_PER_BYTE = 20.0, 1e-9
_MAX_BLOCKS = 1 << 20  # so many fill any GPU hundreds of times over; each makes a report
_MAX_PASSES = 2**32 - 1
_MIN_CLOCK_NS = 20_000
"""Mean duration of a block from which on the clock rate is reported. A block reads its two clocks one after the other,
and where blocks begin and end beside others, the time between the reads varies: from shorter blocks an H200 seemed to
run at 1.90 to 2.10 GHz."""
_MIN_CLOCK_SHARE = 0.25  # of a run that a block takes on average, at least: only of blocks that do not come and go
_WITHOUT_CYCLES = (Path.CLUSTER, Path.TMA)  # paths whose traces do not hold the cycles of every block


@dataclass(frozen=True)
class StreamRun:
    """Results of one run."""

    nanoseconds: int  # from the first block's begin to the last one's end
    block_ns: int  # of all blocks together
    cycles: NDArray[np.int64]  # of each block, by its SM's clock, shape (blocks,)
    blocks_by_sm: NDArray[np.int64]  # of each SM that ran any
    all_at_once: bool  # there was a moment at which all blocks ran


@dataclass(eq=False)
class StreamRunner:
    """Runs streams one after the other. `arena` holds footprints; a block has at most `max_shared` bytes."""

    context: CudaContext
    buffers: LaunchBuffers
    arena: Arena
    max_shared: int

    def run(self, stream: Stream) -> Trace:
        """Run a stream, once untimed and then its timed runs. Raises `DeviceError`, also when bytes are missing."""
        if stream.blocks > _MAX_BLOCKS or stream.passes > _MAX_PASSES:
            raise UnsupportedWorkload(
                f"this device runs streams of at most {_MAX_BLOCKS} blocks and {_MAX_PASSES} passes, "
                f"got {stream.blocks} and {stream.passes}"
            )
        backend = BACKENDS[stream.path](stream, self.context, self.arena, self.max_shared)
        backend.kernel.configure(shared=backend.shared, carveout=backend.carveout)
        size = stream.blocks * STREAM_REPORT.itemsize
        address = self.buffers.reserve(size)
        grid = (stream.blocks, 1)
        runs = []
        for run in range(1 + stream.runs):
            self.context.fill_zeros(address, size)
            arguments = backend.arguments(address, run)
            self.context.launch(
                backend.kernel, grid, stream.threads, backend.shared, *arguments, cluster=stream.cluster
            )
            self.context.wait(_TIMEOUT_S + _TIMEOUT_S_PER_BYTE * stream.moved)
            reports = self.context.download(address, size).view(STREAM_REPORT)
            runs.append(_read(stream, reports))
            if backend.is_wrong(reports, run):
                raise KernelFailed(f"a stream on path {stream.path.value}: not all bytes were moved")
        return _trace(stream, runs[1:], self.context.device.name, backend.shared)

    def release(self) -> None:
        """Free the footprints."""
        self.arena.release()


def _read(stream: Stream, reports: NDArray[Any]) -> StreamRun:
    """Results of a run from its reports. Raises `KernelFailed` if not every block ran."""
    # Columns are copied first: with 100 000 records, reading one in place takes longer than all of this.
    begin, end, cycles, sm = (reports[name].astype(np.int64) for name in ("begin", "end", "cycles", "sm"))
    if not (begin.all() and cycles.all() and (end >= begin).all()):  # a block with nothing to do may end as it begins
        raise KernelFailed(f"a stream on path {stream.path.value}: not every block ran")
    counts = np.bincount(sm)
    return StreamRun(
        nanoseconds=int(end.max() - begin.min()),
        block_ns=int((end - begin).sum()),
        cycles=cycles,
        blocks_by_sm=counts[counts > 0],
        all_at_once=bool(begin.max() < end.min()),
    )


def _trace(stream: Stream, runs: Sequence[StreamRun], device: str, shared: int) -> Trace:
    """The trace of a stream's timed runs."""
    low, high = min(int(run.blocks_by_sm.min()) for run in runs), max(int(run.blocks_by_sm.max()) for run in runs)
    block_ns = [run.block_ns for run in runs]
    min_ns = [max(_MIN_CLOCK_NS, _MIN_CLOCK_SHARE * run.nanoseconds) for run in runs]
    clocked = all(run.block_ns >= ns * stream.blocks for run, ns in zip(runs, min_ns, strict=True))
    context = Context(
        device=device,
        clock_hz=clock_rate([int(run.cycles.sum()) for run in runs], block_ns) if clocked else None,
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
    if stream.path not in _WITHOUT_CYCLES and stream.blocks <= MAX_TIMED_BLOCKS:
        arrays["cycles"] = np.stack([run.cycles for run in runs])
    return Trace(workload=digest(stream), arrays=arrays, context=context)
