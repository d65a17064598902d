"""Index functions compared with known mappings and with the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.geometries import ADDRESS_BITS, LRU, MODULO, indices
from tests.support.oracle import set_of

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind
from gpudissect.simulation.cache.index import matrix, set_numbers
from gpudissect.simulation.cache.models import CacheModel


@pytest.mark.parametrize(
    ("index", "line", "sets", "numbers"),
    [
        # MC16 fig 7: bits 7-8 of the address choose among four sets of 32-byte lines.
        (Index(IndexKind.BITS, bits=(7, 8)), 32, 4, {0: 0, 96: 0, 128: 1, 256: 2, 511: 3, 512: 0}),
        (
            Index(IndexKind.XOR, masks=(0b101 << 7, 0b010 << 7)),
            *(128, 4, {0: 0, 1 << 7: 1, 1 << 8: 2, 1 << 9: 1, 0b101 << 7: 0, 0b111 << 7: 2}),
        ),
        (MODULO, 2, 7, {0: 0, 2: 1, 12: 6, 14: 0, 16: 1}),
        (Index(IndexKind.MODULO, granule=64), 32, 3, {0: 0, 32: 0, 64: 1, 160: 2, 192: 0}),
        (Index(IndexKind.TABLE, table=(2, 0, 0)), 32, 3, {0: 2, 32: 0, 64: 0, 96: 2, 128: 0}),
    ],
    ids=["bits", "xor", "modulo", "granule", "table"],
)
def test_known_mappings(index, line, sets, numbers):
    assert set_numbers(index, line, sets, np.array(list(numbers))).tolist() == list(numbers.values())


def test_only_linear_functions_have_a_matrix():
    assert matrix(Index(IndexKind.BITS, bits=(7, 9))) == (1 << 7, 1 << 9)
    with pytest.raises(UsageError, match="not linear"):
        matrix(MODULO)


@settings(max_examples=100)
@given(st.data(), st.integers(1, 9), st.sampled_from([16, 128]))
def test_agrees_with_the_oracle(data, sets, line):
    index = data.draw(indices(line, sets))
    offsets = data.draw(st.lists(st.integers(0, 2**ADDRESS_BITS - 1), min_size=1, max_size=50))
    cache = Cache((1,) * sets, line, line, index, LRU)
    assert set_numbers(index, line, sets, np.array(offsets)).tolist() == [set_of(cache, offset) for offset in offsets]


def test_high_address_bits_count_in_the_compiled_index():
    """Two lines 2^37 bytes apart, in one way each of two sets that only bit 37 distinguishes."""
    cache = Cache((1, 1), 128, 128, Index(IndexKind.XOR, masks=(1 << 37,)), LRU)
    assert CacheModel(cache).access_many([0, 1 << 37, 0, 1 << 37]).tolist() == [1, 1, 0, 0]
