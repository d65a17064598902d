"""The hierarchy put together from what was inferred: simulated as one, it answers as each of its parts would."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_granularity import Granularity
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_plateau import summarise
from gpudissect.measure.prediction.infer_disagreement import UNCLEAR
from gpudissect.measure.prediction.infer_hierarchy import (
    Inferred,
    Stage,
    Translation,
    ample,
    farther,
    of_capacity,
    repeated,
)
from gpudissect.simulation.cache.cache import CacheModel
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.workload import Bounds, Path

LINE = 64
MODULO = Index(IndexKind.MODULO)


def cache(sets, ways, kind="lru", line=LINE):
    return Cache((ways,) * sets, line, line, MODULO, Policy(PolicyKind(kind)))


def stage(name, own, hit, bounds, **more):
    return Stage(name, own, hit, bounds, True, "", **more)


def level(line=LINE):
    def around(cycles):
        return summarise([(line, line)], [np.full(8, cycles)])

    return Level("l1", Path.GLOBAL, False, around(40), around(230), Bounds(100, 180, 400), Granularity(line, 1, ""), ())


def random_lines(seed, count, lines):
    return np.random.default_rng(seed).integers(0, lines, count) * LINE


kinds = st.sampled_from(["lru", "fifo", "nru", "srrip", "mru", "slru"])


@settings(max_examples=30)
@given(st.integers(0, 99), kinds, kinds, st.integers(1, 8), st.integers(1, 8))
def test_two_caches_answer_as_one_behind_the_other(seed, near, far, ways, more):
    l1, l2 = cache(4, ways, near), cache(16, more, far)
    route = Inferred(Path.GLOBAL, (stage("l1", l1, 40, (60, 150)), stage("l2", l2, 200, (250, 400))), 500.0)
    offsets = random_lines(seed, 3000, 160)
    told = route.foretold(offsets).places
    missed = CacheModel(l1).access_many(offsets) == 1
    behind = CacheModel(l2).access_many(offsets[missed])
    assert np.array_equal(told == 0, ~missed)
    assert np.array_equal(told[missed], 1 + behind)


def test_which_tlb_knows_a_page():
    page = 1 << 21
    index = Index(IndexKind.TABLE, table=(0,) * 64)
    tlbs = tuple(
        Translation(name, Cache((entries,), page, page, index, Policy(PolicyKind.LRU)), cycles, cycles / 2)
        for name, entries, cycles in (("tlb_l1", 4, 20.0), ("tlb_l2", 16, 100.0))
    )  # fmt: skip
    pages = np.array([0, 1, 2, 3, 0, 4, 0, 1, *range(20, 36), 0, 35]) * page
    told = Inferred(Path.GLOBAL_L2, (), 0.0, tlbs).foretold(pages).places
    assert told[:8].tolist() == [2, 2, 2, 2, 0, 2, 0, 1]
    assert told[-2:].tolist() == [2, 0]  # page 0 has gone from both


@settings(max_examples=20)
@given(st.integers(0, 99), st.sampled_from([(1, 64), (8, 8), (16, 4), (4, 16)]))
def test_of_unknown_sets_only_what_any_would_answer_is_foretold(seed, shape):
    route = Inferred(Path.GLOBAL, (of_capacity(level(), LINE, 64 * LINE),), 230.0)
    offsets = random_lines(seed, 2000, 96)
    told = route.foretold(offsets).places
    true = CacheModel(cache(*shape)).access_many(offsets)
    foretold = told != UNCLEAR
    assert 0.2 < foretold.mean() < 1
    assert np.mean(told[foretold] == true[foretold]) > 0.9


def test_a_cache_with_room_loses_nothing():
    route = Inferred(Path.GLOBAL, (ample(level(), LINE, 512 * LINE),), 230.0)
    offsets = random_lines(1, 4000, 512)
    assert np.array_equal(route.foretold(offsets).places == 0, repeated(offsets, LINE))


def test_bounds_move_with_the_way_there():
    moved = farther(stage("l2", cache(1, 1), 200.0, (250.0, 400.0)), 230.0)
    assert (moved.hit, moved.bounds) == (230.0, (280.0, 430.0))


def test_between_the_bounds_nothing_is_told():
    route = Inferred(Path.GLOBAL, (stage("l1", cache(1, 1), 40, (60, 150)),), 200.0)
    assert route.places(np.array([40, 60, 61, 149, 150, 999])).tolist() == [0, 0, UNCLEAR, UNCLEAR, 1, 1]


def test_tlbs_may_be_asked_before_or_behind_every_cache():
    tlb = Translation("tlb_l1", cache(1, 4, line=4096), 20.0, 10.0)
    stages = (stage("l1", cache(1, 4), 40, (60, 150)), stage("l2", cache(1, 64), 200, (250, 400)))
    variants = Inferred(Path.GLOBAL, stages, 500.0, (tlb,)).variants()
    assert {(each.asked_from, each.beside) for each in variants} == {(2, 1), (1, 1), (0, 0), (0, 1)}
    assert len(Inferred(Path.GLOBAL, stages, 500.0).variants()) == 1
