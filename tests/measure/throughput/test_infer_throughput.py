"""Rates from runs, and plateaus over configurations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.throughput.infer_throughput import (
    MIN_WIDTH,
    NEAR,
    TIMER_STEP_NS,
    Throughput,
    alternation,
    combine_repeats,
    fastest,
    find_plateau,
    is_rising,
    nearness,
    rate_per_sm,
    throughput,
)


def rates_of(values, error=0.0):
    return [Throughput(rate, rate * (1 - error), rate * (1 + error)) for rate in values]


class TestThroughput:
    def test_a_disturbed_run_changes_neither_rate_nor_bracket(self):
        calm = np.array([1_000_000, 1_001_000, 1_000_500, 999_500, 1_000_200])
        found = throughput(np.full(5, 4_000_000_000), calm)
        disturbed = throughput(np.full(5, 4_000_000_000), np.where(calm == 1_001_000, 1_100_000, calm))
        assert found == disturbed
        assert found.rate == pytest.approx(4e9 / 1.0002e-3)
        assert (found.high - found.low) / found.rate < 2 * TIMER_STEP_NS / 1e6 + 0.003

    @given(st.integers(4, 40), st.floats(0, 0.03), st.integers(0, 10_000))
    def test_the_bracket_is_that_of_the_median_not_of_a_run(self, runs, scatter, seed):
        rng = np.random.default_rng(seed)
        nanoseconds = (1e7 * (1 + scatter * rng.standard_normal(runs))).astype(np.int64)
        found = throughput(np.full(runs, 10**10), nanoseconds)
        assert found.low <= found.rate <= found.high
        half = (found.high - found.low) / 2 / found.rate
        assert half <= 2 * 1.2533 * 2.7 * scatter / np.sqrt(runs) + 0.001 + scatter

    def test_the_bracket_holds_medians_of_other_runs(self):
        """Runs that scatter by 1.7 %, as stores to the L2 of an H200 do."""
        rng = np.random.default_rng(4)
        nanoseconds = (1e7 / (1 + 0.017 * rng.standard_normal((400, 6)))).astype(np.int64)
        found = [throughput(np.full(6, 10**10), runs) for runs in nanoseconds]
        assert np.mean([each.low <= 10**12 <= each.high for each in found]) > 0.8

    def test_steady_runs_are_as_good_as_the_timer(self):
        found = throughput(np.array([1_000_000]), np.array([1_000_000]))
        assert found.low < found.rate == 1e9 < found.high
        assert (found.high - found.low) / found.rate == pytest.approx(2 * TIMER_STEP_NS / 1e6, rel=1e-3)

    @pytest.mark.parametrize(
        ("moved", "nanoseconds"), [([], []), ([1, 2], [10_000]), ([1000], [1500]), ([1000, 1000], [9000, 0])]
    )
    def test_no_runs_and_short_runs_are_refused(self, moved, nanoseconds):
        with pytest.raises(ValueError, match=r"needs runs|too short"):
            throughput(np.array(moved, np.int64), np.array(nanoseconds, np.int64))


def test_the_fastest_counts_as_measured_the_second_time():
    first, again = Throughput(4.1e12, 4.0e12, 4.2e12), Throughput(4.0e12, 3.9e12, 4.05e12)
    assert fastest([again, first, again]) == 1
    assert combine_repeats(first, again) == Throughput(4.0e12, 3.9e12, 4.2e12)
    assert combine_repeats(first, Throughput(3.5e12, 3.4e12, 3.6e12)) is None


class TestAlternation:
    def test_runs_that_alternate(self):
        """As reads of an H200's L2: 8.30 and 8.44 TB/s."""
        nanoseconds = np.array([1070, 1052, 1071, 1052, 1070, 1053]) * 1000
        assert alternation(np.full(6, 10**9), nanoseconds) == pytest.approx(0.0165, abs=0.001)
        assert alternation(np.full(4, 10**9), nanoseconds[:4]) == 0, "too few"
        assert alternation(np.full(6, 10**9), np.sort(nanoseconds)) == 0, "a drift"

    def test_runs_that_scatter_do_not(self):
        noise = np.random.default_rng(5).standard_normal((500, 6))
        gaps = [alternation(np.full(6, 10**10), runs) for runs in (1e7 * (1 + 0.02 * noise)).astype(np.int64)]
        assert np.mean(np.array(gaps) > 0) < 0.02


