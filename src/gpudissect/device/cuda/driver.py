"""The thin layer over the CUDA driver: cuda.core where it suffices, cuda.bindings for what it lacks.

cuda.core has no plain (unpooled) allocations, no setter for a kernel's carve-out or large shared memory, no address
of a constant symbol and no texture objects over plain memory; those go through ``cuda.bindings.driver``.
Everything raises `DeviceError` or a subclass, in one line.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.clearing import Clearing
from gpudissect.device.cuda.start import check, start_driver
from gpudissect.errors import DeviceError, KernelFailed, OutOfMemory
from gpudissect.units import format_bytes


class Board:
    """One GPU, its primary context made current in this thread, and one stream."""

    def __init__(self, index: int) -> None:
        self.driver = start_driver()
        from cuda.core import Device

        count = self.driver.cuDeviceGetCount()[1]
        if not 0 <= index < count:
            raise DeviceError(f"no CUDA GPU {index}: this machine has {count}, numbered from 0")
        self.index = index
        self.device = Device(index)
        try:
            self.device.set_current()
            self.stream = self.device.create_stream()
        except Exception as error:  # cuda.core's own error is not exported
            raise DeviceError(f"CUDA GPU {index} cannot be used: {error}") from error
        self.properties = self.device.properties
        self._textures: list[Any] = []
        self._stuck = False
        lines, clock = int(self.properties.global_memory_bus_width), int(self.properties.memory_clock_rate)
        self._clearing = Clearing(2 * 1000 * clock * lines / 8)  # two transfers a clock of so many kHz

    def activate(self) -> None:
        """Make its context the current one: another board of this process may have been used meanwhile."""
        self.device.set_current()

    # ---- memory ------------------------------------------------------------------------------------------------
    def free_memory(self) -> tuple[int, int]:
        """Free and total bytes of device memory."""
        status, free, total = self.driver.cuMemGetInfo()
        check(self.driver, status, "device memory cannot be queried")
        return int(free), int(total)

    def l2_fetch_limit(self) -> int | None:
        """Bytes that one miss may bring into the L2, a setting of the context; None where there is no such setting."""
        limit = self.driver.CUlimit.CU_LIMIT_MAX_L2_FETCH_GRANULARITY
        status, value = self.driver.cuCtxGetLimit(limit)
        return int(value) if status == self.driver.CUresult.CUDA_SUCCESS and value else None

    def allocate(self, size: int) -> int:
        """Address of `size` bytes of device memory. Raises `OutOfMemory`."""
        status, address = self.driver.cuMemAlloc(size)
        if status == self.driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise OutOfMemory(f"the GPU has no {format_bytes(size)} of memory left: ask for a smaller footprint")
        check(self.driver, status, f"{format_bytes(size)} of device memory could not be had")
        self._clearing.taken(int(address), size)
        return int(address)

    def free(self, address: int) -> None:
        """Give back what `allocate` gave. `launch` waits until it must be clear."""
        self.driver.cuMemFree(address)
        self._clearing.given_back(address, time.perf_counter())

    def upload(self, address: int, data: NDArray[Any]) -> None:
        """Queue a copy to the device; `data` must stay as it is until the next `wait`."""
        (status,) = self.driver.cuMemcpyHtoDAsync(address, data.ctypes.data, data.nbytes, self._stream)
        check(self.driver, status, "a copy to the GPU failed", KernelFailed)

    def clear(self, address: int, size: int) -> None:
        """Queue zeros into device memory: far faster than to bring them there."""
        (status,) = self.driver.cuMemsetD8Async(address, 0, size, self._stream)
        check(self.driver, status, "memory of the GPU could not be cleared", KernelFailed)

    def copy(self, target: int, source: int, size: int) -> None:
        """Queue a copy within the device."""
        (status,) = self.driver.cuMemcpyDtoDAsync(target, source, size, self._stream)
        check(self.driver, status, "a copy on the GPU failed", KernelFailed)

    def download(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy from the device, after everything queued before."""
        data = np.empty(size, np.uint8)
        (status,) = self.driver.cuMemcpyDtoHAsync(data.ctypes.data, address, size, self._stream)
        check(self.driver, status, "a copy from the GPU failed", KernelFailed)
        self.wait(10.0)
        return data

    def texture(self, address: int, size: int) -> int:
        """A texture object over `size` bytes of 32-bit texels. It lives until `close`."""
        driver = self.driver
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        resource.res.linear.devPtr = address
        resource.res.linear.format = driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32
        resource.res.linear.numChannels = 1
        resource.res.linear.sizeInBytes = size
        sampling = driver.CUDA_TEXTURE_DESC()
        sampling.flags = 1  # CU_TRSF_READ_AS_INTEGER
        status, texture = driver.cuTexObjectCreate(resource, sampling, None)
        check(driver, status, "a texture over device memory could not be made")
        self._textures.append(texture)
        return int(texture)

    # ---- kernels -----------------------------------------------------------------------------------------------
    def load(self, cubin: bytes) -> Module:
        """Load machine code."""
        return Module(self, cubin)

    def launch(
        self, kernel: Kernel, grid: tuple[int, int], block: int, shared: int, *arguments: int, cluster: int = 1
    ) -> None:
        """Queue a kernel; every argument is 8 bytes. `grid` counts blocks, also where `cluster` of them go together.

        Raises `KernelFailed`.
        """
        from cuda.core import launch

        self.wait_until_clear()
        try:
            config = _configuration(grid, block, shared, cluster)
            launch(self.stream, config, kernel.handle, *arguments)
        except Exception as error:
            raise KernelFailed(f"kernel {kernel.name} did not launch: {error}") from error

    def wait_until_clear(self) -> None:
        """Wait until the driver must have cleared what was given back, which slows down what runs meanwhile."""
        if (left := self._clearing.left(time.perf_counter())) > 0:
            time.sleep(left)

    def clusters_at_once(self, kernel: Kernel, size: int, block: int, shared: int) -> int:
        """How many clusters of `size` blocks of this kernel run at once; 0 if none does."""
        try:
            config = _configuration((size, 1), block, shared, size)
            return int(kernel.handle.occupancy.max_active_clusters(config, stream=self.stream))
        except Exception:  # how cuda.core says that a cluster of this size cannot be
            return 0

    def blocks_at_once(self, kernel: Kernel, block: int, shared: int) -> int:
        """How many blocks of this kernel an SM runs at once; 0 if none."""
        try:
            return int(kernel.handle.occupancy.max_active_blocks_per_multiprocessor(block, shared))
        except Exception:  # as for clusters
            return 0

    def wait(self, seconds: float, stream: Any = None) -> None:
        """Wait for everything queued, in its own stream if none is given.

        Raises `KernelFailed` when it fails or takes longer than `seconds`.
        """
        running = self.driver.CUresult.CUDA_ERROR_NOT_READY
        begin = time.perf_counter()
        while True:
            (status,) = self.driver.cuStreamQuery(self._stream if stream is None else stream)
            if status != running:
                check(self.driver, status, "a kernel failed", KernelFailed)
                return
            waited = time.perf_counter() - begin
            if waited > seconds:
                self._stuck = True
                raise KernelFailed(f"a kernel did not finish within {seconds:.0f} s; the GPU may need a new process")
            if waited > 2e-3:
                time.sleep(min(waited / 20, 0.05))

    def lost(self) -> bool:
        """Is the context unusable: a kernel crashed in it, or still runs?"""
        (status,) = self.driver.cuStreamQuery(self._stream)
        return self._stuck or bool(status != self.driver.CUresult.CUDA_SUCCESS)

    def close(self) -> None:
        """Give back textures and the stream; the memory is its owner's."""
        for texture in self._textures:
            self.driver.cuTexObjectDestroy(texture)
        self._textures.clear()
        self.stream.close()

    @property
    def _stream(self) -> Any:
        return self.stream.handle


