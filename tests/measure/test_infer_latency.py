"""Latency of whole laps: delays and the constant cost of a lap do not count."""

import numpy as np
import pytest

from gpudissect.measure.infer_latency import (
    Latency,
    deviation_over_sms,
    lap_latency,
    median_over_sms,
    miss_penalty,
    widened,
)


def test_a_delayed_lap_is_ignored():
    found = lap_latency(np.array([3200] * 14 + [90_000] * 10), 100)
    assert found.cycles == 32
    assert found.low <= 32 <= found.high


def test_the_cost_of_a_lap_cancels_with_a_shorter_chain():
    assert lap_latency(np.array([33 + 28 * 16] * 5), 16, np.array([33 + 28 * 8] * 5), 8).cycles == 28


@pytest.mark.parametrize("drift", [-0.002, 0.002])
def test_the_clock_drifts_from_one_chain_to_the_next(drift):
    """Seed 700203 of the calibration: the errors of two laps of 64 and 32 loads add, relative to 32 loads."""
    long, short = (np.full(9, round(links * 200 * (1 + sign * drift))) for links, sign in ((64, 1), (32, -1)))
    found = lap_latency(long, 64, short, 32)
    assert abs(found.cycles - 200) > 0.5 + 0.002 * 200
    assert found.low <= 200 <= found.high


def test_the_median_over_sms_is_that_of_all_sms():
    """132 SMs at distances of 6.5 cycles of deviation around 281: the bracket holds their median, not every SM."""
    rng = np.random.default_rng(0)
    misses, widths = 0, []
    for _ in range(300):
        by_sm = 281 + 6.5 * rng.standard_normal(132)
        chains = [Latency(cycles, cycles - 0.5, cycles + 0.5) for cycles in rng.choice(by_sm, 25, replace=False)]
        found = median_over_sms(chains)
        misses += not found.low <= np.median(by_sm) <= found.high
        widths.append(found.high - found.low)
    assert misses <= 1
    assert np.median(widths) < 2 * 6.5


def test_one_chain_has_its_own_bracket_and_no_deviation():
    chain = Latency(281.0, 280.0, 282.0)
    assert median_over_sms([chain]) == chain
    assert deviation_over_sms([chain]) == 0.0


@pytest.mark.parametrize(("sms", "error"), [(1, 18.0), (9, 6.0)])
def test_a_latency_of_few_sms_is_widened_by_their_distances(sms, error):
    assert widened(Latency(457.0, 450.0, 464.0), 6.0, sms) == Latency(457.0, 450.0 - error, 464.0 + error)


@pytest.mark.parametrize("share", [0.0, 0.005, 0.05])
def test_misses_among_the_hits_do_not_lower_the_penalty_of_a_miss(share):
    hits = np.where(np.arange(2000) < share * 2000, 440, 155 + np.arange(2000) % 2)
    assert miss_penalty(hits, np.full(2000, 440)).cycles == pytest.approx(284.5, abs=0.2)


def test_delays_that_hits_and_misses_share_do_not_change_the_penalty_of_a_miss():
    delays = np.where(np.arange(2000) % 50 == 49, 400, 0)
    assert miss_penalty(82 + delays, 133 + delays).cycles == pytest.approx(51, abs=0.2)


@pytest.mark.parametrize("share", [0.03, 0.06, 0.2])
def test_a_few_misses_of_the_far_partition_widen_the_bracket_and_leave_the_value(share):
    hits, near = 129 + np.arange(2000) % 2, 354 + np.arange(2000) % 2
    misses = near + np.where(np.arange(2000) < share * 2000, 71, 0)
    found = miss_penalty(hits, misses)
    assert found.cycles == pytest.approx(225, abs=0.2)
    assert found.low < 225 and found.high > 225 + 71 * share - 0.5
