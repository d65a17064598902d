"""How the L2 of an H200 replaces, writes back and copies lines, as an executable model; see `docs/l2.md`.

`l2_policy.py` compares it with recorded runs.
"""

from dataclasses import dataclass
from enum import IntEnum

from l2_rules import HOME, MEMORY, NEAR, WAYS

MAX_DIRTY = 7  # lines of a set
MAX_INCOMPLETE = 2  # lines of a set that were written in part
QUOTA, LEAST_QUOTA = 3, 1  # protected lines of a set if no memory was ever set aside, and if none is
ALL_SECTORS = 0b1111  # bit mask
WORD, REST = 1, 2  # parts of a sector that stores write: its first four bytes, and the other 28
WHOLE = WORD | REST


class Operation(IntEnum):
    """As in `l2_policy.cu`. Each is on four bytes at the start of a line, unless the name says otherwise.

    `DISCARD` is of the whole line. Stores with hints are of a whole sector.
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
    STORE_FIRST = 11
    STORE_LAST = 12
    STORE_UNCHANGED = 13
    STORE_REST = 14
    LOAD_NEXT_SECTOR = 15


class Priority(IntEnum):
    """Of lines of a set: those with the least one are evicted first."""

    FIRST = 0
    NORMAL = 1
    LAST = 2


LOADS = {operation for operation in Operation if operation.name.startswith("LOAD")}
ATOMICS = {Operation.REDUCTION, Operation.ATOMIC}
PARTS = {Operation.STORE_WORD: WORD, Operation.STORE_REST: REST}
WHOLE_STORES = {
    Operation.STORE_SECTOR,
    Operation.STORE_FIRST,
    Operation.STORE_LAST,
    Operation.STORE_UNCHANGED,
}
STORES = WHOLE_STORES | set(PARTS)
SECTORS = {Operation.LOAD_NEXT_SECTOR: 1, Operation.LOAD_OTHER_SECTOR: 2}
"""Of a line, by the loads of other sectors than the first."""
HINTS = {
    Operation.LOAD_FIRST: Priority.FIRST,
    Operation.STORE_FIRST: Priority.FIRST,
    Operation.LOAD_LAST: Priority.LAST,
    Operation.STORE_LAST: Priority.LAST,
}


@dataclass
class Line:
    """A line in a set.

    Attributes:
        priority: of eviction.
        dirty: whether it has to be written back.
        sectors: bit mask of those that are present.
        parts: written ones of its first sector, while that is incomplete.
        completed: whether the L2 read missing bytes by itself.
        unread: whether stores made its first sector present, so that the next load of a far SM waits for memory.

    """

    priority: Priority = Priority.NORMAL
    dirty: bool = False
    sectors: int = 0
    parts: int = 0
    completed: bool = False
    unread: bool = False

    def read(self, sector: int) -> None:
        """Read the half of the line with a sector from memory."""
        self.sectors |= 0b11 << (sector & ~1)
        if sector < 2:
            self.parts, self.unread = 0, False


class Set:
    """A set of one partition: its lines, the least recently used first.

    Lines are not counted as dirty below if they are protected by evict-last or incomplete. At most `quota` lines are
    protected, and at most `max_dirty` are dirty. After an operation, at most one line is chosen to be written back, and
    at most one to be completed. This ends with the next operation; until then, the line is dirty.
    """

    def __init__(self, quota: int = QUOTA, max_dirty: int = MAX_DIRTY, max_incomplete: int = MAX_INCOMPLETE) -> None:
        self.lines: dict[int, Line] = {}
        self._quota, self._max_dirty, self._max_incomplete = quota, max_dirty, max_incomplete
        self._written_back: int | None = None
        self._completed: int | None = None

    def load(self, number: int, priority: Priority = Priority.NORMAL, sector: int = 0) -> bool:
        """Make a sector present; return whether it was."""
        line = self._use(number, priority)
        hit = bool(line.sectors >> sector & 1)
        if not hit:
            line.read(sector)
        self.end()
        return hit

    def store(self, number: int, priority: Priority = Priority.NORMAL, parts: int = WHOLE) -> bool:
        """Write parts of the first sector; return whether the line was there."""
        hit = number in self.lines
        line = self._use(number, priority)
        if not line.sectors & 1:
            line.unread = True
            line.parts |= parts
            if line.parts == WHOLE:
                line.sectors, line.parts = line.sectors | 1, 0
        line.dirty = True
        self.end()
        return hit

    def update(self, number: int) -> bool:
        """Change a word, for which the sector is read; return whether it was present."""
        line = self._use(number, Priority.NORMAL)
        hit = bool(line.sectors & 1)
        if not hit:
            line.read(0)
        line.dirty = True
        self.end()
        return hit

    def touch(self, number: int, priority: Priority = Priority.NORMAL, sectors: int = 0) -> None:
        """Make a line the most recently used one; `sectors`: bit mask of those that become present."""
        self._use(number, priority).sectors |= sectors
        self.end()

    def prefetch(self, number: int) -> None:
        """Make sectors of a line present. A line that has them stays where it is in the order of recency."""
        if number in self.lines and self.lines[number].sectors == ALL_SECTORS:
            self.undo_first(number)
        else:
            line = self._use(number, Priority.NORMAL)
            line.read(0)
            line.read(2)
        self.end()

    def undo_first(self, number: int) -> None:
        """End evict-first for a line, or if it is absent, for the line that it would evict."""
        first = (each for each, line in self.lines.items() if line.priority is Priority.FIRST)
        changed = next(first, None) if number not in self.lines and len(self.lines) == WAYS else number
        if changed in self.lines and self.lines[changed].priority is Priority.FIRST:
            self.lines[changed].priority = Priority.NORMAL

    def discard(self, number: int) -> None:
        """Invalidate a line, unless it was written after the L2 completed it. Nothing that goes on ends with this."""
        line = self.lines.get(number)
        if line and not (line.completed and line.dirty):
            self.invalidate(number)

    def invalidate(self, number: int) -> None:
        """Remove a line, if it is present."""
        self.lines.pop(number, None)
        if number == self._completed:
            self._completed = None

    def leave_room(self) -> None:
        """Evict a line if the set is full, for one that is not kept."""
        self._make_room()
        self.end()

    def _make_room(self) -> None:
        """Evict a line if the set is full: the first that is not dirty by priority, then recency."""
        if len(self.lines) == WAYS:
            victims = sorted(self.lines, key=lambda number: self.lines[number].priority)
            self.invalidate(next((number for number in victims if not self.lines[number].dirty), victims[0]))

    def _use(self, number: int, priority: Priority) -> Line:
        if number == self._completed:
            self._completed = None
        line = self.lines.pop(number, None) or Line()
        self._make_room()
        self.lines[number] = line
        if line.priority is not Priority.LAST:
            line.priority = priority
        if priority is Priority.LAST:
            protected = [each for each in self.lines.values() if each.priority is Priority.LAST]
            if len(protected) > self._quota:
                protected[0].priority = Priority.NORMAL
        return line

    def end(self) -> None:
        """End what was chosen after the operation before, and choose again."""
        if self._written_back in self.lines:
            self.lines[self._written_back].dirty = False
        if self._completed in self.lines:
            line = self.lines.pop(self._completed)
            line.sectors |= 1
            line.dirty, line.parts, line.completed = False, 0, True
            self.lines[self._completed] = line
        self._choose()

    def _choose(self) -> None:
        """Choose the least recently used line that is not protected, if dirty; or one of too many."""
        self._written_back = self._completed = None
        evictable = [number for number, line in self.lines.items() if line.priority is not Priority.LAST]
        incomplete = [number for number, line in self.lines.items() if line.parts]
        dirty = [number for number in evictable if self.lines[number].dirty and number not in incomplete]
        if evictable and self.lines[evictable[0]].dirty:
            if evictable[0] in incomplete:
                self._completed = evictable[0]
            else:
                self._written_back = evictable[0]
        elif len(dirty) > self._max_dirty:
            self._written_back = min(dirty, key=lambda number: self.lines[number].priority)
        if self._completed is None and len(incomplete) > self._max_incomplete:
            self._completed = incomplete[0]


class Partitions:
    """Two sets with one number, one of each partition. A line is in that of its home; its copies are in the other."""

    kind = Set

    def __init__(self, quota: int = QUOTA, max_dirty: int = MAX_DIRTY, max_incomplete: int = MAX_INCOMPLETE) -> None:
        first, second = (self.kind(quota, max_dirty, max_incomplete) for _ in range(2))
        self._sets = first, second

    def operate(self, operation: Operation, line: int, far: bool, partition: int = 0) -> int:
        """Where an operation of an SM near a partition finds a line; meaningless for stores, discards and prefetches.

        `far`: whether the line has its home in the other partition.
        """
        near, other = self._sets[partition], self._sets[1 - partition]
        if operation in LOADS:
            return self.load_far(operation, line, near, other) if far else self.load_near(operation, line, near)
        if operation is Operation.DISCARD:
            for each in (near, other) if far else (near,):
                each.discard(line)
        elif operation is Operation.PREFETCH and far:
            self.prefetch_far(line, near, other)
        elif operation is Operation.PREFETCH:
            near.prefetch(line)
        else:
            return (
                self.write_far(operation, line, near, other) if far else self.write_near(operation, line, near, other)
            )
        return NEAR

    def load_near(self, operation: Operation, line: int, home: Set) -> int:
        """A load by an SM near the home of the line."""
        hit = home.load(line, HINTS.get(operation, Priority.NORMAL), SECTORS.get(operation, 0))
        return NEAR if hit else MEMORY

    def write_near(self, operation: Operation, line: int, home: Set, other: Set) -> int:
        """A store, reduction or atomic operation by such an SM: it invalidates the copy."""
        other.invalidate(line)
        hint = HINTS.get(operation, Priority.NORMAL)
        hit = home.update(line) if operation in ATOMICS else home.store(line, hint, PARTS.get(operation, WHOLE))
        return NEAR if hit else MEMORY

    def load_far(self, operation: Operation, line: int, near: Set, home: Set) -> int:
        """A load by an SM near the other partition, whose set is `near`."""
        hint, sector = HINTS.get(operation, Priority.NORMAL), SECTORS.get(operation, 0)
        if near.load(line, copy_hint(hint), sector):
            return NEAR
        held = home.lines.get(line)
        waits = sector == 0 and held is not None and held.unread
        hit = home.load(line, hint, sector)
        if waits:
            home.lines[line].read(0)
        return HOME if hit and not waits else MEMORY

    def write_far(self, operation: Operation, line: int, near: Set, home: Set) -> int:
        """A store, reduction or atomic operation of such an SM."""
        hint = HINTS.get(operation, Priority.NORMAL)
        if operation in ATOMICS:
            near.undo_first(line)
            near.invalidate(line)
            near.end()
        elif operation in WHOLE_STORES:
            near.touch(line, copy_hint(hint), 1)
        elif line in near.lines:
            near.touch(line)
        else:
            near.leave_room()
        return HOME if home.store(line, hint, PARTS.get(operation, WHOLE)) else MEMORY

    def prefetch_far(self, line: int, near: Set, home: Set) -> None:
        """A prefetch by such an SM: it reaches the home unless the copy is complete."""
        near.undo_first(line)
        near.end()
        if line not in near.lines or near.lines[line].sectors != ALL_SECTORS:
            home.prefetch(line)


def copy_hint(hint: Priority) -> Priority:
    """The hint that a copy obeys: copies are not protected."""
    return Priority.NORMAL if hint is Priority.LAST else hint
