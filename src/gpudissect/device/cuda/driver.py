"""The NVIDIA driver: starting it, its version, and the GPUs that it lists."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpudissect.device.cuda.compile import choose_arch, supported_archs
from gpudissect.errors import DeviceError, KernelFailed

SIMULATED_HINT = ", or use a simulated GPU such as sim:gtx980"
_NO_DRIVER = f"no NVIDIA driver (libcuda was not found): install it{SIMULATED_HINT}"
_NO_PACKAGE = "the CUDA packages are missing: pip install '.[cuda13]' (or [cuda12] for drivers before R580)"
_NO_GPU = "the NVIDIA driver finds no GPU: is it visible here (CUDA_VISIBLE_DEVICES, container flags)?"


def start_driver() -> Any:
    """Initialize the driver and return ``cuda.bindings.driver``. Raises `DeviceError`, also for a driver too old."""
    try:
        import cuda.core  # noqa: F401  (`CudaContext` uses it; missing together or not at all)
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceError(_NO_PACKAGE) from error
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:  # DynamicLibNotFoundError
        raise DeviceError(_NO_DRIVER) from error
    if status == driver.CUresult.CUDA_ERROR_NO_DEVICE:
        raise DeviceError(_NO_GPU)
    check(driver, status, "the NVIDIA driver did not start")
    _, version = driver.cuDriverGetVersion()
    if version // 1000 < driver.CUDA_VERSION // 1000:
        supported, needed = dotted_version(version), dotted_version(driver.CUDA_VERSION)
        raise DeviceError(
            f"the NVIDIA driver is for CUDA {supported}, the CUDA packages for {needed}: "
            "update the driver, or pip install '.[cuda12]'"
        )
    return driver


def dotted_version(version: int) -> str:
    """A CUDA version as people write it: ``13.0`` for 13000."""
    return f"{version // 1000}.{version % 1000 // 10}"


def check(driver: Any, status: Any, what: str, error: type[DeviceError] = DeviceError) -> None:
    """Raise `error`, in one line, unless the driver's status is success."""
    if status != driver.CUresult.CUDA_SUCCESS:
        _, name = driver.cuGetErrorName(status)
        _, text = driver.cuGetErrorString(status)
        raise error(f"{what}: {text.decode()} ({name.decode()})")


def call(driver: Any, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the driver; what it returns besides the status. Raises `KernelFailed`, which begins with `what`."""
    status, *results = function(*arguments)
    check(driver, status, what, KernelFailed)
    return results[0] if results else None


@dataclass(frozen=True)
class GpuLimits:
    """A GPU, and the bytes of shared memory that a block may have."""

    name: str
    capability: tuple[int, int]
    shared_bytes: int


def gpu_limits(index: int) -> GpuLimits:
    """The limits of a GPU, without a context. Raises `DeviceError` as `start_driver`, or if there is no such GPU."""
    count = start_driver().cuDeviceGetCount()[1]
    if not 0 <= index < count:
        raise DeviceError(f"no CUDA GPU {index}: this machine has {count}, numbered from 0")
    from cuda.core import Device

    device = Device(index)
    properties = device.properties
    return GpuLimits(
        device.name,
        (int(properties.compute_capability_major), int(properties.compute_capability_minor)),
        int(properties.max_shared_memory_per_block_optin or properties.max_shared_memory_per_block),
    )


def uuid_of(device: Any) -> str:
    """UUID of a `cuda.core.Device`, as nvidia-smi prints it."""
    return f"GPU-{str(device.uuid).removeprefix('GPU-')}"


def uuid_at(index: int) -> str:
    """The same of the GPU with this index."""
    from cuda.core import Device

    return uuid_of(Device(index))


def list_gpus() -> list[tuple[int, str, str | None]]:
    """Index and name of every CUDA GPU, and why it cannot be used (None if it can). Raises as `start_driver`."""
    driver = start_driver()
    from cuda.core import Device

    gpus: list[tuple[int, str, str | None]] = []
    for index in range(driver.cuDeviceGetCount()[1]):
        device = Device(index)
        properties = device.properties
        reason: str | None = None
        try:
            choose_arch(properties.compute_capability_major, properties.compute_capability_minor, supported_archs())
        except DeviceError as error:
            reason = str(error)
        if properties.compute_mode == driver.CUcomputemode.CU_COMPUTEMODE_PROHIBITED:
            reason = "its compute mode is 'prohibited': ask the administrator"
        gpus.append((index, device.name, reason))
    return gpus
