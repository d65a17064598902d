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

    def function(self, cubin: bytes, name: bytes, shared: int = 0) -> Any:
        """Load a cubin as a new module; return a kernel with up to `shared` bytes of dynamic shared memory."""
        function = call(driver.cuModuleGetFunction, call(driver.cuModuleLoadData, cubin), name)
        if shared:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call(driver.cuFuncSetAttribute, function, attribute, shared)
        return function

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
        values, kinds = zip(*arguments, strict=True)
        blocks, threads = shape
        call(driver.cuLaunchKernel, function, blocks, 1, 1, threads, 1, 1, shared, 0, (values, kinds), 0)


def main(measure: Callable[[int], dict[str, NDArray[Any]]]) -> None:
    """The command line of a probe, ``FILE [SEED]``: write what it measures with the seed to the file."""
    path, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    recorded_map.save(Path(path), measure(seed))
