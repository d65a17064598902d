"""Fits of latency against throughput, and distributions of single latencies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.latency_hiding.infer_contention import Distribution, distribution, fit, spreads

VV16 = {"GT200": (438, 17, 140), "Fermi": (501, 41, 170), "Kepler": (300, 32, 170), "Maxwell": (372, 22, 221)}


@given(st.floats(50, 2000), st.floats(2, 300), st.floats(1, 1e4), st.floats(0.7, 0.99), st.integers(6, 60))
def test_what_was_made_by_the_formula_comes_back(a: float, b: float, c: float, top: float, count: int) -> None:
    x = np.linspace(0.02 * c, top * c, count)
    found = fit(x, a + b * x / (c - x))
    assert found is not None
    assert (found.a, found.c) == (pytest.approx(a, rel=0.02), pytest.approx(c, rel=0.02))
    assert found.b == pytest.approx(b, rel=0.1) and found.error < 0.003
    assert found.latency(np.array([2 * found.c]))[0] == np.inf


def test_no_ceiling_is_above_what_there_can_be() -> None:
    x = np.linspace(1.0, 90.0, 20)
    y = 400 + 30 * x / (100 - x)
    held = fit(x, y, 95.0)
    assert held is not None and held.c == pytest.approx(95.0) and held.error > 0.001
    assert fit(x, y, 200.0) == fit(x, y) and fit(x, y, 89.0) is None


@pytest.mark.parametrize("gpu", VV16)
def test_table_6_5_with_noise(gpu: str) -> None:
    a, b, c = VV16[gpu]
    draws = np.random.default_rng(1)
    x = np.linspace(0.03 * c, 0.95 * c, 40)
    found = fit(x, (a + b * x / (c - x)) * draws.normal(1, 0.01, 40))
    assert found is not None
    assert found.a == pytest.approx(a, rel=0.02) and found.c == pytest.approx(c, rel=0.03)
    assert found.b == pytest.approx(b, rel=0.35)


@pytest.mark.parametrize("gpu", VV16)
def test_brackets_hold_what_was_there_about_as_often_as_two_standard_errors_do(gpu: str) -> None:
    a, b, c = VV16[gpu]
    draws = np.random.default_rng(7)
    x = np.linspace(0.03 * c, 0.97 * c, 40)
    inside = []
    for _ in range(40):
        y = (a + b * x / (c - x)) * draws.normal(1, 0.01, 40)
        found = fit(x, y)
        assert found is not None
        errors = spreads(x, y, found)
        assert errors is not None
        told = (found.a, found.b, found.c)
        inside.append([abs(v - t) <= e for v, t, e in zip(told, (a, b, c), errors, strict=True)])
        assert errors[0] < 0.05 * a and errors[1] < 1.5 * b and errors[2] < 0.2 * c
    assert np.all(np.mean(inside, axis=0) > 0.8)


def test_without_what_saturates_nothing_is_known() -> None:
    x = np.array([1.0, 2, 3, 4, 5, 6, 7, 9.8])
    found = fit(x, 300 + 20 * x / (10 - x))
    assert found is not None
    assert spreads(x[:5], 300 + 0 * x[:5], found) is None, "flat without the last"
    assert spreads(x[:4], x[:4], found) is None, "too few"


@pytest.mark.parametrize("latency", [np.full(20, 300.0), np.linspace(300, 290, 20), np.linspace(300, 330, 20)])
def test_latency_that_rises_towards_no_ceiling_has_none(latency: np.ndarray) -> None:
    assert fit(np.linspace(1, 20, 20), latency) is None


def test_too_few_samples() -> None:
    assert fit(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])) is None


def test_percentiles_mean_and_density() -> None:
    found = distribution(np.array([110, 120, 500]), np.array([50, 49, 1]), 10.0)
    assert found.samples == 100 and found.mean == pytest.approx((50 * 100 + 49 * 110 + 490) / 100)
    assert found.percentiles([0, 50, 51, 99, 100]) == (100, 100, 110, 110, 490)
    draws = np.random.default_rng(2).integers(300, 400, 100_000)
    values, counts = np.unique(draws, return_counts=True)
    at, share = distribution(values, counts, 0.0).density(50)
    assert share.sum() * (at[1] - at[0]) == pytest.approx(1.0, abs=0.01)
    with pytest.raises(ValueError, match="distribution"):
        Distribution(np.zeros(0), np.zeros(0, np.int64))
