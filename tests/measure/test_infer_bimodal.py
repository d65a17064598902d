"""Two groups or one: two are found, one is never taken for two."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.infer_bimodal import in_two, split

HUMPS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "even": lambda rng, n: rng.random(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "ramp": lambda rng, n: np.arange(n) + rng.normal(size=n) * 0.01,
    "sine": lambda rng, n: np.sin(np.arange(n) * 0.37),
    "three groups": lambda rng, n: np.arange(n) % 3 + rng.normal(size=n) * 0.02,
    "one outlier": lambda rng, n: np.append(rng.normal(size=n - 1), 50.0),
}


@pytest.mark.parametrize("shape", HUMPS)
@pytest.mark.parametrize("n", [16, 66, 132])
def test_one_group_stays_one(shape, n):
    rng = np.random.default_rng(n)
    assert sum(in_two(HUMPS[shape](rng, n)) is not None for _ in range(50)) <= 1


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(16, 140), st.floats(0.25, 0.75), st.floats(10, 100))
def test_two_groups_are_found_whatever_their_shares(seed, n, share, apart):
    rng = np.random.default_rng(seed)
    upper = rng.permutation(n) < round(share * n)
    found = in_two(upper * apart + rng.uniform(-1, 1, n))
    assert found is not None
    assert np.array_equal(found, upper)


def test_too_few_or_all_the_same_are_one_group():
    assert in_two(np.array([0.0, 1.0])) is None
    assert in_two(np.full(20, 3.5)) is None
    assert in_two(np.array([0.0, 0.1, 1.0])) is None


def test_a_split_is_the_best_one():
    rng = np.random.default_rng(4)
    for _ in range(20):
        values = rng.normal(size=9)
        found = split(values)
        cuts = [values >= each for each in np.sort(values)[1:]]
        squares = [np.var(values[cut]) * cut.sum() + np.var(values[~cut]) * (~cut).sum() for cut in cuts]
        assert np.array_equal(found, cuts[int(np.argmin(squares))])
    assert not split(np.full(5, 1.0)).any()
    assert not split(np.array([1.0])).any()
