"""The models of the H200's TLBs find what is put in front of them, and the rates show what limits them."""

from dataclasses import replace

import numpy as np
import pytest
import tlb_rates
from hypothesis import given
from hypothesis import strategies as st
from tlb_map import wrong_of
from tlb_rates import Rate
from tlb_rules import (
    BIG,
    HUGE,
    PAGES,
    SMALL,
    WAYS,
    Loads,
    first_misses,
    fold,
    misses_beside,
    second_misses,
    second_sets,
    third_misses,
    third_sets,
    walk_reads,
)

SIZES = (SMALL, BIG, HUGE)
EXCESS = (100, 500, 880, 1200)  # cycles of a load whose page walk has 0 to 3 reads


def loads_of(addresses, bits):
    """Loads in this order; all are compared."""
    addresses = np.asarray(addresses, np.int64)
    return Loads(addresses, np.full(addresses.size, bits), np.zeros(addresses.size, np.int64), addresses >= 0)


@given(st.integers(0, 1 << 47), st.integers(1, 16))
def test_folding_is_the_xor_of_all_fields(number, bits):
    fields = [number >> shift & (1 << bits) - 1 for shift in range(0, 48, bits)]
    assert fold(np.array([number]), bits)[0] == np.bitwise_xor.reduce(fields)


@pytest.mark.parametrize("bits", SIZES)
def test_aligned_entries_use_all_sets_equally(bits):
    loads = loads_of(np.arange(4096) << bits + PAGES, bits)
    assert set(np.bincount(second_sets(loads), minlength=256)) == {16}
    assert set(np.bincount(third_sets(loads), minlength=1024)) == {4}


@pytest.mark.parametrize("bits", SIZES)
def test_pages_of_an_entry_are_translated_together(bits):
    """Eight pages in the L1 TLB, sixteen in the others."""
    loads = loads_of(np.arange(32) << bits, bits)
    assert np.flatnonzero(first_misses(loads)).tolist() == [0, 8, 16, 24]
    assert np.flatnonzero(second_misses(loads)).tolist() == [0, 16]


def test_entries_of_pages_of_different_sizes_are_different():
    loads = loads_of([0, 0], HUGE)
    assert second_misses(replace(loads, bits=np.array([HUGE, BIG]))).all()


@pytest.mark.parametrize(("keys", "missing"), [(WAYS + 2, 0), (WAYS + 9, WAYS + 9)])
def test_a_miss_cache_keeps_what_exceeds_one_set_by_two(keys, missing):
    """Laps over a set: the page describes 10 and 17 pages."""
    laps = np.tile(np.arange(keys), 20)
    assert misses_beside(laps, np.zeros_like(laps), 1)[-keys:].sum() == missing


def test_each_half_of_the_third_tlb_has_a_miss_cache():
    """Ten entries of one set of each half fit; those of four sets of one half do not."""
    loads = loads_of(np.arange(1 << 14) << HUGE + PAGES, HUGE)
    sets = third_sets(loads)

    def misses(*numbers):
        chosen = np.concatenate([loads.address[sets == number][:12] for number in numbers])
        return third_misses(loads_of(np.tile(chosen, 20), HUGE))[-chosen.size :].sum()

    assert misses(5, 517) == 0 < misses(5, 6, 7, 8)


@pytest.mark.parametrize(("bits", "reads"), [(HUGE, [3, 0, 1, 2]), (SMALL, [4, 1, 2, 3])])
def test_each_page_walk_cache_saves_a_read(bits, reads):
    """The first address, then one in the same 32 MiB, the same 8 GiB, and the same 1 TiB."""
    assert walk_reads(loads_of([0, 1 << 24, 1 << 32, 1 << 39], bits)).tolist() == reads


def test_one_wrong_latency_is_one_wrong_prediction():
    loads = loads_of([*(np.arange(3000) << HUGE + PAGES), 0], HUGE)
    loads.excess[:-1] = np.array(EXCESS)[walk_reads(loads[:-1])]
    loads.excess[-1] = EXCESS[0]  # the L3 TLB has the first page
    assert {level: wrong for level, wrong, _ in wrong_of(loads)} == {"second": 0, "third": 0, "walk": 0}
    loads.excess[-1] = EXCESS[1]
    assert {level: wrong for level, wrong, _ in wrong_of(loads)} == {"second": 0, "third": 1, "walk": 0}


RATES = [
    Rate("mapped", 8.0, 32, "one TLB", 6, 2.0),
    *(Rate("mapped", gib, 32, "no", 132, 3 / (1 - 64 / gib)) for gib in (96.0, 128.0)),
    Rate("mapped", 128.0, 32, "one TLB", 6, 0.6),
    Rate("mapped", 512.0, 32, "no", 132, 0.09),
    Rate("ordinary", 64.0, 32, "no", 132, 37.0),
    Rate("ordinary", 128.0, 32, "no", 132, 6.0),
    Rate("ordinary", 64.0, 32, "by TLB", 132, 36.5),
    Rate("ordinary", 64.0, 32, "by SM", 132, 6.0),
]


def test_rates_of_the_page_are_accepted():
    assert all(holds for _, _, holds in tlb_rates.check("0", RATES))


@pytest.mark.parametrize("changed", range(len(RATES)))
def test_rates_that_contradict_the_page_are_found(changed):
    def holds(factor):
        rates = [each._replace(rate=each.rate * (factor if i == changed else 1)) for i, each in enumerate(RATES)]
        return all(holds for _, _, holds in tlb_rates.check("0", rates))

    assert not (holds(12) and holds(1 / 12))
