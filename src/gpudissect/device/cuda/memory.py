"""Device memory: aligned regions in one growing allocation, buffers of a launch, and memory that the driver clears."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import takewhile
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import OutOfMemory
from gpudissect.units import GIB, MIB, format_bytes

T = TypeVar("T")
MIN_ALIGNMENT = 2 * MIB
"""Regions start at multiples of this: the large page of every GPU since Kepler. So offsets within a region are offsets
within a page, and equal offsets of two chains fall into equal sets of a virtually indexed cache."""
MAX_ALIGNMENT = 32 * MIB
"""Larger regions start at multiples of the power of two that holds them, up to this: then adding the region's address
carries no bit of an offset into another, and an index function gives the same sets but for their numbering. It is also
what an entry of the H200's TLBs translates."""
_GRANULE = 64 * MIB
_FULL_ARENA_SHARE = 15 / 16  # a larger request, relative to the limit, allocates the whole limit
_MIN_HOST_BYTES = 8 * MIB  # enough for most launches; the GPU must be idle while more is locked
_CLEARING_S = 4e-3
_CLEARING_S_PER_BYTE = 4.5e-3 / GIB
"""Seconds to clear what is freed at once, and for each byte of it: about 1.5 times what an H200 takes."""
_CLEARING_BANDWIDTH_SHARE = 0.5  # of the memory's peak bandwidth, at most: slower memory takes longer


class Allocator(Protocol):
    """Plain device memory."""

    def allocate(self, size: int) -> int:
        """Address of `size` bytes. Raises `OutOfMemory`."""

    def free(self, address: int) -> None:
        """Free what `allocate` returned."""


class HostAllocator(Protocol):
    """Page-locked memory of the host, which has the same addresses on the GPU."""

    def allocate_host(self, size: int) -> int:
        """Address of `size` bytes."""

    def free_host(self, address: int) -> None:
        """Free what `allocate_host` returned."""

    def host_bytes(self, address: int, size: int) -> NDArray[np.uint8]:
        """It as an array, not copied."""


class ResultAllocator(Allocator, HostAllocator, Protocol):
    """Both."""


def place(sizes: Iterable[int]) -> tuple[Sequence[int], int]:
    """Offsets of disjoint aligned regions of these sizes (bytes), and the bytes they need in all."""
    return _place(tuple(sizes))


def count_fitting(sizes: Iterable[int], limit: int) -> int:
    """How many of the first of these sizes `place` puts into `limit` bytes."""
    return sum(1 for _ in takewhile(lambda region: region[1] <= limit, _regions(sizes)))


@lru_cache(maxsize=64)  # planning and running a launch ask for the same sizes
def _place(sizes: tuple[int, ...]) -> tuple[Sequence[int], int]:
    regions = [*_regions(sizes)]
    return tuple(start for start, _ in regions), regions[-1][1] if regions else 0


