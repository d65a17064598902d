"""One big piece of device memory in which the chases of a launch get regions of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gpudissect.errors import OutOfMemory
from gpudissect.units import MIB, format_bytes

ALIGNMENT = 2 * MIB
"""Regions start at multiples of this: the large page of every GPU since Kepler, so offsets within a region tell
offsets within a page, and equal offsets of two chases fall into equal sets of a virtually indexed cache."""
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
        offsets.append(end)
        end += -(-max(span, 1) // ALIGNMENT) * ALIGNMENT
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
        """Address of its start, a multiple of `ALIGNMENT`."""
        return -(-self._address // ALIGNMENT) * ALIGNMENT

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
            self._address = self._allocator.allocate(wanted + ALIGNMENT)
        except OutOfMemory:  # room to grow was a wish
            wanted = size
            self._address = self._allocator.allocate(wanted + ALIGNMENT)
        self.size = wanted
        return self.base

    def release(self) -> None:
        """Give the memory back."""
        if self._address:
            self._allocator.free(self._address)
        self._address = self.size = 0
