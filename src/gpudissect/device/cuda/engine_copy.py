"""Copies by a copy engine, timed by the host's clock."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.driver import check
from gpudissect.device.cuda.links import Arenas
from gpudissect.device.cuda.memory import Slots
from gpudissect.errors import KernelFailed
from gpudissect.trace import Context, Trace
from gpudissect.workload import EngineCopy, Transfer
from gpudissect.workload.digest import digest

_WARM_UP_RUNS = 1
_QUEUED_TIMEOUT_S, _TIMEOUT_S = 60.0, 10.0


class _Ran(NamedTuple):
    """Copies that have run, without memory of their own."""

    traces: list[Trace]
    memory: None


@dataclass(eq=False)
class EngineCopyRunner:
    """Runs copies one after the other in the stream of the context."""

    context: CudaContext
    arenas: Arenas
    slots: Slots[None] = field(default_factory=lambda: Slots([None]))

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
        """Nothing: the memory belongs to the arenas."""

    def _run(self, copy: EngineCopy) -> Trace:
        near, driver = self.arenas.near, self.context.driver
        near.user = None  # what it held is overwritten
        here, pageable = near.reserve(copy.size), np.ones(copy.size if copy.pageable else 0, np.uint8)
        if copy.pageable:
            there = pageable.ctypes.data
        else:
            far = self.arenas.of(copy)
            far.user, there = None, far.reserve(copy.size)
        ends = (here, there) if copy.transfer is Transfer.READ else (there, here)
        times: NDArray[np.int64] = np.zeros(_WARM_UP_RUNS + copy.runs, np.int64)
        for run in range(times.size):
            begin = time.perf_counter_ns()
            (status,) = driver.cuMemcpyAsync(*ends, copy.size, self.context.stream.handle)
            check(driver, status, "a copy did not start", KernelFailed)
            self.context.wait(_TIMEOUT_S)
            times[run] = time.perf_counter_ns() - begin
        context = Context(device=self.context.device.name, notes={"host_clock": "CLOCK_MONOTONIC"})
        return Trace(workload=digest(copy), arrays={"nanoseconds": times[_WARM_UP_RUNS:]}, context=context)
