"""What the probes written in Python share: GPU 0, used through the driver."""

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import recorded_map
from cuda.bindings import driver
from cuda.core import Device, Linker, LinkerOptions, Program, ProgramOptions
from numpy.typing import NDArray

U32, U64 = ctypes.c_uint32, ctypes.c_uint64


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the driver; what it returns besides the status. Raises `RuntimeError`."""
    status, *results = function(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{function.__name__}: {status.name}")
    return results[0] if results else None


class Gpu:
    """GPU 0. Memory is never freed: a probe is a process of its own.

    Attributes:
        sms: number of SMs.

    """

    def __init__(self) -> None:
        self._device = Device(0)
        self._device.set_current()
        self.sms = self._device.properties.multiprocessor_count

    def compile(self, source: Path, macro: str = "") -> bytes:
        """The machine code of a CUDA C++ source; `macro`: ``NAME`` or ``NAME VALUE``."""
        name, _, value = macro.partition(" ")
        arch = f"sm_{self._device.arch}"
        options = ProgramOptions(
            arch=arch,
            std="c++17",
            relocatable_device_code=True,
            define_macro=((name, value) if value else name) if macro else None,
        )
        compiled = Program(source.read_text(), "c++", options).compile("cubin")
        return bytes(Linker(compiled, options=LinkerOptions(arch=arch)).link("cubin").code)

    def function(self, cubin: bytes, name: bytes, shared: int = 0, carveout: int = -1) -> Any:
        """Load a cubin as a new module; return a kernel.

        It may have `shared` bytes of dynamic shared memory, and prefers a carve-out in percent (-1: the driver's).
        """
        function = call(driver.cuModuleGetFunction, call(driver.cuModuleLoadData, cubin), name)
        attributes = driver.CUfunction_attribute
        if shared:
            call(
                driver.cuFuncSetAttribute, function, attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared
            )
        preferred = attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        call(driver.cuFuncSetAttribute, function, preferred, carveout)
        return function

    def texture(self, address: int, size: int) -> int:
        """A texture object over `size` bytes in texels of 4 bytes."""
        resource, sampling = driver.CUDA_RESOURCE_DESC(), driver.CUDA_TEXTURE_DESC()
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        resource.res.linear.devPtr, resource.res.linear.sizeInBytes = address, size
        resource.res.linear.format = driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32
        resource.res.linear.numChannels = 1
        sampling.flags = 1  # CU_TRSF_READ_AS_INTEGER
        return int(call(driver.cuTexObjectCreate, resource, sampling, None))

    def allocate(self, size: int) -> int:
        """Allocate so many bytes; their address."""
        return int(call(driver.cuMemAlloc, size))

    def upload(self, address: int, values: NDArray[Any]) -> None:
        """Copy an array to the GPU."""
        values = np.ascontiguousarray(values)
        call(driver.cuMemcpyHtoD, address, values.ctypes.data, values.nbytes)

    def download(self, address: int, count: int, kind: type) -> NDArray[Any]:
        """So many values from an address, after all kernels."""
        values: NDArray[Any] = np.empty(count, kind)
        call(driver.cuMemcpyDtoH, values.ctypes.data, address, values.nbytes)
        return values

    def launch(self, function: Any, shape: tuple[int, int], shared: int, *arguments: tuple[int, type]) -> None:
        """Start a kernel; `shape`: blocks and threads of each; `arguments`: value and type of each."""
        blocks, threads = shape
        parameters = tuple(zip(*arguments, strict=True)) or 0
        call(driver.cuLaunchKernel, function, blocks, 1, 1, threads, 1, 1, shared, 0, parameters, 0)

    def time(self, function: Any, shape: tuple[int, int], shared: int, *arguments: tuple[int, type]) -> float:
        """Milliseconds that a kernel takes; see `launch`."""
        begin, end = (call(driver.cuEventCreate, 0) for _ in range(2))
        call(driver.cuEventRecord, begin, 0)
        self.launch(function, shape, shared, *arguments)
        call(driver.cuEventRecord, end, 0)
        call(driver.cuEventSynchronize, end)
        return float(call(driver.cuEventElapsedTime, begin, end))


def main(measure: Callable[[int], dict[str, NDArray[Any]]]) -> None:
    """The command line of a probe, ``FILE [SEED]``: write what it measures with the seed to the file."""
    path, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    recorded_map.save(Path(path), measure(seed))
