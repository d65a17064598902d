"""Where the L2 of an H200 holds lines, and how it replaces and copies them, as executable models; see `docs/l2.md`.

`l2_map.py` and `l2_policy.py` compare them with recorded runs.
"""

from dataclasses import dataclass
from enum import IntEnum

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
MAX_DIRTY = 7  # lines of a set
QUOTA, LEAST_QUOTA = 3, 1  # protected lines of a set if no memory was ever set aside, and if none is
ALL_SECTORS = 0b1111  # bit mask
WAY_BYTES = (60 << 20) // WAYS  # of the size that the driver states
RECORDS = 7  # of a set
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


class Operation(IntEnum):
    """As in `l2_policy.cu`. Each is on four bytes at the start of a line, unless the name says otherwise.

    `DISCARD` and `PREFETCH` are of the whole line.
    """

    LOAD = 0
    LOAD_FIRST = 1
    LOAD_LAST = 2
    LOAD_UNCHANGED = 3
    LOAD_OTHER_SECTOR = 4
    STORE_SECTOR = 5
    STORE_WORD = 6
    REDUCTION = 7
    ATOMIC = 8
    DISCARD = 9
    PREFETCH = 10


class Priority(IntEnum):
    """Of lines of a set: those with the least one are evicted first."""

    FIRST = 0
    NORMAL = 1
    LAST = 2


ATOMICS = {Operation.REDUCTION, Operation.ATOMIC}
HINTS = {Operation.LOAD_FIRST: Priority.FIRST, Operation.LOAD_LAST: Priority.LAST}


@dataclass
class Line:
    """A line in a set."""

    priority: Priority = Priority.NORMAL
    dirty: bool = False
    sectors: int = 0  # bit mask of those that are present


class Set:
    """A set of one partition: its lines, the least recently used first.

    At most `quota` lines are protected by evict-last, and at most `max_dirty` are dirty; one more, and the least
    recently used of them no longer is. A dirty line that becomes the least recently used of its set is written back,
    too. If the next operation misses, it evicts no line that is being written back.
    """

    def __init__(self, quota: int = QUOTA, max_dirty: int = MAX_DIRTY) -> None:
        self.lines: dict[int, Line] = {}
        self._quota, self._max_dirty = quota, max_dirty
        self._written_back: list[int] = []  # since the last operation

    def access(
        self, number: int, priority: Priority = Priority.NORMAL, writes: bool = False, sector: int | None = 0
    ) -> bool:
        """Access a sector and make it present; return whether it hit.

        Without `sector`, a far SM writes: no sector becomes present, and it hits if the line is there.
        """
        hit = number in self.lines
        line = self.lines.pop(number, None) or Line()
        if len(self.lines) == WAYS:
            self._evict()
        if sector is not None:
            hit = bool(line.sectors >> sector & 1)
            line.sectors |= 1 << sector
        if line.priority is not Priority.LAST:
            line.priority = priority
        line.dirty |= writes
        self.lines[number] = line
        protected = [each for each in self.lines.values() if each.priority is Priority.LAST]
        if len(protected) > self._quota:
            protected[0].priority = Priority.NORMAL
        self._write_back()
        return hit

    def prefetch(self, number: int) -> None:
        """Make all sectors of a line present. A line that has them stays where it is in the order of recency."""
        if number not in self.lines or self.lines[number].sectors != ALL_SECTORS:
            self.access(number)
            self.lines[number].sectors = ALL_SECTORS

    def drop(self, number: int) -> None:
        """Invalidate a line, if it is present."""
        self.lines.pop(number, None)
        self._write_back()

    def _write_back(self) -> None:
        oldest = next(iter(self.lines), None)
        dirty = [number for number, line in self.lines.items() if line.dirty]
        self._written_back = dirty[: len(dirty) > self._max_dirty or oldest in dirty]
        for number in self._written_back:
            self.lines[number].dirty = False

    def _evict(self) -> None:
        victims = sorted(self.lines, key=lambda number: self.lines[number].priority)
        busy = self._written_back
        clean = (number for number in victims if not self.lines[number].dirty and number not in busy)
        del self.lines[next(clean, victims[0])]


