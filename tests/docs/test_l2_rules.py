"""The rules of the L2 of an H200 on short sequences, and the analysis of recorded runs on simulated ones."""

import l2_policy
import numpy as np
import pytest
from l2_partitions import (
    MAX_DIRTY,
    MAX_INCOMPLETE,
    WORD,
    Operation,
    Partitions,
    Priority,
    Set,
)
from l2_records import RECORDS, Records, copies_found, near_hits
from l2_rules import HOME, MEMORY, NEAR, RECORD_LINES, WAYS, near_sets, records_of

PARTS = (Operation.STORE_WORD, Operation.STORE_REST)


def filled(*, quota=3, priority=Priority.NORMAL):
    """A set whose ways hold the first lines, in order."""
    found = Set(quota)
    for line in range(WAYS):
        found.load(line, priority)
    return found


def with_oldest_dirty():
    """A full set whose least recently used line, line 1, is dirty."""
    found = filled()
    found.store(1)
    for line in (*range(2, WAYS), 100):  # the last one evicts line 0
        found.load(line)
    return found


def found_at(operations, line=1, *, far):
    """Where each operation finds a line."""
    partitions = Partitions()
    return [partitions.operate(operation, line, far) for operation in operations]


@pytest.mark.parametrize("quota", range(1, 11))
def test_as_many_lines_as_the_quota_outlive_later_ones(quota):
    lines = filled(quota=quota, priority=Priority.LAST)
    for line in range(100, 100 + 2 * WAYS):
        lines.load(line)
    assert sorted(line for line in lines.lines if line < WAYS) == list(range(WAYS - quota, WAYS))


@pytest.mark.parametrize("write", [False, True])
def test_a_later_access_ends_evict_first_but_not_evict_last(write):
    lines = filled()
    for priority in (Priority.FIRST, Priority.LAST):
        for hint in (priority, Priority.NORMAL):
            (lines.store if write else lines.load)(int(priority), hint)
    found = [lines.lines[int(priority)].priority for priority in (Priority.FIRST, Priority.LAST)]
    assert found == [Priority.NORMAL, Priority.LAST]


def test_no_more_lines_are_dirty_than_allowed_and_the_oldest_is_written_back():
    lines = Set()
    for line in [*range(MAX_DIRTY + 1), 100]:
        lines.store(line)
    assert [line for line, each in lines.lines.items() if each.dirty] == [*range(1, MAX_DIRTY + 1), 100]


def test_protected_lines_are_not_written_back():
    lines = Set(WAYS)
    for line in range(MAX_DIRTY + 2):
        lines.store(line, Priority.LAST)
    lines.load(100)
    assert sum(line.dirty for line in lines.lines.values()) == MAX_DIRTY + 2


def test_a_miss_evicts_the_next_clean_line_while_the_oldest_is_written_back():
    lines = with_oldest_dirty()
    assert 1 in lines.lines
    lines.load(101)
    assert 1 in lines.lines
    assert 2 not in lines.lines


def test_a_store_to_a_line_that_is_written_back_does_not_keep_it_dirty():
    lines = with_oldest_dirty()
    lines.store(1)
    assert not lines.lines[1].dirty


def test_the_l2_completes_a_line_if_a_set_has_too_many_incomplete_ones():
    lines = filled()
    for line in range(100, 101 + MAX_INCOMPLETE):
        lines.store(line, parts=WORD)
    assert sum(each.parts > 0 for each in lines.lines.values()) == MAX_INCOMPLETE + 1
    lines.load(200)
    assert [line for line, each in lines.lines.items() if each.parts] == [*range(101, 101 + MAX_INCOMPLETE)]
    assert next(reversed(lines.lines)) == 100
    assert not lines.lines[100].dirty


@pytest.mark.parametrize("parts", [PARTS, PARTS[::-1]])
def test_both_parts_of_a_sector_make_it_present(parts):
    assert found_at([*parts, Operation.LOAD], far=False)[-1] == NEAR
    assert found_at([parts[0], Operation.LOAD], far=False)[-1] == MEMORY


