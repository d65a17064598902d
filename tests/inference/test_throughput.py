"""Bandwidth: bytes over time, its bracket, and the best of several configurations."""

import numpy as np
import pytest

from gpudissect.inference.throughput import CLOCK_STEP, Throughput, fastest, repeated, throughput


def test_the_median_of_the_runs_and_all_of_them_in_the_bracket():
    found = throughput(np.full(3, 4_000_000_000), np.array([1_000_000, 1_100_000, 1_010_000]))
    assert found.rate == pytest.approx(4e9 / 1.01e-3)
    assert found.low == pytest.approx(4e9 / (1.1e-3 + CLOCK_STEP * 1e-9))
    assert found.high == pytest.approx(4e9 / (1e-3 - CLOCK_STEP * 1e-9))


def test_steady_runs_are_as_good_as_the_timer():
    found = throughput(np.array([1_000_000]), np.array([1_000_000]))
    assert found.low < found.rate == 1e9 < found.high
    assert (found.high - found.low) / found.rate == pytest.approx(2 * CLOCK_STEP / 1e6, rel=1e-3)


@pytest.mark.parametrize(("moved", "took"), [([], []), ([1, 2], [10_000]), ([1000], [1500]), ([1000, 1000], [9000, 0])])
def test_nothing_follows_from_no_runs_or_from_short_ones(moved, took):
    with pytest.raises(ValueError, match=r"needs runs|too short"):
        throughput(np.array(moved, np.int64), np.array(took, np.int64))


def test_the_best_is_measured_anew():
    first, again = Throughput(4.1e12, 4.0e12, 4.2e12), Throughput(4.0e12, 3.9e12, 4.05e12)
    assert fastest([again, first, again]) == 1
    assert repeated(first, again) == Throughput(4.0e12, 3.9e12, 4.2e12)
    assert repeated(first, Throughput(3.5e12, 3.4e12, 3.6e12)) is None
