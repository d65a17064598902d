"""One big piece of device memory in which the chases of a launch get regions of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gpudissect.errors import OutOfMemory
from gpudissect.units import MIB, format_bytes

ALIGNMENT = 2 * MIB
"""Regions start at multiples of this: the large page of every GPU since Kepler, so offsets within a region tell
offsets within a page, and equal offsets of two chases fall into equal sets of a virtually indexed cache."""
WIDEST = 32 * MIB
"""Regions larger than `ALIGNMENT` start at multiples of the power of two that holds them, up to this: then no bit of
an offset carries into another when the region's address is added, and what an index function makes of an offset is the
same everywhere but for the numbering of its sets. It is also what an entry of the H200's TLBs translates."""
_GRAIN = 64 * MIB


class Allocator(Protocol):
    """Plain device memory."""

    def allocate(self, size: int) -> int:
        """Address of `size` bytes. Raises `OutOfMemory`."""

    def free(self, address: int) -> None:
        """Give back what `allocate` gave."""


def place(spans: Iterable[int]) -> tuple[list[int], int]:
    """Offsets of disjoint aligned regions of these sizes (bytes), and the bytes they need in all."""
    offsets: list[int] = []
    end = 0
    for span in spans:
        own = min(max(ALIGNMENT, 1 << (max(span, 1) - 1).bit_length()), WIDEST)
        start = -(-end // own) * own
        offsets.append(start)
        end = start + -(-max(span, 1) // ALIGNMENT) * ALIGNMENT
    return offsets, end


class Arena:
    """Aligned device memory that grows when asked for more and never shrinks. What it held is lost when it grows."""

    def __init__(self, allocator: Allocator, limit: int) -> None:
        self._allocator = allocator
        self._limit = limit
        self._address = 0
        self.size = 0

    @property
    def base(self) -> int:
        """Address of its start, a multiple of `WIDEST`."""
        return -(-self._address // WIDEST) * WIDEST

    def reserve(self, size: int) -> int:
        """Make sure of at least `size` bytes and give the address of the first. Raises `OutOfMemory`."""
        if size <= self.size:
            return self.base
        if size > self._limit:
            raise OutOfMemory(f"the workload needs {format_bytes(size)} of device memory, "
                              f"{format_bytes(self._limit)} may be used: ask for a smaller footprint")  # fmt: skip
        wanted = min(max(-(-size // _GRAIN) * _GRAIN, 2 * self.size), max(self._limit, size))
        self.release()
        try:
            self._address = self._allocator.allocate(wanted + WIDEST)
        except OutOfMemory:  # room to grow was a wish
            wanted = size
            self._address = self._allocator.allocate(wanted + WIDEST)
        self.size = wanted
        return self.base

    def release(self) -> None:
        """Give the memory back."""
        if self._address:
            self._allocator.free(self._address)
        self._address = self.size = 0
