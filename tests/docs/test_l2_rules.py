"""The rules of the L2 of an H200 on short sequences, and the analysis of recorded runs on simulated ones."""

import l2_policy
import numpy as np
import pytest
from l2_rules import (
    HOME,
    MAX_DIRTY,
    MEMORY,
    NEAR,
    RECORD_LINES,
    RECORDS,
    WAYS,
    Operation,
    Partitions,
    Priority,
    Records,
    Set,
    near_hits,
    near_sets,
    records_of,
)


def filled(*, quota=3, priority=Priority.NORMAL, writes=False):
    """A set whose ways hold the first lines, in order."""
    found = Set(quota)
    for line in range(WAYS):
        found.access(line, priority, writes)
    return found


@pytest.mark.parametrize("quota", range(1, 11))
def test_as_many_lines_as_the_quota_outlive_later_ones(quota):
    lines = filled(quota=quota, priority=Priority.LAST)
    for line in range(100, 100 + 2 * WAYS):
        lines.access(line)
    assert sorted(line for line in lines.lines if line < WAYS) == list(range(WAYS - quota, WAYS))


def test_a_later_load_ends_evict_first_but_not_evict_last():
    lines = filled()
    for priority in (Priority.FIRST, Priority.LAST):
        lines.access(int(priority), priority)
        lines.access(int(priority))
    found = [lines.lines[int(priority)].priority for priority in (Priority.FIRST, Priority.LAST)]
    assert found == [Priority.NORMAL, Priority.LAST]


def test_no_more_lines_are_dirty_than_allowed_and_the_oldest_is_written_back():
    lines = filled(writes=True)
    assert [line for line, each in lines.lines.items() if each.dirty] == list(range(WAYS - MAX_DIRTY, WAYS))


def test_a_miss_evicts_the_next_clean_line_while_the_oldest_is_written_back():
    lines = filled()
    lines.access(1, writes=True)
    for line in range(2, WAYS):
        lines.access(line)
    lines.access(100)  # evicts line 0; line 1 is now the oldest, and dirty
    assert 1 in lines.lines
    lines.access(101)
    assert 1 in lines.lines
    assert 2 not in lines.lines


def test_an_atomic_operation_removes_the_copy_and_a_store_keeps_it():
    partitions = Partitions()
    found = [
        partitions.operate(operation, 1, True)
        for operation in (
            Operation.LOAD,
            Operation.LOAD,
            Operation.STORE_SECTOR,
            Operation.LOAD,
            Operation.ATOMIC,
            Operation.LOAD,
        )
    ]
    assert (found[0], found[1], found[3], found[5]) == (MEMORY, NEAR, NEAR, HOME)


@pytest.mark.parametrize("operation", [Operation.STORE_SECTOR, Operation.REDUCTION, Operation.ATOMIC])
def test_lines_that_only_far_sms_have_written_serve_no_loads(operation):
    partitions = Partitions()
    partitions.operate(operation, 1, True)
    assert partitions.operate(Operation.ATOMIC, 1, True) == HOME  # it removes the copy of the store
    assert [partitions.operate(Operation.LOAD, 1, True) for _ in range(2)] == [MEMORY, NEAR]
    partitions.operate(Operation.ATOMIC, 1, True)
    assert partitions.operate(Operation.LOAD, 1, True) == HOME


@pytest.mark.parametrize("far", [False, True])
def test_a_prefetch_of_a_whole_line_changes_nothing_and_copies_none(far):
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
    assert [records.load(line) for line in range(RECORDS)] == [[]] * RECORDS
    return records


@pytest.mark.parametrize(
    ("operation", "record", "lost", "left"),
    [
        ("load", 7, [0, 1], [2, 3, 4, 5, 6, 7]),
        ("load", 2, [0], [1, 3, 4, 5, 6, 2]),
        ("load", 0, [], [1, 2, 3, 4, 5, 6, 0]),
        ("free", 2, [0], [1, 3, 4, 5, 6]),
        ("free", 0, [], [1, 2, 3, 4, 5, 6]),
        ("free", 7, [], [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_full_set_of_records_makes_room_for_all_but_its_oldest_record(operation, record, lost, left):
    records = full_records()
    assert getattr(records, operation)(record) == lost
    assert records.held == left


def test_a_set_of_records_that_is_not_full_loses_none():
    records = full_records()
    records.free(0)
    assert records.load(8) == []


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


def partial_stores(*, paused, last):
    """Five words stored in part, hits if `paused`, and a load of each of them in trials of their own."""
    trials = [[*(np.arange(5) + l2_policy.LISTED * Operation.STORE_WORD), *([8] * paused), line] for line in range(5)]
    times = [[0] * (5 + paused) + [700 if line >= 5 - last else 300] for line in range(5)]
    return {
        "start": np.array(0),
        "near": np.array(0),
        "partial_lines": np.arange(l2_policy.LISTED)[None],
        "partial_words": np.concatenate(trials)[None],
        "partial_cycles": np.concatenate(times)[None],
    }


@pytest.mark.parametrize(("paused", "incomplete"), [(False, 3), (True, 2)])
def test_as_many_lines_are_incomplete_as_stated(paused, incomplete):
    found = {last: l2_policy.check_partial(partial_stores(paused=paused, last=last)) for last in range(1, 5)}
    assert [last for last, agrees in found.items() if agrees] == [incomplete]