class Partitions:
    """One set of the partition near to an SM, and that of the home of lines which are far from it."""

    def __init__(self, quota: int = QUOTA, max_dirty: int = MAX_DIRTY) -> None:
        self._near, self._home = Set(quota, max_dirty), Set(quota, max_dirty)

    def operate(self, operation: Operation, line: int, far: bool) -> int:
        """Where the operation finds a line; meaningless for stores, discards and prefetches. Not for `STORE_WORD`."""
        hint = HINTS.get(operation, Priority.NORMAL)
        writes = operation >= Operation.STORE_SECTOR
        sector = int(operation is Operation.LOAD_OTHER_SECTOR)
        if operation is Operation.DISCARD:
            self._near.drop(line)
            self._home.drop(line)
            return MEMORY
        if operation is Operation.PREFETCH:
            (self._home if far else self._near).prefetch(line)
            return NEAR
        if not far:
            return NEAR if self._near.access(line, hint, writes, sector) else MEMORY
        if operation in ATOMICS:
            self._near.drop(line)
        else:
            copy_hint = Priority.NORMAL if hint is Priority.LAST else hint
            if self._near.access(line, copy_hint, False, sector) and not writes:
                return NEAR
        return HOME if self._home.access(line, hint, writes, None if writes else sector) else MEMORY


def records_of(lines: Numbers) -> Numbers:
    """The set of records of each line of physical memory; sets of different slices have different numbers."""
    quotient, number = np.divmod(numbers_of(lines), SLICES)
    index = sum(parity(quotient, bits).astype(np.int64) << place for place, bits in enumerate(RECORD_INDEX))
    index ^= (lines * LINE >> 16 & 1) * sum(1 << bit for bit in RECORD_BIT_16)
    return (place(lines)[0] * SLICES + number) * RECORD_SETS + index


class Records:
    """One set of records: whose copies it holds, the one for which a load came last from the other side at the end.

    When the set is full, a load evicts the oldest record, or the oldest two if it needs a new one, and so does a notice
    that the last copy of a record was evicted. If the record of the load or notice is the oldest, none is evicted.
    """

    lost_to_new = 2

    def __init__(self) -> None:
        self.held: list[int] = []

    def load(self, record: int) -> list[int]:
        """Make or renew a record; which ones are lost."""
        lost = self._make_room(record)
        if record in self.held:
            self.held.remove(record)
        self.held.append(record)
        return lost

    def free(self, record: int) -> list[int]:
        """Free a record of which no copy is left; which others are lost."""
        if record not in self.held:
            return []
        lost = self._make_room(record)
        self.held.remove(record)
        return lost

    def _make_room(self, record: int) -> list[int]:
        if len(self.held) < RECORDS or self.held[0] == record:
            return []
        lost = self.held[: 1 if record in self.held else self.lost_to_new]
        self.held = [each for each in self.held if each not in lost]
        return lost


def near_hits(
    lines: Numbers,
    order: Numbers,
    near: int,
    *,
    kind: type[Records] | None = Records,
    shared: int = RECORD_LINES,
) -> Flags:
    """Which loads of lines of physical memory hit in the near partition, from empty caches.

    `kind`: of the sets of records, `None` if copies have none; `shared`: lines whose numbers differ in these bits only
    share a record.
    """
    far, near_set, _ = (each.tolist() for each in near_sets(lines, near))
    record_set, record = records_of(lines).tolist(), (lines & ~shared).tolist()
    sets = {number: dict[int, None]() for number in near_set}
    records = {number: kind() for number in record_set} if kind else {}
    copies: dict[int, set[int]] = {number: set() for number in record}
    hits = np.zeros(order.size, np.bool_)

    def lose(lost: list[int]) -> None:
        for each in lost:
            for copy in copies[each]:
                del sets[near_set[copy]][copy]
            copies[each].clear()

    for number, line in enumerate(order.tolist()):
        present = sets[near_set[line]]
        hits[number] = line in present
        if hits[number]:
            del present[line]
        else:
            if len(present) == WAYS:
                oldest = next(iter(present))
                del present[oldest]
                copies[record[oldest]].discard(oldest)
                if kind and far[oldest] and not copies[record[oldest]]:
                    lose(records[record_set[oldest]].free(record[oldest]))
            if kind and far[line]:
                lose(records[record_set[line]].load(record[line]))
                copies[record[line]].add(line)
        present[line] = None
    return hits
