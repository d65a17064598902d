"""When the context waits: for memory that is cleared, and for kernels, up to a limit."""

from types import SimpleNamespace

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


def test_no_kernel_starts_while_memory_is_cleared(monkeypatch):
    core, slept = pytest.importorskip("cuda.core"), []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    monkeypatch.setattr(core, "launch", lambda *_: None)
    context = create_context(
        cuMemAlloc=lambda size: (0, 4096),
        cuMemFree=lambda address: (0,),
        CUresult=SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_OUT_OF_MEMORY=2),
    )
    kernel = SimpleNamespace(handle=None, name="any")
    context.launch(kernel, (1, 1), 32, 0)
    assert slept == []
    context.free(context.allocate(9 << 30))
    context.launch(kernel, (1, 1), 32, 0)
    assert len(slept) == 1 and 0.03 < slept[0] < 0.1


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