def test_a_load_reads_half_a_line_and_a_store_writes_one_sector():
    loads = [Operation.LOAD, Operation.LOAD_NEXT_SECTOR, Operation.LOAD_OTHER_SECTOR]
    assert found_at(loads, far=False) == [MEMORY, NEAR, MEMORY]
    assert found_at([Operation.STORE_SECTOR, *loads], far=False)[1:] == [NEAR, MEMORY, MEMORY]


def test_an_atomic_operation_removes_the_copy_and_a_store_keeps_it():
    found = found_at(
        [
            Operation.LOAD,
            Operation.LOAD,
            Operation.STORE_SECTOR,
            Operation.LOAD,
            Operation.ATOMIC,
            Operation.LOAD,
        ],
        far=True,
    )
    assert (found[0], found[1], found[3], found[5]) == (MEMORY, NEAR, NEAR, HOME)


@pytest.mark.parametrize("operation", [Operation.STORE_SECTOR, Operation.REDUCTION, Operation.ATOMIC])
def test_a_far_load_waits_once_for_what_only_far_sms_have_written(operation):
    partitions = Partitions()
    partitions.operate(operation, 1, True)
    assert partitions.operate(Operation.ATOMIC, 1, True) == HOME  # it removes the copy of the store
    assert [partitions.operate(Operation.LOAD, 1, True) for _ in range(2)] == [MEMORY, NEAR]
    partitions.operate(Operation.ATOMIC, 1, True)
    assert partitions.operate(Operation.LOAD, 1, True) == HOME


def test_a_near_load_hits_what_a_far_sm_has_written_and_a_far_one_waits():
    partitions = Partitions()
    partitions.operate(Operation.ATOMIC, 1, True)
    assert partitions.operate(Operation.LOAD, 1, False, 1) == NEAR
    assert partitions.operate(Operation.LOAD, 1, True) == MEMORY


def test_a_near_store_invalidates_the_copy():
    partitions = Partitions()
    for _ in range(2):
        partitions.operate(Operation.LOAD, 1, True)
    partitions.operate(Operation.STORE_SECTOR, 1, False, 1)
    assert partitions.operate(Operation.LOAD, 1, True) == HOME


@pytest.mark.parametrize(("operation", "kept"), [(Operation.STORE_WORD, False), (Operation.ATOMIC, True)])
def test_a_far_store_of_a_part_evicts_a_line_although_it_makes_no_copy(operation, kept):
    partitions = Partitions()
    for line in range(WAYS):
        partitions.operate(Operation.LOAD, line, True)
    partitions.operate(operation, WAYS, True)
    found = [partitions.operate(Operation.LOAD, line, True) == NEAR for line in (1, 0)]
    assert found == [True, kept]


@pytest.mark.parametrize("operation", [Operation.PREFETCH, Operation.ATOMIC])
def test_what_makes_no_copy_ends_evict_first_for_the_line_that_a_copy_would_evict(operation):
    partitions = Partitions()
    for line in range(WAYS):
        partitions.operate(Operation.LOAD_FIRST if line == 5 else Operation.LOAD, line, True)
    partitions.operate(operation, WAYS, True)
    partitions.operate(Operation.LOAD, WAYS + 1, True)  # evicts a line
    assert [partitions.operate(Operation.LOAD, line, True) == NEAR for line in (5, 0)] == [True, False]


@pytest.mark.parametrize("far", [False, True])
def test_a_prefetch_of_a_whole_line_does_not_renew_it_and_makes_no_copy(far):
    partitions = Partitions()
    for line in (0, 0, *range(1, WAYS), 0, WAYS):  # the third one of line 0 finds all sectors
        partitions.operate(Operation.PREFETCH, line, far)
    found = HOME if far else NEAR
    assert [partitions.operate(Operation.LOAD, line, far) for line in (1, WAYS, 0)] == [found, found, MEMORY]


def test_a_prefetch_of_a_line_without_all_sectors_is_an_access():
    partitions = Partitions()
    for line in range(WAYS):
        partitions.operate(Operation.LOAD, line, False)
    for line in (0, WAYS):
        partitions.operate(Operation.PREFETCH, line, False)
    assert [partitions.operate(Operation.LOAD, line, False) for line in (0, 1)] == [NEAR, MEMORY]


def full_records():
    """Seven records, the oldest one first."""
    records = Records()
    assert [records.request(line) for line in range(RECORDS)] == [[]] * RECORDS
    return records


