"""The compiled cache agrees, access for access, with the plain-Python one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.geometries import addresses, caches
from tests.support.oracle import OracleCache, split_mix

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel


def one_set(kind: PolicyKind, ways: int) -> Cache:
    weights = tuple([0.5] + [0.5 / (ways - 1)] * (ways - 1)) if kind is PolicyKind.WEIGHTED else ()
    return Cache((ways,), 32, 32, Index(IndexKind.MODULO), Policy(kind, weights))


@settings(max_examples=300)
@given(caches(), addresses(), st.integers(0, 2**64 - 1))
def test_random_caches(cache: Cache, sequence: list[int], seed: int) -> None:
    oracle = OracleCache(cache, seed)
    expected = [0 if oracle.access(address) else 1 for address in sequence]
    assert CacheModel(cache, seed).access_many(sequence).tolist() == expected


@pytest.mark.parametrize("kind", list(PolicyKind))
@pytest.mark.parametrize("ways", [2, 3, 4])
def test_every_short_sequence(kind: PolicyKind, ways: int) -> None:
    """All sequences of six accesses to ways + 1 lines, after filling the set."""
    if kind is PolicyKind.PLRU and ways == 3:
        pytest.skip("tree PLRU needs a power of two of ways")
    cache = one_set(kind, ways)
    model = CacheModel(cache)
    length = 6 if ways < 4 else 5
    for tail in itertools.product(range(ways + 1), repeat=length):
        sequence = [32 * line for line in (*range(ways), *tail)]
        model.reset()
        oracle = OracleCache(cache)
        assert model.access_many(sequence).tolist() == [int(not oracle.access(a)) for a in sequence], tail


@settings(max_examples=60)
@given(caches(), addresses(), addresses(100))
def test_reset_forgets_everything(cache: Cache, before: list[int], after: list[int]) -> None:
    model = CacheModel(cache, seed=1)
    model.access_many(before)
    model.reset(seed=7)
    assert model.access_many(after).tolist() == CacheModel(cache, seed=7).access_many(after).tolist()


def test_calls_continue_where_the_last_one_ended() -> None:
    sequence = np.random.default_rng(0).integers(0, 12, 200) * 32
    whole = CacheModel(one_set(PolicyKind.RANDOM, 8)).access_many(sequence)
    model = CacheModel(one_set(PolicyKind.RANDOM, 8))
    assert np.concatenate([model.access_many(part) for part in np.split(sequence, [1, 50])]).tolist() == whole.tolist()


def test_the_oracle_draws_published_numbers() -> None:
    """SplitMix64 with seed 1234567, as listed with its author's reference implementation (and by Rosetta Code)."""
    assert list(itertools.islice(split_mix(1234567), 3)) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_nothing_to_access() -> None:
    assert CacheModel(one_set(PolicyKind.LRU, 2)).access_many([]).tolist() == []


@pytest.mark.parametrize("address", [-1, 32 << 31])
def test_addresses_out_of_range(address: int) -> None:
    with pytest.raises(UsageError, match="addresses of this cache"):
        CacheModel(one_set(PolicyKind.LRU, 2)).access_many([address])


def test_the_last_address_in_range() -> None:
    assert CacheModel(one_set(PolicyKind.LRU, 2)).access_many([(32 << 31) - 1] * 2).tolist() == [1, 0]
