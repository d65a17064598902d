"""Rates from begins and ends, and warps that reach them."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.measure.instructions.infer_issue import latency_by_way, mean_duration, needed, rate, rate_beyond


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


def ways(latencies, waits=(0, 30, 90)):
    """Runs of one warp on each SM, of 100 instructions."""
    sm = np.arange(len(latencies))
    took = np.rint(np.array(latencies) * 100).astype(int)
    return [(np.full(sm.size, 7), 7 + took + wait, sm) for wait in waits]


@pytest.mark.parametrize("near", [40, 66, 90])
def test_near_and_far_have_the_same_middle_however_many_are_near(near):
    """Two parts of an L2: what one SM sees of one address is one of two numbers."""
    rng = np.random.default_rng(near)
    each = np.concatenate([rng.uniform(280, 310, near), rng.uniform(480, 520, 132 - near)])
    found = latency_by_way(ways(rng.permutation(each)), 100)
    assert found.latency.cycles == pytest.approx((295 + 500) / 2, rel=0.015)
    assert found.near == pytest.approx(295, rel=0.02) and found.far == pytest.approx(500, rel=0.02)
    assert found.share == pytest.approx(near / 132)
    assert found.latency.low <= each.min() and each.max() <= found.latency.high


@pytest.mark.parametrize("latencies", [[300.0] * 16, np.linspace(190, 230, 80), [300.0] * 8 + [310.0] * 8])
def test_ways_that_are_alike_or_as_long_as_they_come_are_no_two_groups(latencies):
    found = latency_by_way(ways(latencies), 100)
    assert found.near is None and found.far is None
    assert found.latency.low <= min(latencies) and max(latencies) <= found.latency.high
    assert found.latency.cycles == pytest.approx(np.median(latencies), rel=0.02)
    with pytest.raises(ValueError, match="runs"):
        latency_by_way([], 1)


class TestNeeded:
    """The fewest warps for a share of the plateau."""

    linear = {n: min(n / 24, 1.0) * 128 for n in range(1, 33)}  # noqa: RUF012

    def test_the_fewest(self):
        found = needed(self.linear, 128, 0.95)
        assert (found.warps, found.low, found.high) == (23, 23, 24)

    def test_fewer_that_might_do_in_proportion(self) -> None:
        uneven = {16: 50.0, 31: 92.0, 32: 100.0, 64: 100.0}
        assert (needed(uneven, 100, 0.95).low, needed(uneven | {31: 96.0}, 100, 0.95).low) == (31, 31)
        assert needed({8: 70.0, 12: 100.0, 16: 100.0}, 100, 0.95).low == 12, "11 of 12 are less than 95 %"

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
