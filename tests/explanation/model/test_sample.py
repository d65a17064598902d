"""Sampled loads as lines for the simulated L1."""

import numpy as np
import pytest

from gpudissect.explanation.model.sample import sample_of

SECTORS = 4
"""Of a line."""


def rows(*loads):
    """Rows of a sample from loads: access, warp, and the sectors of each request."""
    found, counts = [], {}
    for access, warp, requests in loads:
        for sectors in requests:
            number = counts.setdefault(access, 0)
            counts[access] += 1
            found += [(access, number, warp, number, sector, 1) for sector in sectors]
    return np.array(found, dtype=np.int64)


def lines_of(sample, warp, access):
    """Line and bits of its sectors for each request of a warp."""
    numbers = range(sample.begins[warp, access], sample.ends[warp, access])
    spans = [slice(sample.lines[number], sample.lines[number + 1]) for number in numbers]
    return [list(zip(sample.number[s].tolist(), sample.sectors[s].tolist(), strict=True)) for s in spans]


def test_a_request_has_its_lines_with_the_bits_of_their_sectors():
    sample = sample_of(rows((0, 0, [[0, 1, 7], [9]])), np.array([0]), 1, SECTORS)
    assert lines_of(sample, 0, 0) == [[(0, 0b11), (1, 0b1000)], [(2, 0b10)]]


def test_warps_are_in_the_order_of_their_blocks_on_the_sm():
    sample = sample_of(rows((0, 0, [[40]]), (0, 1, [[80]]), (0, 2, [[0]])), np.array([1, -1, 0]), 1, SECTORS)
    assert [lines_of(sample, warp, 0) for warp in range(2)] == [[[(0, 1)]], [[(10, 1)]]]


def test_a_warp_without_requests_has_those_of_another():
    sample = sample_of(rows((0, 0, [[0]]), (1, 1, [[8]])), np.array([0, 0]), 3, SECTORS)
    assert lines_of(sample, 0, 1) == lines_of(sample, 1, 1) == [[(2, 1)]]
    assert sample.accesses == {0, 1}


def test_lines_that_several_blocks_touch_are_shared():
    both = rows((0, 0, [[0, 8]]), (0, 1, [[8]]))
    shared = sample_of(both, np.array([0, 1]), 1, SECTORS)
    assert dict(zip(shared.number.tolist(), shared.is_shared.tolist(), strict=True)) == {0: 0, 2: 1}
    same_block = sample_of(rows((0, 0, [[8]]), (0, 1, [[8]]), (0, 2, [[0]])), np.array([0, 0, 1]), 1, SECTORS)
    assert same_block.is_shared.tolist() == [0, 0, 0]
    elsewhere = sample_of(both, np.array([0, -1]), 1, SECTORS)
    assert dict(zip(elsewhere.number.tolist(), elsewhere.is_shared.tolist(), strict=True)) == {0: 0, 2: 1}


def test_without_warps_on_the_sm_there_are_no_loads():
    assert sample_of(rows((0, 0, [[0]])), np.array([-1]), 1, SECTORS).accesses == frozenset()


def sweep(lines, times):
    """A sample of a block that touches so many lines in turn, and returns to the first."""
    return sample_of(rows((0, 0, [[SECTORS * line] for line in range(lines)] * times)), np.array([0]), 1, SECTORS)


@pytest.mark.parametrize(("room", "share"), [(20.0, 0.0), (10.0, 4 / 9), (5.0, 2 / 3)])
def test_lines_are_replaced_before_the_block_returns_if_the_l2_lacks_room(room, share):
    """Nine lines in room for ten: two thirds of the sets are full before. Each line is new once in three times."""
    sample = sweep(9, 3)
    assert sample.share_of(0, sample.replaced(room)) == pytest.approx(share, abs=0.05)


def test_lines_of_several_blocks_are_not_replaced():
    both = rows((0, 0, [[4 * line] for line in range(9)] * 2), (0, 1, [[4 * line] for line in range(9)] * 2))
    assert not sample_of(both, np.array([0, 1]), 1, SECTORS).replaced(1.0).any()


def test_a_written_line_goes_to_memory_each_time_it_is_replaced():
    """A block loads and stores nine lines in turn, three times; in room for five each line is replaced twice."""
    loads = [[SECTORS * line] for line in range(9)] * 3
    both = [row for request in zip(*(rows((a, 0, loads)) for a in (0, 1)), strict=True) for row in request]
    both = np.array([(a, 2 * n + a, w, 2 * n + a, s, 1) for a, n, w, _, s, _ in both], dtype=np.int64)
    sample = sample_of(both, np.array([0]), 2, SECTORS)
    replaced = sample.replaced(5.0)
    written = sample.written_back(replaced, [1])
    assert sample.share_of(1, written) == pytest.approx(2 / 3)
    assert sample.share_of(0, written) == 0
    assert not sample.written_back(np.zeros_like(replaced), [1]).any()
