"""A driver that starts empty kernels and graphs of them, called from Python and from compiled code."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

from gpudissect.device.cuda.launches import Launcher

OK, BAD = SimpleNamespace(name="SUCCESS"), SimpleNamespace(name="CUDA_ERROR_X")
KERNEL, CAPTURED, READY, OWN = 5, 7, 8, 3  # handles; of a graph as captured and as ready, and of a board's own stream


class Results:
    """Codes of the driver."""

    CUDA_SUCCESS = OK

    def __call__(self, code: int) -> Any:
        return BAD if code else OK


class FakeDriver:
    """Counts what is started in which stream; `fail` is the call that fails."""

    CUresult = Results()
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
    CUkernel = int

    def __init__(self, fail: str = "") -> None:
        self.fail = fail
        self.started: list[int] = []
        self.graphs: list[int] = []
        self.waits: list[int] = []
        self.arguments: list[int] = []
        self.streams: set[int] = set()
        self._natives: list[Any] = []
        for name in ("cuStreamBeginCapture", "cuGraphUpload", "cuGraphExecDestroy", "cuGraphDestroy"):
            setattr(self, name, lambda *_: (OK,))
        self.cuKernelGetFunction = lambda *_: (OK, KERNEL)
        self.cuStreamEndCapture = lambda *_: (OK, CAPTURED)
        self.cuGraphInstantiate = lambda *_: (self._status("graph"), READY)

    def cuStreamCreate(self, flags: int) -> Any:
        self.streams.add(stream := 1000 + len(self.streams))
        return self._status("stream"), stream

    def cuStreamDestroy(self, stream: int) -> Any:
        self.streams.remove(stream)
        return (OK,)

    def cuLaunchKernel(self, function: int, *given: Any) -> Any:
        self.started.append(given[7])
        if given[8]:
            self.arguments.append(given[8][0][0])
        return (self._status("launch"),)

    def cuGraphLaunch(self, graph: int, stream: int) -> Any:
        assert graph == READY
        self.graphs.append(stream)
        return (self._status("graph launch"),)

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> Any:
        """Machine code that calls back."""
        handle, integer = ctypes.c_void_p, ctypes.c_uint
        arguments, call = {
            b"cuLaunchKernel": ((handle, *(integer,) * 7, *(handle,) * 3), self._native_kernel),
            b"cuGraphLaunch": ((handle, handle), lambda graph, stream: self.cuGraphLaunch(graph, stream)[0] is BAD),
            b"cuStreamSynchronize": ((handle,), self._native_wait),
        }[name]
        self._natives.append(ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(call))  # it lives as long as the driver
        return self._status("address"), ctypes.cast(self._natives[-1], handle).value, 0

    def _native_kernel(self, function: int, *given: Any) -> int:
        assert (function, given[:7], given[8:]) == (KERNEL, (1, 1, 1, 32, 1, 1, 0), (None, None))
        return self.cuLaunchKernel(function, *given)[0] is BAD

    def _native_wait(self, stream: int) -> int:
        self.waits.append(stream)
        return self.fail == "wait"

    def _status(self, what: str) -> Any:
        return BAD if self.fail == what else OK


def launcher(driver: FakeDriver) -> Launcher:
    """On a board whose marks are 1500 ns apart."""
    marks = np.array([500, 2000], np.uint64).view(np.uint8)
    board = SimpleNamespace(
        driver=driver, stream=SimpleNamespace(handle=OWN), wait=lambda seconds, stream=None: None,
        allocate=lambda size: 64, free=lambda address: None, download=lambda address, size: marks,
        wait_until_clear=lambda: None,
    )  # fmt: skip
    handle = SimpleNamespace(handle=SimpleNamespace(handle=11))
    return Launcher(board, lambda *_: handle, name="fake")  # type: ignore[arg-type, return-value]
