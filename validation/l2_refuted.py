"""How many loads rivals of the rules in `l2_partitions.py` mispredict, on recorded runs; see `docs/l2.md`.

``python validation/l2_refuted.py`` prints a row for each; with ``--check``, exit status 1 if one mispredicts
less than `MIN_WRONG` of them.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from l2_partitions import (
    ALL_SECTORS,
    ATOMICS,
    HINTS,
    Line,
    Operation,
    Partitions,
    Priority,
    Set,
)
from l2_policy import DATA, Counts, count_mix, runs_by_gpu
from l2_rules import MEMORY, WAYS

MIN_WRONG = 3e-3  # share of loads
FIRST, NORMAL, LAST = Priority


class WithoutFirst(Set):
    """Evict-first has no effect."""

    def _use(self, number: int, priority: Priority) -> Line:
        return super()._use(number, max(priority, NORMAL))


class FirstUntilEvicted(Set):
    """Evict-first decides only when a line is loaded into the L2."""

    def _use(self, number: int, priority: Priority) -> Line:
        held = self.lines.get(number)
        return super()._use(number, held.priority if held and priority is not LAST else priority)


class FirstIsOldest(Set):
    """Evict-first puts a line at the least recent place of its set."""

    def _use(self, number: int, priority: Priority) -> Line:
        line = super()._use(number, max(priority, NORMAL))
        if priority is FIRST:
            del self.lines[number]
            self.lines = {number: line, **self.lines}
        return line


class WithoutLast(Set):
    """Evict-last protects nothing."""

    def _use(self, number: int, priority: Priority) -> Line:
        return super()._use(number, min(priority, NORMAL))


class LastLoadDecides(Set):
    """The last load decides whether a line is protected."""

    def _use(self, number: int, priority: Priority) -> Line:
        if number in self.lines:
            self.lines[number].priority = NORMAL
        return super()._use(number, priority)


class OneSector(Set):
    """A load reads one sector of 32 bytes from memory."""

    def load(self, number: int, priority: Priority = NORMAL, sector: int = 0) -> bool:
        """Make a sector present; return whether it was."""
        held = self.lines.get(number)
        sectors = held.sectors if held else 0
        hit = super().load(number, priority, sector)
        self.lines[number].sectors = sectors | 1 << sector
        return hit


class CleanAtOnce(Set):
    """A line is clean as soon as it was chosen to be written back."""

    def _choose(self) -> None:
        super()._choose()
        if self._written_back is not None:
            self.lines[self._written_back].dirty = False


class ProtectedWrittenBack(Set):
    """Protected dirty lines count, and are written back."""

    def _choose(self) -> None:
        protected = [line for line in self.lines.values() if line.priority is LAST]
        for line in protected:
            line.priority = NORMAL
        super()._choose()
        for line in protected:
            line.priority = LAST


class CompletedInPlace(Set):
    """A line that the L2 completes stays dirty, at its place in the order of recency."""

    def end(self) -> None:
        """End what was chosen after the operation before."""
        if self._completed in self.lines:
            line = self.lines[self._completed]
            line.sectors, line.parts, self._completed = line.sectors | 1, 0, None
        super().end()


class PrefetchesRenew(Set):
    """A prefetch that hits is an access."""

    def prefetch(self, number: int) -> None:
        """Make all sectors of a line present."""
        self.touch(number, sectors=ALL_SECTORS)


class KeepsFirst(Set):
    """What finds no copy leaves the hint of the line that a copy would evict."""

    def undo_first(self, number: int) -> None:
        """End evict-first for a line."""
        if number in self.lines:
            super().undo_first(number)


class NothingLeavesRoom(Set):
    """A far store of part of a sector evicts nothing if it finds no copy."""

    def leave_room(self) -> None:
        """Do nothing."""


class ProtectedCopies(Partitions):
    """Copies are protected, too."""

    def load_far(self, operation: Operation, line: int, near: Set, home: Set) -> int:
        """A load by an SM near the other partition."""
        found = super().load_far(operation, line, near, home)
        if HINTS.get(operation) is LAST:
            near.touch(line, LAST)
        return found


class AllProtected(Partitions):
    """Evict-last protects up to 16 lines of a set."""

    def __init__(self) -> None:
        super().__init__(WAYS)


class NeverWaits(Partitions):
    """A far load hits what only stores have written."""

    def load_far(self, operation: Operation, line: int, near: Set, home: Set) -> int:
        """A load by an SM near the other partition."""
        if line in home.lines:
            home.lines[line].unread = False
        return super().load_far(operation, line, near, home)


class FarAtomicsAllocateNone(Partitions):
    """Far atomic operations allocate no line in the home."""

    def write_far(self, operation: Operation, line: int, near: Set, home: Set) -> int:
        """A store, reduction or atomic operation."""
        if operation in ATOMICS and line not in home.lines:
            near.invalidate(line)
            return MEMORY
        return super().write_far(operation, line, near, home)


def of_sets(rule: type[Set]) -> type[Partitions]:
    """Partitions whose sets follow a rule."""
    return type(rule.__name__, (Partitions,), {"kind": rule, "__doc__": rule.__doc__})


RIVALS: tuple[tuple[str, type[Partitions]], ...] = (
    ("hints", of_sets(WithoutFirst)),
    ("hints", of_sets(FirstUntilEvicted)),
    ("hints", of_sets(FirstIsOldest)),
    ("hints", of_sets(WithoutLast)),
    ("hints", of_sets(LastLoadDecides)),
    ("hints", AllProtected),
    ("hints", ProtectedCopies),
    ("sectors", of_sets(OneSector)),
    ("stores", of_sets(CleanAtOnce)),
    ("stores", FarAtomicsAllocateNone),
    ("stores", NeverWaits),
    ("hinted", of_sets(ProtectedWrittenBack)),
    ("words", of_sets(CompletedInPlace)),
    ("words", of_sets(NothingLeavesRoom)),
    ("prefetches", of_sets(PrefetchesRenew)),
    ("prefetches", of_sets(KeepsFirst)),
)
"""The mix that refutes each."""


def check(data: Mapping[str, Any]) -> bool:
    """Print the share of mispredicted loads of each rival; whether all are refuted."""
    gpus = list(runs_by_gpu(data).values())

    def total(mix: str, rule: type[Partitions]) -> Counts:
        counts = Counts()
        for own in gpus:
            for each in count_mix(own, mix, rule).values():
                counts.add(each)
        return counts

    exact = {mix: total(mix, Partitions) for mix in dict(RIVALS)}
    holds = []
    for mix, rule in RIVALS:
        wrong = total(mix, rule)
        print(f"{rule.__doc__} {wrong.share:.2%} of the loads of {mix} mispredicted, instead of {exact[mix].share:.3%}")
        holds.append(wrong.share >= MIN_WRONG)
    return all(holds)


if __name__ == "__main__":
    with np.load(DATA, allow_pickle=False) as recorded:
        sys.exit(int(not check(recorded) and "--check" in sys.argv))
