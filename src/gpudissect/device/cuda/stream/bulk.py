"""Streams on path TMA: bulk copies from global into shared memory."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.driver import Board
from gpudissect.device.cuda.stream.backend import Kernels, check_shared
from gpudissect.workload import Stream

FILLERS = (1024, 256)
"""Blocks and threads that go over a footprint before and after it is streamed."""
_BARRIER = 8  # bytes, one behind the buffers for each copy under way


class Bulk:
    """A stream of bulk copies. Raises `DeviceError` for one that this device cannot run, and `OutOfMemory`."""

    carveout = 100

    def __init__(self, stream: Stream, kernels: Kernels, shared: int, board: Board, arena: Arena) -> None:
        self.shared = stream.ilp * (stream.width + _BARRIER)
        check_shared(self.shared, shared)
        self._source = arena.reserve(stream.footprint)
        fill = kernels("stream_tma.cu", "fill")
        board.launch(fill, (FILLERS[0], 1), FILLERS[1], 0, self._source, stream.footprint // 8)
        self.kernel = kernels("stream_tma.cu", "stream_tma")
        self._stream = stream

    def arguments(self, reports: int, run: int) -> list[int]:
        """As ``kernels/stream_tma.cu`` has them."""
        stream = self._stream
        return [self._source, reports, stream.footprint, stream.passes, stream.width, stream.ilp]

    def wrong(self, reports: NDArray[Any], run: int) -> bool:
        """Was there a copy that did not hold what lies at its place?"""
        return bool(reports["sum"].any())
