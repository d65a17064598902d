"""Kernels of users: a cubin loaded, its arguments in device memory, launches, and their times against occupancy.

Such a kernel may crash or never end, after which the context is lost: run it in a process of its own.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.driver import call
from gpudissect.errors import KernelFailed
from gpudissect.units import MIB

DEFAULT_CARVEOUT = -1
"""The driver chooses how much of the L1 is shared memory."""
FULL_CARVEOUT = 100
_SHARED_STEP = 128  # bytes, in which shared memory is allocated
_UPLOAD_LIMIT_S = 60.0
_COMPARED_BYTES = 64 * MIB  # copied at once
_TARGET_NS = 40e6  # of a point
_TRIAL_NS, _MAX_TRIAL_LAUNCHES = 3e6, 500  # fewer than the driver queues before it waits
_MAX_TIMES, _MIN_LAUNCHES, _MAX_LAUNCHES = 15, 5, 20_000
_MAX_LIMITS = 2  # that all launches of a point take
_LONG_NS, _MIN_LONG_LAUNCHES = 50e6, 3  # of launches that take so long there are fewer
Dimensions = tuple[int, int, int]


@dataclass(frozen=True)
class Timing:
    """Times per launch in ns, (times,), each over `launches_per_time`; `host_ns` is the time to queue a launch.

    `observed` is what `observe` returned while the launches ran.
    """

    ns: NDArray[np.float64]
    launches_per_time: int
    host_ns: float
    observed: Any


class UserArrays:
    """Arrays of a kernel in device memory, with copies of their first content. `data` has a size in bytes for zeros."""

    def __init__(self, context: CudaContext, data: Sequence[NDArray[Any] | int]) -> None:
        self._context = context
        self.sizes = tuple(each if isinstance(each, int) else each.nbytes for each in data)
        self.addresses: list[int] = []
        self._first: list[int] = []
        try:
            for size in self.sizes:
                self.addresses.append(context.allocate(size))
            for each, size in zip(data, self.sizes, strict=True):
                self._first.append(0 if isinstance(each, int) else context.allocate(size))
        except BaseException:
            self.free()
            raise
        for each, address in zip(data, self._first, strict=True):
            if not isinstance(each, int):
                context.upload(address, each)
        context.wait(_UPLOAD_LIMIT_S)  # `data` may go away now

    def reset(self) -> None:
        """Queue the first content into the arrays."""
        for address, first, size in zip(self.addresses, self._first, self.sizes, strict=True):
            if first:
                self._context.copy(address, first, size)
            else:
                self._context.fill_zeros(address, size)

    def contents(self) -> list[NDArray[np.uint8]]:
        """The bytes of the arrays, after everything queued before."""
        return [self._context.download(*place) for place in zip(self.addresses, self.sizes, strict=True)]

    def differences(self, contents: Sequence[NDArray[np.uint8]]) -> list[int]:
        """Indices of the arrays whose bytes are not these."""
        return [number for number, content in enumerate(contents) if not self._equals(number, content)]

    def _equals(self, number: int, content: NDArray[np.uint8]) -> bool:
        return all(
            np.array_equal(self._context.download(self.addresses[number] + start, part.size), part)
            for start in range(0, content.size, _COMPARED_BYTES)
            for part in [content[start : start + _COMPARED_BYTES]]
        )

    def free(self) -> None:
        """Free the memory."""
        for address in (*self.addresses, *filter(None, self._first)):
            self._context.free(address)
        self.addresses, self._first = [], []


class UserKernel:
    """A kernel of a loaded cubin. Everything raises `KernelFailed` with the driver's message."""

    def __init__(self, context: CudaContext, cubin: bytes, name: str) -> None:
        self._context, self._driver, self.name = context, context.driver, name
        self._module = call(self._driver, "the machine code did not load", self._driver.cuModuleLoadData, cubin)
        self._function = call(
            self._driver, "no such kernel", self._driver.cuModuleGetFunction, self._module, name.encode()
        )

    def attribute(self, name: str) -> int:
        """An attribute of the function, such as ``NUM_REGS``."""
        attribute = getattr(self._driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(call(self._driver, "no attribute", self._driver.cuFuncGetAttribute, attribute, self._function))

    @property
    def max_shared_bytes(self) -> int:
        """Dynamic shared memory that a block may have."""
        return self._context.max_shared_bytes - self.attribute("SHARED_SIZE_BYTES")

    def configure(self, *, shared: int, carveout: int) -> None:
        """Allow `shared` bytes of dynamic shared memory and prefer `carveout` percent of shared memory."""
        names, what = self._driver.CUfunction_attribute, f"kernel {self.name} did not take {shared} B of shared memory"
        attributes = {
            names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: shared,
            names.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: carveout,
        }
        for attribute, value in attributes.items():
            call(self._driver, what, self._driver.cuFuncSetAttribute, self._function, attribute, value)

    def max_blocks(self, threads: int, shared: int) -> int:
        """Blocks of so many threads and bytes of dynamic shared memory that an SM runs at once."""
        query = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return int(call(self._driver, "the occupancy is not known", query, self._function, threads, shared))

    def shared_for(self, blocks: int, threads: int, shared: int) -> int | None:
        """The least dynamic shared memory, at least `shared`, with which exactly so many blocks fit; None if none has.

        At full carveout, which is set. (VV16 section 5.11 sets occupancy so.)
        """
        self.configure(shared=self.max_shared_bytes, carveout=FULL_CARVEOUT)
        steps = max(0, self.max_shared_bytes - shared) // _SHARED_STEP
        step = first_true(steps + 1, lambda step: self.max_blocks(threads, shared + step * _SHARED_STEP) <= blocks)
        found = shared + step * _SHARED_STEP
        return found if step <= steps and self.max_blocks(threads, found) == blocks else None

    def array(self, name: str) -> tuple[int, int]:
        """Address and size in bytes of an array of the module."""
        status, address, size = self._driver.cuModuleGetGlobal(self._module, name.encode())
        self._context.check(status, f"no array {name} in the machine code", KernelFailed)
        return int(address), int(size)

    def launcher(
        self, grid: Dimensions, block: Dimensions, shared: int, arguments: Sequence[NDArray[Any]]
    ) -> Callable[[], None]:
        """A function that queues a launch with these arguments: the bytes of each are those of its parameter."""
        pointers = np.array([argument.ctypes.data for argument in arguments], np.uint64)
        places = int(pointers.ctypes.data) if len(arguments) else 0
        kept = (pointers, tuple(arguments))  # the driver reads them at each launch
        start, success, stream = self._driver.cuLaunchKernel, self._driver.CUresult.CUDA_SUCCESS, self._stream

        def launch() -> None:
            (status,) = start(self._function, *grid, *block, shared, stream, places, 0)
            if status != success:
                self._context.check(status, f"kernel {self.name} did not launch", KernelFailed)
            assert kept

        return launch

    def unload(self) -> None:
        """Unload the machine code."""
        self._driver.cuModuleUnload(self._module)

    def time(
        self,
        launch: Callable[[], None],
        reset: Callable[[], None] | None,
        limit_s: float,
        observe: Callable[[], Any] = lambda: None,
    ) -> Timing:
        """Time launches for about 40 ms, after a trial that warms up; at least a few of a long kernel.

        They follow one another without gap. With `reset` it is called before each, and each is timed alone. `observe`
        is called while they run. Raises `KernelFailed` for a launch of more than `limit_s` seconds.
        """
        self._context.wait_until_cleared()
        with self._events(2) as events:
            ns, host_ns = self._trial(launch, events, 1, limit_s)
            if reset is None:
                count = min(_MAX_TRIAL_LAUNCHES, max(1, round(_TRIAL_NS / max(ns, 100.0))))
                ns, host_ns = self._trial(launch, events, count, limit_s)
        launches = launch_count(ns)
        times = min(_MAX_TIMES, launches)
        batch = 1 if reset else launches // times
        with self._events(2 * times) as events:
            pairs = list(zip(events[::2], events[1::2], strict=True))
            for start, end in [(None, None), *pairs]:  # the first batch is not timed
                if reset:
                    reset()
                self._record(start)
                for _ in range(batch):
                    launch()
                self._record(end)
            observed = observe()
            self._context.wait(_MAX_LIMITS * limit_s)
            elapsed = np.array([self._elapsed_ns(*pair) for pair in pairs])
        return Timing(elapsed / batch, batch, host_ns, observed)

    def _trial(
        self, launch: Callable[[], None], events: Sequence[Any], count: int, limit_s: float
    ) -> tuple[float, float]:
        """Nanoseconds per launch, and to queue one."""
        self._record(events[0])
        begin = time.perf_counter_ns()
        for _ in range(count):
            launch()
        host_ns = (time.perf_counter_ns() - begin) / count
        self._record(events[1])
        self._context.wait(limit_s)
        return self._elapsed_ns(events[0], events[1]) / count, host_ns

    @contextmanager
    def _events(self, count: int) -> Iterator[list[Any]]:
        events = list[Any]()
        try:
            for _ in range(count):
                events.append(call(self._driver, "no event", self._driver.cuEventCreate, 0))
            yield events
        finally:
            for event in events:
                self._driver.cuEventDestroy(event)

    def _record(self, event: Any | None) -> None:
        if event is not None:
            call(self._driver, "an event was not recorded", self._driver.cuEventRecord, event, self._stream)

    def _elapsed_ns(self, start: Any, end: Any) -> float:
        return 1e6 * float(call(self._driver, "no time between events", self._driver.cuEventElapsedTime, start, end))

    @property
    def _stream(self) -> Any:
        return self._context.stream.handle


def launch_count(ns: float) -> int:
    """Launches of a point if one takes `ns`: a multiple of the number of times."""
    floor = _MIN_LONG_LAUNCHES if ns > _LONG_NS else _MIN_LAUNCHES
    count = min(_MAX_LAUNCHES, max(floor, round(_TARGET_NS / max(ns, 1.0))))
    return count if count < _MAX_TIMES else count // _MAX_TIMES * _MAX_TIMES


def first_true(count: int, holds: Callable[[int], bool]) -> int:
    """The first number below `count` from which on a condition holds; `count` if it never does. By bisection."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def sweep_blocks(natural: int) -> tuple[int, ...]:
    """Blocks per SM to measure: all up to 8, then geometric ones up to the natural maximum, about 12 in all."""
    rest = np.geomspace(8, natural, 5).round().astype(int).tolist() if natural > 12 else range(9, natural + 1)
    return tuple(sorted({*range(1, min(natural, 8) + 1), *rest}))
