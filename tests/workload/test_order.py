"""Orders: permutations are permutations, the same everywhere; impossible orders are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.errors import WorkloadError
from gpudissect.workload import Explicit, Sequential, Shuffled
from gpudissect.workload.order import permutation


@given(st.integers(1, 5000), st.integers(0, 2**32 - 1))
def test_permutation_visits_everything_once(count, seed):
    assert np.array_equal(np.sort(permutation(count, seed)), np.arange(count))


def test_permutation_is_frozen():
    assert permutation(20, 1).tolist() == [15, 17, 19, 4, 8, 2, 11, 3, 13, 12, 7, 16, 9, 10, 1, 0, 18, 5, 14, 6]


def test_long_permutation_has_no_constant_stride():
    steps = np.diff(permutation(65536, 3))
    assert np.mean(steps == np.median(steps)) < 0.01


@given(st.integers(1, 300), st.integers(1, 512), st.integers(0, 4096))
def test_shuffled_visits_the_same_offsets_as_sequential(count, stride, start):
    shuffled, plain = Shuffled(count, stride, 7, start), Sequential(count, stride, start)
    assert np.array_equal(np.sort(shuffled.offsets()), plain.offsets())
    assert shuffled.span == plain.span == start + count * stride


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        *((Sequential, arguments) for arguments in ((0, 32), (4, 0), (4, 4, -1), (4.5, 8), ("4", 8), (2**31 + 1, 8))),
        (Shuffled, (4, 4, -1)),
        *((Explicit, (np.array(offsets),)) for offsets in ([0, 8, 0], [-8], [0.5], [[0, 8]])),
        (Explicit, (np.array([], int),)),
    ],
)
def test_impossible_orders_are_refused_in_one_line(kind, arguments):
    with pytest.raises(WorkloadError) as caught:
        kind(*arguments)
    assert "\n" not in str(caught.value)


def test_explicit_holds_a_copy():
    offsets = np.array([0, 64, 8])
    order = Explicit(offsets)
    offsets[0] = 999
    assert order.offsets().tolist() == [0, 64, 8]
