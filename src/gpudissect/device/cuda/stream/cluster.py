"""Streams on path CLUSTER: every block reads the shared memory of the next one of its cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.stream.backend import Kernels, check_shared
from gpudissect.device.cuda.stream.words import LOW, STEP
from gpudissect.errors import KernelFailed, UnsupportedWorkload
from gpudissect.workload import Stream

_MOST_LOADS = 4  # of a thread in flight: of more the assembler would wait for some before it starts the others


class Ring:
    """A stream round the blocks of each cluster. Raises `DeviceError` for one that this device cannot run.

    A block takes all the shared memory it can have, so that it has an SM of its own.
    """

    carveout = 100

    def __init__(self, stream: Stream, kernels: Kernels, shared: int) -> None:
        check_shared(stream.footprint, shared)
        if stream.ilp > _MOST_LOADS:
            raise UnsupportedWorkload(f"a thread has at most {_MOST_LOADS} loads in flight on path 'cluster', "
                        f"asked for {stream.ilp}")  # fmt: skip
        macros = (f"WIDTH={stream.width}", f"ILP={stream.ilp}", f"THREADS={stream.threads}")
        self.kernel = kernels("stream_cluster.cu", "stream_cluster", *macros)
        self.kernel.allow_any_cluster()
        self.shared = shared
        self._stream = stream
        self._places = np.arange(stream.blocks) % stream.cluster
        self._sums = _sums(stream)[self._places]

    def arguments(self, reports: int, run: int) -> list[int]:
        """As ``kernels/stream_cluster.cu`` has them."""
        return [reports, self._stream.footprint, self._stream.passes]

    def wrong(self, reports: NDArray[Any], run: int) -> bool:
        """Did a block read anything but what its neighbour holds?  Raises `KernelFailed` for blocks out of place."""
        if not (reports["rank"] == self._places).all():
            raise KernelFailed("a stream in clusters: blocks stand at other ranks than their number tells")
        return bool((reports["sum"] != self._sums).any())


def _sums(stream: Stream) -> NDArray[np.uint64]:
    """What the block of each rank must read, modulo 2^32: word i of the block of rank r is i + (r + 1) x `STEP`."""
    words = stream.footprint // 4
    neighbours = [(rank + 1) % stream.cluster for rank in range(stream.cluster)]
    indices = words * (words - 1) // 2
    return np.array([stream.passes * (indices + words * (r + 1) * STEP) & LOW for r in neighbours], np.uint64)
