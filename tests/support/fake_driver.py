"""A driver that starts empty kernels and graphs of them, called from Python and from compiled code."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

from gpudissect.device.cuda.launch.launches import Launcher
from gpudissect.errors import KernelFailed

OK, BAD = SimpleNamespace(name="SUCCESS"), SimpleNamespace(name="CUDA_ERROR_X")
KERNEL, CAPTURED, READY, OWN = 5, 7, 8, 3  # handles; of a graph as captured and as ready, and of a board's own stream
FIRST = 1000  # stream


class Results:
    """Codes of the driver; 1 is one of them."""

    CUDA_SUCCESS = OK

    def __call__(self, code: int) -> Any:
        if code != 1:
            raise ValueError(code)
        return BAD


class FakeDriver:
    """Keeps a log of what is called, as (what, in which stream). `fail` is a call that fails from the n-th time on."""

    CUresult = Results()
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
    CUkernel = int

    def __init__(self, fail: str = "", times: int = 1, code: int = 1) -> None:
        self.log: list[tuple[str, int]] = []
        self.arguments: list[tuple[int, ...]] = []
        self.streams: set[int] = set()
        self.graphs = 0  # alive, captured and ready ones
        self.memory = 0  # blocks that are allocated
        self._fail, self._left, self._code = fail, times, code
        self.interrupts = False  # in place of failing
        self._natives: list[Any] = []

    def of(self, what: str) -> list[int]:
        """The streams of what was called, in order."""
        return [stream for name, stream in self.log if name == what]

    def _note(self, what: str, stream: int = OWN) -> Any:
        self.log.append((what, stream))
        if what == self._fail:
            self._left -= 1
            if self._left <= 0 and self.interrupts:
                raise KeyboardInterrupt
            return OK if self._left > 0 else BAD
        return OK

    # ---- called from Python ------------------------------------------------------------------------------------
    def cuKernelGetFunction(self, kernel: int) -> Any:
        return OK, KERNEL

    def cuStreamCreate(self, flags: int) -> Any:
        assert flags == 1, "one that does not wait for the default stream"
        if self._note("create") is BAD:
            return BAD, None
        self.streams.add(stream := FIRST + len(self.streams))
        return OK, stream

    def cuStreamDestroy(self, stream: int) -> Any:
        self.streams.remove(stream)
        return (OK,)

    def cuStreamBeginCapture(self, stream: int, mode: int) -> Any:
        return (self._note("capture", stream),)

    def cuStreamEndCapture(self, stream: int) -> Any:
        status = self._note("captured", stream)
        self.graphs += status is OK
        return status, CAPTURED if status is OK else None

    def cuGraphInstantiate(self, graph: int, flags: int) -> Any:
        status = self._note("graph")
        self.graphs += status is OK
        return status, READY

    def cuGraphUpload(self, graph: int, stream: int) -> Any:
        return (self._note("upload", stream),)

    def cuGraphExecDestroy(self, graph: int) -> Any:
        assert graph == READY
        self.graphs -= 1
        return (OK,)

    def cuGraphDestroy(self, graph: int) -> Any:
        assert graph == CAPTURED
        self.graphs -= 1
        return (OK,)

    def cuLaunchKernel(self, function: int, *given: Any) -> Any:
        assert (function, given[:7]) == (KERNEL, (1, 1, 1, 32, 1, 1, 0))
        if given[8]:
            self.arguments.append(given[8][0])
        return (self._note("launch", given[7]),)

    def cuGraphLaunch(self, graph: int, stream: int) -> Any:
        assert graph == READY
        return (self._note("graph launch", stream),)

    # ---- called from compiled code -----------------------------------------------------------------------------
    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> Any:
        """Machine code that calls back."""
        handle, integer = ctypes.c_void_p, ctypes.c_uint
        arguments, call = {
            b"cuLaunchKernel": ((handle, *(integer,) * 7, *(handle,) * 3), self.cuLaunchKernel),
            b"cuGraphLaunch": ((handle, handle), self.cuGraphLaunch),
            b"cuStreamSynchronize": ((handle,), lambda stream: (self._note("sync", stream),)),
        }[name]

        def back(*given: Any) -> int:
            return self._code if call(*given)[0] is BAD else 0

        self._natives.append(ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(back))  # it lives as long as the driver
        return self._note("address"), ctypes.cast(self._natives[-1], handle).value, 0


class FakeLaunchBoard:
    """A board whose marks are 1500 ns apart; where it `hangs`, nothing ends but in its own stream."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.stream = SimpleNamespace(handle=OWN)
        self.hangs = False

    def allocate(self, size: int) -> int:
        self.driver.memory += 1
        return 64

    def free(self, address: int) -> None:
        self.driver.memory -= 1

    def download(self, address: int, size: int) -> Any:
        self.driver.log.append(("download", OWN))
        return np.array([500, 2000], np.uint64).view(np.uint8)

    def wait(self, seconds: float, stream: int = OWN) -> None:
        self.driver.log.append(("wait", stream))
        if self.hangs and stream != OWN:
            raise KernelFailed("a kernel did not finish")

    def lost(self) -> bool:
        return self.hangs

    def wait_until_clear(self) -> None:
        pass


def launcher(driver: FakeDriver) -> Launcher:
    """On a fake board, with kernels that are all the same one."""
    kernel = SimpleNamespace(handle=SimpleNamespace(handle=11))
    return Launcher(FakeLaunchBoard(driver), lambda *_: kernel, name="fake")  # type: ignore[arg-type, return-value]
