"""How long the host takes to start something on a GPU and to know of its end, timed in compiled code.

In Python a start takes 0.5 to 1.2 us longer (the same cores of an H200's host, 14 processes), another time in each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.launch.cores import each_core
from gpudissect.errors import KernelFailed

_CORES = 8  # of the host's that are tried, at most
_WARM_UP = 8  # runs in each queue before those that count
_AT_ONCE = 64  # runs until Python looks whether it is interrupted
_QUICK = 0.25  # quantile of a core's runs by which it is compared with the others
_VERSION = 12000  # of CUDA, as which the driver's functions are asked for


class HostClock:
    """Times the driver's own calls. `driver` is ``cuda.bindings.driver``."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def time_kernels(
        self, function: int, threads: int, count: int, queues: Sequence[int], runs: int
    ) -> NDArray[np.int64]:  # fmt: skip
        """Nanoseconds from before `count` kernels are started until their end is known, shape (queues, runs).

        On the core that does it quickest, of up to eight of those that this thread may use. Kernels have one block and
        no arguments. Raises `KernelFailed`.
        """
        starts = [(function, 1, 1, 1, threads, 1, 1, 0, queue, 0, 0) for queue in queues]
        return self._quickest("cuLaunchKernel", starts, count, queues, runs)

    def time_graphs(self, graphs: Sequence[int], queues: Sequence[int], runs: int) -> NDArray[np.int64]:
        """The same of graphs, one for each queue."""
        return self._quickest("cuGraphLaunch", list(zip(graphs, queues, strict=True)), 1, queues, runs)

    def _quickest(
        self, call: str, starts: Sequence[tuple[int, ...]], count: int, queues: Sequence[int], runs: int
    ) -> NDArray[np.int64]:
        """What the core tells that is quickest with these arguments of a call of the driver's, one for each queue."""
        get_time = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
        calls = self._address(call), self._address("cuStreamSynchronize"), get_time
        found: list[NDArray[np.int64]] = []
        with each_core(_CORES) as cores:
            for _ in cores:
                took = np.zeros((len(queues), runs), np.int64)
                for arguments, queue, each in zip(starts, queues, took, strict=True):
                    self._fill(each, calls, arguments, count, queue)
                found.append(took)
        return min(found, key=lambda took: float(np.quantile(took, _QUICK)))

    def _fill(
        self, took: NDArray[np.int64], calls: tuple[int, int, int], arguments: tuple[int, ...], count: int, queue: int
    ) -> None:
        """Time a queue; `calls` are addresses of what starts something, of what waits for it and of the clock."""
        from gpudissect.device.cuda.launch.host_loop import time_starts

        start, wait, get_time = calls
        at = np.zeros(2, np.int64)
        for begin in range(0, took.size, _AT_ONCE):
            warm_up = 0 if begin else _WARM_UP
            part = took[begin : begin + _AT_ONCE]
            try:
                status = time_starts(start, arguments, count, wait, queue, get_time, warm_up, part, at)
            except NotImplementedError as error:
                raise KernelFailed("starts are timed in compiled code, and numba compiles nothing: "
                                   "unset NUMBA_DISABLE_JIT") from error  # fmt: skip
            if status != 0:
                raise KernelFailed(f"an empty kernel did not run: {self._name(status)}")

    def _name(self, status: int) -> str:
        try:
            return str(self._driver.CUresult(status).name)
        except ValueError:  # newer than the bindings
            return f"error {status}"

    def _address(self, name: str) -> int:
        status, address, *_ = self._driver.cuGetProcAddress(name.encode(), _VERSION, 0)
        if status != self._driver.CUresult.CUDA_SUCCESS or not address:
            raise KernelFailed(f"the NVIDIA driver has no {name}: {status.name}")
        return int(address)
