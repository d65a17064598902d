"""Rates from begins and ends, and warps that reach them."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.inference.issue import latency_by_sm, mean_duration, needed, rate, rate_beyond


def warps(took, count=4, sms=1, start=100):
    sm = np.repeat(np.arange(sms), count)
    begin = start + 1000 * sm + np.tile(np.arange(count), sms)
    return SimpleNamespace(begin=begin, end=begin + took, sm=sm)


def test_from_the_first_begin_to_the_last_end_of_each_sm():
    trace = warps(97, sms=3)  # the last begins 3 cycles after the first
    assert rate(trace.begin, trace.end, trace.sm, 3200).rate == 4 * 3200 / 100


def test_what_begins_and_loops_cost_cancels():
    found = rate_beyond(warps(4 * 500 + 77), warps(4 * 100 + 77), 400 * 32)
    assert found is not None and found.rate == pytest.approx(4 * 400 * 32 / 1600)
    assert rate_beyond(warps(100), warps(100), 32) is None


@pytest.mark.parametrize("trace", [warps(0, count=1), warps(5, count=0)])
def test_warps_that_took_no_time_and_no_warps(trace):
    with pytest.raises(ValueError, match=r"cycles|every warp"):
        rate(trace.begin, trace.end, trace.sm, 1)


def test_unlike_mixes_are_not_compared():
    with pytest.raises(ValueError, match="not alike"):
        rate_beyond(warps(10), warps(5, count=2), 1)


def test_duration_is_that_of_the_middle_warp():
    assert mean_duration(np.zeros(3, int), np.array([5, 7, 100])) == 7
    with pytest.raises(ValueError, match="every warp"):
        mean_duration(np.zeros(0, int), np.zeros(0, int))


def test_an_address_farther_away_is_in_the_bracket():
    """Two halves of an L2: what one SM sees is one of two numbers."""
    sm = np.arange(8)
    took = np.where(sm % 2, 300, 500) * 100
    runs = [(np.full(8, 7), 7 + took + wait, sm) for wait in (0, 30, 90)]
    found = latency_by_sm(runs, 100)
    assert found.cycles == pytest.approx(400.3) and found.low <= 300 and found.high >= 500
    with pytest.raises(ValueError, match="runs"):
        latency_by_sm([], 1)


class TestNeeded:
    """The fewest warps for a share of the plateau."""

    linear = {n: min(n / 24, 1.0) * 128 for n in range(1, 33)}  # noqa: RUF012

    def test_the_fewest(self):
        found = needed(self.linear, 128, 0.95)
        assert (found.warps, found.low, found.high) == (23, 23, 24)

    def test_a_dip_after_it_does_not_matter(self):
        """VV16 s6.1: 92 % at 24 warps, and more at 32."""
        found = needed({8: 60.0, 16: 100.0, 24: 92.0, 32: 100.0}, 100, 0.95)
        assert found.warps == 16

    def test_never_reached(self):
        found = needed({1: 10.0, 64: 80.0}, 100, 0.95)
        assert (found.warps, found.low, found.high, found.best) == (None, 64, None, 0.8)

    def test_the_best_share_belongs_to_the_warps_that_reached_it(self):
        found = needed({8: 60.0, 32: 90.0, 64: 80.0}, 100, 0.95)
        assert (found.warps, found.best, found.nearest) == (None, 0.9, 32)

    def test_without_rates(self):
        with pytest.raises(ValueError, match="need rates"):
            needed({}, 1, 0.9)
