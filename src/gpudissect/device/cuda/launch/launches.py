"""Starts kernels that do nothing, one call each or one call for a graph of them, and takes the time."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.driver import Board, Kernel
from gpudissect.device.cuda.launch.host_clock import HostClock
from gpudissect.device.cuda.launch.queues import Queues
from gpudissect.errors import KernelFailed
from gpudissect.trace import Context, Trace
from gpudissect.workload import Clock, Launch, LaunchMethod
from gpudissect.workload.digest import digest

_HELD = (200_000, 12_000)  # ns that the GPU is kept busy: this, and this for each kernel; calls take a fifth of it
_TRIES = 4  # each with four times as long
_MARKS = 16  # bytes of two times
_THREADS = 32
_QUEUES = 8  # in which the runs that the host times are spread; those that the GPU times have one each

Start = Callable[[Any], None]
"""Starts something in the CUDA stream that it is given."""
Call = tuple[Any, tuple[int, ...]]
"""A function of the driver's, and its arguments of 64 bits."""


class Launcher:
    """Runs launches on one board, through the driver's own calls, spread over several of its streams.

    `kernel` gives a kernel of a source.
    """

    def __init__(self, board: Board, kernel: Callable[..., Kernel], *, name: str) -> None:
        self._board = board
        self._kernel = kernel
        self._name = name
        self._queues = Queues(board, lambda queue: self._launch([(self._function("nothing"), ())], queue))
        self._host = HostClock(board.driver)

    def run(self, launch: Launch) -> Trace:
        """Run a launch. Raises `KernelFailed`, and `OutOfMemory`."""
        self._board.wait(10.0)
        self._board.wait_until_clear()
        by = {Clock.HOST: self._by_the_host, Clock.GPU: self._by_the_gpu}[launch.clock]
        times = by(launch)
        clock = {Clock.HOST: "CLOCK_MONOTONIC", Clock.GPU: "globaltimer"}[launch.clock]
        return Trace(
            workload=digest(launch),
            arrays={"nanoseconds": times},
            context=Context(device=self._name, notes={f"{launch.clock}_clock": clock}),
        )

    def release(self) -> None:
        """Give its streams back."""
        self._queues.release()

    def _by_the_host(self, launch: Launch) -> NDArray[np.int64]:
        """Nanoseconds of every run, from before the start until the end is known."""
        queues = self._queues.spread(min(_QUEUES, launch.runs), launch.repetition)
        handles = [int(queue) for queue in queues]
        runs = -(-launch.runs // len(queues))
        empty = self._function("nothing")
        if launch.method is LaunchMethod.STREAM:
            times = self._host.time_kernels(int(empty), _THREADS, launch.kernels, handles, runs)
        else:
            with ExitStack() as kept:
                calls = [(empty, ())] * launch.kernels
                graphs = [int(kept.enter_context(self._graph(calls))) for _ in queues]  # where one lies counts, too
                times = self._host.time_graphs(graphs, handles, runs)
        return times.T.ravel()[: launch.runs]

    def _by_the_gpu(self, launch: Launch) -> NDArray[np.int64]:
        """Nanoseconds from a mark before the kernels to one after them, of every run."""
        queues = self._queues.spread(launch.runs, launch.repetition)
        desk = self._board.allocate(_MARKS)
        try:
            mark, empty = self._function("mark"), self._function("nothing")
            calls = [(mark, (desk,)), *[(empty, ())] * launch.kernels, (mark, (desk + _MARKS // 2,))]
            with self._started_by(launch.method, calls) as start:
                start(queues[0])  # a graph's first time is another one
                self._board.wait(10.0, queues[0])
                times = [self._held(start, queue, launch.kernels, desk) for queue in queues]
        finally:
            if not self._board.lost():  # freeing would wait for a kernel that hangs
                self._board.free(desk)
        return np.array(times, np.int64)

    def _held(self, start: Start, queue: Any, kernels: int, desk: int) -> int:
        """Start kernels while another keeps the GPU busy; nanoseconds between the two marks."""
        hold = self._function("hold")
        for turn in range(_TRIES):
            busy = (_HELD[0] + _HELD[1] * kernels) << 2 * turn
            before = time.perf_counter_ns()
            self._launch([(hold, (busy,))], queue)
            start(queue)
            queued = time.perf_counter_ns() - before
            self._board.wait(10.0, queue)
            if 2 * queued < busy:
                first, last = self._board.download(desk, _MARKS).view(np.uint64)
                return int(last) - int(first)
        raise KernelFailed(f"the host was too slow to queue {kernels} kernels while the GPU was busy with another")

    @contextmanager
    def _started_by(self, method: LaunchMethod, calls: Sequence[Call]) -> Iterator[Start]:
        """How to start these kernels: by calls, or by a graph made of them."""
        if method is LaunchMethod.STREAM:
            yield lambda queue: self._launch(calls, queue)
            return
        with self._graph(calls) as graph:
            yield lambda queue: self._start(graph, queue)

    @contextmanager
    def _graph(self, calls: Sequence[Call]) -> Iterator[Any]:
        """A graph of these kernels, ready to be started."""
        driver, stream = self._board.driver, self._board.stream.handle
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("capture", driver.cuStreamBeginCapture, stream, mode)
        try:
            self._launch(calls, stream)
        except BaseException:
            driver.cuGraphDestroy(driver.cuStreamEndCapture(stream)[1])
            raise
        (graph,) = self._call("capture", driver.cuStreamEndCapture, stream)
        try:
            (ready,) = self._call("graph", driver.cuGraphInstantiate, graph, 0)
            try:
                self._call("graph", driver.cuGraphUpload, ready, stream)
                self._board.wait(10.0)  # whoever starts it does so in another stream
                yield ready
            finally:
                driver.cuGraphExecDestroy(ready)
        finally:
            driver.cuGraphDestroy(graph)

    def _start(self, graph: Any, queue: Any) -> None:
        self._call("graph", self._board.driver.cuGraphLaunch, graph, queue)

    def _launch(self, calls: Sequence[Call], queue: Any) -> None:
        start, success = self._board.driver.cuLaunchKernel, self._board.driver.CUresult.CUDA_SUCCESS
        for function, values in calls:
            given = (values, (ctypes.c_uint64,) * len(values)) if values else 0
            (status,) = start(function, 1, 1, 1, _THREADS, 1, 1, 0, queue, given, 0)
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
