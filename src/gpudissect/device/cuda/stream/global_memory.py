"""Streams on paths GLOBAL and GLOBAL_L2: blocks take turns at the tiles of a footprint in global memory.

What was read is summed up and compared; what was written or copied is read back after each run, and spoilt, so that no
run can pass for having written what the one before it left.

What a run writes is timed until the L2 has it: so much of it as the L2 keeps is not in DRAM by then. But each run finds
the L2 as full of words not yet written as it leaves it (those of the run, or of what spoilt them, before it), and must
have those written first. Over a footprint of several times the L2, as much goes to DRAM in a run as the run writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.arena import Arena, place
from gpudissect.device.cuda.chase.layout import TRAITS
from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.driver import Board
from gpudissect.device.cuda.stream.backend import Kernels, macros, team
from gpudissect.device.cuda.stream.bulk import FILLERS
from gpudissect.device.cuda.stream.words import LOW, salt, sums_of_tiles
from gpudissect.errors import UnsupportedWorkload
from gpudissect.workload import Stream, Transfer

_PATIENCE = 20.0  # seconds that reading back may take
_MOST_TILES = 2**32 - 1
_COUNTER = 8  # bytes of the count of wrong words
_SOURCE_RUN = -2  # numbers of runs that there are not: the words of the source, ...
_NO_RUN = -3  # ... and those that are there before the first run


def code(stream: Stream) -> Code:
    """What its kernel is compiled of. Raises `DeviceError` if a thread has too few registers for it."""
    return ("stream_global.cu", TRAITS[stream.path].macro, *macros(stream))


class Through:
    """A stream through global memory.

    Raises `DeviceError` for one that this device cannot run, and `OutOfMemory`.
    """

    shared = 0
    carveout = 0  # the largest L1

    def __init__(self, stream: Stream, kernels: Kernels, board: Board, arena: Arena) -> None:
        tile = stream.threads * stream.ilp * stream.width
        tiles = stream.footprint // tile
        if tiles > _MOST_TILES:
            raise UnsupportedWorkload(
                f"a footprint of {tiles} tiles of {tile} bytes: at most {_MOST_TILES} can be told apart"
            )
        source, *own = code(stream)
        self.kernel = kernels(source, "stream_global", *own)
        self._stream = stream
        self._board = board
        self._lay = kernels("stream_words.cu", "lay_words")
        self._check = kernels("stream_words.cu", "check_words")
        copied = stream.transfer is Transfer.COPY
        (*regions, counter), size = place([stream.footprint] * (2 if copied else 1) + [_COUNTER])
        base = arena.reserve(size)
        self._source, self._target, self._counter = base + regions[0], base + regions[-1], base + counter
        self._tiles = tiles
        self._sums: NDArray[np.uint64] | None = None
        if stream.transfer is not Transfer.WRITE:
            self._go_over(self._lay, self._source, LOW, salt(_SOURCE_RUN))
        if stream.transfer is Transfer.READ:
            sums = sums_of_tiles(tile // 4, tiles, stream.blocks_per_wave, salt(_SOURCE_RUN))
            self._sums = np.tile(sums * np.uint64(stream.passes & LOW) & np.uint64(LOW), stream.waves)
        else:
            self._go_over(self._lay, self._target, LOW, salt(_NO_RUN))

    def arguments(self, reports: int, run: int) -> list[int]:
        """As ``kernels/stream_global.cu`` has them."""
        return [
            reports,
            self._source,
            self._target,
            self._tiles,
            self._stream.blocks_per_wave,
            self._stream.passes,
            salt(run),
        ]

    def wrong(self, reports: NDArray[Any], run: int) -> bool:
        """READ: do the words come to what lies there, block by block?  Else: is any word not what it should be?"""
        if self._sums is not None:
            return bool((reports["sum"] != self._sums).any())
        self._board.clear(self._counter, _COUNTER)
        if self._stream.transfer is Transfer.WRITE:  # every team leaves the same words, in every pass the next ones
            mask = team(self._stream.threads) * self._stream.width // 4 - 1
            left = salt(run) + self._stream.passes - 1 & LOW
        else:
            mask, left = LOW, salt(_SOURCE_RUN)
        self._go_over(self._check, self._target, mask, left, self._counter)
        self._board.wait(_PATIENCE)
        return bool(self._board.download(self._counter, _COUNTER).view(np.uint64)[0])

    def _go_over(self, kernel: Any, at: int, mask: int, salted: int, *more: int) -> None:
        words = self._stream.footprint // 4
        self._board.launch(kernel, (FILLERS[0], 1), FILLERS[1], 0, at, words, mask, salted, *more)
