"""How much of random accesses an inferred cache foretells: what is counted, and what is not."""

import numpy as np
import pytest

from gpudissect.measure.prediction.infer_prediction import bound, foretell, tally
from gpudissect.simulation.cache.cache import CacheModel
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind


def cache(kind, weights=()):
    return Cache((4,) * 8, 64, 32, Index(IndexKind.MODULO), Policy(PolicyKind(kind), weights))


def accesses(seed=0, lines=48, count=4000):
    rng = np.random.default_rng(seed)
    return rng.integers(0, lines, count) * 64 + 32 * rng.integers(0, 2, count)


@pytest.mark.parametrize("kind", ["lru", "fifo", "plru", "nru", "mru", "srrip", "slru"])
def test_the_cache_itself_is_foretold_to_the_last_access(kind):
    offsets = accesses()
    told = tally("l1", [(foretell(cache(kind), offsets), CacheModel(cache(kind)).access_many(offsets))])
    assert (told.agreement, told.possible) == (1.0, 1.0)
    assert told.accesses == offsets.size - np.unique(offsets // 32).size  # that a first touch misses is no feat


def test_another_policy_is_not():
    offsets = accesses()
    told = tally("l1", [(foretell(cache("lru"), offsets), CacheModel(cache("mru")).access_many(offsets))])
    assert told.agreement < 0.95
    assert told.right + told.hits_wrong + told.misses_wrong == told.accesses


@pytest.mark.parametrize("kind", ["random", "weighted"])
def test_of_drawn_victims_as_much_as_is_possible(kind):
    drawn = cache(kind, (0.4, 0.3, 0.2, 0.1) if kind == "weighted" else ())
    parts = [(foretell(drawn, accesses(seed)), CacheModel(drawn, 100 + seed).access_many(accesses(seed)))
             for seed in range(10)]  # fmt: skip
    told = tally("l1", parts)
    assert told.possible < 0.98
    assert told.agreement == pytest.approx(told.possible, abs=0.02)


def test_accesses_that_were_not_told_count_for_nothing():
    offsets = accesses()
    seen = CacheModel(cache("lru")).access_many(offsets)
    seen[::3] = 2
    told = tally("l1", [(foretell(cache("lru"), offsets), seen)])
    assert told.agreement == 1.0
    assert told.accesses < offsets.size * 0.67


def test_the_interval_of_a_share():
    """Wilson 1927: 9 of 10 is 0.596 to 0.982."""
    assert bound(9, 10) == pytest.approx((0.596, 0.982), abs=0.001)
    with pytest.raises(ValueError, match="nothing"):
        bound(0, 0)