def _regions(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Start and end of the region of each size."""
    end = 0
    for size in sizes:
        alignment = min(max(MIN_ALIGNMENT, 1 << (max(size, 1) - 1).bit_length()), MAX_ALIGNMENT)
        start = -(-end // alignment) * alignment
        end = start + -(-max(size, 1) // MIN_ALIGNMENT) * MIN_ALIGNMENT
        yield start, end


class Arena:
    """Aligned memory that grows on demand and never shrinks. Growing loses its content.

    It takes at most `limit` bytes; the first allocation has at least `minimum` bytes.

    Attributes:
        size: bytes.
        user: who wrote to it last; set by whoever expects to find something there. None once the content is lost.

    """

    def __init__(self, allocator: Allocator, limit: int, minimum: int = 0) -> None:
        self._allocator = allocator
        self._limit, self._minimum = limit, minimum
        self._address = 0
        self.size = 0
        self.user: object = None

    @property
    def base(self) -> int:
        """Address of its start, a multiple of `MAX_ALIGNMENT`."""
        return -(-self._address // MAX_ALIGNMENT) * MAX_ALIGNMENT

    def reserve(self, size: int) -> int:
        """Address of at least `size` bytes. Raises `OutOfMemory`."""
        if size <= self.size:
            return self.base
        if size > self._limit:
            needed, limit = format_bytes(size), format_bytes(self._limit)
            raise OutOfMemory(
                f"the workload needs {needed} of memory, {limit} may be used: ask for a smaller footprint"
            )
        capacity = min(max(-(-size // _GRANULE) * _GRANULE, 2 * self.size, self._minimum), max(self._limit, size))
        if size > _FULL_ARENA_SHARE * self._limit:  # growing again would cost 0.4 s on an H200
            capacity = self._limit
        self.release()
        try:
            self._address = self._allocator.allocate(capacity + MAX_ALIGNMENT)
        except OutOfMemory:  # without room to grow
            capacity = size
            self._address = self._allocator.allocate(capacity + MAX_ALIGNMENT)
        self.size = capacity
        return self.base

    def release(self) -> None:
        """Free the memory."""
        if self._address:
            self._allocator.free(self._address)
        self._address = self.size = 0
        self.user = None


class HostBuffer:
    """Page-locked memory of the host that kernels write to: `_MIN_HOST_BYTES` at first, more on demand."""

    def __init__(self, allocator: HostAllocator) -> None:
        self._allocator = allocator
        self._address = 0
        self._size = 0
        self.reserve(_MIN_HOST_BYTES)

    def reserve(self, size: int) -> int:
        """Address of at least `size` bytes, the same on the host and on the GPU. Growing loses the content."""
        if size > self._size:
            larger = max(size, 2 * self._size)
            self.release()
            self._address = self._allocator.allocate_host(larger)
            self._size = larger
        return self._address

    def content(self, address: int, size: int) -> NDArray[np.uint8]:
        """A view of `size` bytes, for as long as the memory is used for nothing else."""
        return self._allocator.host_bytes(address, size)

    def release(self) -> None:
        """Free the memory."""
        if self._address:
            self._allocator.free_host(self._address)
        self._address = self._size = 0


class Slots(Generic[T]):
    """Memories of the tasks in flight, one for each."""

    def __init__(self, memories: Iterable[T]) -> None:
        self.all = tuple(memories)
        self._free = deque(self.all)

    @contextmanager
    def taken(self) -> Iterator[T]:
        """A memory that stays taken after the block, unless the block raises."""
        memory = self._free.popleft()
        try:
            yield memory
        except BaseException:
            self._free.appendleft(memory)
            raise

    def free(self, memory: T) -> None:
        """Let another task have the memory of one that is finished, or failed."""
        if memory not in self._free:
            self._free.append(memory)

    def free_all(self) -> None:
        """The same of all tasks, once the GPU is idle."""
        self._free = deque(self.all)


class ResultMemory:
    """Memory of work in flight: `device` for reports and results on the GPU, `host` for the results here."""

    def __init__(self, allocator: ResultAllocator, limit: int) -> None:
        self.device, self.host = Arena(allocator, limit), HostBuffer(allocator)

    def release(self) -> None:
        """Free the memory."""
        self.device.release()
        self.host.release()


class ClearingTimer:
    """Estimates when the driver has cleared memory that was freed. Times are seconds of one clock.

    Clearing takes bandwidth from whatever runs meanwhile: an H200 reads 13 % less of its memory (3.67 in place of 4.23
    words a cycle of an SM) for 8 ms after 2 GiB were freed, 29 ms after 9 GiB, 95 ms after 36 GiB; after 1 GiB more
    than 4 ms, after half of one less. `peak` is the memory's peak bandwidth in B/s, None if not known.
    """

    def __init__(self, peak: float | None = None) -> None:
        slowest = 1 / (_CLEARING_BANDWIDTH_SHARE * peak) if peak else 0.0
        self._seconds_per_byte = max(_CLEARING_S_PER_BYTE, slowest)
        self._sizes: dict[int, int] = {}
        self._cleared_at = 0.0

    def allocated(self, address: int, size: int) -> None:
        """Note that `size` bytes were allocated at `address`."""
        self._sizes[address] = size

    def freed(self, address: int, now: float) -> None:
        """Note that the allocation at `address` was freed: it is cleared after all that was freed before."""
        seconds = _CLEARING_S + self._seconds_per_byte * self._sizes.pop(address)
        self._cleared_at = max(now, self._cleared_at) + seconds

    def remaining(self, now: float) -> float:
        """Seconds until everything is cleared; 0 if it is."""
        return max(0.0, self._cleared_at - now)
