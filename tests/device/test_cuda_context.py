"""When the context waits: for memory that is cleared, and for kernels, up to a limit."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.device.cuda import context as module
from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.memory import ClearingTimer
from gpudissect.device.cuda.waiting import StreamWaiter
from gpudissect.errors import KernelFailed
from tests.support.fake_driver import BlockingDriver


def create_context(**driver):
    context = CudaContext.__new__(CudaContext)
    context.driver = SimpleNamespace(**driver)
    context.stream = SimpleNamespace(handle=3)
    context._clearing, context._timed_out = ClearingTimer(), False
    context._waiter = StreamWaiter(context.driver)
    return context


def test_arguments_of_a_kernel_are_passed_by_their_addresses():
    launches = []

    def start(function, *rest):
        *shape, stream, pointers, extra = rest
        addresses = (ctypes.c_void_p * 3).from_address(pointers)
        values = [ctypes.c_uint64.from_address(address).value for address in addresses]
        launches.append((function, shape, stream, values, extra))
        return (0,)

    context = create_context(cuLaunchKernel=start, CUresult=SimpleNamespace(CUDA_SUCCESS=0))
    context.launch(SimpleNamespace(function=5, name="any"), (7, 2), 96, 1024, 1, np.int64(2), -1)
    assert launches == [(5, [7, 2, 1, 96, 1, 1, 1024], 3, [1, 2, 2**64 - 1], 0)]


def test_no_kernel_starts_while_memory_is_cleared(monkeypatch):
    slept = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    context = create_context(
        cuMemAlloc=lambda size: (0, 4096),
        cuMemFree=lambda address: (0,),
        cuLaunchKernel=lambda *_: (0,),
        cuStreamQuery=lambda stream: (0,),
        CUresult=SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_OUT_OF_MEMORY=2, CUDA_ERROR_NOT_READY=600),
    )
    kernel = SimpleNamespace(function=None, name="any")
    context.launch(kernel, (1, 1), 32, 0)
    assert slept == []
    context.free(context.allocate(9 << 30))
    context.launch(kernel, (1, 1), 32, 0)
    assert len(slept) == 1 and 0.03 < slept[0] < 0.1


def test_no_memory_is_mapped_under_a_kernel():
    """It would invalidate the TLBs."""
    log = []
    context = create_context(
        cuMemAlloc=lambda size: (log.append("map"), (0, 4096))[1],
        cuMemHostAlloc=lambda size, flags: (log.append("map"), (0, 4096))[1],
        cuMemFreeHost=lambda address: log.append("map"),
        cuStreamQuery=lambda stream: (log.append("wait"), (0,))[1],
        CUresult=SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_OUT_OF_MEMORY=2, CUDA_ERROR_NOT_READY=600),
    )
    context.allocate(8)
    context.free_host(context.allocate_host(8))
    assert log == ["wait", "map"] * 3


def test_a_context_is_lost_once_a_stream_timed_out():
    """Even if its own stream has ended: freeing memory would wait for all streams."""
    driver = BlockingDriver()
    context = create_context(**{name: getattr(driver, name) for name in dir(driver) if name.startswith(("cu", "CU"))})
    context.wait(10.0)
    assert not context.is_lost()
    with pytest.raises(KernelFailed, match="within 0 s"):
        context.wait(0.05, 7)
    assert context.is_lost()
    driver.finish.set()


def test_peers_are_the_gpus_whose_memory_can_be_accessed():
    context = create_context(
        cuDeviceGetCount=lambda: (0, 40),
        cuDeviceCanAccessPeer=lambda own, other: (0, int(other in (0, 3, 17)) if own == 1 else 1),
        CUresult=SimpleNamespace(CUDA_SUCCESS=0),
    )
    context.index = 1
    assert context.peers() == (0, 3)
