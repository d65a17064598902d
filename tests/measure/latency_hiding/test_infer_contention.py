"""Fits of latency against throughput, and distributions of single latencies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.latency_hiding.infer_contention import Distribution, fit_contention, fit_errors

VV16 = {"GT200": (438, 17, 140), "Fermi": (501, 41, 170), "Kepler": (300, 32, 170), "Maxwell": (372, 22, 221)}


@given(st.floats(50, 2000), st.floats(2, 300), st.floats(1, 1e4), st.floats(0.7, 0.99), st.integers(6, 60))
def test_the_coefficients_of_the_formula_are_found(a: float, b: float, c: float, top: float, count: int) -> None:
    x = np.linspace(0.02 * c, top * c, count)
    found = fit_contention(x, a + b * x / (c - x))
    assert found is not None
    assert (found.a, found.c) == (pytest.approx(a, rel=0.02), pytest.approx(c, rel=0.02))
    assert found.b == pytest.approx(b, rel=0.1) and found.error < 0.003
    assert found.latency(np.array([2 * found.c]))[0] == np.inf


def test_the_ceiling_is_limited() -> None:
    x = np.linspace(1.0, 90.0, 20)
    y = 400 + 30 * x / (100 - x)
    limited = fit_contention(x, y, 95.0)
    assert limited is not None and limited.c == pytest.approx(95.0) and limited.error > 0.001
    assert fit_contention(x, y, 200.0) == fit_contention(x, y) and fit_contention(x, y, 89.0) is None


@pytest.mark.parametrize("gpu", VV16)
def test_table_6_5_with_noise(gpu: str) -> None:
    a, b, c = VV16[gpu]
    rng = np.random.default_rng(1)
    x = np.linspace(0.03 * c, 0.95 * c, 40)
    found = fit_contention(x, (a + b * x / (c - x)) * rng.normal(1, 0.01, 40))
    assert found is not None
    assert found.a == pytest.approx(a, rel=0.02) and found.c == pytest.approx(c, rel=0.03)
    assert found.b == pytest.approx(b, rel=0.35)


def test_brackets_hold_the_truth_as_often_as_two_standard_errors_do() -> None:
    inside = []
    for n, (a, b, c) in enumerate(list(VV16.values()) * 12):
        x = np.linspace(0.03 * c, 0.97 * c, 40)
        y = (a + b * x / (c - x)) * np.random.default_rng(n).normal(1, 0.01, 40)
        found = fit_contention(x, y)
        assert found is not None
        errors = fit_errors(x, y, found)
        assert errors is not None
        fitted = (found.a, found.b, found.c)
        inside.append([abs(f - t) <= e for f, t, e in zip(fitted, (a, b, c), errors, strict=True)])
        assert errors[0] < 0.05 * a and errors[1] < 1.5 * b and errors[2] < 0.2 * c
    assert np.all(np.mean(inside, axis=0) > 0.8)


def test_without_the_saturated_samples_errors_are_unknown() -> None:
    x = np.array([1.0, 2, 3, 4, 5, 6, 7, 9.8])
    found = fit_contention(x, 300 + 20 * x / (10 - x))
    assert found is not None
    assert fit_errors(x[:5], 300 + 0 * x[:5], found) is None, "flat without the last"
    assert fit_errors(x[:4], x[:4], found) is None, "too few"


@pytest.mark.parametrize("latency", [np.full(20, 300.0), np.linspace(300, 290, 20), np.linspace(300, 330, 20)])
def test_latency_that_rises_towards_no_ceiling_has_none(latency: np.ndarray) -> None:
    assert fit_contention(np.linspace(1, 20, 20), latency) is None


def test_too_few_samples() -> None:
    assert fit_contention(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])) is None


def test_percentiles_mean_and_density() -> None:
    found = Distribution(np.array([100.0, 110, 490]), np.array([50, 49, 1]))
    assert found.samples == 100 and found.mean == pytest.approx((50 * 100 + 49 * 110 + 490) / 100)
    assert found.percentiles([0, 50, 51, 99, 100]) == (100, 100, 110, 110, 490)
    latencies = np.random.default_rng(2).integers(300, 400, 100_000)
    values, counts = np.unique(latencies, return_counts=True)
    at, share = Distribution(values.astype(float), counts).density(50)
    assert share.sum() * (at[1] - at[0]) == pytest.approx(1.0, abs=0.01)
    with pytest.raises(ValueError, match="distribution"):
        Distribution(np.zeros(0), np.zeros(0, np.int64))
