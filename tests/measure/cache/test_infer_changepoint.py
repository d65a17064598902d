"""The change-point method: right on steps, and shown to believe in a step on a ramp."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpudissect.measure.cache.infer_changepoint import change_point, geometric_distance, ks_distance, optimal_split

finite = st.floats(-1e3, 1e3, allow_nan=False)


def test_a_clean_step_is_found_and_believed():
    found = change_point(np.array([1.0] * 20 + [5.0] * 15))
    assert found.index == 20
    assert found.believed


def test_a_ramp_has_no_step_and_is_believed_all_the_same():
    assert change_point(np.arange(60.0)).believed


@given(arrays(float, st.integers(2, 40), elements=finite))
def test_the_split_is_the_best_of_all(series):
    cost = [np.sum((series[:i] - series[:i].mean()) ** 2) + np.sum((series[i:] - series[i:].mean()) ** 2)
            for i in range(1, series.size)]  # fmt: skip
    assert cost[optimal_split(series) - 1] == pytest.approx(min(cost), abs=1e-4)


@given(arrays(float, st.integers(1, 30), elements=finite), arrays(float, st.integers(1, 30), elements=finite))
def test_distance_is_the_largest_gap_of_the_empirical_distributions(first, second):
    gaps = [abs(np.mean(first <= x) - np.mean(second <= x)) for x in (*first, *second)]
    assert ks_distance(first, second) == pytest.approx(max(gaps))


def test_geometric_distance_is_zero_where_all_is_fastest():
    assert geometric_distance([np.array([40, 40]), np.array([40, 46, 48])]) == pytest.approx([0, np.sqrt(100 / 3)])
