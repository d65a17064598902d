"""Where the L2 of an H200 holds lines, and records of copies, as functions of the address; see `docs/l2.md`.

`l2_map.py` and `l2_policy.py` compare them with recorded runs.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

LINE, WAYS, SLICES, SETS = 128, 16, 47, 320  # slices of a partition, sets of a slice
HOME_BITS = (12, 13, 15, 17, 19, 21, 22, 24, 26, 27, 28, 29, 31, 34, 35, 36)
"""Bits of the physical address whose XOR is the partition in which a line has its home."""
CHANNEL = (
    (11, 13, 16, 19, 20, 21, 22, 23, 26, 29, 30, 31, 33, 35, 36, 37),
    (14, 16, 17, 18, 19, 22, 25, 27, 30, 31, 32, 33, 36),
    (10, 13, 15, 16, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 32, 34, 35, 36, 37),
    (8, 12, 16, 18, 20, 22, 24, 26, 30, 33, 35, 37),
    (10, 13, 16, 17, 18, 19, 21, 22, 23, 24, 26, 27, 28, 29, 30, 31, 32, 34),
    (11, 14, 17, 18, 21, 25, 28, 32, 33, 35, 36, 37),
)
"""Bits of the physical address whose XORs are the low bits of a number; address bits from 17 on are its upper bits."""
FIFTH = ((0, 2, 3, 4, 5, 6, 8, 10, 11, 13, 15, 17), (1, 5, 8, 9, 13, 14, 17))
"""Bits of an eighth of the quotient whose XORs are the low two bits of a number; its upper bits are unchanged."""
SET = (
    (7, (5, 7, 8, 10, 11, 13, 14, 15, 17, 20)),
    (9, (0, 1, 2, 5, 6, 7, 9, 11, 14, 17, 20)),
    (16, (1, 5, 6, 10, 14)),
    (None, (0, 7, 8, 10, 11, 12, 14, 15, 16)),
    (None, (0, 1, 2, 5, 7, 10, 13, 14, 15, 18)),
    (None, (2, 5, 6, 13, 14, 19)),
)
"""Bits of the number of a set: the XOR of a bit of the address, if any, and bits of the quotient."""
PAIRED_SLICES = 40  # slices below it hold copies of the slice with the other low bit, the others of their own number
NEAR, HOME, MEMORY = 0, 1, 2  # where a load found its line
WAY_BYTES = (60 << 20) // WAYS  # of the size that the driver states
RECORD_SETS = 512  # of a slice
RECORD_INDEX = (
    (0, 9, 10, 15, 16, 18, 19, 20),
    (1, 9, 13, 15, 16, 17, 18, 19, 20),
    (2, 11, 12, 13, 14, 20),
    (3, 11, 13, 14, 18),
    (4, 9, 11, 13, 17, 20),
    (5, 9, 10, 13, 16, 18, 19, 20),
    (6, 10, 13, 15, 18, 20),
    (7, 10, 11, 12, 13, 17, 18, 19, 20),
    (8, 9, 10, 11, 17),
)
"""Bits of the quotient whose XORs are the bits of the number of a set of records; see `RECORD_BIT_16`."""
RECORD_BIT_16 = (0, 1, 3, 4, 5, 6, 7, 8)
"""Bits of that number which bit 16 of the address inverts."""
RECORD_LINES = 0b101  # lines whose numbers differ in these bits only share a record


def parity(values: Numbers, bits: tuple[int, ...]) -> Numbers:
    """XOR of bits of each value."""
    return np.bitwise_count(values & sum(1 << bit for bit in bits)) & 1  # type: ignore[no-any-return]


def place(lines: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Home, slice in the home's partition and set of each line of physical memory."""
    address = lines * LINE
    quotient, number = np.divmod(numbers_of(lines), SLICES)
    eighth = quotient >> 3
    fifth = (eighth >> 2 << 2) | parity(eighth, FIFTH[0]) | parity(eighth, FIFTH[1]).astype(np.int64) << 1
    sets = fifth % 5 << len(SET)
    for bit, (own, others) in enumerate(SET):
        own_bit = 0 if own is None else address >> own & 1
        sets |= (parity(quotient, others) ^ own_bit).astype(np.int64) << bit
    return parity(address, HOME_BITS), number, sets


def numbers_of(lines: Numbers) -> Numbers:
    """The numbers whose remainders are the slices of lines, and whose quotients select their sets."""
    address = lines * LINE
    low = sum(parity(address, bits).astype(np.int64) << place for place, bits in enumerate(CHANNEL))
    return (address >> 17 << len(CHANNEL)) | low


def near_sets(lines: Numbers, near: int) -> tuple[Flags, Numbers, Numbers]:
    """Which lines are far from SMs of a partition, their sets there, and in the partition of their home."""
    home, number, sets = place(lines)
    far = home != near
    there = np.where(far & (number < PAIRED_SLICES), number ^ 1, number)
    return far, there * SETS + sets, number * SETS + sets


def records_of(lines: Numbers) -> Numbers:
    """The set of records of each line of physical memory; sets of different slices have different numbers."""
    quotient, number = np.divmod(numbers_of(lines), SLICES)
    index = sum(parity(quotient, bits).astype(np.int64) << place for place, bits in enumerate(RECORD_INDEX))
    index ^= (lines * LINE >> 16 & 1) * sum(1 << bit for bit in RECORD_BIT_16)
    return (place(lines)[0] * SLICES + number) * RECORD_SETS + index
