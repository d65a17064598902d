"""Replacement policies against what is published of them."""

from __future__ import annotations

import numpy as np
import pytest

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.check import check_cache
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel

FERMI = (1 / 6, 1 / 2, 1 / 6, 1 / 6)  # MC16 s4.5


def misses(kind: PolicyKind, ways: int, lines: list[int], weights: tuple[float, ...] = (), seed: int = 0) -> list[int]:
    cache = Cache((ways,), 64, 64, Index(IndexKind.MODULO), Policy(kind, weights))
    return CacheModel(cache, seed).access_many(np.array(lines) * 64).tolist()


@pytest.mark.parametrize(("ways", "faults"), [(3, 9), (4, 10)])
def test_fifo_shows_beladys_anomaly(ways: int, faults: int) -> None:
    """Belady, Nelson & Shedler 1969: more frames, more faults."""
    assert sum(misses(PolicyKind.FIFO, ways, [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5])) == faults


@pytest.mark.parametrize(("kind", "faults"), [(PolicyKind.FIFO, 15), (PolicyKind.LRU, 12)])
def test_textbook_reference_string(kind: PolicyKind, faults: int) -> None:
    """Silberschatz, Galvin & Gagne, Operating System Concepts, s10.4: three frames."""
    assert sum(misses(kind, 3, [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1])) == faults


@pytest.mark.parametrize(
    ("kind", "survive"), [(PolicyKind.LRU, False), (PolicyKind.NRU, False), (PolicyKind.SRRIP, True)]
)
def test_a_scan_between_reuses(kind: PolicyKind, survive: bool) -> None:
    """Jaleel et al. 2010, fig 2: a1 a2 a2 a1 b1 b2 b3 b4 a1 a2 in four ways; only SRRIP keeps both a."""
    assert misses(kind, 4, [1, 2, 2, 1, 11, 12, 13, 14, 1, 2])[-2:] == [0 if survive else 1] * 2


def test_two_ways_make_lru_plru_and_mru_the_same() -> None:
    lines = np.random.default_rng(0).integers(0, 4, 500).tolist()
    lru = misses(PolicyKind.LRU, 2, lines)
    assert misses(PolicyKind.PLRU, 2, lines) == lru
    assert misses(PolicyKind.MRU, 2, lines) == lru


def test_two_ways_tell_nru_from_mru() -> None:
    """A, B, then B, A again: C replaces B under MRU and A under NRU, as `policy` says."""
    sequence = [0, 1, 1, 0, 2, 0]
    assert misses(PolicyKind.MRU, 2, sequence)[-1] == 0
    assert misses(PolicyKind.NRU, 2, sequence)[-1] == 1


def test_plru_follows_its_tree() -> None:
    """Eight ways filled in order, then way 0 used: the victim is way 4, not the oldest, way 1."""
    filled = [*range(8), 0, 8]
    assert misses(PolicyKind.PLRU, 8, [*filled, 1])[-1] == 0
    assert misses(PolicyKind.PLRU, 8, [*filled, 4])[-1] == 1


@pytest.mark.parametrize("weights", [(), FERMI])
def test_random_victims_come_as_often_as_they_should(weights: tuple[float, ...]) -> None:
    """Fill four ways, evict one by a fifth line, see which is gone: 1000 seeds, five standard errors."""
    kind = PolicyKind.WEIGHTED if weights else PolicyKind.RANDOM
    cache = Cache((4,), 64, 64, Index(IndexKind.MODULO), Policy(kind, weights))
    model, victims = CacheModel(cache), np.zeros(4)
    fill, probe = np.arange(5) * 64, np.arange(4) * 64
    for seed in range(1000):
        for way in range(4):  # probing changes the set, so each way is looked at in a run of its own
            model.reset(seed)
            model.access_many(fill)
            victims[way] += model.access_many(probe[[way]])[0]
    assert victims.sum() == 1000
    expected = np.array(weights or (0.25,) * 4)
    assert np.all(np.abs(victims / 1000 - expected) < 5 * np.sqrt(expected * (1 - expected) / 1000))


def test_fermi_weights_miss_less_than_lru_when_overflown_by_one_line() -> None:
    """MC16 s4.5, fig 11: LRU would miss always; independent draws with these weights miss two times in five."""
    lap = list(range(5)) * 4000
    assert np.mean(misses(PolicyKind.LRU, 4, lap)) == 1
    assert np.mean(misses(PolicyKind.WEIGHTED, 4, lap, FERMI)) == pytest.approx(0.404, abs=0.01)


@pytest.mark.parametrize(
    ("ways", "policy", "message"),
    [
        ((), Policy(PolicyKind.LRU), "at least one set"),
        ((4, 0), Policy(PolicyKind.LRU), "at least one way"),
        ((3,), Policy(PolicyKind.PLRU), "power of two"),
        ((4,), Policy(PolicyKind.LRU, FERMI), "weights belong to"),
        ((4, 3), Policy(PolicyKind.WEIGHTED, FERMI), "4 weights for sets"),
        ((4,), Policy(PolicyKind.WEIGHTED, (0.5, 0.5, 0.5, -0.5)), "probabilities"),
        ((4,), Policy(PolicyKind.WEIGHTED, (0.5, 0.1, 0.1, 0.1)), "probabilities"),
    ],
)
def test_policies_that_do_not_fit(ways: tuple[int, ...], policy: Policy, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_cache(Cache(ways, 64, 64, Index(IndexKind.MODULO), policy))
