"""Runs streams: many blocks at once, each of which tells when it began and ended.

A run lasts from the start of its first block to the end of its last, on the GPU's global timer. What was read is
checked, so that no bandwidth is claimed for bytes that never came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.clocks import clock_rate
from gpudissect.device.cuda.driver import Board, Kernel
from gpudissect.device.cuda.layout import STREAM_REPORT
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.trace import Context, Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Path, Stream
from gpudissect.workload.digest import digest

STREAMED = (Path.CLUSTER, Path.TMA)
_BARRIER = 8  # bytes, one behind the buffers for each copy under way
_PATIENCE = (20.0, 1e-9)  # seconds a run may take: this, and this for each byte
_FILLERS = (1024, 256)  # blocks and threads that fill a footprint
_MOST_LOADS = 4  # of a thread in flight: of more the assembler would wait for some before it starts the others
_LOW = 0xFFFFFFFF
_SALT = 0x9E3779B9  # of the words that a block holds, see kernels/stream_cluster.cu


class Streamer:
    """Runs streams on one board, one after the other, each alone.

    `kernel` gives a kernel of a source with macros, `arena` the memory that is read, `shared` is the shared memory
    that one block may have, in bytes.
    """

    def __init__(self, board: Board, kernel: Callable[..., Kernel], arena: Arena, *, name: str, shared: int) -> None:
        self._board = board
        self._kernel = kernel
        self._arena = arena
        self._desk = Arena(board, limit=board.free_memory()[1])
        self._name = name
        self._shared = shared

    def run(self, stream: Stream) -> Trace:
        """Run a stream, once untimed and then its timed runs.

        Raises `DeviceError` for one that this device cannot run, `OutOfMemory`, and `KernelFailed`, also when not
        everything was read.
        """
        kernel, shared, source = self._ready(stream)
        kernel.configure(shared=shared, carveout=100)  # these paths use no L1
        if stream.cluster > 1:
            kernel.allow_any_cluster()
        size = stream.blocks * STREAM_REPORT.itemsize
        reports = self._desk.reserve(size)
        arguments = [reports, stream.footprint, stream.passes]
        if stream.path is Path.TMA:
            arguments = [source, *arguments, stream.width, stream.ilp]
        seen = []
        for _ in range(1 + stream.runs):
            empty = np.zeros(stream.blocks, STREAM_REPORT)
            self._board.upload(reports, empty)
            self._board.launch(kernel, (stream.blocks, 1), stream.threads, shared, *arguments, cluster=stream.cluster)
            self._board.wait(_PATIENCE[0] + _PATIENCE[1] * stream.moved)
            seen.append(self._board.download(reports, size).view(STREAM_REPORT))
            _check(stream, seen[-1])
        return _trace(stream, seen[1:], self._name, shared)

    def release(self) -> None:
        """Give the memory back that was read: a chase may need it."""
        self._arena.release()

    def close(self) -> None:
        """Give all memory back."""
        self._arena.release()
        self._desk.release()

    def _ready(self, stream: Stream) -> tuple[Kernel, int, int]:
        """The kernel, the shared memory of a block, and the address of what is read, filled; 0 on path CLUSTER."""
        if stream.path is Path.CLUSTER:
            self._check_room(stream.footprint)
            if stream.ilp > _MOST_LOADS:
                raise DeviceError(f"a thread has at most {_MOST_LOADS} loads in flight on path 'cluster', "
                                  f"asked for {stream.ilp}")  # fmt: skip
            macros = (f"WIDTH={stream.width}", f"ILP={stream.ilp}", f"THREADS={stream.threads}")
            return self._kernel("stream_cluster.cu", "stream_cluster", *macros), self._shared, 0
        shared = stream.ilp * (stream.width + _BARRIER)
        self._check_room(shared)
        source = self._arena.reserve(stream.footprint)
        fill = self._kernel("stream_tma.cu", "fill")
        self._board.launch(fill, (_FILLERS[0], 1), _FILLERS[1], 0, source, stream.footprint // 8)
        return self._kernel("stream_tma.cu", "stream_tma"), shared, source

    def _check_room(self, wanted: int) -> None:
        if wanted > self._shared:
            raise DeviceError(f"a block of this stream needs {format_bytes(wanted)} of shared memory, "
                              f"this device has {format_bytes(self._shared)}")  # fmt: skip


def _check(stream: Stream, reports: NDArray[Any]) -> None:
    """Was everything read, and read from where it should be?"""
    ended = reports["end"] >= reports["begin"]  # one with nothing to do may end within a step of the timer
    if not (reports["begin"].all() and reports["cycles"].all() and ended.all()):
        raise KernelFailed(f"a stream on path {stream.path.value}: not every block ran")
    if stream.path is Path.TMA:
        wrong = int(reports["sum"].sum())
    else:
        places = np.arange(stream.blocks) % stream.cluster
        if not (reports["rank"] == places).all():
            raise KernelFailed("a stream in clusters: blocks stand at other ranks than their number tells")
        wrong = int((reports["sum"].astype(np.uint64) & np.uint64(_LOW) != _sums(stream, places)).sum())
    if wrong:
        raise KernelFailed(f"a stream on path {stream.path.value}: not everything came that was asked for")


def _sums(stream: Stream, places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """What the words must come to, modulo 2^32, that blocks at these ranks read from their neighbours."""
    words = stream.footprint // 4
    neighbours = ((places + 1) % stream.cluster).tolist()
    sums = [stream.passes * (words * (words - 1) // 2 + words * (rank + 1) * _SALT) & _LOW for rank in neighbours]
    return np.array(sums, np.uint64)


def _trace(stream: Stream, seen: list[NDArray[Any]], device: str, shared: int) -> Trace:
    nanoseconds = np.array([int(part["end"].max()) - int(part["begin"].min()) for part in seen], np.int64)
    every = np.concatenate(seen)
    at_once = all(part["begin"].max() < part["end"].min() for part in seen)
    context = Context(
        device=device,
        clock_hz=clock_rate(every["cycles"].tolist(), (every["end"] - every["begin"]).tolist()),
        notes={
            "shared_bytes": str(shared),
            "sms": str(np.unique(seen[0]["sm"]).size),
            "all_at_once": "yes" if at_once else "no",
        },
    )
    moved = np.full(len(seen), stream.moved, np.int64)
    return Trace(workload=digest(stream), arrays={"nanoseconds": nanoseconds, "bytes": moved}, context=context)
