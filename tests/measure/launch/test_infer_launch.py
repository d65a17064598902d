"""The cost of starting kernels and of replacing blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.launch.infer_launch import (
    block_replacement,
    kernel_interval,
    kernel_interval_by_run,
    undelayed_duration,
)

KERNELS = (1, 2, 8, 32, 128)


def test_a_delayed_run_does_not_count():
    found = undelayed_duration([np.array([5000] * 99 + [90_000])] * 3)
    assert found.value == 5000 and 4950 < found.low < found.high < 5050


@given(st.integers(0, 1000))
def test_other_repetitions_agree_and_lie_in_the_bracket(seed):
    """A host whose pace drifts by 2 % between repetitions, and delays many runs besides."""
    rng = np.random.default_rng(seed)

    def repetition():
        return np.rint(5000 * rng.normal(1, 0.02) + rng.exponential(400, 100)).astype(int)

    one, other = (undelayed_duration([repetition() for _ in range(5)]) for _ in range(2))
    assert other.value == pytest.approx(one.value, rel=0.08)
    assert one.low <= other.value <= one.high


def test_uneven_slopes_lie_in_the_bracket():
    """As a graph of an H200: the first kernels cost more each than the hundredth."""
    times = [np.array([6280 + cost]) for cost in (0, 734, 734 + 6 * 600, 734 + 3600 + 24 * 461, 15398 + 96 * 515)]
    found = kernel_interval(KERNELS, [times])
    assert found is not None and 500 < found.value < 530
    assert 455 < found.low <= 461 and found.high == 734


def test_runs_that_differ():
    """Two repetitions of three runs, one of them slower: the quick ones count."""
    by_run = np.array([1400, 1400, 1600])
    repetitions = [[1000 + count * by_run for count in (1, 2, 8)] for _ in range(2)]
    assert kernel_interval_by_run((1, 2, 8), repetitions).tolist() == [1400, 1400, 1600] * 2
    found = kernel_interval((1, 2, 8), repetitions)
    assert found is not None and found.value == pytest.approx(1400)


@given(st.integers(1000, 50_000), st.integers(100, 5000), st.integers(0, 1000))
def test_the_slope_over_numbers_of_kernels(start, interval, seed):
    rng = np.random.default_rng(seed)

    def runs(count):
        return np.rint(start + count * interval + rng.exponential(0.01 * start, 25)).astype(int)

    found = kernel_interval(KERNELS, [[runs(count) for count in KERNELS] for _ in range(3)])
    assert found is not None and found.value == pytest.approx(interval, rel=0.05, abs=0.01 * start)


@pytest.mark.parametrize("jitter", [0.01, 0.05, 0.1])
def test_delays_of_every_run_do_not_move_the_slope_out_of_its_bracket(jitter):
    """Runs delayed by a share of their time: all times are too long, and so would be the slope of their medians."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        repetitions = [
            [(5600 + n * 3400) * (1 + 0.1 * jitter * np.abs(rng.standard_normal(20))) for n in KERNELS]
            for _ in range(5)
        ]
        found = kernel_interval(KERNELS, repetitions)
        assert found is not None and found.low <= 3400 <= found.high


@given(st.lists(st.integers(50, 5000), min_size=2, max_size=6), st.floats(0, 0.02), st.integers(0, 1000))
def test_the_bracket_holds_the_value_and_every_neighbouring_slope(slopes, noise, seed):
    """Between two numbers of kernels the cost of each is another."""
    rng = np.random.default_rng(seed)
    kernels = [1 << step for step in range(len(slopes) + 1)]
    times = np.cumsum([6000, *(slope * (1 << step) for step, slope in enumerate(slopes))])
    exact = kernel_interval(kernels, [[np.array([time]) for time in times]])
    assert exact is not None and exact.low <= min(slopes) and exact.high >= max(slopes)
    noisy = [[np.rint(time * (1 + noise * rng.standard_normal(20))).astype(int) for time in times] for _ in range(2)]
    found = kernel_interval(kernels, noisy)
    assert found is None or 0 <= found.low <= found.value <= found.high


def test_kernels_that_take_no_longer():
    assert kernel_interval((1, 2, 4), [[np.array([100])] * 3]) is None
    with pytest.raises(ValueError, match="several numbers"):
        kernel_interval((1,), [[np.array([1])]])
    with pytest.raises(ValueError, match="runs"):
        undelayed_duration([])


def waves(wait, sms=2, resident=2, count=4):
    """begin, end, sm and block of one warp per block."""
    rows = []
    for sm in range(sms):
        for slot in range(resident):
            now = 100 * sm + 11 * slot
            for wave in range(count):
                rows.append((now, now + 1000 + 3 * wave, sm, 100 * sm + 10 * slot + wave))
                now += 1000 + 3 * wave + wait
    return np.array(rows).T


@pytest.mark.parametrize("wait", [150, 220, 300])
def test_from_a_blocks_end_to_the_begin_of_its_successor(wait):
    found = block_replacement(*waves(wait), resident=2)
    assert found is not None and found.cycles == wait


def test_a_block_lasts_from_its_first_to_its_last_warp():
    begin, end, sm, block = waves(200)
    begins, ends = np.concatenate([begin, begin + 5]), np.concatenate([end - 9, end])
    found = block_replacement(begins, ends, np.tile(sm, 2), np.tile(block, 2), resident=2)
    assert found is not None and found.cycles == 200


def test_blocks_that_do_not_wait_replace_none():
    assert block_replacement(*waves(-900), resident=2) is None
    assert block_replacement(*waves(200, sms=1, count=2), resident=2) is None, "too few"
