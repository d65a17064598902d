"""Starts kernels that do nothing, one call each or one call for a graph of them, and takes the time."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpudissect.device.cuda.driver import Board, Kernel
from gpudissect.errors import KernelFailed
from gpudissect.trace import Context, Trace
from gpudissect.workload import Clock, Launch, Means
from gpudissect.workload.digest import digest

_WARM_UP = 10  # runs before those that count
_WARM_UP_HELD = 1
_THREADS = 32
_HELD = (1_000_000, 40_000)  # ns that the GPU is kept busy: this, and this for each kernel; calls take a tenth of it
_TRIES = 4  # each with four times as long
_MARKS = 16  # bytes of two times

Start = Callable[[], None]
Call = tuple[Any, tuple[int, ...]]
"""A function of the driver's, and its arguments of 64 bits."""


class Launcher:
    """Runs launches on one board, through the driver's own calls: what Python adds to each is in the host's time.

    `kernel` gives a kernel of a source.
    """

    def __init__(self, board: Board, kernel: Callable[..., Kernel], *, name: str) -> None:
        self._board = board
        self._kernel = kernel
        self._name = name

    def run(self, launch: Launch) -> Trace:
        """Run a launch. Raises `KernelFailed`, and `OutOfMemory`."""
        self._board.wait(10.0)
        self._board.wait_until_clear()
        by = {Clock.HOST: self._by_the_host, Clock.GPU: self._by_the_gpu}[launch.clock]
        times = by(launch, [(self._function("nothing"), ())] * launch.kernels)
        self._board.wait(10.0)
        clock = {Clock.HOST: "perf_counter_ns", Clock.GPU: "globaltimer"}[launch.clock]
        return Trace(
            workload=digest(launch),
            arrays={"nanoseconds": np.array(times, np.int64)},
            context=Context(device=self._name, notes={f"{launch.clock}_clock": clock}),
        )

    def release(self) -> None:
        """Nothing: it keeps no memory."""

    def _by_the_host(self, launch: Launch, calls: Sequence[Call]) -> list[int]:
        """Nanoseconds of every run that counts, from before the start until the end is known."""
        wait, stream = self._board.driver.cuStreamSynchronize, self._board.stream.handle
        times = []
        with self._started_by(launch.means, calls) as start:
            for _ in range(_WARM_UP + launch.runs):
                before = time.perf_counter_ns()
                start()
                (status,) = wait(stream)
                times.append(time.perf_counter_ns() - before)
                if status != self._board.driver.CUresult.CUDA_SUCCESS:
                    raise KernelFailed(f"an empty kernel did not end: {status.name}")
        return times[_WARM_UP:]

    def _by_the_gpu(self, launch: Launch, calls: Sequence[Call]) -> list[int]:
        """Nanoseconds from a mark before the kernels to one after them, of every run that counts."""
        desk = self._board.allocate(_MARKS)
        try:
            mark = self._function("mark")
            marked = [(mark, (desk,)), *calls, (mark, (desk + _MARKS // 2,))]
            with self._started_by(launch.means, marked) as start:
                times = [self._held(start, launch.kernels, desk) for _ in range(_WARM_UP_HELD + launch.runs)]
        finally:
            self._board.free(desk)
        return times[_WARM_UP_HELD:]

    def _held(self, start: Start, kernels: int, desk: int) -> int:
        """Start kernels while another keeps the GPU busy; nanoseconds between the two marks."""
        hold = self._function("hold")
        for turn in range(_TRIES):
            busy = (_HELD[0] + _HELD[1] * kernels) << 2 * turn
            before = time.perf_counter_ns()
            self._launch([(hold, (busy,))])
            start()
            queued = time.perf_counter_ns() - before
            self._board.wait(10.0)
            if 2 * queued < busy:
                first, last = self._board.download(desk, _MARKS).view(np.uint64)
                return int(last) - int(first)
        raise KernelFailed(f"the host was too slow to queue {kernels} kernels while the GPU was busy with another")

    @contextmanager
    def _started_by(self, means: Means, calls: Sequence[Call]) -> Iterator[Start]:
        """How to start these kernels: by calls, or by a graph made of them."""
        if means is Means.STREAM:
            yield lambda: self._launch(calls)
            return
        driver, stream = self._board.driver, self._board.stream.handle
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("capture", driver.cuStreamBeginCapture, stream, mode)
        try:
            self._launch(calls)
        finally:
            (graph,) = self._call("capture", driver.cuStreamEndCapture, stream)
        try:
            (ready,) = self._call("graph", driver.cuGraphInstantiate, graph, 0)
            try:
                self._call("graph", driver.cuGraphUpload, ready, stream)
                yield lambda: self._start(ready)
            finally:
                driver.cuGraphExecDestroy(ready)
        finally:
            driver.cuGraphDestroy(graph)

    def _start(self, graph: Any) -> None:
        self._call("graph", self._board.driver.cuGraphLaunch, graph, self._board.stream.handle)

    def _launch(self, calls: Sequence[Call]) -> None:
        start, success = self._board.driver.cuLaunchKernel, self._board.driver.CUresult.CUDA_SUCCESS
        stream = self._board.stream.handle
        for function, values in calls:
            given = (values, (ctypes.c_uint64,) * len(values)) if values else 0
            (status,) = start(function, 1, 1, 1, _THREADS, 1, 1, 0, stream, given, 0)
            if status != success:
                raise KernelFailed(f"an empty kernel did not launch: {status.name}")

    def _function(self, name: str) -> Any:
        driver = self._board.driver
        kernel = driver.CUkernel(int(self._kernel("launch.cu", name).handle.handle))
        return self._call("kernel", driver.cuKernelGetFunction, kernel)[0]

    def _call(self, what: str, call: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        status, *found = call(*arguments)
        if status != self._board.driver.CUresult.CUDA_SUCCESS:
            raise KernelFailed(f"no {what} for a launch: {status.name}")
        return tuple(found)
