"""Fetch granularity and line size, each against a case with a known answer."""

import numpy as np
import pytest

from gpudissect.measure.cache.infer_line import Hits, SecondAccesses, fetch_granularity, same_line_probability

MISS, HIT = np.full(16, 300), np.full(16, 44)


def samples(*cycles):
    return dict(zip((16, 32, 64, 128), cycles, strict=True))


@pytest.mark.parametrize("truth", [32, 64, 128, 256])
def test_granularity_is_the_first_distance_that_misses(truth):
    cycles = {d: MISS if d >= truth else HIT for d in (8, 16, 32, 64, 128, 256, 512)}
    found = fetch_granularity(SecondAccesses(cycles, cycles), 250)
    assert (found.fetch, found.ahead) == (truth, None)


@pytest.mark.parametrize("pattern", [[HIT] * 4, [MISS] * 4, [HIT, MISS, HIT, MISS]], ids=["hits", "misses", "mixed"])
@pytest.mark.parametrize("after", [None, [HIT, HIT, MISS, MISS]])
def test_granularity_is_not_found_where_samples_are_not_monotonic(pattern, after):
    found = fetch_granularity(SecondAccesses(samples(*(after or pattern)), samples(*pattern)), 250)
    assert found.fetch is None
    assert found.reason


def test_a_prefetch_is_not_the_granularity():
    less, more = samples(HIT, MISS, MISS, MISS), samples(HIT, HIT, MISS, MISS)
    found = fetch_granularity(SecondAccesses(more, less), 250)
    assert (found.fetch, found.ahead) == (32, 64)
    assert fetch_granularity(SecondAccesses(less, more), 250).fetch is None


@pytest.mark.parametrize(
    ("pairs", "single", "double", "low", "high"),
    [
        pytest.param(Hits(2660, 3000), Hits(2700, 3000), Hits(1500, 3000), 0.99, 1, id="as single words"),
        pytest.param(Hits(1560, 3000), Hits(2700, 3000), Hits(1500, 3000), 0, 0.01, id="as twice as many"),
        pytest.param(Hits(1860, 3000), Hits(2970, 3000), Hits(2200, 3000), 0, 0.01, id="even more than two lines"),
        pytest.param(Hits(1060, 3000), Hits(1930, 3000), Hits(540, 3000), 0.5, 0.5, id="between both"),
        pytest.param(Hits(50, 100), Hits(50, 100), Hits(50, 100), 0.5, 0.5, id="no difference"),
    ],
)
def test_probability_of_one_line(pairs, single, double, low, high):
    assert low <= same_line_probability(pairs, single, double) <= high
