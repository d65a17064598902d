"""The fit test: right on clean and noisy counts, undecided rather than wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_first_miss import Control, Fit, decide, probe_sizes


def counts(misses_per_lap, links):
    misses = np.asarray(misses_per_lap)
    return np.stack([links - misses, misses, np.zeros_like(misses)], axis=1)


def test_clean_laps_fit():
    assert decide(counts([0] * 4, 400), Control(0, 3000)) is Fit.FITS


def test_one_true_miss_in_every_lap_overflows_where_hits_are_never_misread():
    assert decide(counts([1] * 16, 400), Control(0, 100_000)) is Fit.OVERFLOWS


def test_a_whole_set_missing_overflows_at_once():
    assert decide(counts([17] * 4, 65_536), Control(20, 500_000)) is Fit.OVERFLOWS


def test_a_few_outliers_do_not_overflow():
    assert decide(counts([0, 0, 1, 0, 2, 0, 0, 0], 400), Control(1, 3000)) is not Fit.OVERFLOWS


def test_mostly_unknown_is_undecided():
    blurred = np.array([[10, 0, 90]] * 8)
    assert decide(blurred, Control(0, 3000)) is Fit.UNDECIDED


@pytest.mark.parametrize("rate", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize("excess", [0, 1, 17])
def test_verdicts_on_drawn_counts_are_right_or_open(rate, excess):
    links, laps = 2000, 64
    rng = np.random.default_rng(int(rate * 1e6) + excess)
    wrong = 0
    for _ in range(50):
        control = Control(int(rng.poisson(rate * links * 100)), links * 100)
        verdict = decide(counts(rng.poisson(rate * links, laps) + excess, links), control)
        wrong += verdict is (Fit.FITS if excess else Fit.OVERFLOWS)
    assert wrong == 0


@given(st.integers(1, 64), st.integers(0, 500), st.integers(1, 500), st.integers(1, 20))
def test_probe_sizes_lie_strictly_between_and_rise(step, low, span, how_many):
    low_size, high_size = low * step, (low + span) * step
    sizes = probe_sizes(low_size, high_size, step, how_many)
    assert all(low_size < size < high_size and size % step == 0 for size in sizes)
    assert sizes == sorted(set(sizes))
    assert len(sizes) == min(how_many, span - 1)
