"""CUDA streams to start kernels in. (They are queues here: a `Stream` is a workload.)

Where the driver happens to keep what it has to tell the GPU decides how soon the GPU knows of it: on H200s empty
kernels followed one another every 1.39 to 1.49 us in most streams, every 1.54 to 1.64 us in most others. About thirteen
that were made one after the other are alike, and a process may have dozens of the slow ones in a row. So one stream
tells little; some of many, far apart, tell much the same in every process.

And once a process has started a kernel in a second stream, each kernel follows the one before it later, in all streams:
0.67 us within a graph in place of 0.50, by calls 1.48 in place of 1.30 us. Streams that are destroyed do not change
that. So all of these are used before any is timed: it is the same then for every process, whatever else it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudissect.device.cuda.driver import Board
from gpudissect.errors import KernelFailed

MANY = 256  # 5 ms to make
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING


class Queues:
    """Many CUDA streams of a board, made when the first is asked for; `use` has each do something."""

    def __init__(self, board: Board, use: Callable[[Any], None]) -> None:
        self._board = board
        self._use = use
        self._made: list[Any] = []

    def spread(self, count: int, turn: int = 0) -> list[Any]:
        """`count` of them, as far apart as can be, more than once if there are fewer; in another turn their neighbours.

        Raises `KernelFailed`, and what `use` raises.
        """
        if not self._made:
            self._made = self._make()
        return [self._made[(turn + place * MANY // count) % MANY] for place in range(count)]

    def _make(self) -> list[Any]:
        """All of them, each used once; none is left behind if that cannot be."""
        made: list[Any] = []
        try:
            for _ in range(MANY):
                status, one = self._board.driver.cuStreamCreate(_NON_BLOCKING)
                if status != self._board.driver.CUresult.CUDA_SUCCESS:
                    raise KernelFailed(f"no {MANY} CUDA streams for launches: {status.name}")
                made.append(one)
            for each in made:
                self._use(each)
            for each in made:
                self._board.wait(10.0, each)
        except BaseException:
            self._destroy(made)
            raise
        return made

    def release(self) -> None:
        """Give them back."""
        made, self._made = self._made, []
        self._destroy(made)

    def _destroy(self, streams: list[Any]) -> None:
        for each in streams:
            self._board.driver.cuStreamDestroy(each)