class TestRatePerSm:
    moved = np.array([8 * 1000, 8 * 1000])

    def test_blocks_that_run_together(self):
        found = rate_per_sm(self.moved, np.full((2, 16), 10), 8, np.full(2, 10.4))
        assert (found.low, found.rate, found.high) == pytest.approx((1000 / 10.4, 1000 / 10.4, 100))

    def test_blocks_that_run_one_after_the_other_do_not_count_twice(self):
        found = rate_per_sm(self.moved, np.full((2, 16), 10), 8, np.full(2, 20.0))
        assert found.rate == found.high == 50, "a block of half the run does not show how long its SM was busy"

    def test_the_run_may_be_misread(self):
        found = rate_per_sm(self.moved, np.full((2, 16), 100), 8, np.full(2, 100.0), step=2.0)
        assert (found.low, found.rate, found.high) == pytest.approx((1000 / 102, 10, 1000 / 98))

    def test_without_a_clock_the_blocks_count(self):
        assert rate_per_sm(self.moved, np.full((2, 16), 10), 8, np.full(2, np.nan)).rate == 100

    @pytest.mark.parametrize("cycles", [np.zeros((2, 0), int), np.full((1, 4), 10), np.zeros((2, 4), int)])
    def test_missing_cycles_are_refused(self, cycles):
        with pytest.raises(ValueError, match="cycles of every block"):
            rate_per_sm(self.moved, cycles, 8, np.full(2, np.nan))

    @given(st.integers(1, 8), st.integers(2_000, 1_000_000), st.floats(0, 0.4), st.floats(0, 500), st.integers(0, 1000))
    def test_the_bracket_never_exceeds_what_an_sm_can_have_done(self, resident, busy, late, start, seed):
        """Blocks of an SM that begin up to a part of the run apart: true is what it moved while any of them ran."""
        begins = np.sort(np.random.default_rng(seed).uniform(0, late * busy, resident))
        elapsed = begins[-1] - begins[0] + busy + start
        true = 1000 / (begins[-1] - begins[0] + busy)
        found = rate_per_sm(np.array([8 * 1000]), np.full((1, 8 * resident), busy), 8, np.array([elapsed]), step=16.0)
        assert found.low <= found.rate <= found.high
        assert found.rate <= true * 1.0001 and found.high <= max(true * 1.06, 1000 / (elapsed - 16) * 1.0001)


@pytest.mark.parametrize(
    ("in_flight", "rates", "rising"),
    [
        ((1, 2, 8, 16, 40, 80, 160), (0.1, 0.2, 0.8, 1.6, 4, 4, 4), False),
        ((1, 2, 4, 8, 16), (1, 2, 4, 8, 16), True),
        ((1, 2, 4, 8, 16, 16, 16), (1, 2, 4, 8, 16, 16, 16), True),
        ((1, 2, 4, 8), (1.0, 2.0, 1.5, 1.2), False),
        ((1, 2, 4), (5.0, 5.0, 5.0), False),
    ],
    ids=["plateau", "ramp", "ramp with equals at its end", "peak", "flat"],
)
def test_a_ramp_still_rises(in_flight, rates, rising):
    assert is_rising(in_flight, rates) is rising
    assert is_rising([2 * each for each in in_flight], rates) is rising, "units do not matter"


@pytest.mark.parametrize("function", [nearness, lambda rates: is_rising(rates, rates)])
def test_no_rates_are_refused(function):
    with pytest.raises(ValueError):
        function([])


