"""Does a footprint fit? Counted misses, decided by a test that holds for every replacement policy.

If a ring of distinct lines overflows even one set, every lap in steady state misses at least once: a lap
without a miss would need more lines of that set resident at its start than the set has ways. If the ring
fits, misses are only misread hits, at the rate seen on a control footprint that surely fits. So one clean lap
all but proves that a ring fits, whatever the policy, the index function or the order of visits; and where
misreadings are frequent, laps add up until one of the two is certain (in the spirit of Wald 1945).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import lgamma, log

import numpy as np
from numpy.typing import NDArray

MISREAD_LAP = 1e-3  # probability that a lap with true misses shows fewer than there were
ERROR = 1e-4  # odds at which a decision is made
EXCESSES = np.array((1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 65536))[:, None, None]
"""True misses a lap that are considered, shape (excesses, 1, 1)."""


class Fit(Enum):
    """Whether a footprint stays resident."""

    FITS = "fits"
    OVERFLOWS = "overflows"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Control:
    """Misses and accesses of a footprint that surely fits: how often a hit is misread."""

    misses: int
    accesses: int


def log_odds(counts: NDArray[np.int64], control: Control) -> NDArray[np.float64]:
    """Log odds (nats) of "overflows" against "fits", shape (rings,).

    `counts` (laps, rings, 3) are hits, misses and unknown of each lap of each ring. Misread hits are Poisson at a
    rate known from the control (gamma posterior, so the total is negative binomial); an overflow adds an
    excess of at least one to every lap, but for few: behind another cache that keeps now this line, now that, a lap
    may show less.
    """
    missed = counts[:, :, 1]
    total, exposure = missed.sum(axis=0), counts.sum(axis=(0, 2)).astype(np.float64)
    short = np.sum(missed < EXCESSES, axis=1)  # laps that show less, (excesses, rings)
    rest = np.maximum(total - EXCESSES[:, 0] * (len(counts) - short), 0)
    fits, *terms = _log_misread(np.vstack([total, rest]), exposure, control)
    overflows = np.logaddexp.reduce(terms + short * log(MISREAD_LAP), axis=0) - log(len(terms))
    return np.asarray(overflows - fits)


def decide(counts: NDArray[np.int64], control: Control) -> Fit:
    """The verdict on counts (laps, 3) of one ring, undecided while the evidence is thin or most of it is unknown."""
    return decide_each(counts[:, None, :], control)[0]


def decide_each(counts: NDArray[np.int64], control: Control) -> list[Fit]:
    """The verdict on each ring of counts (laps, rings, 3)."""
    known = counts[:, :, :2].sum(axis=(0, 2)) >= 0.5 * counts.sum(axis=(0, 2))
    odds, limit = log_odds(counts, control), -log(ERROR)
    told = np.where(known & (odds <= -limit), 0, np.where(known & (odds >= limit), 1, 2))
    return [(Fit.FITS, Fit.OVERFLOWS, Fit.UNDECIDED)[each] for each in told.tolist()]


def probe_sizes(low: int, high: int, step: int, how_many: int) -> list[int]:
    """Up to `how_many` multiples of `step` strictly between `low` (fits) and `high` (overflows), evenly spread."""
    units_low, units_high = low // step, high // step
    inner = units_high - units_low - 1
    if inner <= 0:
        return []
    count = min(inner, how_many)
    return [step * (units_low + (i + 1) * (inner + 1) // (count + 1)) for i in range(count)]


def _log_misread(misses: NDArray[np.int64], exposure: NDArray[np.float64], control: Control) -> NDArray[np.float64]:
    """Log probability of `misses` misread hits in `exposure` accesses, given the control; shape (.., rings)."""
    shape, known = control.misses + 0.5, control.accesses + 1.0
    counts, which = np.unique(misses, return_inverse=True)
    ways = np.array([lgamma(each + shape) - lgamma(shape) - lgamma(each + 1) for each in counts.tolist()])
    chance = shape * np.log1p(exposure / known) + misses * np.log1p(known / exposure)
    return np.asarray(ways[which].reshape(misses.shape) - chance)
