"""Whether numbers form two groups or one.

The best split leaves the least sum of squares within its groups (2-means in one dimension, exact by trying every cut;
Fisher 1958, "On grouping for maximum homogeneity"). Every set of numbers has a best split. It leaves a quarter of all
squares in uniform numbers, more in a single peak, almost nothing in two groups; the uniform distribution is the least
favourable of all unimodal ones (Hartigan & Hartigan 1985, "The dip test of unimodality").
"""

import numpy as np
from numpy.typing import NDArray

MIN_GROUP_SHARE = 0.2  # of the numbers: one outlier is no group
MAX_WITHIN_SHARE = 0.15  # of all squares, within the groups: a sine wave, mostly near its ends, has 0.19
MAX_P_VALUE = 0.001  # share of uniform samples of the same size that may be as bimodal
UNIFORM_SAMPLES = 4000


def split_bimodal(values: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Which of the numbers, shape (n,), lie in the upper of two groups; None if they may be one group."""
    if values.size < 3 or np.ptp(values) == 0:
        return None
    share, upper = (float(result[0]) for result in _best_splits(np.sort(values)[None, :]))
    if share > MAX_WITHIN_SHARE or not MIN_GROUP_SHARE <= upper / values.size <= 1 - MIN_GROUP_SHARE:
        return None
    uniform = np.sort(np.random.default_rng(values.size).random((UNIFORM_SAMPLES, values.size)), axis=1)
    if np.mean(_best_splits(uniform)[0] <= share) > MAX_P_VALUE:
        return None
    return best_split(values)


def best_split(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the numbers, shape (n,), lie above their best split, whether they are two groups or not."""
    rising = np.sort(values)
    if values.size < 2 or rising[0] == rising[-1]:
        return np.zeros(values.size, np.bool_)
    return np.asarray(values >= rising[values.size - int(_best_splits(rising[None, :])[1][0])])


def _best_splits(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """For sorted rows, shape (m, n): share of the squares within the best two groups, and size of the upper one."""
    rows = rows - rows.mean(axis=1, keepdims=True)
    n = rows.shape[1]
    low = np.arange(1, n)
    between = np.cumsum(rows, axis=1)[:, :-1] ** 2 * (n / (low * (n - low)))  # the sums of both groups add up to 0
    cuts = np.argmax(between, axis=1)
    best = np.take_along_axis(between, cuts[:, None], axis=1)[:, 0]
    return 1 - best / np.sum(rows**2, axis=1), n - low[cuts]
