"""The context that is created while modules are imported, with a driver that logs its calls."""

import pytest

from gpudissect.device.cuda import early_context


class Driver:
    def __init__(self, gpus):
        self.gpus, self.log = gpus, []

    def cuInit(self, flags):
        self.log.append("init")
        return 0 if self.gpus else 100

    def cuDeviceGet(self, device, index):
        self.log.append(f"device {index}")
        return 0 if index < self.gpus else 101

    def cuDevicePrimaryCtxRetain(self, context, device):
        self.log.append("context")
        return 0


@pytest.mark.parametrize(
    ("gpus", "calls"), [(2, ["init", "device 1", "context"]), (1, ["init", "device 1"]), (0, ["init"])]
)
def test_the_context_of_a_gpu_that_is_there_is_created(gpus, calls, monkeypatch):
    driver = Driver(gpus)
    monkeypatch.setattr(early_context.ctypes, "CDLL", lambda name: driver)
    early_context.start(1).join()
    assert driver.log == calls


def test_without_a_driver_nothing_happens(monkeypatch):
    monkeypatch.setattr(early_context, "_LIBRARY", "libmissing.so.1")
    early_context.start(0).join()


def test_without_threads_nothing_happens(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(early_context.Thread, "start", refuse)
    assert not early_context.start(0).is_alive()
