"""Errors of models over measurements, and the occupancies at which a share of the peak was measured."""

import numpy as np
import pytest
from needed import warps_observed

from gpudissect.models.base import Loop
from gpudissect.models.evaluation import ALPHAS, Measurement, best_samples, evaluate
from gpudissect.models.volkov import Basic, Refined
from tests.support.machines import FERMI

WARPS = np.arange(2.0, 49.0, 2)


def measured(alpha, model=None):
    loop = Loop(alpha=alpha)
    return Measurement(loop, WARPS, (model or Basic()).throughput(FERMI, loop, WARPS))


def test_alphas_are_those_of_figure_7_11():
    assert (ALPHAS[0], ALPHAS[2], ALPHAS[-1], len(ALPHAS)) == (1, pytest.approx(2), 512, 19)


def test_quotients_and_their_place():
    low, high = measured(1.0), measured(32.0)
    high.rate[3] /= 1.5  # at n = 8: a slow measurement, an overestimate
    low.rate[5] *= 1.25  # at n = 12: the opposite
    found = evaluate(Basic(), FERMI, [low, high])
    assert (found.over.value, found.over.alpha, found.over.warps) == (pytest.approx(1.5), 32, 8)
    assert (found.under.value, found.under.alpha, found.under.warps) == (pytest.approx(0.8), 1, 12)
    assert [round(high.value, 9) for _, high in found.errors] == [1, 1.5]


def test_only_the_best_sample_of_even_occupancies_counts():  # VV16 chapter 7
    samples = Measurement(Loop(alpha=0), np.array([1.0, 2, 2, 3, 4]), np.array([9.0, 1, 2, 9, 3]))
    best = best_samples(samples, schedulers=2)
    assert (list(best.warps), list(best.rate)) == ([2, 4], [2, 3])
    with pytest.raises(ValueError, match="multiple of 8"):
        best_samples(samples, schedulers=8)


def test_the_basic_model_against_the_refined_one_on_fermi():  # VV16 s7.9: up to 1.25 to 1.28, at small alpha
    found = evaluate(Basic(), FERMI, [measured(alpha, Refined()) for alpha in ALPHAS])
    assert found.over.value == pytest.approx(1.26, abs=0.06)
    assert found.over.alpha < 16


def test_observed_occupancy():  # VV16 figure 4.6: none if never reached
    samples = Measurement(Loop(alpha=0), np.array([8.0, 16, 24]), np.array([0.02, 0.055, 0.058]))
    assert warps_observed(FERMI, samples, 0.9) == 16
    assert warps_observed(FERMI, samples, 0.99) is None


@pytest.mark.parametrize(
    ("warps", "rate", "text"),
    [([], [], "samples"), ([1], [1, 2], "samples"), ([0], [1], "positive"), ([1], [0], "positive")],
)
def test_impossible_measurements_are_refused(warps, rate, text):
    with pytest.raises(ValueError, match=text):
        Measurement(Loop(alpha=0), np.array(warps, float), np.array(rate, float))


def test_an_evaluation_needs_measurements():
    with pytest.raises(ValueError, match="got none"):
        evaluate(Basic(), FERMI, [])
