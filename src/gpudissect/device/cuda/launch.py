"""Starts empty kernels, by one call each or one call for a graph of them, and times them."""

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.context import CudaContext, LaunchBuffers
from gpudissect.device.cuda.memory import Slots
from gpudissect.errors import KernelFailed
from gpudissect.trace import Context, Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Clock, Launch, LaunchMethod
from gpudissect.workload.digest import digest

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_WARM_UP_RUNS = 8
_HOLD_NS, _HOLD_RATIO = 100_000, 2.5  # the GPU is held for _HOLD_NS + _HOLD_RATIO * expected time of queueing
_QUEUED_NS, _MAX_QUEUED_NS = 5_000, 20_000  # time of queueing a kernel: first estimate, and its cap
_MAX_ATTEMPTS = 4  # each holds the GPU four times as long as the one before
_MARK_BYTES = 8
LAUNCHES: Code = ("launch.cu",)
_TIMEOUT_S, _QUEUED_TIMEOUT_S = 10.0, 60.0

Call = tuple[Any, tuple[int, ...]]  # a kernel and its arguments of 64 bits


class _Ran(NamedTuple):
    """Launches that have run, without memory of their own."""

    traces: list[Trace]
    memory: None


@dataclass(eq=False)
class LaunchRunner:
    """Runs launches in a CUDA stream of their own.

    (Once a process has started kernels in a second stream, kernels follow one another later in all streams: on an H200
    every 0.67 us within a graph, not 0.50. With a second stream from the start it is the same in every process.)
    """

    context: CudaContext
    buffers: LaunchBuffers
    _stream: Any = None
    slots: Slots[None] = field(default_factory=lambda: Slots([None]))

    at_once = 1

    def queue(self, launches: Sequence[Launch]) -> _Ran:
        """Run launches, once all that was queued before has ended. Raises `KernelFailed`, and `OutOfMemory`."""
        self.context.wait(_QUEUED_TIMEOUT_S)
        self.context.wait_until_cleared()
        if self._stream is None:
            self._stream = self._call("stream", self.context.driver.cuStreamCreate, _NON_BLOCKING)
            for stream in (self.context.stream.handle, self._stream):  # both are used before anything is timed
                self._launch([(self._function("empty"), ())], stream)
                self.context.wait(_TIMEOUT_S, stream)
        with self.slots.taken() as memory:
            return _Ran([*map(self._run, launches)], memory)

    def finish(self, ran: _Ran) -> list[Trace]:
        """The traces."""
        return ran.traces

    def release(self) -> None:
        """Destroy the stream."""
        if self._stream is not None:
            self.context.driver.cuStreamDestroy(self._stream)
        self._stream = None

    def _run(self, launch: Launch) -> Trace:
        times = self._time_by_host(launch) if launch.clock is Clock.HOST else self._time_by_gpu(launch)
        clock = {Clock.HOST: "CLOCK_MONOTONIC", Clock.GPU: "globaltimer"}[launch.clock]
        context = Context(device=self.context.device.name, notes={f"{launch.clock}_clock": clock})
        return Trace(workload=digest(launch), arrays={"nanoseconds": times}, context=context)

    def _time_by_host(self, launch: Launch) -> NDArray[np.int64]:
        """Nanoseconds of every run, from before the first call until the end of the last kernel is known."""
        times = np.zeros(_WARM_UP_RUNS + launch.runs, np.int64)
        synchronize = self.context.driver.cuStreamSynchronize
        with self._starter(launch.method, [(self._function("empty"), ())] * launch.kernels) as start:
            for run in range(times.size):
                begin = time.perf_counter_ns()
                start()
                (status,) = synchronize(self._stream)
                times[run] = time.perf_counter_ns() - begin
                self._check(status, "empty kernels did not run")
        return times[_WARM_UP_RUNS:]

    def _time_by_gpu(self, launch: Launch) -> NDArray[np.int64]:
        """Nanoseconds from a mark before the kernels to one after them, of every run."""
        marks = self.buffers.reserve(2 * _MARK_BYTES)
        mark, empty = self._function("mark"), self._function("empty")
        calls = [(mark, (marks,)), *[(empty, ())] * launch.kernels, (mark, (marks + _MARK_BYTES,))]
        with self._starter(launch.method, calls) as start:
            start()  # the first run of a graph takes another time
            self.context.wait(_TIMEOUT_S, self._stream)
            queued = launch.kernels if launch.method is LaunchMethod.STREAM else 1  # a graph takes one call
            times, queued_ns = np.zeros(launch.runs, np.int64), _QUEUED_NS * queued
            for run in range(launch.runs):
                times[run], queued_ns = self._time_held(start, min(queued_ns, _MAX_QUEUED_NS * queued), marks)
        return times

    def _time_held(self, start: Callable[[], None], expected_ns: int, marks: int) -> tuple[int, int]:
        """Queue kernels while another keeps the GPU busy.

        Returns the time between the two marks and that of queueing, in ns; `expected_ns` is an estimate of the latter.
        """
        hold = self._function("hold")
        for attempt in range(_MAX_ATTEMPTS):
            hold_ns = int(_HOLD_NS + _HOLD_RATIO * expected_ns) << 2 * attempt
            begin = time.perf_counter_ns()
            self._launch([(hold, (hold_ns,))], self._stream)
            start()
            queued_ns = time.perf_counter_ns() - begin
            self.context.wait(_TIMEOUT_S, self._stream)
            if 2 * queued_ns < hold_ns:
                first, last = self.context.download(marks, 2 * _MARK_BYTES).view(np.uint64)
                return int(last) - int(first), queued_ns
        raise KernelFailed(
            f"the host took {queued_ns / 1e3:.0f} us to queue kernels, more than half of the {hold_ns / 1e3:.0f} us in "
            "which the GPU was held: run again with less load on the host"
        )

    @contextmanager
    def _starter(self, method: LaunchMethod, calls: Sequence[Call]) -> Iterator[Callable[[], None]]:
        """A function that starts these kernels: by calls, or by a graph of them in the GPU's memory."""
        if method is LaunchMethod.STREAM:
            yield lambda: self._launch(calls, self._stream)
            return
        driver, stream = self.context.driver, self.context.stream.handle
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("capture", driver.cuStreamBeginCapture, stream, mode)
        try:
            self._launch(calls, stream)
        except BaseException:
            driver.cuGraphDestroy(driver.cuStreamEndCapture(stream)[1])
            raise
        with ExitStack() as stack:
            graph = self._call("capture", driver.cuStreamEndCapture, stream)
            stack.callback(driver.cuGraphDestroy, graph)
            executable = self._call("graph", driver.cuGraphInstantiate, graph, 0)
            stack.callback(driver.cuGraphExecDestroy, executable)
            self._call("graph", driver.cuGraphUpload, executable, stream)
            self.context.wait(_TIMEOUT_S)  # it starts in another stream
            yield lambda: self._check(driver.cuGraphLaunch(executable, self._stream)[0], "a graph did not start")

    def _launch(self, calls: Sequence[Call], stream: Any) -> None:
        start, success = self.context.driver.cuLaunchKernel, self.context.driver.CUresult.CUDA_SUCCESS
        for function, values in calls:
            arguments = (values, (ctypes.c_uint64,) * len(values)) if values else 0
            (status,) = start(function, 1, 1, 1, WARP_SIZE, 1, 1, 0, stream, arguments, 0)
            if status != success:
                self._check(status, "an empty kernel did not start")

    def _function(self, name: str) -> Any:
        return self.context.kernel(*LAUNCHES, name).function

    def _call(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call the driver; what it returns besides the status. Raises `KernelFailed`."""
        status, *results = call(*arguments)
        self._check(status, f"no {what} for launches")
        return results[0] if results else None

    def _check(self, status: Any, what: str) -> None:
        if status != self.context.driver.CUresult.CUDA_SUCCESS:
            raise KernelFailed(f"{what}: {status.name}")
