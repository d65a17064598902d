"""Sharing: both tests must agree; copies serve evenly spaced warps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_sharing import MissShares, Sharing, classify_sharing, count_copies

LOW, HIGH = st.floats(0, 0.25), st.floats(0.5, 1)


@given(LOW, HIGH, LOW, HIGH)
def test_eviction_shows_a_shared_array(undisturbed, evicted, low, high):
    assert classify_sharing(MissShares(undisturbed, evicted, low)) is Sharing.LINES
    assert classify_sharing(MissShares(undisturbed, evicted, high)) is Sharing.CAPACITY
    assert classify_sharing(MissShares(undisturbed, evicted, None)) is Sharing.CAPACITY


@given(LOW, LOW, HIGH)
def test_no_eviction_and_no_hits_show_nothing_shared(undisturbed, evicted, cross):
    assert classify_sharing(MissShares(undisturbed, evicted, cross)) is Sharing.NOTHING
    assert classify_sharing(MissShares(undisturbed, evicted, None)) is Sharing.NOTHING


@pytest.mark.parametrize("shares", [(0, 0, 0), (0.3, 1, 0), (0, 0.3, 0), (0, 0.1, 0.4)])
def test_contradictions_are_unclear(shares):
    assert classify_sharing(MissShares(*shares)) is Sharing.UNCLEAR


@pytest.mark.parametrize("number", [1, 2, 4, 8])
def test_copies_are_counted(number):
    assert count_copies([1.0 if warp % number == 0 else 0.0 for warp in range(32)]) == number


def test_copies_that_serve_neighbouring_warps_are_counted():
    """Warps 0, 1, 4, 5, ... of a Quadro P6000 share one of two texture caches (coreFlow_Texture_Pascal.log of MT4G)."""
    assert count_copies([float(warp % 4 < 2) for warp in range(32)]) == 2


IRREGULAR = {
    "no warps": [],
    "all low": [0.0] * 32,
    "first and last": [1.0, *[0.0] * 30, 1.0],
    "one neither high nor low": [1.0, 0.3, *[1.0] * 30],
    "not warp 0": [0.0, 1.0] * 16,
    "the first three": [1.0, 1.0, 1.0, *[0.0] * 29],
}


@pytest.mark.parametrize("missed", IRREGULAR.values(), ids=IRREGULAR)
def test_irregular_copies_are_not_counted(missed):
    assert count_copies(missed) is None
