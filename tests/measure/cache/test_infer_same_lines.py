"""An overflow among misread hits: told by which lines miss, whatever the policy; never made up."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_first_miss import Fit
from gpudissect.measure.cache.infer_same_lines import MissesByLine, decide, log_odds
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel

SETS, WAYS, LAPS = 128, 16, 128
KINDS = (PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.PLRU, PolicyKind.SRRIP, PolicyKind.RANDOM)


def seen(lines, laps, kind, misread, rng):
    """Laps over so many lines in random order, of which some hits look like misses."""
    cache = CacheModel(Cache((WAYS,) * SETS, 32, 32, Index(IndexKind.MODULO), Policy(kind)))
    ring = np.tile(rng.permutation(lines) * 32, laps + 2)
    missed = (cache.access_many(ring) == 1).reshape(-1, lines)[2:]
    return MissesByLine(np.zeros(lines, dtype=np.int64), 0).with_more(missed | (rng.random(missed.shape) < misread))


@settings(max_examples=30)
@given(st.sampled_from(KINDS), st.floats(0, 0.004), st.integers(0, 2**32 - 1))
def test_one_line_too_many_overflows(kind, misread, seed):
    assert decide(seen(SETS * WAYS + 1, LAPS, kind, misread, np.random.default_rng(seed))) is Fit.OVERFLOWS


@settings(max_examples=30)
@given(st.floats(0, 0.004), st.integers(0, 2**32 - 1))
def test_a_full_cache_fits(misread, seed):
    assert decide(seen(SETS * WAYS, LAPS, PolicyKind.LRU, misread, np.random.default_rng(seed))) is Fit.FITS


def test_few_laps_decide_nothing():
    assert decide(seen(SETS * WAYS, 2, PolicyKind.LRU, 0.002, np.random.default_rng(0))) is Fit.UNDECIDED


def test_more_pairs_are_better_odds():
    few, many = np.zeros(2000, dtype=np.int64), np.zeros(2000, dtype=np.int64)
    few[:64], many[:64] = 2, 8
    assert log_odds(MissesByLine(many, 64)) > log_odds(MissesByLine(few, 64))
