"""The records that a slice of an H200's L2 keeps of copies, as executable models; see `docs/l2.md`.

`l2_policy.py` compares them with recorded runs.
"""

import numpy as np
from l2_partitions import ATOMICS, LOADS, STORES, WHOLE_STORES, Operation
from l2_rules import RECORD_LINES, WAYS, Flags, Numbers, near_sets, records_of

RECORDS = 7  # of a set


class Records:
    """One set of records: whose copies it holds, the one that was requested last at the end.

    A full set evicts the oldest record when it is looked up: for requests of the other partition, which make or renew a
    record, for notices that a copy is gone, which free it, and for loads by SMs near the home. A new record evicts the
    oldest two. A request or notice for the oldest record itself evicts none.
    """

    lost_to_new = 2

    def __init__(self) -> None:
        self.held: list[int] = []

    def request(self, record: int) -> list[int]:
        """Make or renew a record; which ones are lost."""
        lost = self._make_room(record, 1 if record in self.held else self.lost_to_new)
        if record in self.held:
            self.held.remove(record)
        self.held.append(record)
        return lost

    def free(self, record: int) -> list[int]:
        """Free a record, if there is one; which others are lost."""
        lost = self._make_room(record, 1)
        if record in self.held:
            self.held.remove(record)
        return lost

    def look_up(self) -> list[int]:
        """Look up a record without changing it; which ones are lost."""
        return self._make_room(None, 1)

    def _make_room(self, record: int | None, count: int) -> list[int]:
        if len(self.held) < RECORDS or self.held[0] == record:
            return []
        lost, self.held = self.held[:count], self.held[count:]
        return lost


class OneForNew(Records):
    """A new record costs one, so that a full set stays full."""

    lost_to_new = 1


class ThreeForNew(Records):
    """A new record costs three."""

    lost_to_new = 3


class Quiet(Records):
    """A notice evicts no other record."""

    def free(self, record: int) -> list[int]:
        """Free a record."""
        if record in self.held:
            self.held.remove(record)
        return []


class Renewing(Records):
    """A load of a record that is the oldest renews it first, and then evicts the next one."""

    def request(self, record: int) -> list[int]:
        """Make or renew a record; which ones are lost."""
        if self.held[:1] == [record]:
            self.held.append(self.held.pop(0))
            if len(self.held) == RECORDS:
                return [self.held.pop(0)]
        return super().request(record)


def copies_found(operations: Numbers, positions: Numbers, other: Flags) -> Flags:
    """Which operations of a far SM find copies of their lines, which share a set of records, but no set of the L2.

    `other`: whether an SM near the home runs the operation.
    """
    records, copies, found = Records(), set[int](), np.zeros(operations.size, np.bool_)
    for number, (operation, line) in enumerate(zip(operations.tolist(), positions.tolist(), strict=True)):
        found[number] = line in copies
        lost: list[int] = []
        if operation in ATOMICS or (operation in STORES and other[number]):
            lost = [line, *records.free(line)]
        elif other[number]:
            lost = records.look_up() if operation in LOADS else []
        elif operation in STORES or (operation in LOADS and not found[number]):
            lost = records.request(line)
            if operation in LOADS or operation in WHOLE_STORES:
                copies.add(line)
        elif operation == Operation.DISCARD:
            lost = [line]
        copies.difference_update(lost)
    return found


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
                lose(records[record_set[line]].request(record[line]))
                copies[record[line]].add(line)
        present[line] = None
    return hits
