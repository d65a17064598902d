"""Sets of TLBs with linear indices are found from random visits, or none are: never other ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.tlb.infer_linear_sets import LinearSets, fit_ways, infer_linear_sets
from gpudissect.measure.tlb.page_accesses import random_visits
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.index import reduced, set_numbers
from gpudissect.simulation.cache.models import TranslationModel

LAPS = 3
FIRST_TLB = Cache((16,), 1, 1, Index(IndexKind.MODULO), Policy(PolicyKind.LRU))
TOGETHER = (0x7F3A << 10) + 77  # of 3552 pages from here on, bits 11 and 12 change together
H200 = tuple(1 << bit | 1 << bit + 8 | 1 << bit + 16 for bit in range(8))


def laps_over(cache, numbers, miss_cache=0, misread=0.0, seed=0):
    """Random visits to pages behind a first TLB, and which of them missed, after an equal lap."""
    rng, laps = np.random.default_rng(seed), []
    for _ in range(LAPS):
        visits = random_visits(numbers.size, rng)
        levels = TranslationModel([FIRST_TLB, cache], miss_cache).levels(np.tile(numbers[visits], 2))
        missed = (levels[visits.size :] == 2) ^ (rng.random(visits.size) < misread)
        laps.append((visits, missed.astype(np.int8)))
    return laps


def tlb(rows, ways, policy=PolicyKind.LRU):
    return Cache((ways,) * (1 << len(rows)), 1, 1, Index(IndexKind.XOR, masks=tuple(rows)), Policy(policy))


def true_sets(cache, numbers):
    return set_numbers(cache.index, 1, cache.sets, numbers)


def same_partition(one, other):
    return np.unique(np.stack([one, other]), axis=1).shape[1] == np.unique(one).size == np.unique(other).size


@st.composite
def geometries(draw):
    bits, ways = draw(st.integers(4, 8)), draw(st.integers(2, 12))
    rows = [1 << bit | draw(st.sampled_from([0, 1 << bit + bits, 1 << 24 + bit])) for bit in range(bits)]
    return rows, ways, draw(st.floats(1.3, 2.0)), draw(st.integers(0, 1 << 22))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(geometries(), st.sampled_from([PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.NRU]), st.integers(0, 99))
def test_sets_are_found_or_none_are(geometry, policy, seed):
    rows, ways, ratio, first = geometry
    cache = tlb(rows, ways, policy)
    numbers = first + np.arange(int(ratio * ways * cache.sets))
    laps = laps_over(cache, numbers, misread=0.003, seed=seed)
    found = infer_linear_sets(laps, numbers)
    if isinstance(found, LinearSets) and isinstance(of_set := fit_ways(found, laps, ways * cache.sets), int):
        assert of_set == ways and same_partition(found.set_of, true_sets(cache, numbers))
        same_rows = same_partition(found.set_of, true_sets(tlb(found.rows, ways), numbers))
        assert same_rows or not found.is_unique


@pytest.mark.parametrize("first", [0, 5000, TOGETHER, 4000], ids=hex)
def test_the_sets_of_an_h200_are_found_wherever_its_memory_begins(first):
    """From 4000 on, 96 pages lie before a multiple of 4096, the others behind it."""
    cache, numbers = tlb(H200, 8), first + np.arange(3552)
    laps = laps_over(cache, numbers, miss_cache=16)
    found = infer_linear_sets(laps, numbers)
    assert same_partition(found.set_of, true_sets(cache, numbers))
    bits = {0: 12, 4000: 13}.get(first)  # with the bit that changes at the multiple, if it is the only one
    assert found.is_unique == (bits is not None)
    assert bits is None or found.rows == reduced(row & (1 << bits) - 1 for row in H200)
    assert fit_ways(found, laps, 2018) == 8


def test_without_sets_there_is_no_index():
    numbers = np.arange(600)
    one_set = Cache((400,), 1, 1, Index(IndexKind.MODULO), Policy(PolicyKind.FIFO))
    assert "no XOR" in infer_linear_sets(laps_over(one_set, numbers), numbers)


def test_pages_that_all_fit_show_nothing():
    numbers = np.arange(1000)
    assert "0 missed" in infer_linear_sets(laps_over(tlb(H200, 8), numbers), numbers)


def test_ways_must_predict_a_lap_that_did_not_choose_them():
    cache, numbers = tlb(H200, 8, PolicyKind.RANDOM), np.arange(3552)
    laps = laps_over(cache, numbers)
    sets = LinearSets(H200, 12, true_sets(cache, numbers), is_unique=True)
    assert "predict" in fit_ways(sets, laps, 2048)


def test_most_sets_of_lru_are_found():
    rights = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        bits, ways, first = int(rng.integers(5, 8)), int(rng.integers(4, 12)), int(rng.integers(0, 1 << 22))
        cache = tlb([1 << bit | 1 << bit + bits for bit in range(bits)], ways)
        numbers = first + np.arange(int(1.7 * ways * cache.sets))
        found = infer_linear_sets(laps_over(cache, numbers, misread=0.003, seed=seed), numbers)
        rights += isinstance(found, LinearSets) and same_partition(found.set_of, true_sets(cache, numbers))
    assert rights >= 17
