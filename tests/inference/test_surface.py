"""The plateau of a surface, and what is none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.inference.surface import NEAR, Cell, settled, top_of
from gpudissect.inference.throughput import Throughput, rate_of_one


def little(latency, rate, flying):
    return [Cell(each, min(each / latency, rate)) for each in flying]


def test_a_plateau_is_where_more_in_flight_is_no_more_throughput():
    top = top_of(little(10, 4, (1, 2, 8, 16, 40, 80, 160)))
    assert set(top.members) == {4, 5, 6}
    assert top.first == 4
    assert not top.rising and not top.lonely


def test_a_ramp_has_no_plateau():
    assert top_of(little(10, 1e9, (1, 2, 4, 8, 16))).rising
    assert top_of(little(10, 1e9, (1, 2, 4, 8, 16, 16, 16))).rising, "equals in flight are no plateau either"


def test_what_falls_again_is_a_peak_and_no_ramp():
    top = top_of([Cell(1, 1.0), Cell(2, 2.0), Cell(4, 1.5), Cell(8, 1.2)])
    assert top.lonely and not top.rising


def test_flat_from_the_beginning():
    top = top_of([Cell(flying, 5.0) for flying in (1, 2, 4)])
    assert top.first == 0 and not top.rising


@given(
    st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.1, 1e6)), min_size=1, max_size=40),
    st.floats(0.01, 100),
)
def test_units_do_not_matter(cells, factor):
    top = top_of([Cell(*each) for each in cells])
    rates = [rate for _, rate in cells]
    assert rates[top.members[0]] == max(rates)
    assert all(rates[i] >= (1 - NEAR) * max(rates) for i in top.members)
    assert cells[top.first][0] == min(cells[i][0] for i in top.members)
    assert set(top_of([Cell(flying * 2, rate) for flying, rate in cells]).members) == set(top.members)


def test_the_level_is_the_median_of_the_second_time():
    first = [Throughput(rate, rate, rate) for rate in (100.0, 99.0, 98.0)]
    again = [Throughput(rate, rate - 1, rate + 1) for rate in (96.0, 97.0, 98.0)]
    assert settled(first, again) == Throughput(97.0, 95.0, 99.0)
    assert settled(first, [Throughput(80.0, 80, 80)] * 3) is None


@pytest.mark.parametrize(("first", "again"), [([], []), ([Throughput(1, 1, 1)], [])])
def test_no_members_no_level(first, again):
    with pytest.raises(ValueError, match="members"):
        settled(first, again)
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
        assert rate_of_one(self.moved, cycles, 8, np.full(2, 20.0)).rate == 50

    def test_without_a_clock_the_blocks_alone_tell(self):
        assert rate_of_one(self.moved, np.full((2, 16), 10), 8, np.full(2, np.nan)).rate == 100

    @pytest.mark.parametrize("cycles", [np.zeros((2, 0), int), np.full((1, 4), 10), np.zeros((2, 4), int)])
    def test_nothing_follows_from_nothing(self, cycles):
        with pytest.raises(ValueError, match="cycles of every block"):
            rate_of_one(self.moved, cycles, 8, np.full(2, np.nan))