def _configuration(grid: tuple[int, int], block: int, shared: int, cluster: int) -> Any:
    """How to launch `grid` blocks of `block` threads. (With clusters, cuda.core counts a grid in these.)"""
    from cuda.core import LaunchConfig

    if cluster == 1:
        return LaunchConfig(grid=grid, block=block, shmem_size=shared)
    return LaunchConfig(grid=(grid[0] // cluster, grid[1]), cluster=cluster, block=block, shmem_size=shared)


class Module:
    """Machine code loaded on a board."""

    def __init__(self, board: Board, cubin: bytes) -> None:
        from cuda.core import ObjectCode

        self._board = board
        try:
            self._code = ObjectCode.from_cubin(cubin)
        except Exception as error:
            raise KernelFailed(f"machine code did not load: {error}") from error

    def kernel(self, name: str) -> Kernel:
        """A kernel by its name."""
        try:
            return Kernel(self._board, name, self._code.get_kernel(name))
        except Exception as error:
            raise KernelFailed(f"kernel {name} did not load: {error}") from error

    def symbol(self, name: str) -> int:
        """Address of a global or constant variable."""
        driver = self._board.driver
        library = driver.CUlibrary(int(self._code.handle))
        status, address, _ = driver.cuLibraryGetGlobal(library, name.encode())
        check(driver, status, f"no variable {name} in the machine code", KernelFailed)
        return int(address)


class Kernel:
    """A kernel and how it is set up. Setting what is already set costs nothing."""

    def __init__(self, board: Board, name: str, handle: Any) -> None:
        self.name = name
        self.handle = handle
        self._board = board
        self._set: dict[Any, int] = {}

    def configure(self, *, shared: int, carveout: int) -> int:
        """Allow `shared` bytes of dynamic shared memory and prefer `carveout` percent of it per SM.

        Returns the percentage that the driver then says is preferred: a wish still, but the one it will go by.
        """
        names = self._board.driver.CUfunction_attribute
        self._attribute(names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        self._attribute(names.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, carveout)
        return self._read_back(names.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)

    def allow_any_cluster(self) -> None:
        """Allow clusters of more than 8 blocks, which not every GPU that has clusters takes (CUDA: non-portable)."""
        names = self._board.driver.CUfunction_attribute
        self._attribute(names.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)

    def _read_back(self, attribute: Any) -> int:
        driver = self._board.driver
        kernel = driver.CUkernel(int(self.handle.handle))
        status, value = driver.cuKernelGetAttribute(attribute, kernel, self._board.index)
        check(driver, status, f"kernel {self.name} does not tell {attribute.name}", KernelFailed)
        return int(value)

    def _attribute(self, attribute: Any, value: int) -> None:
        if self._set.get(attribute) == value:
            return
        driver = self._board.driver
        kernel = driver.CUkernel(int(self.handle.handle))
        (status,) = driver.cuKernelSetAttribute(attribute, value, kernel, self._board.index)
        check(driver, status, f"kernel {self.name} did not take {attribute.name} = {value}", KernelFailed)
        self._set[attribute] = value
