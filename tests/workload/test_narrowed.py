"""Integers are held in narrower types without a change."""

import numpy as np
import pytest

from gpudissect.workload import Explicit
from gpudissect.workload.order import MIN_NARROWED, narrowed


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (0, 2**15 - 1, np.int16),
        (-(2**15), 0, np.int16),
        (0, 2**15, np.int32),
        (-(2**31), 2**31 - 1, np.int32),
        (0, 2**31, np.int64),
        (-(2**31) - 1, 0, np.int64),
    ],
)
def test_the_narrowest_type_that_holds_all_numbers(low, high, kind):
    values = np.full(MIN_NARROWED, low)
    values[-1] = high
    assert narrowed(values).dtype == kind and np.array_equal(narrowed(values), values)


def test_an_explicit_order_is_narrower_and_has_the_same_offsets_and_digest():
    offsets = np.arange(2000)[::-1] * 8
    order, few = Explicit(offsets), Explicit(offsets[:10])
    assert order.sequence.dtype == np.int16 and few.sequence.dtype == np.int64
    assert order.offsets().dtype == np.int64 and np.array_equal(order.offsets(), offsets)
    assert order.digest == Explicit(offsets.astype(np.uint64)).digest
    assert few == Explicit(order.offsets()[:10])
