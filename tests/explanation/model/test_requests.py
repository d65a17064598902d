"""Bank passes, sectors and lines of requests, against counting by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.explanation.model.requests import PERIOD, active, bank_passes, crowded, distinct

LANES = np.arange(32, dtype=np.uint64)
ALL = np.ones((1, 32), dtype=bool)


def passes(addresses, size=4, lanes=ALL, merged=True):
    return int(bank_passes(np.asarray(addresses, np.uint64)[None], lanes, size, merged=merged)[0])


@pytest.mark.parametrize("stride", range(1, 34))
def test_passes_of_a_stride_are_its_common_divisor_with_the_banks(stride):
    assert passes(4 * stride * LANES) == np.gcd(stride, 32)


def test_a_broadcast_takes_one_pass_if_merged():
    assert passes(0 * LANES) == 1
    assert passes(0 * LANES, merged=False) == 32


@pytest.mark.parametrize(("size", "expected"), [(4, 1), (8, 2), (16, 4)])
def test_wide_accesses_take_as_many_passes_as_they_have_words(size, expected):
    assert passes(size * LANES, size) == expected


@pytest.mark.parametrize(("size", "expected"), [(4, 1), (8, 1), (16, 2)])
def test_half_warps_that_load_one_address_from_shared_memory_are_served_together(size, expected):
    assert int(bank_passes((0 * LANES)[None], ALL, size, paired=True)[0]) == expected


def test_lanes_that_are_off_take_nothing():
    on = active(np.array([1], dtype=np.uint32))
    assert passes(128 * LANES, lanes=on) == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 1 << 16), min_size=32, max_size=32), st.integers(1, 2**32 - 1))
def test_distinct_units_are_those_of_a_set(words, mask):
    addresses, on = np.array([words], dtype=np.uint64) * 4, active(np.array([mask], dtype=np.uint32))
    expected = {
        byte // 32 for a, ok in zip(addresses[0].tolist(), on[0], strict=True) if ok for byte in range(a, a + 16)
    }
    assert distinct(addresses, on, 16, 32).tolist() == [len(expected)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 4095), min_size=32, max_size=32), st.integers(1, 2**32 - 1), st.booleans())
def test_passes_are_those_of_the_fullest_bank(words, mask, merged):
    on = active(np.array([mask], dtype=np.uint32))
    used = [word for word, ok in zip(words, on[0], strict=True) if ok]
    banks = np.bincount([w % 32 for w in (set(used) if merged else used)], minlength=32)
    assert passes(np.array(words) * 4, lanes=on, merged=merged) == banks.max()


@pytest.mark.parametrize(
    ("kibibytes", "rate"), [(8, 30.9), (16, 56.2), (20, 68.9), (32, 106.8), (40, 68.8), (80, 91.9), (160, 110.6)]
)
def test_lookups_in_a_small_table_take_as_long_as_measured_on_an_h100(kibibytes, rate):
    """Random sectors of a table in the L2, in 1/ns; 107 where all places are used equally."""
    units = np.random.default_rng(kibibytes).integers(2 * kibibytes, size=100_000)
    assert crowded(units, np.arange(units.size) // 100) == pytest.approx(106.8 / rate, rel=0.15)


@settings(max_examples=30, deadline=None)
@given(st.integers(10, 3000), st.integers(0, 1 << 30))
def test_few_requests_all_over_the_l2_are_not_crowded(count, seed):
    units = np.random.default_rng(seed).integers(1 << 20, size=count)
    assert crowded(units, np.arange(count) % 8) <= 1 + 1.5 * np.sqrt(PERIOD / count)


def test_requests_of_one_block_tell_nothing_of_their_places():
    assert crowded(np.zeros(100, dtype=np.int64), np.zeros(100, dtype=np.int64)) == 1
