"""`CudaContext`: one GPU through the CUDA driver, by cuda.core where it suffices and cuda.bindings where it does not.

cuda.core has no plain (unpooled) allocations, no setter for a kernel's carve-out or large shared memory, no address
of a constant symbol and no texture objects over plain memory; those go through ``cuda.bindings.driver``.
Everything raises `DeviceError` or a subclass, in one line.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.compile import Compiler, choose_arch, supported_archs
from gpudissect.device.cuda.driver import check, start_driver
from gpudissect.device.cuda.memory import Arena, ClearingTimer
from gpudissect.device.cuda.waiting import EVENT_FLAGS, StreamWaiter
from gpudissect.errors import DeviceError, KernelFailed, OutOfMemory
from gpudissect.units import MIB, format_bytes
from gpudissect.workload.chase import MAX_PEERS

_COPY_TIMEOUT_S, _QUEUED_TIMEOUT_S = 10.0, 60.0
_READ_AS_INTEGER = 1  # CU_TRSF_READ_AS_INTEGER
_MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP
_SWEEP_L2_SIZES = 4
_SWEEP_BLOCKS, _SWEEP_THREADS = 1024, 256


class CudaContext:
    """The primary context of one GPU, current in this thread, with one stream and the kernels that were loaded."""

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
        self.compiler = Compiler(choose_arch(*self.capability, supported_archs()))
        self._modules: dict[tuple[str, ...], Any] = {}
        self._kernels: dict[tuple[str, ...], Kernel] = {}
        self._symbols: dict[tuple[str, ...], int] = {}
        self._textures: list[Any] = []
        self._timed_out = False
        self._waiter = StreamWaiter(self.driver)
        bus_bits, clock_khz = int(self.properties.global_memory_bus_width), int(self.properties.memory_clock_rate)
        self._clearing = ClearingTimer(2 * 1000 * clock_khz * bus_bits / 8)  # two transfers a clock

    def activate(self) -> None:
        """Make this context current: the thread may have used another one meanwhile."""
        self.device.set_current()

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability, major and minor."""
        return int(self.properties.compute_capability_major), int(self.properties.compute_capability_minor)

    @property
    def max_shared_bytes(self) -> int:
        """Bytes of shared memory that one block may have."""
        return int(self.properties.max_shared_memory_per_block_optin or self.properties.max_shared_memory_per_block)

    def peers(self) -> tuple[int, ...]:
        """Numbers of the other GPUs whose memory this one can access, up to `MAX_PEERS`."""
        others = set(range(min(int(self.driver.cuDeviceGetCount()[1]), MAX_PEERS))) - {self.index}
        can_access = (self.driver.CUresult.CUDA_SUCCESS, 1)
        return tuple(n for n in sorted(others) if self.driver.cuDeviceCanAccessPeer(self.index, n) == can_access)

    def address_of(self, number: int) -> str:
        """PCI address of another GPU."""
        return str(type(self.device)(number).pci_bus_id)

    def atomic_peers(self, peers: Sequence[int]) -> tuple[int, ...]:
        """Those of these GPUs over whose link atomics are single operations, rather than a read and a write."""
        driver = self.driver
        native = driver.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
        supported = (driver.CUresult.CUDA_SUCCESS, 1)
        return tuple(n for n in peers if driver.cuDeviceGetP2PAttribute(native, self.index, n) == supported)

    def free_memory(self) -> tuple[int, int]:
        """Free and total bytes of device memory."""
        status, free, total = self.driver.cuMemGetInfo()
        self.check(status, "device memory cannot be queried")
        return int(free), int(total)

    def l2_fetch_limit(self) -> int | None:
        """Bytes that one miss may bring into the L2, a setting of the context; None where there is no such setting."""
        status, value = self.driver.cuCtxGetLimit(self.driver.CUlimit.CU_LIMIT_MAX_L2_FETCH_GRANULARITY)
        return int(value) if status == self.driver.CUresult.CUDA_SUCCESS and value else None

    def allocate(self, size: int) -> int:
        """Address of `size` bytes of device memory. Raises `OutOfMemory`."""
        self._finish_queued()
        status, address = self.driver.cuMemAlloc(size)
        if status == self.driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise OutOfMemory(f"the GPU has no {format_bytes(size)} of memory left: ask for a smaller footprint")
        self.check(status, f"{format_bytes(size)} of device memory could not be allocated")
        self._clearing.allocated(int(address), size)
        return int(address)

    def free(self, address: int) -> None:
        """Free what `allocate` returned. `launch` waits until the driver has cleared it."""
        self._finish_queued()
        self.driver.cuMemFree(address)
        self._clearing.freed(address, time.perf_counter())

    def allocate_host(self, size: int) -> int:
        """Address of `size` bytes of page-locked memory of the host, the same on the GPU. Raises `OutOfMemory`."""
        self._finish_queued()
        status, address = self.driver.cuMemHostAlloc(size, _MAPPED)
        if status == self.driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise OutOfMemory(f"{format_bytes(size)} of the host's memory cannot be locked: ask for less")
        self.check(status, f"{format_bytes(size)} of page-locked memory could not be allocated")
        return int(address)

    def free_host(self, address: int) -> None:
        """Free what `allocate_host` returned."""
        self._finish_queued()
        self.driver.cuMemFreeHost(address)

    def host_bytes(self, address: int, size: int) -> NDArray[np.uint8]:
        """Memory of the host as an array, not copied."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

    def upload(self, address: int, data: NDArray[Any]) -> None:
        """Queue a copy to the device; `data` must stay as it is until the next `wait`."""
        self._queue("a copy to the GPU", self.driver.cuMemcpyHtoDAsync, address, data.ctypes.data, data.nbytes)

    def fill_zeros(self, address: int, size: int) -> None:
        """Queue zeros into device memory."""
        self._queue("clearing GPU memory", self.driver.cuMemsetD8Async, address, 0, size)

    def copy(self, target: int, source: int, size: int) -> None:
        """Queue a copy within the device."""
        self._queue("a copy on the GPU", self.driver.cuMemcpyDtoDAsync, target, source, size)

    def download(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy from the device, after everything queued before."""
        data = np.empty(size, np.uint8)
        self.copy_to_host(data.ctypes.data, address, size)
        self.wait(_COPY_TIMEOUT_S)
        return data

    def copy_to_host(self, target: int, source: int, size: int) -> None:
        """Queue a copy into memory of the host; only into page-locked memory it does not wait."""
        self._queue("a copy from the GPU", self.driver.cuMemcpyDtoHAsync, target, source, size)

    def _queue(self, what: str, call: Callable[..., Any], *arguments: int) -> None:
        (status,) = call(*arguments, self._stream)
        self.check(status, f"{what} failed", KernelFailed)

    def create_texture(self, address: int, size: int, width: int = 4) -> int:
        """A texture object over `size` bytes in texels of `width` bytes. It lives until `close`."""
        self._finish_queued()
        driver = self.driver
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        resource.res.linear.devPtr = address
        bits = 8 * min(width, 4)
        resource.res.linear.format = getattr(driver.CUarray_format, f"CU_AD_FORMAT_UNSIGNED_INT{bits}")
        resource.res.linear.numChannels = max(1, width // 4)
        resource.res.linear.sizeInBytes = size
        sampling = driver.CUDA_TEXTURE_DESC()
        sampling.flags = _READ_AS_INTEGER
        status, texture = driver.cuTexObjectCreate(resource, sampling, None)
        self.check(status, "a texture over device memory could not be created")
        self._textures.append(texture)
        return int(texture)

    def kernel(self, source: str, name: str, *macros: str) -> Kernel:
        """A kernel of ``kernels/<source>`` compiled with these macros. Raises `KernelFailed`."""
        key = (source, name, *macros)
        if key not in self._kernels:
            module = self.load(source, *macros)
            try:
                self._kernels[key] = Kernel(self, name, module.get_kernel(name))
            except Exception as error:
                raise KernelFailed(f"kernel {name} did not load: {error}") from error
        return self._kernels[key]

    def symbol(self, name: str, source: str, *macros: str) -> int:
        """Address of a global or constant variable of ``kernels/<source>`` compiled with these macros."""
        key = (name, source, *macros)
        if key not in self._symbols:
            library = self.driver.CUlibrary(int(self.load(source, *macros).handle))
            self._finish_queued()
            status, address, _ = self.driver.cuLibraryGetGlobal(library, name.encode())
            self.check(status, f"no variable {name} in the machine code", KernelFailed)
            self._symbols[key] = int(address)
        return self._symbols[key]

    def load(self, *code: str) -> Any:
        """Compile, if needed, and load ``kernels/<source>`` with these macros. Raises `KernelFailed`."""
        from cuda.core import ObjectCode

        if code not in self._modules:
            cubin = self.compiler.cubin(*code)
            self._finish_queued()
            try:
                self._modules[code] = module = ObjectCode.from_cubin(cubin)
                library = self.driver.CUlibrary(int(module.handle))
            except Exception as error:
                raise KernelFailed(f"machine code did not load: {error}") from error
            # Load now: with lazy loading, the driver would wait until the first launch.
            status, _ = self.driver.cuLibraryGetModule(library)
            self.check(status, "machine code did not load", KernelFailed)
        return self._modules[code]

    def launch(
        self, kernel: Kernel, grid: tuple[int, int], block: int, shared: int, *arguments: int, cluster: int = 1
    ) -> None:
        """Queue a kernel; every argument is 8 bytes. `grid` counts blocks, also in clusters of `cluster` blocks."""
        self.wait_until_cleared()
        if cluster > 1:
            self._launch_clusters(kernel, _configuration(grid, block, shared, cluster), *arguments)
            return
        count = len(arguments)  # cuda.core checks and converts more
        values = (ctypes.c_uint64 * count)(*arguments)
        start = ctypes.addressof(values)
        pointers = (ctypes.c_void_p * count)(*range(start, start + ctypes.sizeof(values), 8))
        shape = (*grid, 1, block, 1, 1, shared)
        (status,) = self.driver.cuLaunchKernel(kernel.function, *shape, self._stream, ctypes.addressof(pointers), 0)
        self.check(status, f"kernel {kernel.name} did not launch", KernelFailed)

    def _launch_clusters(self, kernel: Kernel, configuration: Any, *arguments: int) -> None:
        from cuda.core import launch

        try:
            launch(self.stream, configuration, kernel.handle, *arguments)
        except Exception as error:
            raise KernelFailed(f"kernel {kernel.name} did not launch: {error}") from error

    def wait_until_cleared(self) -> None:
        """Wait until the driver has cleared freed memory, which slows down whatever runs meanwhile."""
        if (remaining := self._clearing.remaining(time.perf_counter())) > 0:
            time.sleep(remaining)

    def max_active_clusters(self, kernel: Kernel, size: int, block: int, shared: int) -> int:
        """Clusters of `size` blocks of this kernel that run at once; 0 if none does."""
        try:
            config = _configuration((size, 1), block, shared, size)
            return int(kernel.handle.occupancy.max_active_clusters(config, stream=self.stream))
        except Exception:  # how cuda.core reports a cluster size that is not possible
            return 0

    def max_active_blocks(self, kernel: Kernel, block: int, shared: int) -> int:
        """Blocks of this kernel that an SM runs at once; 0 if none."""
        try:
            return int(kernel.handle.occupancy.max_active_blocks_per_multiprocessor(block, shared))
        except Exception:  # as for clusters
            return 0

    def wait(self, seconds: float, stream: Any = None) -> None:
        """Wait for a stream, the context's own by default. Raises `KernelFailed`, also after so many `seconds`."""
        self._conclude(self._waiter.wait(self._stream if stream is None else stream, seconds), seconds)

    def _conclude(self, status: Any, seconds: float) -> None:
        if status is None:
            self._timed_out = True
            raise KernelFailed(f"a kernel did not finish within {seconds:.0f} s; the GPU may need a new process")
        self.check(status, "a kernel failed", KernelFailed)

    def _finish_queued(self) -> None:
        """Wait for what is queued: what maps memory may invalidate the TLBs, under a chase that runs meanwhile."""
        self.wait(_QUEUED_TIMEOUT_S)

    def mark(self) -> Any:
        """An event behind all that was queued, for `wait_for`."""
        status, event = self.driver.cuEventCreate(EVENT_FLAGS)
        self.check(status, "no event could be created", KernelFailed)
        (status,) = self.driver.cuEventRecord(event, self._stream)
        self.check(status, "an event could not be queued", KernelFailed)
        return event

    def wait_for(self, event: Any, seconds: float) -> None:
        """Wait for what was queued before an event of `mark`, which it destroys. Raises as `wait` does."""
        self._conclude(self._waiter.wait_for(event, seconds), seconds)
        self.driver.cuEventDestroy(event)

    @property
    def has_timed_out(self) -> bool:
        """Whether a kernel did not finish within its time."""
        return self._timed_out

    def is_lost(self) -> bool:
        """Whether the context is unusable: a kernel crashed in it, or still runs."""
        (status,) = self.driver.cuStreamQuery(self._stream)
        return self._timed_out or bool(status != self.driver.CUresult.CUDA_SUCCESS)

    def check(self, status: Any, what: str, error: type[DeviceError] = DeviceError) -> None:
        """Raise `error` unless the driver's status is success."""
        check(self.driver, status, what, error)

    def close(self) -> None:
        """Destroy textures and the stream; memory belongs to its owner."""
        for texture in self._textures:
            self.driver.cuTexObjectDestroy(texture)
        self._textures.clear()
        self._waiter.close()
        self.stream.close()

    @property
    def _stream(self) -> Any:
        return self.stream.handle


@cache
def _configuration(grid: tuple[int, int], block: int, shared: int, cluster: int) -> Any:
    """Launch configuration of `grid` blocks of `block` threads in clusters, in which cuda.core counts a grid."""
    from cuda.core import LaunchConfig

    return LaunchConfig(grid=(grid[0] // cluster, grid[1]), cluster=cluster, block=block, shmem_size=shared)


class Kernel:
    """A kernel and its attributes. Setting an attribute to the value it has costs nothing."""

    def __init__(self, context: CudaContext, name: str, handle: Any) -> None:
        self.name = name
        self.handle = handle
        self._context = context
        self._attributes: dict[Any, int] = {}
        self._driver_handle = context.driver.CUkernel(int(handle.handle))
        status, self.function = context.driver.cuKernelGetFunction(self._driver_handle)  # loads its code
        context.check(status, "its code could not be loaded", KernelFailed)
        self._configured, self._preferred = (-1, -1), -1  # bytes and percent; what the driver prefers

    def configure(self, *, shared: int, carveout: int) -> int:
        """Allow `shared` bytes of dynamic shared memory and prefer `carveout` percent; what the driver then prefers."""
        if self._configured == (shared, carveout):
            return self._preferred
        names = self._context.driver.CUfunction_attribute
        self._set(names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        preferred = names.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        self._set(preferred, carveout)
        status, value = self._context.driver.cuKernelGetAttribute(preferred, self._driver_handle, self._context.index)
        self._context.check(status, f"kernel {self.name} does not report {preferred.name}", KernelFailed)
        self._configured, self._preferred = (shared, carveout), int(value)
        return self._preferred

    def allow_any_cluster(self) -> None:
        """Allow clusters of more than 8 blocks, which not every GPU that has clusters takes (CUDA: non-portable)."""
        self._set(self._context.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)

    def _set(self, attribute: Any, value: int) -> None:
        if self._attributes.get(attribute) == value:
            return
        (status,) = self._context.driver.cuKernelSetAttribute(
            attribute, value, self._driver_handle, self._context.index
        )
        self._context.check(status, f"kernel {self.name} did not take {attribute.name} = {value}", KernelFailed)
        self._attributes[attribute] = value


class LaunchBuffers:
    """Device memory that launches of every kind use in turn: parameters and results, and a sweep over the L2."""

    def __init__(self, context: CudaContext) -> None:
        total = context.free_memory()[1]
        self._context = context
        self._arena = Arena(context, total)
        self._sweep = Arena(context, total)
        self._words = _SWEEP_L2_SIZES * max(int(context.properties.l2_cache_size), MIB) // 16

    def reserve(self, size: int) -> int:
        """Address of `size` bytes for parameters and results of one launch. Raises `OutOfMemory`."""
        return self._arena.reserve(size)

    def sweep_l2(self) -> None:
        """Queue writes over several times the L2, so that nothing else is left in it."""
        self._launch_sweep("sweep")

    def read_back_sweep(self) -> None:
        """Queue reads of what `sweep_l2` wrote, so that nothing in the L2 is yet to be written to memory."""
        self._launch_sweep("read_back", self._sweep.base + 16 * self._words)

    def release(self) -> None:
        """Free the memory."""
        self._arena.release()
        self._sweep.release()

    def _launch_sweep(self, name: str, *arguments: int) -> None:
        buffer = self._sweep.reserve(16 * (self._words + 1))
        kernel = self._context.kernel("chains.cu", name)
        self._context.launch(kernel, (_SWEEP_BLOCKS, 1), _SWEEP_THREADS, 0, buffer, self._words, *arguments)
