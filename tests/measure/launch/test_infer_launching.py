"""Starting kernels and replacing blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.launch.infer_launch import by_stream, interval, replacement, usual


def test_a_late_run_does_not_count():
    found = usual([np.array([5000] * 99 + [90_000])] * 3)
    assert found.value == 5000 and 4950 < found.low < found.high < 5050


@given(st.integers(0, 1000))
def test_other_turns_agree_and_lie_in_the_bracket(seed):
    """A host whose pace wanders by 2 % from turn to turn, and delays many runs besides."""
    rng = np.random.default_rng(seed)

    def turn():
        return np.rint(5000 * rng.normal(1, 0.02) + rng.exponential(400, 100)).astype(int)

    one, other = usual([turn() for _ in range(5)]), usual([turn() for _ in range(5)])
    assert other.value == pytest.approx(one.value, rel=0.08)
    assert one.low <= other.value <= one.high


def test_uneven_slopes_lie_in_the_bracket():
    """As a graph of an H200: the first kernels cost more each than the hundredth."""
    took = [np.array([6280 + cost]) for cost in (0, 734, 734 + 6 * 600, 734 + 3600 + 24 * 461, 15398 + 96 * 515)]
    found = interval((1, 2, 8, 32, 128), [took])
    assert found is not None and 500 < found.value < 530
    assert 455 < found.low <= 461 and found.high == 734


def test_streams_that_differ():
    """Two turns of three streams each, one of them slower: the quick ones' number counts."""
    each = np.array([1400, 1400, 1600])
    turns = [[1000 + count * each for count in (1, 2, 8)] for _ in range(2)]
    assert by_stream((1, 2, 8), turns).tolist() == [1400, 1400, 1600] * 2
    found = interval((1, 2, 8), turns)
    assert found is not None and found.value == pytest.approx(1400)


@given(st.integers(1000, 50_000), st.integers(100, 5000), st.integers(0, 1000))
def test_the_slope_over_numbers_of_kernels(start, each, seed):
    rng = np.random.default_rng(seed)
    kernels = (1, 2, 8, 32, 128)
    turns = [[np.rint(start + n * each + rng.exponential(0.01 * start, 25)).astype(int) for n in kernels]
             for _ in range(3)]  # fmt: skip
    found = interval(kernels, turns)
    assert found is not None and found.value == pytest.approx(each, rel=0.05, abs=0.01 * start)


@pytest.mark.parametrize("jitter", [0.01, 0.05, 0.1])
def test_delays_of_every_run_do_not_move_the_slope_out_of_its_bracket(jitter):
    """Runs delayed by a share of what they take: all times are too long, and so would be the slope of their medians."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        turns = [[(9000 + n * 3400) * (1 + 0.1 * jitter * np.abs(rng.standard_normal(20))) for n in (0, 1, 7, 31, 127)]
                 for _ in range(5)]  # fmt: skip
        found = interval((1, 2, 8, 32, 128), turns)
        assert found is not None and found.low <= 3400 <= found.high


@given(st.lists(st.integers(50, 5000), min_size=2, max_size=6), st.floats(0, 0.02), st.integers(0, 1000))
def test_the_bracket_holds_the_value_and_every_neighbouring_slope(slopes, noise, seed):
    """Each stretch of numbers of kernels with a cost of its own."""
    rng = np.random.default_rng(seed)
    kernels = [1 << step for step in range(len(slopes) + 1)]
    true = np.cumsum([6000, *(slope * (1 << step) for step, slope in enumerate(slopes))])
    quiet = interval(kernels, [[np.array([each]) for each in true]])
    assert quiet is not None and quiet.low <= min(slopes) and quiet.high >= max(slopes)
    loud = interval(kernels, [[np.rint(each * (1 + noise * rng.standard_normal(20))).astype(int) for each in true]
                              for _ in range(2)])  # fmt: skip
    assert loud is None or 0 <= loud.low <= loud.value <= loud.high


def test_kernels_that_take_no_longer():
    assert interval((1, 2, 4), [[np.array([100])] * 3]) is None
    with pytest.raises(ValueError, match="several numbers"):
        interval((1,), [[np.array([1])]])
    with pytest.raises(ValueError, match="runs"):
        usual([])


def rounds(wait, sms=2, at_once=2, turns=4):
    """begin, end, sm, block of one warp a block."""
    rows = []
    for sm in range(sms):
        for lane in range(at_once):
            now = 100 * sm + 11 * lane
            for turn in range(turns):
                rows.append((now, now + 1000 + 3 * turn, sm, 100 * sm + 10 * lane + turn))
                now += 1000 + 3 * turn + wait
    return np.array(rows).T


@pytest.mark.parametrize("wait", [150, 220, 300])
def test_from_a_blocks_end_to_the_next_ones_begin(wait):
    found = replacement(*rounds(wait), at_once=2)
    assert found is not None and found.cycles == wait


def test_a_block_is_all_of_its_warps():
    begin, end, sm, block = rounds(200)
    found = replacement(np.concatenate([begin, begin + 5]), np.concatenate([end - 9, end]), np.tile(sm, 2),
                        np.tile(block, 2), at_once=2)  # fmt: skip
    assert found is not None and found.cycles == 200


def test_blocks_that_do_not_wait_replace_nobody():
    assert replacement(*rounds(-900), at_once=2) is None
    assert replacement(*rounds(200, sms=1, turns=2), at_once=2) is None, "too few"
