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
from math import lgamma, log, log1p

import numpy as np
from numpy.typing import NDArray

MISREAD_LAP = 1e-3  # probability that a lap with true misses shows fewer than there were
ERROR = 1e-4  # odds at which a decision is made
EXCESSES = (1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 65536)  # true misses a lap that are considered


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


def log_odds(counts: NDArray[np.int64], control: Control) -> float:
    """Log odds (nats) of "overflows" against "fits".

    `counts` (laps, 3) are hits, misses and unknown of each lap of one ring. Misread hits are Poisson at a
    rate known from the control (gamma posterior, so the total is negative binomial); an overflow adds an
    excess of at least one to every lap, but for few: behind another cache that keeps now this line, now that, a lap
    may show less.
    """
    laps, total = len(counts), int(counts[:, 1].sum())
    exposure = float(counts.sum())
    fits = _log_misread(total, exposure, control)
    terms = []
    for excess in EXCESSES:
        short = int(np.sum(counts[:, 1] < excess))
        rest = max(total - excess * (laps - short), 0)
        terms.append(_log_misread(rest, exposure, control) + short * log(MISREAD_LAP))
    overflows = float(np.logaddexp.reduce(terms)) - log(len(terms))
    return overflows - fits


def decide(counts: NDArray[np.int64], control: Control) -> Fit:
    """The verdict on counts (laps, 3), undecided while the evidence is thin or most of it is unknown."""
    if counts[:, :2].sum() < 0.5 * counts.sum():
        return Fit.UNDECIDED
    odds, limit = log_odds(counts, control), -log(ERROR)
    if odds <= -limit:
        return Fit.FITS
    return Fit.OVERFLOWS if odds >= limit else Fit.UNDECIDED


def probe_sizes(low: int, high: int, step: int, how_many: int) -> list[int]:
    """Up to `how_many` multiples of `step` strictly between `low` (fits) and `high` (overflows), evenly spread."""
    units_low, units_high = low // step, high // step
    inner = units_high - units_low - 1
    if inner <= 0:
        return []
    count = min(inner, how_many)
    return [step * (units_low + (i + 1) * (inner + 1) // (count + 1)) for i in range(count)]


def _log_misread(misses: int, exposure: float, control: Control) -> float:
    """Log probability of `misses` misread hits in `exposure` accesses, given the control."""
    shape, known = control.misses + 0.5, control.accesses + 1.0
    return (
        lgamma(misses + shape)
        - lgamma(shape)
        - lgamma(misses + 1)
        - shape * log1p(exposure / known)
        - misses * log1p(known / exposure)
    )
