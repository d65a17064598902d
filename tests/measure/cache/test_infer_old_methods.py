"""Older methods: the classic readings of a plain cache agree; the change point finds steps, and one on a ramp too."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpudissect.measure.cache.infer_old_methods import (
    ClassicReading,
    change_point,
    geometric_distance,
    ks_distance,
    optimal_split,
    read_saavedra,
    read_wong,
)

finite = st.floats(-1e3, 1e3, allow_nan=False)


def test_classic_readings_of_a_plain_cache_agree():
    # 4 KiB, 32-byte lines, 16 sets, 8 ways, LRU: latency 10 on a hit, 20 on a miss, read at 4 times the size
    by_stride = {8: 12.5, 16: 15.0, 32: 20.0, 64: 20, 128: 20, 256: 20, 512: 20, 1024: 20, 2048: 10, 4096: 10}
    assert read_saavedra(by_stride, 16384, 4096).line == 32
    by_size = {4096 + 32 * i: 10 + 10 * i / 16 for i in range(17)}
    assert read_wong(by_size) == ClassicReading(4096, 32, 16, 8)


def test_a_clean_step_is_accepted():
    found = change_point(np.array([1.0] * 20 + [5.0] * 15))
    assert found.index == 20
    assert found.accepted


def test_a_ramp_has_no_step_and_is_accepted_all_the_same():
    assert change_point(np.arange(60.0)).accepted


@given(arrays(float, st.integers(2, 40), elements=finite))
def test_the_split_is_the_best_of_all(series):
    cost = [sum(np.sum((part - part.mean()) ** 2) for part in np.split(series, [i])) for i in range(1, series.size)]
    assert cost[optimal_split(series) - 1] == pytest.approx(min(cost), abs=1e-4)


@given(arrays(float, st.integers(1, 30), elements=finite), arrays(float, st.integers(1, 30), elements=finite))
def test_distance_is_the_largest_gap_of_the_empirical_distributions(first, second):
    gaps = [abs(np.mean(first <= x) - np.mean(second <= x)) for x in (*first, *second)]
    assert ks_distance(first, second) == pytest.approx(max(gaps))


def test_geometric_distance_is_zero_where_all_is_fastest():
    assert geometric_distance([np.array([40, 40]), np.array([40, 46, 48])]) == pytest.approx([0, np.sqrt(100 / 3)])
