"""Whether numbers fall into two groups, or spread as one group does.

The best split leaves the least sum of squares within its groups (2-means in one dimension, exact by trying every cut;
Fisher 1958, "On grouping for maximum homogeneity"). Every set of numbers has a best split. It leaves a quarter of all
squares in numbers that spread evenly, more in a heap, almost nothing where there are two groups; even spread is the
least favourable of all shapes with one hump (Hartigan & Hartigan 1985, "The dip test of unimodality").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST = 0.2  # share of the numbers that either group must have: one outlier is no group
WITHIN = 0.15  # share of all squares that may lie within the groups: a sine wave, mostly near its ends, has 0.19
CHANCE = 0.001  # share of evenly spread sets of as many numbers that may look as grouped
DRAWS = 4000  # of such sets


def in_two(values: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Which of some numbers, shape (n,), lie in the upper of two groups; None if they need not be two."""
    if values.size < 3 or np.ptp(values) == 0:
        return None
    share, upper = (float(each[0]) for each in _best_splits(np.sort(values)[None, :]))
    if share > WITHIN or not FEWEST <= upper / values.size <= 1 - FEWEST:
        return None
    even = np.sort(np.random.default_rng(values.size).random((DRAWS, values.size)), axis=1)
    if np.mean(_best_splits(even)[0] <= share) > CHANCE:
        return None
    return split(values)


def split(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of some numbers, shape (n,), lie above their best split, whether they are two groups or not."""
    order = np.sort(values)
    if values.size < 2 or order[0] == order[-1]:
        return np.zeros(values.size, np.bool_)
    return np.asarray(values >= order[values.size - int(_best_splits(order[None, :])[1][0])])


def _best_splits(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """For sorted rows, shape (m, n): share of the squares within the best two groups, and size of the upper one."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    n = rows.shape[1]
    low = np.arange(1, n)
    between = np.cumsum(rows, axis=1)[:, :-1] ** 2 * (n / (low * (n - low)))  # the sums of both groups add up to 0
    cuts = np.argmax(between, axis=1)
    best = np.take_along_axis(between, cuts[:, None], axis=1)[:, 0]
    return 1 - best / np.sum(rows**2, axis=1), n - low[cuts]
