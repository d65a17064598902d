"""Starts kernels that do nothing, one call each or one call for a graph of them, and takes the host's time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gpudissect.device.cuda.driver import Board, Kernel
from gpudissect.errors import KernelFailed
from gpudissect.trace import Context, Trace
from gpudissect.workload import Launch, Means
from gpudissect.workload.digest import digest

_WARM_UP = 10  # runs before those that count
_THREADS = 32


class Launcher:
    """Runs launches on one board, through the driver's own calls: what Python adds to each is in the time.

    `kernel` gives a kernel of a source.
    """

    def __init__(self, board: Board, kernel: Callable[..., Kernel], *, name: str) -> None:
        self._board = board
        self._kernel = kernel
        self._name = name

    def run(self, launch: Launch) -> Trace:
        """Run a launch. Raises `KernelFailed`."""
        driver, stream = self._board.driver, self._board.stream.handle
        self._board.wait(10.0)
        kernel = driver.CUkernel(int(self._kernel("launch.cu", "nothing").handle.handle))
        function = self._call("kernel", driver.cuKernelGetFunction, kernel)[0]
        if launch.means is Means.STREAM:
            times = self._time(launch, lambda: self._start(function, launch.kernels, stream), stream)
        else:
            times = self._graph(launch, function, stream)
        self._board.wait(10.0)
        return Trace(
            workload=digest(launch),
            arrays={"nanoseconds": np.array(times, np.int64)},
            context=Context(device=self._name, notes={"host_clock": "perf_counter_ns"}),
        )

    def release(self) -> None:
        """Nothing: it keeps no memory."""

    def _graph(self, launch: Launch, function: Any, stream: Any) -> list[int]:
        """Make a graph of the kernels, one after the other as in the stream, and time its runs."""
        driver = self._board.driver
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("capture", driver.cuStreamBeginCapture, stream, mode)
        try:
            self._start(function, launch.kernels, stream)
        finally:
            (graph,) = self._call("capture", driver.cuStreamEndCapture, stream)
        try:
            (ready,) = self._call("graph", driver.cuGraphInstantiate, graph, 0)
            try:
                self._call("graph", driver.cuGraphUpload, ready, stream)
                return self._time(launch, lambda: self._call("graph", driver.cuGraphLaunch, ready, stream), stream)
            finally:
                driver.cuGraphExecDestroy(ready)
        finally:
            driver.cuGraphDestroy(graph)

    def _start(self, function: Any, kernels: int, stream: Any) -> None:
        start, success = self._board.driver.cuLaunchKernel, self._board.driver.CUresult.CUDA_SUCCESS
        for _ in range(kernels):
            (status,) = start(function, 1, 1, 1, _THREADS, 1, 1, 0, stream, 0, 0)
            if status != success:
                raise KernelFailed(f"an empty kernel did not launch: {status.name}")

    def _time(self, launch: Launch, start: Callable[[], object], stream: Any) -> list[int]:
        """Nanoseconds of every run that counts, from before the start until the end is known."""
        wait = self._board.driver.cuStreamSynchronize
        times = []
        for _ in range(_WARM_UP + launch.runs):
            before = time.perf_counter_ns()
            start()
            (status,) = wait(stream)
            times.append(time.perf_counter_ns() - before)
            if status != self._board.driver.CUresult.CUDA_SUCCESS:
                raise KernelFailed(f"an empty kernel did not end: {status.name}")
        return times[_WARM_UP:]

    def _call(self, what: str, call: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        status, *found = call(*arguments)
        if status != self._board.driver.CUresult.CUDA_SUCCESS:
            raise KernelFailed(f"no {what} for a launch: {status.name}")
        return tuple(found)
