"""Copies by a copy engine, timed by CUDA events."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.driver import call
from gpudissect.device.cuda.links import Arenas
from gpudissect.device.cuda.memory import Slots
from gpudissect.trace import Context, Trace
from gpudissect.workload import EngineCopy, Transfer
from gpudissect.workload.digest import digest

_WARM_UP_RUNS = 1
_QUEUED_TIMEOUT_S = 60.0
_TIMEOUT_S, _TIMEOUT_S_PER_BYTE = 10.0, 1e-9
FAILED = "a copy of a copy engine failed"


class _Ran(NamedTuple):
    """Finished copies, which hold no memory."""

    traces: list[Trace]
    memory: None


@dataclass(eq=False)
class EngineCopyRunner:
    """Runs copies one after the other in the stream of the context."""

    context: CudaContext
    arenas: Arenas
    slots: Slots[None] = field(default_factory=lambda: Slots([None]))
    _pageable: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))

    at_once = 1

    def queue(self, copies: Sequence[EngineCopy]) -> _Ran:
        """Run copies, once all that was queued before has ended. Raises `KernelFailed`, and `OutOfMemory`."""
        self.context.wait(_QUEUED_TIMEOUT_S)
        self.context.wait_until_cleared()
        with self.slots.taken() as memory:
            return _Ran([*map(self._run, copies)], memory)

    def finish(self, ran: _Ran) -> list[Trace]:
        """The traces."""
        return ran.traces

    def release(self) -> None:
        """Free the pageable memory; the rest belongs to the arenas."""
        self._pageable = np.empty(0, np.uint8)

    def _run(self, copy: EngineCopy) -> Trace:
        self.arenas.check(copy)
        near, driver, stream = self.arenas.near, self.context.driver, self.context.stream.handle
        near.user = None  # what it held is overwritten
        here = near.reserve(copy.size)
        if copy.pageable:
            if self._pageable.size < copy.size:
                self._pageable = np.ones(copy.size, np.uint8)
            there = self._pageable.ctypes.data
        else:
            far = self.arenas.of(copy)
            far.user, there = None, far.reserve(copy.size)
        ends = (here, there) if copy.transfer is Transfer.READ else (there, here)
        with self._events(1 + _WARM_UP_RUNS + copy.runs) as events:
            call(driver, FAILED, driver.cuEventRecord, events[0], stream)
            for event in events[1:]:
                call(driver, FAILED, driver.cuMemcpyAsync, *ends, copy.size, stream)
                call(driver, FAILED, driver.cuEventRecord, event, stream)
            self.context.wait(_TIMEOUT_S + _TIMEOUT_S_PER_BYTE * copy.size * len(events))
            times = [call(driver, FAILED, driver.cuEventElapsedTime, *pair) for pair in pairwise(events)]
        nanoseconds = np.rint(1e6 * np.array(times[_WARM_UP_RUNS:])).astype(np.int64)
        context = Context(device=self.context.device.name)
        return Trace(workload=digest(copy), arrays={"nanoseconds": nanoseconds}, context=context)

    @contextmanager
    def _events(self, count: int) -> Iterator[list[Any]]:
        """CUDA events, destroyed after the block."""
        driver = self.context.driver
        with ExitStack() as stack:
            events = []
            for _ in range(count):
                events.append(call(driver, FAILED, driver.cuEventCreate, 0))
                stack.callback(driver.cuEventDestroy, events[-1])
            yield events
