"""Index functions: known mappings, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.geometries import ADDRESS_BITS, indices
from tests.support.oracle import set_of

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.check import check_cache
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.index import matrix, set_numbers
from gpudissect.simulation.cache.models import CacheModel

LRU = Policy(PolicyKind.LRU)


def numbers(index: Index, line: int, sets: int, offsets: list[int]) -> list[int]:
    return set_numbers(index, line, sets, np.array(offsets)).tolist()


def test_texture_l1_sends_128_bytes_to_a_set() -> None:
    """MC16 fig 7: bits 7-8 of the address choose among four sets of 32-byte lines."""
    assert numbers(Index(IndexKind.BITS, bits=(7, 8)), 32, 4, [0, 96, 128, 256, 511, 512]) == [0, 0, 1, 2, 3, 0]


def test_parity_of_masked_bits() -> None:
    index = Index(IndexKind.XOR, masks=(0b101 << 7, 0b010 << 7))
    assert numbers(index, 128, 4, [0, 1 << 7, 1 << 8, 1 << 9, 0b101 << 7, 0b111 << 7]) == [0, 1, 2, 1, 0, 2]


def test_modulo_of_a_prime() -> None:
    assert numbers(Index(IndexKind.MODULO), 2, 7, [0, 2, 12, 14, 16]) == [0, 1, 6, 0, 1]


def test_granule_larger_than_a_line() -> None:
    assert numbers(Index(IndexKind.MODULO, granule=64), 32, 3, [0, 32, 64, 160, 192]) == [0, 0, 1, 2, 0]


def test_table_repeats() -> None:
    assert numbers(Index(IndexKind.TABLE, table=(2, 0, 0)), 32, 3, [0, 32, 64, 96, 128]) == [2, 0, 0, 2, 0]


def test_bits_are_rows_of_a_matrix() -> None:
    assert matrix(Index(IndexKind.BITS, bits=(7, 9))) == (1 << 7, 1 << 9)


def test_modulo_has_no_matrix() -> None:
    with pytest.raises(UsageError, match="not linear"):
        matrix(Index(IndexKind.MODULO))


@settings(max_examples=100)
@given(st.data(), st.integers(1, 9), st.sampled_from([16, 128]))
def test_agrees_with_the_oracle(data: st.DataObject, sets: int, line: int) -> None:
    index = data.draw(indices(line, sets))
    offsets = data.draw(st.lists(st.integers(0, 2**ADDRESS_BITS - 1), min_size=1, max_size=50))
    cache = Cache((1,) * sets, line, line, index, LRU)
    assert numbers(index, line, sets, offsets) == [set_of(cache, offset) for offset in offsets]


def test_high_address_bits_count_in_the_compiled_index() -> None:
    """Two lines 2^37 bytes apart, in one way each of two sets that differ in bit 37 only."""
    cache = Cache((1, 1), 128, 128, Index(IndexKind.XOR, masks=(1 << 37,)), LRU)
    assert CacheModel(cache).access_many([0, 1 << 37, 0, 1 << 37]).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (Index(IndexKind.BITS, bits=(7,)), "has 2 sets, not 4"),
        (Index(IndexKind.BITS, bits=(6, 7)), "inside a line"),
        (Index(IndexKind.BITS, bits=(7, 63)), r"address bits in \[0, 63\)"),
        (Index(IndexKind.XOR, masks=(128, 0)), "every row"),
        (Index(IndexKind.MODULO, granule=192), "multiple of the line"),
        (Index(IndexKind.TABLE), "empty table"),
        (Index(IndexKind.TABLE, table=(0, 4)), r"set numbers in \[0, 4\)"),
    ],
)
def test_indices_that_do_not_fit(index: Index, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_cache(Cache((4,) * 4, 128, 128, index, LRU))


@pytest.mark.parametrize(
    ("line", "sector", "message"),
    [(96, 32, "a line must be a power of two"), (128, 0, "a sector must be"), (64, 128, "cannot have sectors"),
     (128, 2, "1 to 32 per line")],
)  # fmt: skip
def test_lines_and_sectors_that_cannot_be(line: int, sector: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_cache(Cache((4,), line, sector, Index(IndexKind.MODULO), LRU))
