"""Plateaus: levels are found where they are, mixtures name none."""

import numpy as np

from gpudissect.measure.cache.infer_plateau import plateaus


def around(cycles, count=300, seed=0):
    return np.random.default_rng(seed).integers(-1, 2, count) + cycles


def mixture(low, high, share, count=300):
    return np.where(np.random.default_rng(1).random(count) < share, high, low)


def test_two_levels_with_a_mixture_between():
    points = [(1024 << i, 32) for i in range(6)]
    samples = [around(40), around(40), mixture(40, 280, 0.3), mixture(40, 280, 0.8), around(280), around(280)]
    first, second = plateaus(points, samples)
    assert (first.median, second.median) == (40, 280)
    assert first.points == tuple(points[:2])
    assert first.largest == 2048
    assert second.points == tuple(points[4:])


def test_one_level_stays_one_in_spite_of_outliers():
    noisy = around(230)
    noisy[::50] += 400
    assert len(plateaus([(256, 32), (512, 32)], [noisy, around(231)])) == 1


def test_three_levels_in_any_order_of_points():
    samples = [around(120), around(33), around(450), around(34)]
    assert [p.median for p in plateaus([(8192, 64), (512, 64), (65536, 256), (1024, 64)], samples)] == [34, 120, 450]
