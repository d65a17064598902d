"""Line size from how many lines a cache holds, for any policy, index function, unequal sets or sectoring.

Elements scattered so thinly that no two share a line take one line each: the number of them that stays
resident is the number of lines n (`occupancy`). A dense footprint of sqrt(2) n L bytes, visited once every L
bytes, overflows a cache whose line is L, and fits one whose line is 2 L or more. So L is found by doubling.
"""

from __future__ import annotations

OVERFLOW_SHARE = 0.12  # misses of a footprint sqrt(2) times too large; cyclic random replacement gives 0.5


def dense_test_size(lines: float, line: int) -> int:
    """Bytes of the footprint that overflows if the line is `line` and fits if it is at least twice that."""
    return max(1, round(lines * 2**0.5)) * line


def overflows(hits: int, misses: int) -> bool:
    """Whether so many hits and misses are those of a footprint well too large."""
    return misses > OVERFLOW_SHARE * (hits + misses)
