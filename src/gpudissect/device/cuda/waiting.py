"""Waits for a CUDA stream without polling, up to a time limit.

The driver's own blocking wait has no limit and ignores Ctrl-C. So a second thread blocks in it, on an event for which
the driver lets the core sleep, and the caller waits for that thread. If the GPU hangs, so does only that thread, which
does not keep the process from ending.
"""

import time
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

EVENT_FLAGS = 1 | 2  # CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING
_MAX_POLLED_S = 50e-6  # short kernels are polled for: waking a thread takes about as long


class _Request:
    """A wait for an event: `ended` is set once the driver has given `status`."""

    def __init__(self, event: Any) -> None:
        self.event = event
        self.ended = Event()
        self.status: Any = None


class StreamWaiter:
    """Waits for streams of the context that is current when it first waits. One wait at a time."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._event: Any = None
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()

    def wait(self, stream: Any, seconds: float) -> Any:
        """Wait until a stream has run what was queued; the driver's status, or None after so many `seconds`."""
        begin = time.perf_counter()
        status = self._poll(self._driver.cuStreamQuery, stream, seconds)
        if status is not None:
            return status
        status = self._start()
        if status == self._driver.CUresult.CUDA_SUCCESS:
            (status,) = self._driver.cuEventRecord(self._event, stream)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            return status
        return self._block(self._event, seconds - (time.perf_counter() - begin))

    def wait_for(self, event: Any, seconds: float) -> Any:
        """The same for an event with `EVENT_FLAGS`."""
        begin = time.perf_counter()
        status = self._poll(self._driver.cuEventQuery, event, seconds)
        if status is None and (status := self._start()) == self._driver.CUresult.CUDA_SUCCESS:
            return self._block(event, seconds - (time.perf_counter() - begin))
        return status

    def _poll(self, query: Any, handle: Any, seconds: float) -> Any:
        """The driver's status once all has run; None if that takes longer than a short kernel."""
        begin = time.perf_counter()
        while (status := query(handle)[0]) == self._driver.CUresult.CUDA_ERROR_NOT_READY:
            if time.perf_counter() - begin > min(_MAX_POLLED_S, seconds):
                return None
        return status

    def _block(self, event: Any, seconds: float) -> Any:
        """Let the thread wait for an event; the driver's status, or None after so many seconds."""
        request = _Request(event)
        self._requests.put(request)
        return request.status if request.ended.wait(max(seconds, 0.0)) else None

    def close(self) -> None:
        """End the thread and destroy the event, unless it never waited. Not after a wait that reached its limit."""
        if self._event is not None:
            self._requests.put(None)
            self._driver.cuEventDestroy(self._event)
            self._event = None

    def _start(self) -> Any:
        """Create the event and the thread at the first use; the driver's status."""
        if self._event is not None:
            return self._driver.CUresult.CUDA_SUCCESS
        status, context = self._driver.cuCtxGetCurrent()
        if status == self._driver.CUresult.CUDA_SUCCESS:
            status, event = self._driver.cuEventCreate(EVENT_FLAGS)
        if status == self._driver.CUresult.CUDA_SUCCESS:
            self._event = event
            Thread(target=self._serve, args=(context,), name="gpudissect-wait", daemon=True).start()
        return status

    def _serve(self, context: Any) -> None:
        """Block in the driver for one request after the other."""
        self._driver.cuCtxSetCurrent(context)
        while (request := self._requests.get()) is not None:
            (request.status,) = self._driver.cuEventSynchronize(request.event)
            request.ended.set()
