"""The plateau of a surface, and what is none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.throughput.infer_surface import ALIKE, NEAR, Cell, nearness, plateau_of, top_of
from gpudissect.measure.throughput.infer_throughput import Throughput, rate_of_one


def little(latency, rate, flying):
    return [Cell(each, min(each / latency, rate)) for each in flying]


def test_a_plateau_is_where_more_in_flight_is_no_more_throughput():
    top = top_of(little(10, 4, (1, 2, 8, 16, 40, 80, 160)))
    assert set(top.members) == {4, 5, 6}
    assert not top.rising


def test_a_ramp_has_no_plateau():
    assert top_of(little(10, 1e9, (1, 2, 4, 8, 16))).rising
    assert top_of(little(10, 1e9, (1, 2, 4, 8, 16, 16, 16))).rising, "equals in flight are no plateau either"


def test_what_falls_again_is_a_peak_and_no_ramp():
    top = top_of([Cell(1, 1.0), Cell(2, 2.0), Cell(4, 1.5), Cell(8, 1.2)])
    assert len(top.members) == 1 and not top.rising


def test_flat_from_the_beginning():
    assert not top_of([Cell(flying, 5.0) for flying in (1, 2, 4)]).rising


@given(
    st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.1, 1e6)), min_size=1, max_size=40),
    st.floats(0.01, 100),
)
def test_units_do_not_matter(cells, factor):
    top = top_of([Cell(*each) for each in cells])
    rates = [rate for _, rate in cells]
    assert rates[top.members[0]] == max(rates)
    assert all(rates[i] >= (1 - NEAR) * max(rates) for i in top.members)
    assert set(top_of([Cell(flying * 2, rate) for flying, rate in cells]).members) == set(top.members)


def seen(rates, error=0.0):
    return [Throughput(rate, rate * (1 - error), rate * (1 + error)) for rate in rates]


def test_the_level_is_the_median_of_the_second_time_and_the_bracket_holds_both():
    found = plateau_of(seen([100.0, 99.0, 98.6], 0.01), seen([96.0, 97.0, 98.0], 0.01))
    assert found is not None and found.level.rate == 97.0
    error = 97 * 0.01 / 3**0.5
    assert (found.level.low, found.level.high) == pytest.approx((96 - error, 100 + error))
    assert plateau_of(seen([100.0, 99.0, 98.6]), seen([80.0] * 3)) is None


def test_what_is_slower_for_good_is_no_part_of_it():
    """Cells a per cent below the best that repeat to a thousandth: the shoulder of a limit reached gradually."""
    rates = [100.0, 99.9, 99.95, 99.0, 98.9, 98.8, 98.7, 98.6]
    again = [rate * (1 + 0.001 * (-1) ** i) for i, rate in enumerate(rates)]
    found = plateau_of(seen(rates), seen(again))
    assert found is not None and set(found.members) == {0, 1, 2} and found.width == ALIKE


def test_the_luckiest_of_many_that_scatter_is_no_peak():
    """One of 45 cells, each the median of two runs that scatter by 1.7 %, seems 4 % faster than all."""
    first = [100.0] * 44 + [104.0]
    cells = [Throughput(rate, rate * 0.98, rate * 1.02) for rate in first]
    assert nearness(cells) == pytest.approx(0.04)
    again = [100.0 + 0.5 * (i % 3) for i in range(45)]
    found = plateau_of(cells, seen(again))
    assert found is not None and not found.lonely and found.level.rate == pytest.approx(100.5, abs=0.6)


def test_a_peak_is_one_that_shows_twice():
    first, again = seen([118.0, 112.0, 111.0]), seen([117.5, 112.5, 111.0])
    found = plateau_of(first, again)
    assert found is not None and found.lonely and found.members == (0,) and found.level.rate == 117.5
    luck = plateau_of(first, seen([112.0, 112.5, 111.0]))
    assert luck is not None and not luck.lonely and luck.level.rate == 112.0 and luck.level.high == 118.0


def test_nothing_is_near_where_there_is_nothing():
    with pytest.raises(ValueError, match="cells"):
        nearness([])


def test_a_clock_that_moved_is_no_scatter():
    rates = [100.0, 99.9, 99.95, 99.0, 98.9]
    found = plateau_of(seen(rates), seen([0.98 * rate for rate in rates]))
    assert found is not None and found.width == ALIKE and found.level.rate == pytest.approx(0.98 * 99.95)
    assert found.level.high >= 100.0, "the first time counts for the bracket"


def test_what_scatters_much_is_looked_at_together():
    """45 equal cells, each the median of two runs that scatter by 2 %: two surveys agree, whoever is the luckiest."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(60):
        first, again = (100 * (1 + s * rng.standard_normal(45)) for s in (0.014, 0.009))
        near = np.argsort(-first)[:16]
        found.append(plateau_of(seen(first[near]), seen(again[near])))
        assert found[-1] is not None and not found[-1].lonely
    values = np.array([each.level.rate for each in found])
    assert np.median([each.width for each in found]) > NEAR and np.median([len(each.members) for each in found]) > 5
    assert np.abs(values - 100).max() < 1.5 and values.std() < 0.6
    assert all(each.level.low <= 100 <= each.level.high for each in found)


