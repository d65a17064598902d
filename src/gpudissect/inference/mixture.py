"""How much of what: shares of known latency distributions in a mixed sample, also where they overlap.

A far L2 hit may be slower than a near memory access, so no threshold tells one access from the other; but a few
hundred accesses together tell what share each has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BINS = 24
ROUNDS = 400


def shares(samples: NDArray[np.int64], components: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Maximum-likelihood share of each component in `samples`, summing to 1.

    The components are given by samples of their own (cycles, timer included); histograms over the quantiles of all
    of them stand for their distributions, with half a count a bin for what was not seen. Expectation-maximisation.
    Raises `ValueError` without samples or components.
    """
    if samples.size == 0 or not components:
        raise ValueError("a mixture needs samples and components")
    # Every component lends its own quantiles as edges: a broad one must not blur a narrow one.
    quantiles = [np.quantile(each, np.linspace(0, 1, BINS + 1)[1:-1]) for each in components]
    edges = np.unique(np.concatenate(quantiles)) + 0.5
    density = np.stack([_histogram(each, edges) for each in components])
    counts = np.bincount(np.searchsorted(edges, samples), minlength=edges.size + 1)
    weights = np.full(len(components), 1 / len(components))
    for _ in range(ROUNDS):
        joint = weights[:, None] * density
        weights = (joint / joint.sum(axis=0)) @ counts / counts.sum()
    return np.asarray(weights)


def _histogram(samples: NDArray[np.int64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = np.bincount(np.searchsorted(edges, samples), minlength=edges.size + 1) + 0.5
    return np.asarray(counts / counts.sum())
