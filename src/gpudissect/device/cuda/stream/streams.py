"""Runs streams: many blocks at once, each of which tells when it began and ended.

A run lasts from the start of its first block to the end of its last, on the GPU's global timer. What was read, written
or copied is checked after every run, so that no bandwidth is claimed for bytes that never came.
"""

from __future__ import annotations

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.chase.layout import STREAM_REPORT
from gpudissect.device.cuda.driver import Board
from gpudissect.device.cuda.stream.backend import Kernels, Way
from gpudissect.device.cuda.stream.bulk import Bulk
from gpudissect.device.cuda.stream.cluster import Ring
from gpudissect.device.cuda.stream.global_memory import Through
from gpudissect.device.cuda.stream.reports import read, trace
from gpudissect.device.cuda.stream.shared import Inside
from gpudissect.errors import KernelFailed, UnsupportedWorkload
from gpudissect.trace import Trace
from gpudissect.workload import Path, Stream

STREAMED = (Path.GLOBAL, Path.GLOBAL_L2, Path.SHARED, Path.CLUSTER, Path.TMA)
_PATIENCE = (20.0, 1e-9)  # seconds a run may take: this, and this for each byte
_MOST_BLOCKS = 1 << 20  # so many fill any GPU hundreds of times over; each makes a report
_MOST_PASSES = 2**32 - 1


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
            raise UnsupportedWorkload(
                f"this device runs streams of at most {_MOST_BLOCKS} blocks and {_MOST_PASSES} passes, "
                f"asked for {stream.blocks} and {stream.passes}"
            )
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
            runs.append(read(stream, told))
            if way.wrong(told, run):
                raise KernelFailed(f"a stream on path {stream.path.value}: not everything came that was asked for")
        return trace(stream, runs[1:], self._name, way.shared)

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
