"""Two groups are found; one is never split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.infer_bimodal import best_split, split_bimodal

UNIMODAL = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.random(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "ramp": lambda rng, n: np.arange(n) + rng.normal(size=n) * 0.01,
    "sine": lambda rng, n: np.sin(np.arange(n) * 0.37),
    "three groups": lambda rng, n: np.arange(n) % 3 + rng.normal(size=n) * 0.02,
    "one outlier": lambda rng, n: np.append(rng.normal(size=n - 1), 50.0),
}


@pytest.mark.parametrize("shape", UNIMODAL)
@pytest.mark.parametrize("n", [16, 66, 132])
def test_one_group_is_not_split(shape, n):
    rng = np.random.default_rng(n)
    assert sum(split_bimodal(UNIMODAL[shape](rng, n)) is not None for _ in range(50)) <= 1


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(16, 140), st.floats(0.25, 0.75), st.floats(10, 100))
def test_two_groups_are_found_at_any_share(seed, n, share, distance):
    rng = np.random.default_rng(seed)
    upper = rng.permutation(n) < round(share * n)
    found = split_bimodal(upper * distance + rng.uniform(-1, 1, n))
    assert found is not None
    assert np.array_equal(found, upper)


def test_too_few_or_equal_numbers_are_one_group():
    assert split_bimodal(np.array([0.0, 1.0])) is None
    assert split_bimodal(np.full(20, 3.5)) is None
    assert split_bimodal(np.array([0.0, 0.1, 1.0])) is None


def test_the_split_is_the_best_one():
    rng = np.random.default_rng(4)
    for _ in range(20):
        values = rng.normal(size=9)
        found = best_split(values)
        cuts = [values >= threshold for threshold in np.sort(values)[1:]]
        squares = [np.var(values[cut]) * cut.sum() + np.var(values[~cut]) * (~cut).sum() for cut in cuts]
        assert np.array_equal(found, cuts[int(np.argmin(squares))])
    assert not best_split(np.full(5, 1.0)).any()
    assert not best_split(np.array([1.0])).any()
