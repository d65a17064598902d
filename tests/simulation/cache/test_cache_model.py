"""One simulated cache, compared with the plain-Python one access by access, and with published policies."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.geometries import MODULO, addresses, caches
from tests.support.oracle import OracleCache, split_mix

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import Cache, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel

FERMI = (1 / 6, 1 / 2, 1 / 6, 1 / 6)  # MC16 s4.5


def one_set(kind, ways, weights=()):
    if kind is PolicyKind.WEIGHTED and not weights:
        weights = tuple([0.5] + [0.5 / (ways - 1)] * (ways - 1))
    order = (2, 1, 2, ways, 1) if kind is PolicyKind.ORDER else ()
    return Cache((ways,), 32, 32, MODULO, Policy(kind, weights, order))


def misses(kind, ways, lines, weights=(), seed=0):
    return CacheModel(one_set(kind, ways, weights), seed).access_many(np.array(lines) * 32).tolist()


@settings(max_examples=300)
@given(caches(), addresses(), st.integers(0, 2**64 - 1))
def test_random_caches_agree_with_the_oracle(cache, sequence, seed):
    oracle = OracleCache(cache, seed)
    expected = [0 if oracle.access(address) else 1 for address in sequence]
    assert CacheModel(cache, seed).access_many(sequence).tolist() == expected


@pytest.mark.parametrize("kind", list(PolicyKind))
@pytest.mark.parametrize("ways", [2, 3, 4])
def test_every_short_sequence_agrees_with_the_oracle(kind, ways):
    """All sequences of five or six accesses to ways + 1 lines, after filling the set."""
    if kind is PolicyKind.PLRU and ways == 3:
        pytest.skip("tree PLRU needs a power of two of ways")
    cache = one_set(kind, ways)
    model = CacheModel(cache)
    for tail in itertools.product(range(ways + 1), repeat=6 if ways < 4 else 5):
        sequence = [32 * line for line in (*range(ways), *tail)]
        model.reset()
        oracle = OracleCache(cache)
        assert model.access_many(sequence).tolist() == [int(not oracle.access(a)) for a in sequence], tail


@settings(max_examples=60)
@given(caches(), addresses(), addresses(100))
def test_reset_empties_the_cache(cache, before, after):
    model = CacheModel(cache, seed=1)
    model.access_many(before)
    model.reset(seed=7)
    assert model.access_many(after).tolist() == CacheModel(cache, seed=7).access_many(after).tolist()


def test_calls_continue_where_the_last_one_ended():
    sequence = np.random.default_rng(0).integers(0, 12, 200) * 32
    model, cut = CacheModel(one_set(PolicyKind.RANDOM, 8)), CacheModel(one_set(PolicyKind.RANDOM, 8))
    parts = np.concatenate([cut.access_many(part) for part in np.split(sequence, [1, 50])])
    assert parts.tolist() == model.access_many(sequence).tolist()


def test_the_oracle_draws_published_numbers():
    """SplitMix64 with seed 1234567, as listed with its author's reference implementation (and by Rosetta Code)."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert list(itertools.islice(split_mix(1234567), 3)) == published


def test_addresses_must_be_in_range():
    model = CacheModel(one_set(PolicyKind.LRU, 2))
    assert model.access_many([]).tolist() == []
    assert model.access_many([(32 << 31) - 1] * 2).tolist() == [1, 0]
    for address in (-1, 32 << 31):
        with pytest.raises(UsageError, match="addresses of this cache"):
            model.access_many([address])


@pytest.mark.parametrize(("ways", "faults"), [(3, 9), (4, 10)])
def test_fifo_shows_beladys_anomaly(ways, faults):
    """Belady, Nelson & Shedler 1969: more frames, more faults."""
    assert sum(misses(PolicyKind.FIFO, ways, [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5])) == faults


@pytest.mark.parametrize(("kind", "faults"), [(PolicyKind.FIFO, 15), (PolicyKind.LRU, 12)])
def test_textbook_reference_string(kind, faults):
    """Silberschatz, Galvin & Gagne, Operating System Concepts, s10.4: three frames."""
    assert sum(misses(kind, 3, [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1])) == faults


@pytest.mark.parametrize(("kind", "kept"), [(PolicyKind.LRU, False), (PolicyKind.NRU, False), (PolicyKind.SRRIP, True)])
def test_only_srrip_keeps_reused_lines_during_a_scan(kind, kept):
    """Jaleel et al. 2010, fig 2: a1 a2 a2 a1 b1 b2 b3 b4 a1 a2 in four ways."""
    assert misses(kind, 4, [1, 2, 2, 1, 11, 12, 13, 14, 1, 2])[-2:] == [0 if kept else 1] * 2


def test_two_ways_make_lru_plru_and_mru_the_same_but_not_nru():
    lines = np.random.default_rng(0).integers(0, 4, 500).tolist()
    assert misses(PolicyKind.LRU, 2, lines) == misses(PolicyKind.PLRU, 2, lines) == misses(PolicyKind.MRU, 2, lines)
    sequence = [0, 1, 1, 0, 2, 0]  # the last but one replaces 1 under MRU and 0 under NRU, see `PolicyKind`
    assert (misses(PolicyKind.MRU, 2, sequence)[-1], misses(PolicyKind.NRU, 2, sequence)[-1]) == (0, 1)


@given(st.lists(st.integers(0, 5), max_size=200))
def test_two_ways_make_slru_and_last_two_hits_the_same(lines):
    assert misses(PolicyKind.SLRU, 2, lines) == misses(PolicyKind.LAST_TWO_HITS, 2, lines)


def test_plru_follows_its_tree():
    """Eight ways filled in order, then way 0 used: the victim is way 4, not the oldest, way 1."""
    filled = [*range(8), 0, 8]
    assert misses(PolicyKind.PLRU, 8, [*filled, 1])[-1] == 0
    assert misses(PolicyKind.PLRU, 8, [*filled, 4])[-1] == 1


@pytest.mark.parametrize("weights", [(), FERMI])
def test_random_victims_have_their_probabilities(weights):
    """Fill four ways, evict one by a fifth line, find which: 1000 seeds, five standard errors."""
    model = CacheModel(one_set(PolicyKind.WEIGHTED if weights else PolicyKind.RANDOM, 4, weights))
    fill, probe, victims = np.arange(5) * 32, np.arange(4) * 32, np.zeros(4)
    for seed in range(1000):
        for way in range(4):  # probing changes the set, so each way needs a run of its own
            model.reset(seed)
            model.access_many(fill)
            victims[way] += model.access_many(probe[[way]])[0]
    assert victims.sum() == 1000
    expected = np.array(weights or (0.25,) * 4)
    assert np.all(np.abs(victims / 1000 - expected) < 5 * np.sqrt(expected * (1 - expected) / 1000))


def test_fermi_weights_miss_less_than_lru_with_one_line_too_many():
    """MC16 s4.5, fig 11: LRU would miss always; independent draws with these weights miss two times in five."""
    lap = list(range(5)) * 4000
    assert np.mean(misses(PolicyKind.LRU, 4, lap)) == 1
    assert np.mean(misses(PolicyKind.WEIGHTED, 4, lap, FERMI)) == pytest.approx(0.404, abs=0.01)
