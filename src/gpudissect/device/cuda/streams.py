"""Runs streams: many blocks at once, each of which tells when it began and ended.

A run lasts from the start of its first block to the end of its last, on the GPU's global timer. What was read, written
or copied is checked after every run, so that no bandwidth is claimed for bytes that never came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.clocks import clock_rate
from gpudissect.device.cuda.driver import Board
from gpudissect.device.cuda.layout import STREAM_REPORT
from gpudissect.device.cuda.stream_bulk import Bulk
from gpudissect.device.cuda.stream_global import Through
from gpudissect.device.cuda.stream_ring import Ring
from gpudissect.device.cuda.stream_shared import Inside
from gpudissect.device.cuda.stream_way import Kernels, Way
from gpudissect.errors import KernelFailed, Unfit
from gpudissect.trace import Array, Context, Trace
from gpudissect.workload import Path, Stream
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import MOST_TOLD

STREAMED = (Path.GLOBAL, Path.GLOBAL_L2, Path.SHARED, Path.CLUSTER, Path.TMA)
_PATIENCE = (20.0, 1e-9)  # seconds a run may take: this, and this for each byte
_MOST_BLOCKS = 1 << 20  # so many fill any GPU hundreds of times over; each makes a report
_MOST_PASSES = 2**32 - 1
_TELLING = 20_000
"""Nanoseconds that a block must take, on average, to tell the clock. Its two clocks are read one after the other, and
where blocks begin and end beside others that run, what lies between is not always the same: by such blocks an H200
seemed to run at 1.90 to 2.10 GHz. So only those tell that take most of the run."""
_MOST = 0.5  # of a run
_OF_BLOCKS = (Path.GLOBAL, Path.GLOBAL_L2, Path.SHARED)  # paths whose traces tell the cycles of every block


class Streamer:
    """Runs streams on one board, one after the other, each alone.

    `kernel` gives a kernel of a source with macros, `arena` the memory that is gone through, `shared` is the shared
    memory that one block may have, in bytes.
    """

    def __init__(self, board: Board, kernel: Kernels, arena: Arena, *, name: str, shared: int) -> None:
        self._board = board
        self._kernel = kernel
        self._arena = arena
        self._desk = Arena(board, limit=board.free_memory()[1])
        self._name = name
        self._shared = shared

    def run(self, stream: Stream) -> Trace:
        """Run a stream, once untimed and then its timed runs.

        Raises `DeviceError` for one that this device cannot run, `OutOfMemory`, and `KernelFailed`, also when not
        everything was read or written.
        """
        if stream.blocks > _MOST_BLOCKS or stream.passes > _MOST_PASSES:
            raise Unfit(f"this device runs streams of at most {_MOST_BLOCKS} blocks and {_MOST_PASSES} passes, "
                        f"asked for {stream.blocks} and {stream.passes}")  # fmt: skip
        way = self._way(stream)
        way.kernel.configure(shared=way.shared, carveout=way.carveout)
        size = stream.blocks * STREAM_REPORT.itemsize
        reports = self._desk.reserve(size)
        grid = (stream.blocks, 1)
        runs = []
        for run in range(1 + stream.runs):
            self._board.clear(reports, size)
            arguments = way.arguments(reports, run)
            self._board.launch(way.kernel, grid, stream.threads, way.shared, *arguments, cluster=stream.cluster)
            self._board.wait(_PATIENCE[0] + _PATIENCE[1] * stream.moved)
            told = self._board.download(reports, size).view(STREAM_REPORT)
            runs.append(_read(stream, told))
            if way.wrong(told, run):
                raise KernelFailed(f"a stream on path {stream.path.value}: not everything came that was asked for")
        return _trace(stream, runs[1:], self._name, way.shared)

    def release(self) -> None:
        """Give the memory back that was gone through: a chase may need it."""
        self._arena.release()

    def close(self) -> None:
        """Give all memory back."""
        self._arena.release()
        self._desk.release()

    def _way(self, stream: Stream) -> Way:
        match stream.path:
            case Path.CLUSTER:
                return Ring(stream, self._kernel, self._shared)
            case Path.TMA:
                return Bulk(stream, self._kernel, self._shared, self._board, self._arena)
            case Path.SHARED:
                return Inside(stream, self._kernel, self._shared)
            case _:
                return Through(stream, self._kernel, self._board, self._arena)


@dataclass(frozen=True)
class Run:
    """What the blocks of one run told.

    Attributes:
        nanoseconds: from the first one's begin to the last one's end.
        lived: nanoseconds of all blocks together.
        cycles: of each block, by its SM's clock, shape (blocks,).
        by_sm: blocks of each SM that ran any.
        at_once: whether there was a moment at which all of them ran.

    """

    nanoseconds: int
    lived: int
    cycles: NDArray[np.int64]
    by_sm: NDArray[np.int64]
    at_once: bool


def _read(stream: Stream, reports: NDArray[Any]) -> Run:
    """What a run's reports come to. Raises `KernelFailed` if not every block ran.

    (Columns are copied first: of a hundred thousand records each look at one in place takes longer than all of this.)
    """
    begin, end, cycles, sm = (reports[name].astype(np.int64) for name in ("begin", "end", "cycles", "sm"))
    if not (begin.all() and cycles.all() and (end >= begin).all()):  # one with nothing to do may end as it begins
        raise KernelFailed(f"a stream on path {stream.path.value}: not every block ran")
    counts = np.bincount(sm)
    return Run(
        nanoseconds=int(end.max() - begin.min()), lived=int((end - begin).sum()), cycles=cycles,
        by_sm=counts[counts > 0], at_once=bool(begin.max() < end.min()),
    )  # fmt: skip


def _trace(stream: Stream, runs: Sequence[Run], device: str, shared: int) -> Trace:
    fewest, most = min(int(run.by_sm.min()) for run in runs), max(int(run.by_sm.max()) for run in runs)
    lived = [run.lived for run in runs]
    telling = all(run.lived >= max(_TELLING, _MOST * run.nanoseconds) * stream.blocks for run in runs)
    context = Context(
        device=device,
        clock_hz=clock_rate([int(run.cycles.sum()) for run in runs], lived) if telling else None,
        notes={
            "shared_bytes": str(shared),
            "sms": str(runs[0].by_sm.size),
            "blocks_per_sm": str(most) if fewest == most else f"{fewest} to {most}",
            "all_at_once": "yes" if all(run.at_once for run in runs) else "no",
        },
    )
    arrays: dict[str, Array] = {
        "nanoseconds": np.array([run.nanoseconds for run in runs], np.int64),
        "bytes": np.full(len(runs), stream.moved, np.int64),
    }
    if stream.path in _OF_BLOCKS and stream.blocks <= MOST_TOLD:
        arrays["cycles"] = np.stack([run.cycles for run in runs])
    return Trace(workload=digest(stream), arrays=arrays, context=context)
