"""Predicted accesses compared with observed ones: counted, attributed to a level, and named."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.measure.prediction.infer_agreement import (
    UNCLEAR,
    CheckedSequence,
    NotPredicted,
    PathCounts,
    count_levels,
    count_misses,
    may_exceed_room,
    name_accesses,
    predict_misses,
    refutation,
    wilson_interval,
)
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind, Room
from gpudissect.simulation.cache.models import CacheModel

COUNT = 1000
NAMES = ("l1", "l2")


def cache(kind, weights=()):
    return Cache((4,) * 8, 64, 32, Index(IndexKind.MODULO), Policy(PolicyKind(kind), weights))


def accesses(seed=0, lines=48, count=4000):
    rng = np.random.default_rng(seed)
    return rng.integers(0, lines, count) * 64 + 32 * rng.integers(0, 2, count)


class TestMisses:
    @pytest.mark.parametrize("kind", ["lru", "fifo", "plru", "nru", "mru", "srrip", "slru"])
    def test_the_cache_itself_is_predicted_to_the_last_access(self, kind):
        offsets = accesses()
        observed = CacheModel(cache(kind)).access_many(offsets)
        counts = count_misses("l1", [(predict_misses(cache(kind), None, offsets), observed)])
        assert (counts.agreement, counts.possible) == (1.0, 1.0)
        assert counts.accesses == offsets.size - np.unique(offsets // 32).size, "first touches do not count"

    def test_another_policy_is_not(self):
        offsets = accesses()
        observed = CacheModel(cache("mru")).access_many(offsets)
        counts = count_misses("l1", [(predict_misses(cache("lru"), None, offsets), observed)])
        assert counts.agreement < 0.95
        assert counts.right + counts.hits_wrong + counts.misses_wrong == counts.accesses

    @pytest.mark.parametrize("kind", ["random", "weighted"])
    def test_a_random_policy_is_predicted_as_far_as_possible(self, kind):
        random = cache(kind, (0.4, 0.3, 0.2, 0.1) if kind == "weighted" else ())
        orders = [accesses(seed) for seed in range(10)]
        observed = [CacheModel(random, 100 + seed).access_many(order) for seed, order in enumerate(orders)]
        predicted = [predict_misses(random, None, order) for order in orders]
        counts = count_misses("l1", list(zip(predicted, observed, strict=True)))
        assert counts.possible < 0.98
        assert counts.agreement == pytest.approx(counts.possible, abs=0.02)

    @pytest.mark.parametrize("lines", [8, 20, 31])
    def test_a_cache_with_room_for_so_many_lines_does_the_same_until_more_may_be_resident(self, lines):
        offsets, whole = accesses(3, lines=40), cache("lru")
        same = ~may_exceed_room(whole, lines, offsets)
        outcomes = CacheModel(whole).access_many(offsets)
        limited = CacheModel(replace(whole, room=Room(lines))).access_many(offsets)
        assert np.array_equal(outcomes[same], limited[same])
        assert not np.array_equal(outcomes[~same], limited[~same])
        counted, all_counted = (predict_misses(whole, each, offsets).counted for each in (lines, None))
        assert np.array_equal(counted, all_counted & same)

    def test_nothing_exceeds_the_room_of_all_tags(self):
        assert not may_exceed_room(cache("lru"), 32, accesses(3, lines=40)).any()
        assert not may_exceed_room(cache("lru"), None, accesses(3, lines=40)).any()

    def test_unclear_accesses_do_not_count(self):
        offsets = accesses()
        observed = CacheModel(cache("lru")).access_many(offsets)
        observed[::3] = 2
        counts = count_misses("l1", [(predict_misses(cache("lru"), None, offsets), observed)])
        assert counts.agreement == 1.0
        assert counts.accesses < offsets.size * 0.67


def sequence(predicted, first=None, second=None, resampled=None, counted=None):
    def run(levels):
        return predicted.copy() if levels is None else levels

    counted = np.ones(predicted.size, dtype=bool) if counted is None else counted
    observed = [run(first), run(second)]
    return CheckedSequence(np.arange(COUNT) * 32, counted, predicted, run(resampled), observed, ("one", "two"))


def random_levels(seed=0):
    return np.random.default_rng(seed).integers(0, 3, COUNT).astype(np.int8)


def changed(levels, at, to=2):
    levels = levels.copy()
    levels[at] = to
    return levels


class TestLevels:
    def test_all_as_predicted(self):
        counts = count_levels("global", NAMES, [sequence(random_levels())], ())
        assert counts == PathCounts("global", 2 * COUNT, 2 * COUNT, 1.0, {})
        assert refutation([sequence(random_levels())], counts, 0) == ""

    def test_wrong_accesses_are_attributed_to_the_nearest_level(self):
        predicted = random_levels()
        at = np.flatnonzero(predicted == 0)[:30]
        wrong = sequence(predicted, changed(predicted, at), changed(predicted, at))
        counts = count_levels("global", NAMES, [wrong], ())
        assert (counts.wrong, counts.misread) == ({"l1": 60}, {})
        reason = refutation([wrong], counts, 0)
        assert "30 are wrong in both runs: 0 predicted misses hit, 30 predicted hits miss" in reason
        assert f"access {at[0]} of sequence 1 (byte {at[0] * 32})" in reason
        assert refutation([wrong], counts, 1) == ""

    def test_accesses_misread_in_one_run_refute_nothing(self):
        predicted, rng = random_levels(), np.random.default_rng(3)
        runs = [changed(predicted, rng.choice(COUNT, 10, replace=False)) for _ in range(2)]
        misread = sequence(predicted, *runs)
        counts = count_levels("global", NAMES, [misread], ())
        assert refutation([misread], counts, 0) == ""
        assert 10 < sum(counts.misread.values()) <= sum(counts.wrong.values())

    def test_with_a_random_policy_the_share_counts(self):
        predicted, rng = random_levels(), np.random.default_rng(4)

        def noisy(share):
            return changed(predicted, rng.random(COUNT) < share)

        likely = sequence(predicted, noisy(0.2), noisy(0.2), noisy(0.2))
        counts = count_levels("global", NAMES, [likely], ())
        assert counts.possible == pytest.approx(counts.agreement, abs=0.05)
        assert refutation([likely], counts, 0) == ""
        worse = sequence(predicted, noisy(0.5), noisy(0.5), noisy(0.2))
        counts = count_levels("global", NAMES, [worse], ())
        assert f"{counts.agreement:.1%}" in refutation([worse], counts, 0)

    def test_accesses_without_a_prediction_are_counted_apart(self):
        predicted = changed(random_levels(), slice(100), UNCLEAR)
        counts = count_levels("global", NAMES, [sequence(predicted, random_levels(), random_levels())], ("l1: why",))
        found = (counts.accesses, counts.right, counts.not_predicted, counts.assumed)
        assert found == (1800, 1800, 200, ("l1: why",))

    def test_first_touches_do_not_count(self):
        counts = count_levels("global", NAMES, [sequence(random_levels(), counted=np.arange(COUNT) >= 400)], ())
        assert counts.accesses == 1200

    def test_without_clear_accesses_nothing_is_predicted(self):
        found = count_levels("global", NAMES, [sequence(np.full(COUNT, UNCLEAR))], ())
        assert isinstance(found, NotPredicted) and found.name == "path global"

    def test_only_a_few_accesses_are_named(self):
        named = "access 4 of sequence 1 (byte 32), access 5 of sequence 1 (byte 40), access 6 of sequence 1 (byte 48)"
        assert name_accesses([(np.arange(9) * 8, np.arange(9) > 3)]) == f"{named} and 2 more"


def test_the_interval_of_a_share():
    """Wilson 1927: 9 of 10 is 0.596 to 0.982."""
    assert wilson_interval(9, 10) == pytest.approx((0.596, 0.982), abs=0.001)
    with pytest.raises(ValueError, match="got 0"):
        wilson_interval(0, 0)
