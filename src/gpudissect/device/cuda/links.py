"""Memory behind the links of a GPU: page-locked memory of the host, mapped into the GPU's address space.

Loads and stores reach it by the instructions that reach device memory; only the addresses differ.
"""

import os
from dataclasses import dataclass

from gpudissect.device.cuda.memory import Arena, HostAllocator
from gpudissect.units import GIB
from gpudissect.workload import Chase, Path, Stream

MAX_HOST_BYTES = GIB
"""Of page-locked memory that workloads may take: locking a GiB takes some tenths of a second."""
_HOST_SHARE = 0.25  # of the free memory of the host that workloads may lock


def host_limit() -> int:
    """Bytes of the host's memory that workloads may lock: a quarter of what is free, at most `MAX_HOST_BYTES`."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system reports it
        return MAX_HOST_BYTES
    return min(int(_HOST_SHARE * free), MAX_HOST_BYTES)


@dataclass(frozen=True)
class HostMemory:
    """Page-locked memory of the host as an allocator of an `Arena`."""

    host: HostAllocator

    def allocate(self, size: int) -> int:
        """Address of `size` bytes, the same on the host and on the GPU. Raises `DeviceError`."""
        return self.host.allocate_host(size)

    def free(self, address: int) -> None:
        """Free what `allocate` returned."""
        self.host.free_host(address)


class Arenas:
    """The memory of chains and footprints: `near` is that of the GPU; memory behind a link is taken at its first use.

    `host_limit`: bytes of the host's memory that may be locked.
    """

    def __init__(self, near: Arena, host: HostAllocator, host_limit: int) -> None:
        self.near = near
        self._host = Arena(HostMemory(host), host_limit)

    def of(self, workload: Chase | Stream) -> Arena:
        """The memory that a workload accesses."""
        return self._host if workload.path is Path.HOST else self.near

    def release(self) -> None:
        """Free all of it."""
        for arena in (self.near, self._host):
            arena.release()
