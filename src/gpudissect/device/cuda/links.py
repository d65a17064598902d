"""Memory behind the links of a GPU: page-locked memory of the host, and memory of other GPUs.

Both are mapped into the GPU's address space: loads and stores reach them by the instructions that reach device memory;
only the addresses differ.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.driver import check
from gpudissect.device.cuda.memory import Arena
from gpudissect.errors import OutOfMemory, UnsupportedWorkload
from gpudissect.units import GIB, KIB, MIB, format_bytes
from gpudissect.workload import Chase, EngineCopy, Path, Stream

MAX_HOST_BYTES = GIB
"""Of page-locked memory that workloads may take: locking a GiB takes some tenths of a second."""
_MIN_HOST_BYTES = 512 * MIB  # what a survey needs: growing later takes as long as the first allocation
MAX_PEER_BYTES = GIB
"""Of memory of each other GPU that workloads may take."""
_HOST_SHARE = 0.25  # of the available memory of the host that workloads may lock
_MEMORY_INFO, _CONTROL_GROUP = FilePath("/proc/meminfo"), FilePath("/sys/fs/cgroup")
_PCI_DEVICES = FilePath("/sys/bus/pci/devices")
_QUEUED_TIMEOUT_S = 60.0


def host_limit() -> int:
    """Bytes of the host's memory that workloads may lock: a quarter of what is available, at most `MAX_HOST_BYTES`."""
    available = [room for room in (_available_bytes(), _control_group_bytes()) if room is not None]
    return min(int(_HOST_SHARE * min(available, default=0)), MAX_HOST_BYTES)


def _available_bytes() -> int | None:
    """Memory that the host could give without swapping; None if it does not report it."""
    with suppress(OSError, ValueError, IndexError):
        (line,) = (line for line in _MEMORY_INFO.read_text().splitlines() if line.startswith("MemAvailable:"))
        return int(line.split()[1]) * KIB
    return None


def _control_group_bytes() -> int | None:
    """Memory that the limit of this process' control group leaves; None without a limit."""
    with suppress(OSError, ValueError):  # "max" is no limit
        limit, used = (int((_CONTROL_GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        return max(0, limit - used)
    return None


def numa_node(pci_address: str) -> dict[str, int]:
    """The fact ``numa_node``, the NUMA node of the host that is nearest to a GPU; none where the system knows none."""
    with suppress(OSError, ValueError):
        node = int((_PCI_DEVICES / pci_address.lower() / "numa_node").read_text())
        if node >= 0:
            return {"numa_node": node}
    return {}


@dataclass(frozen=True)
class HostMemory:
    """Page-locked memory of the host as an allocator of an `Arena`."""

    host: CudaContext

    def allocate(self, size: int) -> int:
        """Address of `size` bytes, the same on the host and on the GPU. Raises `DeviceError`."""
        return self.host.allocate_host(size)

    def free(self, address: int) -> None:
        """Free what `allocate` returned."""
        self.host.free_host(address)


class PeerMemory:
    """Memory of the GPU `number` as an allocator of an `Arena`; the GPU's primary context is held while it has any."""

    def __init__(self, context: CudaContext, number: int) -> None:
        self._context, self._driver, self._number = context, context.driver, number
        self._primary: Any = None

    def allocate(self, size: int) -> int:
        """Address of `size` bytes, which the GPU of the context accesses. Raises `DeviceError`."""
        name = f"GPU {self._number}"
        self._retain(name)
        with self._current(name):
            status, address = self._driver.cuMemAlloc(size)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            self._let_go()
        if status == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise OutOfMemory(f"{name} has no {format_bytes(size)} of memory left: ask for a smaller footprint")
        self._check(status, f"memory of {name} could not be allocated")
        return int(address)

    def free(self, address: int) -> None:
        """Free what `allocate` returned."""
        self._context.wait(_QUEUED_TIMEOUT_S)
        with self._current(f"GPU {self._number}"):
            self._driver.cuMemFree(address)
        self._let_go()

    def _retain(self, name: str) -> None:
        """Hold the primary context and make its memory accessible."""
        self._context.wait(_QUEUED_TIMEOUT_S)
        status, self._primary = self._driver.cuDevicePrimaryCtxRetain(self._number)
        self._check(status, f"{name} cannot be used")
        (status,) = self._driver.cuCtxEnablePeerAccess(self._primary, 0)
        if status != self._driver.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
            if status != self._driver.CUresult.CUDA_SUCCESS:
                self._let_go()
            self._check(status, f"memory of {name} cannot be accessed")

    def _let_go(self) -> None:
        self._driver.cuDevicePrimaryCtxRelease(self._number)
        self._primary = None

    @contextmanager
    def _current(self, name: str) -> Iterator[None]:
        """Its primary context is current meanwhile."""
        (status,) = self._driver.cuCtxPushCurrent(self._primary)
        self._check(status, f"{name} cannot be used")
        try:
            yield
        finally:
            self._driver.cuCtxPopCurrent()

    def _check(self, status: Any, what: str) -> None:
        check(self._driver, status, what)


class Arenas:
    """The memory of chains and footprints: `near` is that of the GPU; memory behind a link is taken at its first use.

    `host_limit`: bytes of the host's memory that may be locked; `peers`: numbers of GPUs whose memory may be taken.
    """

    def __init__(self, near: Arena, context: CudaContext, host_limit: int, peers: tuple[int, ...] = ()) -> None:
        self.near, self.peers = near, peers
        self._host = Arena(HostMemory(context), host_limit, _MIN_HOST_BYTES)
        self._of_peers = {number: Arena(PeerMemory(context, number), MAX_PEER_BYTES) for number in peers}

    def of(self, workload: Chase | Stream | EngineCopy) -> Arena:
        """The memory that a workload accesses. Raises `KeyError` for a GPU that is not among `peers`."""
        if workload.path.leads_to_peer:
            return self._of_peers[workload.peer]
        return self._host if workload.path is Path.HOST else self.near

    def check(self, workload: Stream | EngineCopy) -> None:
        """Raise `UnsupportedWorkload` for memory of a GPU that is not among `peers`."""
        if workload.path is Path.PEER and workload.peer not in self.peers:
            raise UnsupportedWorkload(f"this GPU does not access memory of GPU {workload.peer}, but of {self.peers}")

    def release(self) -> None:
        """Free all of it."""
        for arena in (self.near, self._host, *self._of_peers.values()):
            arena.release()
