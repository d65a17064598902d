"""The fit tests are right on clean and noisy misses, undecided rather than wrong; residency covers the truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_residency import (
    Control,
    Fit,
    decide,
    decide_by_line,
    estimate_residency,
    excess_fit,
    overflow_log_odds_by_line,
    probe_sizes,
    residency_after_laps,
)
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel

SETS, WAYS, LAPS = 128, 16, 128
POLICIES = (PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.PLRU, PolicyKind.SRRIP, PolicyKind.RANDOM)
seeds = st.integers(0, 2**32 - 1)


def counts(misses_per_lap, links):
    misses = np.asarray(misses_per_lap)
    return np.stack([links - misses, misses, np.zeros_like(misses)], axis=1)


@pytest.mark.parametrize(
    ("counted", "control", "verdict"),
    [
        pytest.param(counts([0] * 4, 400), Control(0, 3000), Fit.FITS, id="clean laps"),
        pytest.param(counts([1] * 16, 400), Control(0, 100_000), Fit.OVERFLOWS, id="one true miss in every lap"),
        pytest.param(counts([17] * 4, 65_536), Control(20, 500_000), Fit.OVERFLOWS, id="a whole set misses"),
        pytest.param(np.array([[10, 0, 90]] * 8), Control(0, 3000), Fit.UNDECIDED, id="mostly unknown"),
    ],
)
def test_verdict_on_counts(counted, control, verdict):
    assert decide(counted, control) is verdict


def test_a_few_outliers_do_not_overflow():
    assert decide(counts([0, 0, 1, 0, 2, 0, 0, 0], 400), Control(1, 3000)) is not Fit.OVERFLOWS


@pytest.mark.parametrize("rate", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize("excess", [0, 1, 17])
def test_verdicts_on_sampled_counts_are_right_or_undecided(rate, excess):
    links, laps = 2000, 64
    rng = np.random.default_rng(int(rate * 1e6) + excess)
    wrong = 0
    for _ in range(50):
        control = Control(int(rng.poisson(rate * links * 100)), links * 100)
        verdict = decide(counts(rng.poisson(rate * links, laps) + excess, links), control)
        wrong += verdict is (Fit.FITS if excess else Fit.OVERFLOWS)
    assert wrong == 0


@given(st.integers(1, 64), st.integers(0, 500), st.integers(1, 500), st.integers(1, 20))
def test_probe_sizes_lie_strictly_between_and_rise(step, low, span, max_count):
    low_size, high_size = low * step, (low + span) * step
    sizes = probe_sizes(low_size, high_size, step, max_count)
    assert all(low_size < size < high_size and size % step == 0 for size in sizes)
    assert sizes == sorted(set(sizes))
    assert len(sizes) == min(max_count, span - 1)


def decide_laps(lines, laps, policy, misread, seed):
    """The verdict on laps over so many lines in random order; a share `misread` of the hits looks like misses."""
    rng = np.random.default_rng(seed)
    cache = CacheModel(Cache((WAYS,) * SETS, 32, 32, Index(IndexKind.MODULO), Policy(policy)))
    chain = np.tile(rng.permutation(lines) * 32, laps + 2)
    missed = (cache.access_many(chain) == 1).reshape(-1, lines)[2:]
    return decide_by_line((missed | (rng.random(missed.shape) < misread)).sum(axis=0), laps)


@settings(max_examples=30)
@given(st.sampled_from(POLICIES), st.floats(0, 0.004), seeds)
def test_one_line_too_many_overflows(policy, misread, seed):
    assert decide_laps(SETS * WAYS + 1, LAPS, policy, misread, seed) is Fit.OVERFLOWS


@settings(max_examples=30)
@given(st.floats(0, 0.004), seeds)
def test_a_full_cache_fits(misread, seed):
    assert decide_laps(SETS * WAYS, LAPS, PolicyKind.LRU, misread, seed) is Fit.FITS


def test_few_laps_decide_nothing():
    assert decide_laps(SETS * WAYS, 2, PolicyKind.LRU, 0.002, 0) is Fit.UNDECIDED


def test_more_pairs_are_better_odds():
    few, many = np.zeros((2, 2000), dtype=np.int64)
    few[:64], many[:64] = 2, 8
    assert overflow_log_odds_by_line(many, 64) > overflow_log_odds_by_line(few, 64)


@given(st.integers(1, 5000), st.data())
def test_residency_covers_the_truth(elements, data):
    resident = data.draw(st.integers(0, elements))
    probes = 2000
    hits = np.random.default_rng(resident).binomial(probes, resident / elements)
    found = estimate_residency(int(hits), probes, elements, np.inf)
    assert abs(found.elements - resident) <= 5 * found.error


@given(st.integers(0, 2000), st.integers(0, 400), st.booleans())
def test_residency_after_laps_covers_the_truth_whatever_a_miss_displaces(resident, probed, displaces):
    """Expected hits of 400 chases, probe by probe."""
    elements, chases = 4000, 400
    left = np.maximum(resident - np.arange(probed + 1), 0) / (elements - np.arange(probed + 1))
    share = np.mean(left) if displaces else resident / elements
    probes = chases * (probed + 1)
    found = residency_after_laps(round(share * probes), probes, elements, probed + 1)
    assert abs(found.elements - resident) <= 3 * found.error + 2


def test_residency_needs_probes():
    with pytest.raises(ValueError, match="probe"):
        estimate_residency(0, 0, 10, 24)


@pytest.mark.parametrize(
    ("excess", "expected", "laps", "fit"),
    [
        (500, 0, 1000, Fit.OVERFLOWS),  # every other lap misses
        (0, 0, 1000, Fit.FITS),
        (500, 100_000, 1000, Fit.UNDECIDED),  # chance may be as large
        (5_000, 100_000, 1000, Fit.OVERFLOWS),
        (90, 1000, 1000, Fit.FITS),
    ],
)
def test_lines_that_miss_in_some_laps_only(excess, expected, laps, fit):
    assert excess_fit(excess, expected, laps) is fit