@given(st.floats(0.5, 1e13), st.floats(0.0005, 0.003), st.floats(0.2, 3.0), st.integers(0, 10_000))
def test_a_limit_reached_little_by_little_is_found_again(limit, scatter, slack, seed):
    """Throughput = limit x flying / (flying + slack): a shoulder must not pull the answer down by a per cent."""
    rng = np.random.default_rng(seed)
    flying = np.repeat(2.0 ** np.arange(0, 11), 3)
    true = limit * flying / (flying + slack)

    def measured():
        rates = true * (1 + scatter * rng.standard_normal(true.size))
        return seen(rates, 3 * scatter)

    first, second = measured(), measured()
    top = top_of([Cell(f, each.rate) for f, each in zip(flying, first, strict=True)])
    near = list(top.members)[:16]
    found = plateau_of([first[i] for i in near], [second[i] for i in near])
    assert found is not None and not top.rising
    assert found.level.rate == pytest.approx(limit, rel=0.015)
    assert found.level.low <= limit * 1.0001 and limit * (1 - 0.004) <= found.level.high


@given(st.floats(1, 1e6), st.floats(0.0, 0.01), st.integers(1, 16), st.integers(0, 10_000))
def test_value_and_best_cells_lie_in_the_bracket(level, scatter, count, seed):
    rng = np.random.default_rng(seed)
    first, again = (seen(np.sort(level * (1 + scatter * rng.standard_normal(count)))[::-1], 0.001) for _ in range(2))
    found = plateau_of(first, again)
    if found is None:
        return  # they fell apart
    assert found.level.low <= found.level.rate <= found.level.high
    assert found.level.high >= max(each.rate for each in (*first, *again))
    most = max(NEAR, found.width)
    assert found.members and all(abs(again[i].rate - found.level.rate) <= most * level * 1.1 for i in found.members)


def test_members_that_fall_apart_are_no_plateau():
    """Half of them did something else the second time: their median lies where none of them is."""
    first, again = seen(np.array([4.60, 4.58]), 0.001), seen(np.array([4.25, 4.60]), 0.001)
    assert plateau_of(first, again) is None


@pytest.mark.parametrize(("first", "again"), [([], []), ([Throughput(1, 1, 1)], [])])
def test_no_members_no_level(first, again):
    with pytest.raises(ValueError, match="members"):
        plateau_of(first, again)
    with pytest.raises(ValueError, match="cells"):
        top_of([])


class TestRateOfOne:
    """Bytes a cycle of one SM."""

    moved = np.array([8 * 1000, 8 * 1000])

    def test_blocks_that_run_together(self):
        cycles = np.full((2, 16), 10)
        found = rate_of_one(self.moved, cycles, 8, np.full(2, 10.4))
        assert found.rate == pytest.approx(1000 / 10.4)
        assert found.low == pytest.approx(1000 / 10.4) and found.high == pytest.approx(100)

    def test_blocks_that_run_one_after_the_other_do_not_count_twice(self):
        cycles = np.full((2, 16), 10)
        found = rate_of_one(self.moved, cycles, 8, np.full(2, 20.0))
        assert found.rate == found.high == 50, "a block of half the run says nothing of how long its SM was busy"

    def test_the_run_may_be_misread(self):
        found = rate_of_one(self.moved, np.full((2, 16), 100), 8, np.full(2, 100.0), step=2.0)
        assert (found.low, found.rate, found.high) == pytest.approx((1000 / 102, 10, 1000 / 98))

    def test_without_a_clock_the_blocks_alone_tell(self):
        assert rate_of_one(self.moved, np.full((2, 16), 10), 8, np.full(2, np.nan)).rate == 100

    @pytest.mark.parametrize("cycles", [np.zeros((2, 0), int), np.full((1, 4), 10), np.zeros((2, 4), int)])
    def test_nothing_follows_from_nothing(self, cycles):
        with pytest.raises(ValueError, match="cycles of every block"):
            rate_of_one(self.moved, cycles, 8, np.full(2, np.nan))

    @given(st.integers(1, 8), st.integers(2_000, 1_000_000), st.floats(0, 0.4), st.floats(0, 500), st.integers(0, 1000))
    def test_the_bracket_never_claims_more_than_an_sm_could_have_done(self, at_once, busy, late, start, seed):
        """Blocks of an SM that begin up to a part of the run apart: true is what it moved while any of them ran."""
        rng = np.random.default_rng(seed)
        begins = np.sort(rng.uniform(0, late * busy, at_once))
        cycles = np.full((1, 8 * at_once), busy)
        whole = begins[-1] - begins[0] + busy + start
        true = 1000 / (begins[-1] - begins[0] + busy)
        found = rate_of_one(np.array([8 * 1000]), cycles, 8, np.array([whole]), step=16.0)
        assert found.low <= found.rate <= found.high
        assert found.rate <= true * 1.0001 and found.high <= max(true * 1.06, 1000 / (whole - 16) * 1.0001)
