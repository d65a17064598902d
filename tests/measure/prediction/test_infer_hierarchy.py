"""The hierarchy put together from what was inferred: simulated as one, it answers as each of its parts would."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_level import Level, plateau_of
from gpudissect.measure.cache.infer_line import Granularity
from gpudissect.measure.prediction.infer_agreement import UNCLEAR, is_repeated, may_exceed_room
from gpudissect.measure.prediction.infer_hierarchy import (
    PathModel,
    Stage,
    TlbModel,
    shift_latency,
    stage_of_ample_size,
    stage_of_capacity,
)
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.workload import Bounds, Path

LINE = 64
MODULO = Index(IndexKind.MODULO)


def cache(sets, ways, kind="lru", line=LINE):
    return Cache((ways,) * sets, line, line, MODULO, Policy(PolicyKind(kind)))


def stage(name, model, hit, bounds):
    return Stage(name, model, hit, bounds, True, "")


def level(line=LINE):
    def around(cycles):
        return plateau_of([(line, line)], [np.full(8, cycles)])

    return Level("l1", Path.GLOBAL, False, around(40), around(230), Bounds(100, 180, 400), Granularity(line, 1, ""), ())


def random_lines(seed, count, lines):
    return np.random.default_rng(seed).integers(0, lines, count) * LINE


kinds = st.sampled_from(["lru", "fifo", "nru", "srrip", "mru", "slru"])


@settings(max_examples=30)
@given(st.integers(0, 99), kinds, kinds, st.integers(1, 8), st.integers(1, 8))
def test_two_caches_answer_as_one_behind_the_other(seed, near, far, near_ways, far_ways):
    l1, l2 = cache(4, near_ways, near), cache(16, far_ways, far)
    model = PathModel(Path.GLOBAL, (stage("l1", l1, 40, (60, 150)), stage("l2", l2, 200, (250, 400))), 500.0)
    offsets = random_lines(seed, 3000, 160)
    levels, _ = model.predict(offsets)
    missed = CacheModel(l1).access_many(offsets) == 1
    assert np.array_equal(levels == 0, ~missed)
    assert np.array_equal(levels[missed], 1 + CacheModel(l2).access_many(offsets[missed]))


def test_which_tlb_hits():
    page = 1 << 21
    index = Index(IndexKind.TABLE, table=(0,) * 64)
    tlbs = tuple(
        TlbModel(name, Cache((entries,), page, page, index, Policy(PolicyKind.LRU)), cycles, cycles / 2)
        for name, entries, cycles in (("tlb_l1", 4, 20.0), ("tlb_l2", 16, 100.0))
    )
    pages = np.array([0, 1, 2, 3, 0, 4, 0, 1, *range(20, 36), 0, 35]) * page
    levels, _ = PathModel(Path.GLOBAL_L2, (), 0.0, tlbs).predict(pages)
    assert levels[:8].tolist() == [2, 2, 2, 2, 0, 2, 0, 1]
    assert levels[-2:].tolist() == [2, 0]  # page 0 was evicted from both


@settings(max_examples=20)
@given(st.integers(0, 99), st.sampled_from([(1, 64), (8, 8), (16, 4), (4, 16)]))
def test_of_unknown_sets_only_what_any_would_do_is_predicted(seed, shape):
    model = PathModel(Path.GLOBAL, (stage_of_capacity(level(), LINE, 64 * LINE),), 230.0)
    offsets = random_lines(seed, 2000, 96)
    levels, _ = model.predict(offsets)
    true = CacheModel(cache(*shape)).access_many(offsets)
    predicted = levels != UNCLEAR
    assert 0.2 < predicted.mean() < 1
    assert np.mean(levels[predicted] == true[predicted]) > 0.9


def test_nothing_is_predicted_when_a_cache_may_lack_room():
    whole = stage("l1", cache(8, 4), 40, (60, 150))
    offsets = random_lines(2, 2000, 48)
    levels, _ = PathModel(Path.GLOBAL, (whole,), 230.0).predict(offsets)
    limited, _ = PathModel(Path.GLOBAL, (replace(whole, predictable_lines=20),), 230.0).predict(offsets)
    beyond = may_exceed_room(whole.cache, 20, offsets)
    assert 20 < beyond.argmax() < 200
    assert np.all(limited[beyond] == UNCLEAR) and np.array_equal(limited[~beyond], levels[~beyond])


def test_a_cache_of_ample_size_evicts_nothing():
    model = PathModel(Path.GLOBAL, (stage_of_ample_size(level(), LINE, 512 * LINE),), 230.0)
    offsets = random_lines(1, 4000, 512)
    assert np.array_equal(model.predict(offsets)[0] == 0, is_repeated(offsets, LINE))


def test_bounds_shift_with_the_latency():
    shifted = shift_latency(stage("l2", cache(1, 1), 200.0, (250.0, 400.0)), 230.0)
    assert (shifted.hit, shifted.bounds) == (230.0, (280.0, 430.0))


def test_between_the_bounds_is_unclear():
    model = PathModel(Path.GLOBAL, (stage("l1", cache(1, 1), 40, (60, 150)),), 200.0)
    assert model.classify(np.array([40, 60, 61, 149, 150, 999])).tolist() == [0, 0, UNCLEAR, UNCLEAR, 1, 1]


def test_tlbs_may_be_before_or_behind_every_cache():
    tlb = TlbModel("tlb_l1", cache(1, 4, line=4096), 20.0, 10.0)
    stages = (stage("l1", cache(1, 4), 40, (60, 150)), stage("l2", cache(1, 64), 200, (250, 400)))
    positions = PathModel(Path.GLOBAL, stages, 500.0, (tlb,)).tlb_positions()
    assert {(each.translated_from, each.tlbs_at) for each in positions} == {(2, 1), (1, 1), (0, 0), (0, 1)}
    assert len(PathModel(Path.GLOBAL, stages, 500.0).tlb_positions()) == 1
