"""Occupancy, spans, latency and rates from when warps began and ended: by hand, and against a model of waves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.instructions.infer_issue import (
    Lifetimes,
    SmTotals,
    issue_rate,
    issue_rate_difference,
    median_duration,
    near_far_latency,
    warps_needed,
)
from gpudissect.trace import totals_by_sm


def lifetimes(*warps: tuple[int, int, int]) -> Lifetimes:
    """Begin, end and SM of each warp."""
    return Lifetimes(*np.array(warps, np.int64).T)


def equal_warps(duration: int, count: int = 4, sms: int = 1) -> Lifetimes:
    """Each begins a cycle after the one before."""
    begins = [(100 + 1000 * sm + n, sm) for sm in range(sms) for n in range(count)]
    return lifetimes(*((begin, begin + duration, sm) for begin, sm in begins))


TWO_SMS = lifetimes((0, 100, 0), (0, 50, 0), (50, 100, 0), (1000, 1200, 7))


@pytest.mark.parametrize("warps", [[(0, 0, 0)], [(5, 3, 0)], []])
def test_impossible_lifetimes(warps: list[tuple[int, int, int]]) -> None:
    with pytest.raises(ValueError, match="warp"):
        lifetimes(*warps) if warps else Lifetimes(*[np.zeros(0, np.int64)] * 3)


def test_occupancy_against_time() -> None:
    occupancy = TWO_SMS.occupancy(0)
    assert occupancy.cycles.tolist() == [0, 50, 100] and occupancy.warps.tolist() == [2, 2, 0]
    assert occupancy.max == 2 and occupancy.mean == 2.0 and occupancy.share_below(2) == 0.0
    alone = lifetimes((10, 30, 0), (10, 20, 0)).occupancy(0)
    assert alone.warps.tolist() == [2, 1, 0] and alone.mean == 1.5 and alone.share_below(2) == 0.5
    with pytest.raises(ValueError, match="SM 3 ran no warps"):
        TWO_SMS.occupancy(3)


def test_each_sm_has_a_clock_of_its_own() -> None:
    totals = TWO_SMS.totals
    assert totals.spans.tolist() == [100, 200] and totals.warps.tolist() == [3, 1]
    assert totals.imbalance == pytest.approx(200 / 150)
    assert totals.mean_duration == 100.0
    assert totals.overall_rate(10) == pytest.approx(10 * 2 / 200)
    assert totals.attained_rate(10) == pytest.approx((30 / 100 + 10 / 200) / 2)


@given(st.integers(1, 64), st.integers(1, 8), st.floats(1.0, 1e4))
def test_all_rates_of_equal_warps_agree(warps: int, sms: int, work: float) -> None:
    equal = lifetimes(*((5 * sm, 5 * sm + 400, sm) for sm in range(sms) for _ in range(warps))).totals
    assert equal.rate_uncertainty == pytest.approx(0.0, abs=1e-9)
    for rate in (equal.overall_rate(work), equal.attained_rate(work), equal.steady_rate(work)):
        assert rate == pytest.approx(warps * work / 400)
    assert equal.rate_between_waves(work) is None


@pytest.mark.parametrize("served", [1, 3, 8])
def test_waves_of_warps_that_are_served_in_order(served: int) -> None:
    """8 warps are resident and the `served` oldest of them run, 100 cycles each: the rate is theirs."""
    resident, total = 8, 80
    end = [100 * (n // served + 1) for n in range(total)]
    begin = [0 if n < resident else end[n - resident] for n in range(total)]
    waves = lifetimes(*zip(begin, end, [0] * total, strict=True)).totals
    assert waves.rate_between_waves(50.0) == pytest.approx(served * 50 / 100, rel=0.06)
    first = lifetimes(*((0, b, 0) for b in end[:resident])).totals
    if served < resident:
        assert first.rate_uncertainty > 0.05 and first.steady_rate(50.0) > 1.05 * served * 50 / 100, "hence waves"


def test_median_duration() -> None:
    assert median_duration(np.zeros(3, int), np.array([5, 7, 100])) == 7
    with pytest.raises(ValueError, match="every warp"):
        median_duration(np.zeros(0, int), np.zeros(0, int))


def test_issue_rate_from_the_first_begin_to_the_last_end_of_each_sm() -> None:
    found = issue_rate(equal_warps(97, sms=3).totals, 3200)  # the last begins 3 cycles after the first
    assert found.rate == found.low == found.high == 4 * 3200 / 100
    assert issue_rate(equal_warps(97).totals, 3200, idle=20).high == 4 * 3200 / 80


def test_the_difference_of_two_mixes_cancels_the_cost_of_loops() -> None:
    found = issue_rate_difference(equal_warps(4 * 500 + 77).totals, equal_warps(4 * 100 + 77).totals, 400 * 32)
    assert found is not None and found.rate == pytest.approx(4 * 400 * 32 / 1600)
    assert issue_rate_difference(equal_warps(100).totals, equal_warps(100).totals, 32) is None
    with pytest.raises(ValueError, match="4 and 2 warps"):
        issue_rate_difference(equal_warps(10).totals, equal_warps(5, count=2).totals, 1)


def runs_of(latencies, waits=(0, 30, 90)) -> list[Lifetimes]:
    """Runs of one warp on each SM, of 100 instructions."""
    cycles = np.rint(np.array(latencies) * 100).astype(int)
    return [Lifetimes(np.full(cycles.size, 7), 7 + cycles + wait, np.arange(cycles.size)) for wait in waits]


@pytest.mark.parametrize("near", [40, 66, 90])
def test_the_value_lies_half_way_between_near_and_far_whatever_their_numbers(near: int) -> None:
    """Two partitions of an L2: an SM observes one of two latencies at one address."""
    rng = np.random.default_rng(near)
    latencies = np.concatenate([rng.uniform(280, 310, near), rng.uniform(480, 520, 132 - near)])
    found = near_far_latency(runs_of(rng.permutation(latencies)), 100)
    assert found.latency.cycles == pytest.approx((295 + 500) / 2, rel=0.015)
    assert found.near == pytest.approx(295, rel=0.02) and found.far == pytest.approx(500, rel=0.02)
    assert found.near_share == pytest.approx(near / 132)
    assert found.latency.low <= latencies.min() and latencies.max() <= found.latency.high


@pytest.mark.parametrize("latencies", [[300.0] * 16, np.linspace(190, 230, 80), [300.0] * 8 + [310.0] * 8])
def test_equal_or_evenly_spread_latencies_are_no_two_groups(latencies) -> None:
    found = near_far_latency(runs_of(latencies), 100)
    assert found.near is None and found.far is None
    assert found.latency.low <= min(latencies) and max(latencies) <= found.latency.high
    assert found.latency.cycles == pytest.approx(np.median(latencies), rel=0.02)
    with pytest.raises(ValueError, match="runs"):
        near_far_latency([], 1)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({n: min(n / 24, 1.0) * 100 for n in range(1, 33)}, (23, 23, 24)),
        ({16: 50.0, 31: 92.0, 32: 100.0, 64: 100.0}, (32, 31, 32)),  # in proportion fewer might do
        ({16: 50.0, 31: 96.0, 32: 100.0, 64: 100.0}, (31, 31, 31)),
        ({8: 70.0, 12: 100.0, 16: 100.0}, (12, 12, 12)),  # 11 of 12 are less than 95 %
        ({8: 60.0, 16: 100.0, 24: 92.0, 32: 100.0}, (16, 16, 16)),  # a dip after it does not matter (VV16 s6.1)
        ({1: 10.0, 64: 80.0}, (None, 64, None)),
    ],
)
def test_warps_needed(rates, expected) -> None:
    found = warps_needed(rates, 100, 0.95)
    assert (found.warps, found.low, found.high) == expected


def test_the_best_share_belongs_to_the_warps_that_reached_it() -> None:
    found = warps_needed({8: 60.0, 32: 90.0, 64: 80.0}, 100, 0.95)
    assert (found.warps, found.best, found.nearest) == (None, 0.9, 32)
    with pytest.raises(ValueError, match="need rates"):
        warps_needed({}, 1, 0.9)


def rate_by_definition(lifetimes: Lifetimes) -> float | None:
    """What `SmTotals.rate_between_waves` is, SM by SM."""
    rates = []
    for sm in np.unique(lifetimes.sm):
        begin, end = lifetimes.begin[lifetimes.sm == sm], lifetimes.end[lifetimes.sm == sm]
        since, until = end[begin < end.min()].max(), begin.max()
        if until <= since:
            return None
        inside = np.clip(np.minimum(end, until) - np.maximum(begin, since), 0, None)
        rates.append(float((inside / (end - begin)).sum()) / float(until - since))
    return float(np.mean(rates))


WARPS = st.tuples(st.integers(0, 900), st.integers(1, 300), st.integers(0, 3))


@given(st.lists(WARPS, min_size=1, max_size=60))
def test_totals_are_those_of_the_warps(warps: list[tuple[int, int, int]]) -> None:
    each = lifetimes(*((begin, begin + cycles, sm) for begin, cycles, sm in warps))
    totals, own = each.totals, [each.sm == sm for sm in np.unique(each.sm)]
    assert totals.spans.tolist() == [each.end[one].max() - each.begin[one].min() for one in own]
    assert totals.warps.tolist() == [one.sum() for one in own]
    assert totals.mean_duration == pytest.approx((each.end - each.begin).mean())
    assert totals.steady_rate(7.0) == pytest.approx(7 * (1 / (each.end - each.begin)).sum() / len(own))
    assert totals.rate_between_waves(1.0) == pytest.approx(rate_by_definition(each))


@pytest.mark.parametrize("name", ["warps", "span", "duration", "pace", "full_cycles", "full_warps"])
def test_impossible_sums_are_refused(name: str) -> None:
    arrays = totals_by_sm(TWO_SMS.begin, TWO_SMS.end, TWO_SMS.sm)
    SmTotals.of_arrays(arrays)
    with pytest.raises(ValueError, match="full occupancy"):
        SmTotals.of_arrays({**arrays, name: np.full(2, -1)})
