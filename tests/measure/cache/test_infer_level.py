"""Plateaus lie where the levels are and mixtures define none; bounds lie between forced hits and forced misses."""

import numpy as np

from gpudissect.measure.cache.infer_level import (
    Level,
    bounds_between,
    find_plateaus,
    nearest_plateau,
    plateau_of,
    slower_hits,
)
from gpudissect.workload import Path


def around(cycles, count=300, seed=0):
    return np.random.default_rng(seed).integers(-1, 2, count) + cycles


def mixture(low, high, share, count=300):
    return np.where(np.random.default_rng(1).random(count) < share, high, low)


def test_two_levels_with_a_mixture_between():
    points = [(1024 << i, 32) for i in range(6)]
    samples = [around(40), around(40), mixture(40, 280, 0.3), mixture(40, 280, 0.8), around(280), around(280)]
    first, second = find_plateaus(points, samples)
    assert (first.median, second.median) == (40, 280)
    assert first.points == tuple(points[:2])
    assert first.largest == 2048
    assert second.points == tuple(points[4:])


def test_a_delayed_access_in_the_middle_of_an_even_mixture_is_no_plateau():
    even = np.concatenate([np.full(150, 40), [160], np.full(149, 280)])
    plateaus = find_plateaus([(512, 32), (1024, 32), (2048, 32)], [around(40), even, around(280)])
    assert [plateau.median for plateau in plateaus] == [40, 280]


def test_one_level_stays_one_in_spite_of_outliers():
    noisy = around(230)
    noisy[::50] += 400
    assert len(find_plateaus([(256, 32), (512, 32)], [noisy, around(231)])) == 1


def test_footprints_that_overflow_the_near_partition_define_no_hits():
    points = [(64, 256), (256, 256)]
    same, far = (nearest_plateau(points, [around(200), second]) for second in (around(201), mixture(200, 305, 0.8)))
    assert (same.points, far.points) == (tuple(points), tuple(points[:1])) and far.median == 200


def test_three_levels_in_any_order_of_points():
    samples = [around(120), around(33), around(450), around(34)]
    found = find_plateaus([(8192, 64), (512, 64), (65536, 256), (1024, 64)], samples)
    assert [plateau.median for plateau in found] == [34, 120, 450]


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


def level(hits, misses):
    bounds = bounds_between(hits, misses)
    return Level(
        "l1", Path.GLOBAL, False, plateau_of([(512, 32)], [hits]), plateau_of([(8192, 32)], [misses]), bounds, None, ()
    )


def test_hits_of_a_level_in_between_are_slower_than_those_before():
    l1 = level(around(44), around(280))
    slower = slower_hits(l1, np.concatenate([around(44, 400), around(130, 100), around(280, 1500)]))
    assert slower.share == 0.2 and abs(slower.cycles - 86) <= 1 and "20% of the hits take" in str(slower)


def test_translations_and_delays_are_no_level_in_between():
    l1 = level(around(44), around(280))
    hits, misses = around(44, 500), around(280, 1500)
    assert slower_hits(l1, np.concatenate([hits, misses])) is None
    translated = [around(44, 400), around(130, 100), around(280, 1200), around(366, 300)]
    assert slower_hits(l1, np.concatenate(translated)) is None
    hits[::100] += 90
    assert slower_hits(l1, np.concatenate([hits, misses])) is None


def test_accesses_of_other_sms_lie_on_a_plateau_within_the_limits_of_its_samples():
    """Lines at home in the near and in the far partition differ by more than a plateau is wide: none is left out."""
    both = plateau_of([(4096, 256)], [np.repeat([540, 1000], [400, 600])])
    assert both.select(np.array([520, 540, 1000])).tolist() == [520, 540, 1000]
    delayed = np.repeat([30, 280, 5000], [2, 396, 2])
    _, far = find_plateaus([(512, 32), (8192, 32)], [np.full(400, 30), delayed])
    assert far.select(np.array([30, 300, 5000])).tolist() == [300, 5000], (
        "hits of a nearer level are left out, no delays"
    )
