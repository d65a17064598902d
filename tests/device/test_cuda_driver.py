"""Without a driver, a GPU or the CUDA packages: one line that says what to do."""

import sys
from types import SimpleNamespace

import pytest

from gpudissect.device.cuda.driver import list_gpus, start_driver
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.errors import DeviceError


def has_driver():
    try:
        start_driver()
    except DeviceError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="this machine has a GPU")
@pytest.mark.parametrize("attempt", [list_gpus, lambda: CudaGpu.open(0)], ids=["list", "open"])
def test_no_driver(attempt):
    pytest.importorskip("cuda.core")
    with pytest.raises(DeviceError, match=r"no NVIDIA driver.*sim:gtx980") as caught:
        attempt()
    assert "\n" not in str(caught.value) and caught.value.exit_code == 3


def test_no_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(DeviceError, match=r"pip install '.\[cuda13\]'"):
        start_driver()


def bindings(status=0, version=13000):
    """``cuda.bindings.driver`` of a machine whose driver returns this status and version."""
    return SimpleNamespace(
        CUDA_VERSION=13000,
        CUresult=SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_NO_DEVICE=100),
        cuInit=lambda flags: (status,),
        cuDriverGetVersion=lambda: (0, version),
        cuGetErrorName=lambda status: (0, b"CUDA_ERROR_SYSTEM"),
        cuGetErrorString=lambda status: (0, b"system not ready"),
    )


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        (bindings(status=100), "finds no GPU"),
        (bindings(status=802), r"system not ready \(CUDA_ERROR_SYSTEM\)"),
        (bindings(version=12040), r"CUDA 12\.4, .* 13\.0: .*cuda12"),
    ],
)
def test_a_driver_that_cannot_be_used(monkeypatch, driver, message):
    package = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    monkeypatch.setattr(package, "driver", driver, raising=False)
    with pytest.raises(DeviceError, match=message):
        start_driver()
