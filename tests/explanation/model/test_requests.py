"""Bank passes, sectors and lines of requests, against counting by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.explanation.model.requests import active, bank_passes, crowded, distinct

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
    ("kibibytes", "slower"),
    [
        *(
            (0.5, 108 / 40.4),
            (1, 108 / 20.9),
            (2, 108 / 27.6),
            (4, 108 / 36.0),
            (8, 108 / 30.9),
            (16, 108 / 56.2),
            (20, 108 / 68.9),
            (40, 108 / 68.8),
            (64, 1.0),
            (80, 108 / 91.9),
        ),
        *((160, 1.0), (4096, 1.0)),
    ],
)
def test_lookups_in_a_small_table_are_slower_as_measured(kibibytes, slower):
    """Random sectors of a table in the L2 against those of 64 KiB, on an H100."""
    sectors = np.random.default_rng(1).integers(int(32 * kibibytes), size=200_000)
    assert crowded(sectors, np.arange(sectors.size) // 100) == pytest.approx(slower, rel=0.4 if kibibytes < 8 else 0.15)


@settings(max_examples=30, deadline=None)
@given(st.integers(10, 3000), st.integers(0, 1 << 30))
def test_few_requests_all_over_the_l2_are_not_crowded(count, seed):
    units = np.random.default_rng(seed).integers(1 << 23, size=count)
    assert crowded(units, np.arange(count) % 8) <= 1 + 1.5 * np.sqrt(64 / count)


def test_requests_of_one_block_tell_nothing_of_their_places():
    assert crowded(np.zeros(100, dtype=np.int64), np.zeros(100, dtype=np.int64)) == 1
