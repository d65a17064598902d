"""Bounds: between forced hits and forced misses, or none."""

import numpy as np

from gpudissect.measure.cache.infer_anchors import bounds_between


def test_bounds_lie_just_below_the_fastest_misses():
    bounds = bounds_between(np.full(500, 44), np.arange(280, 330))
    assert 44 < bounds.hit_max < bounds.miss_min <= 280
    assert bounds.miss_min > 250
    assert bounds.miss_max >= 330


def test_overlapping_distributions_have_no_bounds():
    same = np.random.default_rng(0).normal(300, 30, 1000).astype(int)
    assert bounds_between(same, same) is None


def test_a_delayed_hit_is_still_a_hit():
    assert bounds_between(np.full(500, 44), np.full(100, 300)).hit_max > 200
