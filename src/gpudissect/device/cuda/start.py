"""The NVIDIA driver, started, and what it says where something went wrong."""

from __future__ import annotations

from typing import Any

from gpudissect.errors import DeviceError

_NO_DRIVER = "no NVIDIA driver (libcuda was not found): install it, or use a simulated GPU such as sim:gtx980"
_NO_PACKAGE = "the CUDA packages are missing: pip install 'gpudissect[cuda13]' (or [cuda12] for drivers before R580)"


def start_driver() -> Any:
    """Initialise the driver and give ``cuda.bindings.driver``.

    Raises `DeviceError` when the packages, the driver or a GPU are missing, or the driver is too old for them.
    """
    try:
        import cuda.core  # noqa: F401  (`Board` uses it; missing together or not at all)
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceError(_NO_PACKAGE) from error
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:  # DynamicLibNotFoundError
        raise DeviceError(_NO_DRIVER) from error
    if status == driver.CUresult.CUDA_ERROR_NO_DEVICE:
        raise DeviceError("the NVIDIA driver finds no GPU: is it visible here (CUDA_VISIBLE_DEVICES, container flags)?")
    check(driver, status, "the NVIDIA driver did not start")
    _, version = driver.cuDriverGetVersion()
    if version // 1000 < driver.CUDA_VERSION // 1000:
        raise DeviceError(
            f"the NVIDIA driver is for CUDA {_dotted(version)}, the CUDA packages for {_dotted(driver.CUDA_VERSION)}: "
            "update the driver, or pip install 'gpudissect[cuda12]'"
        )
    return driver


def driver_version(driver: Any) -> str:
    """The CUDA version of the driver, such as ``13.0``."""
    return _dotted(driver.cuDriverGetVersion()[1])


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def check(driver: Any, status: Any, what: str, error: type[DeviceError] = DeviceError) -> None:
    """Raise `error`, in one line, unless the driver's status is success."""
    if status != driver.CUresult.CUDA_SUCCESS:
        _, name = driver.cuGetErrorName(status)
        _, text = driver.cuGetErrorString(status)
        raise error(f"{what}: {text.decode()} ({name.decode()})")
