"""When memory that was given back is clear again: until then the driver writes to it, behind the scenes.

These writes take their share of memory's bandwidth from whatever runs meanwhile. An H200 reads 13 % less of its memory
(3.67 in place of 4.23 words a cycle of an SM) for 8 ms after 2 GiB were given back, 29 ms after 9 GiB, 95 ms after 36
GiB; after 1 GiB more than 4 ms, after half of one less.
"""

from __future__ import annotations

_TO_BEGIN = 4e-3
_EACH_BYTE = 4.5e-3 / (1 << 30)
"""Seconds for what is given back at once, and for each byte of it: about half as long again as an H200 takes."""
_OF_THE_PEAK = 0.5
"""Share of memory's peak bandwidth at which it is cleared, at most: slower memory takes longer."""


class Clearing:
    """What is allocated, and when what was given back is clear.

    `peak` is the peak bandwidth of the memory in B/s, None if nobody states it; times are seconds of one clock.
    """

    def __init__(self, peak: float | None = None) -> None:
        self._each_byte = max(_EACH_BYTE, 1 / (_OF_THE_PEAK * peak) if peak else 0.0)
        self._sizes: dict[int, int] = {}
        self._clear_at = 0.0

    def taken(self, address: int, size: int) -> None:
        """Note that `size` bytes were allocated at `address`."""
        self._sizes[address] = size

    def given_back(self, address: int, now: float) -> None:
        """Note that what was allocated at `address` was freed: it is cleared after all that was freed before."""
        self._clear_at = max(now, self._clear_at) + _TO_BEGIN + self._each_byte * self._sizes.pop(address)

    def left(self, now: float) -> float:
        """Seconds until everything is clear; 0 if it is."""
        return max(0.0, self._clear_at - now)