class TestPlateau:
    def test_the_level_is_the_second_median_and_the_bracket_holds_both(self):
        found = find_plateau(rates_of([100.0, 99.0, 98.6], 0.01), rates_of([96.0, 97.0, 98.0], 0.01))
        assert found is not None and found.level.rate == 97.0
        error = 97 * 0.01 / 3**0.5
        assert (found.level.low, found.level.high) == pytest.approx((96 - error, 100 + error))
        assert find_plateau(rates_of([100.0, 99.0, 98.6]), rates_of([80.0] * 3)) is None

    def test_the_shoulder_of_a_gradual_limit_is_no_part_of_it(self):
        """Configurations one per cent below the fastest that repeat to a thousandth."""
        rates = [100.0, 99.9, 99.95, 99.0, 98.9, 98.8, 98.7, 98.6]
        again = [rate * (1 + 0.001 * (-1) ** i) for i, rate in enumerate(rates)]
        found = find_plateau(rates_of(rates), rates_of(again))
        assert found is not None and set(found.members) == {0, 1, 2} and found.width == MIN_WIDTH

    def test_the_luckiest_of_many_that_scatter_is_no_peak(self):
        """One of 45, each the median of two runs that scatter by 1.7 %, seems 4 % faster than all."""
        first = [Throughput(rate, rate * 0.98, rate * 1.02) for rate in [100.0] * 44 + [104.0]]
        assert nearness(first) == pytest.approx(0.04)
        found = find_plateau(first, rates_of([100.0 + 0.5 * (i % 3) for i in range(45)]))
        assert found is not None and not found.isolated and found.level.rate == pytest.approx(100.5, abs=0.6)

    def test_a_peak_shows_twice(self):
        first, again = rates_of([118.0, 112.0, 111.0]), rates_of([117.5, 112.5, 111.0])
        found = find_plateau(first, again)
        assert found is not None and found.isolated and found.members == (0,) and found.level.rate == 117.5
        luck = find_plateau(first, rates_of([112.0, 112.5, 111.0]))
        assert luck is not None and not luck.isolated and luck.level.rate == 112.0 and luck.level.high == 118.0

    def test_another_clock_is_no_scatter(self):
        rates = [100.0, 99.9, 99.95, 99.0, 98.9]
        found = find_plateau(rates_of(rates), rates_of([0.98 * rate for rate in rates]))
        assert found is not None and found.width == MIN_WIDTH and found.level.rate == pytest.approx(0.98 * 99.95)
        assert found.level.high >= 100.0, "the bracket holds the first measurement too"

    def test_surveys_agree_on_rates_that_scatter(self):
        """45 equal configurations, each the median of two runs that scatter by 2 %, whichever is the luckiest."""
        rng = np.random.default_rng(3)
        found = []
        for _ in range(60):
            first, again = (100 * (1 + scatter * rng.standard_normal(45)) for scatter in (0.014, 0.009))
            near = np.argsort(-first)[:16]
            found.append(find_plateau(rates_of(first[near]), rates_of(again[near])))
            assert found[-1] is not None and not found[-1].isolated
        values = np.array([each.level.rate for each in found])
        assert np.median([each.width for each in found]) > NEAR and np.median([len(each.members) for each in found]) > 5
        assert np.abs(values - 100).max() < 1.5 and values.std() < 0.6
        assert all(each.level.low <= 100 <= each.level.high for each in found)

    @given(st.floats(0.5, 1e13), st.floats(0.0005, 0.003), st.floats(0.2, 3.0), st.integers(0, 10_000))
    def test_a_gradual_limit_is_found(self, limit, scatter, slack, seed):
        """Throughput = limit x in flight / (in flight + slack): the shoulder must not lower the answer."""
        rng = np.random.default_rng(seed)
        in_flight = np.repeat(2.0 ** np.arange(0, 11), 3)
        true = limit * in_flight / (in_flight + slack)
        first, second = (rates_of(true * (1 + scatter * rng.standard_normal(true.size)), 3 * scatter) for _ in range(2))
        rates = np.array([each.rate for each in first])
        near = [i for i in np.argsort(-rates, kind="stable") if rates[i] >= (1 - NEAR) * rates.max()][:16]
        found = find_plateau([first[i] for i in near], [second[i] for i in near])
        assert found is not None and not is_rising(in_flight, rates)
        assert found.level.rate == pytest.approx(limit, rel=0.015)
        assert found.level.low <= limit * 1.0001 and limit * (1 - 0.004) <= found.level.high

    @given(st.floats(1, 1e6), st.floats(0.0, 0.01), st.integers(1, 16), st.integers(0, 10_000))
    def test_the_bracket_holds_value_and_fastest(self, level, scatter, count, seed):
        rng = np.random.default_rng(seed)
        first, again = (
            rates_of(np.sort(level * (1 + scatter * rng.standard_normal(count)))[::-1], 0.001) for _ in range(2)
        )
        found = find_plateau(first, again)
        if found is None:
            return  # they differ
        assert found.level.low <= found.level.rate <= found.level.high
        assert found.level.high >= max(each.rate for each in (*first, *again))
        width = max(NEAR, found.width)
        assert found.members
        assert all(abs(again[i].rate - found.level.rate) <= width * level * 1.1 for i in found.members)

    def test_members_that_separate_are_no_plateau(self):
        """Half of them differ the second time: no member lies at their median."""
        assert find_plateau(rates_of([4.60, 4.58], 0.001), rates_of([4.25, 4.60], 0.001)) is None

    @pytest.mark.parametrize(("first", "again"), [([], []), ([Throughput(1, 1, 1)], [])])
    def test_no_members_are_refused(self, first, again):
        with pytest.raises(ValueError, match="members"):
            find_plateau(first, again)
