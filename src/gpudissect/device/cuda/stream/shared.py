"""Streams on path SHARED: every block goes through shared memory of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.stream.backend import Kernels, check_shared, macros
from gpudissect.device.cuda.stream.words import LOW, salt, sum_of_range
from gpudissect.workload import Stream, Transfer


def code(stream: Stream) -> Code:
    """What its kernel is compiled of. Raises `DeviceError` if a thread has too few registers for it."""
    return ("stream_shared.cu", *macros(stream))


class Inside:
    """A stream within each block. Raises `DeviceError` for one that this device cannot run."""

    carveout = 100

    def __init__(self, stream: Stream, kernels: Kernels, shared: int) -> None:
        self.shared = stream.footprint * (2 if stream.transfer is Transfer.COPY else 1)
        check_shared(self.shared, shared)
        source, *own = code(stream)
        self.kernel = kernels(source, "stream_shared", *own)
        self._stream = stream

    def arguments(self, reports: int, run: int) -> list[int]:
        """As ``kernels/stream_shared.cu`` has them."""
        return [reports, self._stream.footprint, self._stream.passes, salt(run)]

    def wrong(self, reports: NDArray[Any], run: int) -> bool:
        """READ: do the words read come to what each block laid?  Else the blocks have counted words left wrong."""
        stream = self._stream
        if stream.transfer is not Transfer.READ:
            return bool(reports["sum"].any())
        words = stream.footprint // 4
        # Block b lays words of salt ~(salt + b), which is -1 - salt - b.
        first = stream.passes * sum_of_range(0, words, -1 - salt(run)) & LOW
        each = np.arange(stream.blocks, dtype=np.uint64) * np.uint64(stream.passes * words & LOW)
        return bool((reports["sum"] != np.uint64(first) - each & np.uint64(LOW)).any())
