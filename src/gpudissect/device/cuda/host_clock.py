"""How long the host takes to start something on a GPU and to know of its end, timed in compiled code.

Python would add 1 to 3 us to a start, another time in every process: on H200s' hosts a start took 7.9 to 11.2 us by
Python, 7.4 to 8.2 us by compiled code.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import KernelFailed

THREADS = 32
_CORES = 8  # of the host's that are tried, at most
_QUICK = 0.25  # quantile of a core's runs by which it is compared with the others
_VERSION = 12000  # of CUDA, as which the driver's functions are asked for


class HostClock:
    """Times the driver's own calls. `driver` is ``cuda.bindings.driver``."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def time_kernels(self, function: int, count: int, queues: Sequence[int], runs: int) -> NDArray[np.int64]:
        """Nanoseconds from before `count` kernels are started until their end is known, shape (queues, runs).

        On the core that does it quickest of those that this thread may use. Kernels have one warp and no arguments.
        Raises `KernelFailed`.
        """
        starts = [(function, 1, 1, 1, THREADS, 1, 1, 0, queue, 0, 0) for queue in queues]
        return self._quickest("cuLaunchKernel", starts, count, queues, runs)

    def time_graphs(self, graphs: Sequence[int], queues: Sequence[int], runs: int) -> NDArray[np.int64]:
        """The same of graphs, one for each queue."""
        return self._quickest("cuGraphLaunch", list(zip(graphs, queues, strict=True)), 1, queues, runs)

    def _quickest(
        self, call: str, starts: Sequence[tuple[int, ...]], count: int, queues: Sequence[int], runs: int
    ) -> NDArray[np.int64]:
        """What the core tells that is quickest with these arguments of a call of the driver's, one for each queue."""
        from gpudissect.device.cuda.host_loop import time_starts

        start, wait = self._address(call), self._address("cuStreamSynchronize")
        get_time = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
        at = np.zeros(2, np.int64)
        found: list[NDArray[np.int64]] = []
        allowed = os.sched_getaffinity(0)
        cores = sorted(allowed)
        try:
            for core in cores[:: -(-len(cores) // _CORES)]:
                with suppress(OSError):  # a core that is not to be had: wherever this thread is
                    os.sched_setaffinity(0, {core})
                took = np.zeros((len(queues), runs), np.int64)
                for arguments, queue, each in zip(starts, queues, took, strict=True):
                    status = time_starts(start, arguments, count, wait, queue, get_time, each, at)
                    if status != 0:
                        raise KernelFailed(f"an empty kernel did not run: {self._driver.CUresult(status).name}")
                found.append(took)
        finally:
            with suppress(OSError):
                os.sched_setaffinity(0, allowed)
        return min(found, key=lambda took: float(np.quantile(took, _QUICK)))

    def _address(self, name: str) -> int:
        status, address, *_ = self._driver.cuGetProcAddress(name.encode(), _VERSION, 0)
        if status != self._driver.CUresult.CUDA_SUCCESS or not address:
            raise KernelFailed(f"the NVIDIA driver has no {name}: {status.name}")
        return int(address)