@pytest.mark.parametrize(
    ("operation", "record", "lost", "left"),
    [
        ("request", 7, [0, 1], [2, 3, 4, 5, 6, 7]),
        ("request", 2, [0], [1, 3, 4, 5, 6, 2]),
        ("request", 0, [], [1, 2, 3, 4, 5, 6, 0]),
        ("free", 2, [0], [1, 3, 4, 5, 6]),
        ("free", 0, [], [1, 2, 3, 4, 5, 6]),
        ("free", 7, [0], [1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_full_set_of_records_makes_room_for_all_but_its_oldest_record(operation, record, lost, left):
    records = full_records()
    assert getattr(records, operation)(record) == lost
    assert records.held == left


def test_a_set_of_records_that_is_not_full_loses_none():
    records = full_records()
    records.free(0)
    assert records.request(8) == []
    records.free(8)
    assert records.look_up() == []


def test_a_copy_that_the_near_partition_evicts_frees_its_record():
    lines = np.arange(1 << 21)
    is_far, near_set, _ = near_sets(lines, 0)
    far = lines[is_far]
    members = far[records_of(far) == records_of(far[:1])]
    members = members[np.unique(members & ~RECORD_LINES, return_index=True)[1]][: RECORDS + 1]
    rivals = lines[~is_far & (near_set == near_set[members[0]])][:WAYS]
    known = np.concatenate([members, rivals])
    assert known.size == RECORDS + 1 + WAYS
    assert np.unique(near_set[members]).size == members.size
    first, last, others = np.arange(RECORDS), RECORDS, np.arange(RECORDS + 1, known.size)
    evicted = near_hits(known, np.array([*first, *others, last, 1]), 0)
    kept = near_hits(known, np.array([*first, last, 1]), 0)
    assert (evicted[-1], kept[-1]) == (True, False)


@pytest.mark.parametrize(("quota", "agrees"), [(2, False), (3, True), (4, False)])
def test_the_analysis_tells_other_quotas_apart(quota, agrees):
    rng = np.random.default_rng(1)
    words = rng.integers(0, 40, 4096) + l2_policy.LISTED * rng.integers(0, 4, 4096)
    operations, positions = np.divmod(words, l2_policy.LISTED)
    state, far = Partitions(quota), np.zeros(words.size, np.bool_)
    pairs = zip(operations.tolist(), positions.tolist(), strict=True)
    found = np.array([state.operate(Operation(operation), line, False) for operation, line in pairs])
    counts = l2_policy.count_wrong((far, operations, positions, found), Partitions())
    assert (counts.wrong == 0) is agrees


@pytest.mark.parametrize(
    ("operation", "other", "kept"),
    [
        (Operation.STORE_WORD, False, False),  # a new record
        (Operation.ATOMIC, False, False),
        (Operation.LOAD, True, False),
        (Operation.REDUCTION, True, False),
        (Operation.PREFETCH, False, True),
        (Operation.DISCARD, True, True),
    ],
)
def test_operations_that_look_up_a_full_set_of_records_cost_the_oldest_copy(operation, other, kept):
    operations = np.array([Operation.LOAD] * RECORDS + [operation, Operation.LOAD])
    positions = np.array([*range(RECORDS), RECORDS, 0])
    others = np.array([False] * RECORDS + [other, False])
    assert copies_found(operations, positions, others)[-1] == kept


@pytest.mark.parametrize(("limit", "agrees"), [(1, False), (2, True), (3, False)])
def test_the_analysis_tells_other_limits_of_incomplete_lines_apart(limit, agrees):
    rng = np.random.default_rng(1)
    words = rng.integers(0, 20, 4096) + l2_policy.LISTED * rng.choice([Operation.LOAD, Operation.STORE_WORD], 4096)
    operations, positions = np.divmod(words, l2_policy.LISTED)
    state, far = Partitions(max_incomplete=limit), np.zeros(words.size, np.bool_)
    pairs = zip(operations.tolist(), positions.tolist(), strict=True)
    found = np.array([state.operate(Operation(operation), line, False) for operation, line in pairs])
    counts = l2_policy.count_wrong((far, operations, positions, found), Partitions())
    assert (counts.wrong == 0) is agrees
