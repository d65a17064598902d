"""Sharing: both tests must agree; copies come at equal distances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_sharing import Laps, Shared, copies, shares

LOW, HIGH = st.floats(0, 0.25), st.floats(0.5, 1)


@given(LOW, HIGH, LOW, HIGH)
def test_evicted_by_another(alone, after, low, high):
    assert shares(Laps(alone, after, low)) is Shared.LINES
    assert shares(Laps(alone, after, high)) is Shared.ROOM
    assert shares(Laps(alone, after, None)) is Shared.ROOM


@given(LOW, LOW, HIGH)
def test_not_evicted_and_nothing_found(alone, after, found):
    assert shares(Laps(alone, after, found)) is Shared.NOTHING
    assert shares(Laps(alone, after, None)) is Shared.NOTHING


@pytest.mark.parametrize("laps", [Laps(0, 0, 0), Laps(0.3, 1, 0), Laps(0, 0.3, 0), Laps(0, 0.1, 0.4)])
def test_what_cannot_be_is_unclear(laps):
    assert shares(laps) is Shared.UNCLEAR


@given(st.sampled_from([1, 2, 4, 8]))
def test_copies_are_counted(number):
    assert copies([1.0 if warp % number == 0 else 0.0 for warp in range(32)]) == number


@pytest.mark.parametrize("missed", [
    [], [0.0] * 32, [1.0, *[0.0] * 30, 1.0], [1.0, 0.3, *[1.0] * 30], [0.0, 1.0] * 16, [1.0, 1.0, 1.0, *[0.0] * 29],
])  # fmt: skip
def test_what_is_not_regular_is_not_counted(missed):
    assert copies(missed) is None
