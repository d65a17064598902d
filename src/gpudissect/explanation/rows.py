"""Rows of integer columns as single numbers, which sort faster than rows."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Integers = TypeVar("Integers", Ints, NDArray[np.uint64])
_LIMIT = 1 << 63


def numbered(values: NDArray[np.uint64] | Ints) -> Ints:
    """The number of each value among the distinct ones, from 0."""
    return np.unique(values, return_inverse=True)[1].ravel()


def row_keys(*columns: NDArray[np.integer]) -> Ints:
    """A number for each row of columns of shape (rows,): equal for equal rows, and ordered as the rows are.

    The first column is the most significant. Values of a wide range are replaced by their ranks first.
    """
    keys, size = np.zeros(columns[0].shape, dtype=np.int64), 1
    for column in columns if keys.size else ():
        values = column.astype(np.int64)
        low = int(values.min())
        span = int(values.max()) - low + 1
        if size * span >= _LIMIT:
            values, low = numbered(values), 0
            span = int(values.max()) + 1
        if size * span >= _LIMIT:
            keys = numbered(keys)
            size = int(keys.max()) + 1
        keys = keys * span + (values - low)
        size *= span
    return keys


def distinct_rows(*columns: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Index of the first copy of each distinct row, in sorted order, and the number of the distinct row of each row."""
    _, first, of = np.unique(row_keys(*columns), return_index=True, return_inverse=True)
    return first, of.ravel()


def distinct_in_rows(values: Integers, is_active: NDArray[np.bool_]) -> tuple[Integers, NDArray[np.bool_]]:
    """Values, sorted within rows, and which are active and the first of their value; both of shape (rows, values)."""
    none = np.iinfo(values.dtype).max
    ordered = np.sort(np.where(is_active, values, none), axis=1)
    is_first = ordered != none
    is_first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return ordered, is_first
