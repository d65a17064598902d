"""Which card differs from its siblings by more than chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from gpudissect.fleet.infer_outliers import ALARM_CARDS, deviations, two_sided


@pytest.mark.parametrize("freedom", [6, 12, 30])
@pytest.mark.parametrize("ratio", [0.1, 1, 3, 6, 12])
def test_the_tail_is_that_of_students_t(ratio, freedom):
    assert np.log(two_sided(ratio, freedom)) == pytest.approx(np.log(2 * t.sf(ratio, freedom)), abs=0.2)


def test_a_huge_deviation_has_a_finite_chance():
    assert 0 <= two_sided(1e9, 30) < 1e-100


@pytest.mark.parametrize("count", [2, 5, 29, 30, 500])
def test_equal_cards_do_not_deviate(count):
    found = deviations(np.full(count, 4.6), np.zeros(count))
    assert not found.relative.any() and (found.chance > 0.99).all() and not found.is_out(1, 0.02).any()


@given(st.integers(0, 2**32), st.integers(40, 300), st.floats(0.1, 1e13))
def test_the_scale_does_not_matter(seed, count, scale):
    values = 1 + 0.01 * np.random.default_rng(seed).standard_normal(count)
    plain, scaled = deviations(values, np.zeros(count)), deviations(scale * values, np.zeros(count))
    assert np.allclose(plain.relative, scaled.relative) and np.allclose(plain.chance, scaled.chance)


def test_as_many_cards_deviate_by_chance_as_stated():
    """Spread as large as that of the prior, 40,000 tests at a chance of 1 %."""
    rng = np.random.default_rng(0)
    chances = [deviations(1 + 0.01 * rng.standard_normal(100), np.zeros(100)).chance for _ in range(400)]
    assert np.mean(np.concatenate(chances) < 0.01) == pytest.approx(0.01, abs=0.005)


def test_half_of_the_cards_cannot_hide_one_another():
    values = np.array([1.0] * 11 + [0.7] * 9)
    assert deviations(values, np.zeros(20)).is_out(20, 0.02).tolist() == [False] * 11 + [True] * 9


def test_a_bracket_that_holds_the_siblings_is_no_deviation():
    values = np.array([1.0] * 50 + [0.9])
    errors = np.zeros(51)
    assert deviations(values, errors).is_out(20, 0.02)[-1]
    errors[-1] = 0.12
    assert not deviations(values, errors).is_out(20, 0.02)[-1]


def test_few_cards_show_little():
    """5 % among 4 cards may be chance, 20 % may not."""
    found = [deviations(np.array([1, 1, 1, value]), np.zeros(4)).is_out(5, 0.02)[-1] for value in (0.95, 0.8)]
    assert found == [False, True] and ALARM_CARDS == 4000
