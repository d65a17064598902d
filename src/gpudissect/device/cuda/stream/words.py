"""The words that streams find and leave, as ``kernels/words.cuh`` makes them, and what they come to.

A word tells where it stands and, by its salt, which run it belongs to: what is left of an earlier run is noticed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LOW = 0xFFFFFFFF
STEP = 0x9E3779B9
"""From one word to the next (2^32 over the golden ratio: no two of 2^32 words are equal)."""
_SALT = 0x85EBCA6B


def salt(run: int) -> int:
    """The first word of run number `run`."""
    return (run + 1) * _SALT & LOW


def sum_of_range(first: int, count: int, salted: int) -> int:
    """What `count` words from number `first` on come to (not yet modulo 2^32)."""
    return count * salted + STEP * (count * first + count * (count - 1) // 2)


def sums_of_tiles(words: int, tiles: int, blocks: int, salted: int) -> NDArray[np.uint64]:
    """What the tiles of each block come to, modulo 2^32: block b has tiles b, b + `blocks`, ... of `words` words each.

    Gives an array (blocks,).
    """
    block = np.arange(blocks)
    own = np.where(block < tiles, (tiles - block - 1) // blocks + 1, 0)
    numbers = (own * block + blocks * (own * (own - 1) // 2)).astype(np.uint64)  # of its tiles, summed up
    each, step = sum_of_range(0, words, salted) & LOW, STEP * words * words & LOW
    found: NDArray[np.uint64] = own.astype(np.uint64) * np.uint64(each) + np.uint64(step) * (numbers & np.uint64(LOW))
    return found & np.uint64(LOW)
