"""Runs streams: many blocks at once, each of which tells when it began and ended.

A run lasts from the start of its first block to the end of its last, on the GPU's global timer. What was read, written
or copied is checked after every run, so that no bandwidth is claimed for bytes that never came.
"""

from __future__ import annotations

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
        seen = []
        for run in range(1 + stream.runs):
            self._board.clear(reports, size)
            arguments = way.arguments(reports, run)
            self._board.launch(way.kernel, grid, stream.threads, way.shared, *arguments, cluster=stream.cluster)
            self._board.wait(_PATIENCE[0] + _PATIENCE[1] * stream.moved)
            seen.append(self._board.download(reports, size).view(STREAM_REPORT))
            _check_ran(stream, seen[-1])
            if way.wrong(seen[-1], run):
                raise KernelFailed(f"a stream on path {stream.path.value}: not everything came that was asked for")
        return _trace(stream, seen[1:], self._name, way.shared)

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


def _check_ran(stream: Stream, reports: NDArray[Any]) -> None:
    ended = reports["end"] >= reports["begin"]  # one with nothing to do may end within a step of the timer
    if not (reports["begin"].all() and reports["cycles"].all() and ended.all()):
        raise KernelFailed(f"a stream on path {stream.path.value}: not every block ran")


def _trace(stream: Stream, seen: list[NDArray[Any]], device: str, shared: int) -> Trace:
    nanoseconds = np.array([int(part["end"].max()) - int(part["begin"].min()) for part in seen], np.int64)
    every = np.concatenate(seen)
    at_once = all(part["begin"].max() < part["end"].min() for part in seen)
    sms = [blocks[blocks > 0] for blocks in (np.bincount(part["sm"]) for part in seen)]
    fewest, most = min(int(part.min()) for part in sms), max(int(part.max()) for part in sms)
    context = Context(
        device=device,
        clock_hz=clock_rate(every["cycles"], every["end"] - every["begin"]),
        notes={
            "shared_bytes": str(shared),
            "sms": str(sms[0].size),
            "blocks_per_sm": str(most) if fewest == most else f"{fewest} to {most}",
            "all_at_once": "yes" if at_once else "no",
        },
    )
    arrays: dict[str, Array] = {"nanoseconds": nanoseconds, "bytes": np.full(len(seen), stream.moved, np.int64)}
    if stream.path in _OF_BLOCKS and stream.blocks <= MOST_TOLD:
        arrays["cycles"] = np.stack([part["cycles"].astype(np.int64) for part in seen])
    return Trace(workload=digest(stream), arrays=arrays, context=context)
