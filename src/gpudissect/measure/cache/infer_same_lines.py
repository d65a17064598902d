"""Do the same lines miss again and again? Tells an overflow from misread hits where a lap has many of those.

Misread hits fall on any line; the misses of a set that overflows fall on its own few lines, whatever its policy. So of
two misses, how often are both on one line? That needs no control, and far fewer laps than counting: one miss a lap
among twenty misread ones is seen within some thirty laps, by counting within some hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log1p

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_first_miss import ERROR, Fit

MOST_LINES = 64  # of a set that overflows, among which its misses are shared out


@dataclass(frozen=True)
class MissesByLine:
    """How often each line of a ring missed in so many laps."""

    misses: NDArray[np.int64]
    laps: int

    def with_more(self, missed: NDArray[np.bool_]) -> MissesByLine:
        """The same with further laps, shape (laps, lines)."""
        return MissesByLine(self.misses + missed.sum(axis=0), self.laps + len(missed))


def log_odds(seen: MissesByLine) -> float:
    """Log odds (nats) of "overflows" against "fits", from pairs of misses on one line.

    Pairs are Poisson: of misread hits alone C(misses, 2) / lines are expected; of one true miss a lap, shared out among
    `MOST_LINES` lines, C(laps, 2) / MOST_LINES more. Fewer lines or more misses make more.
    """
    pairs = float(np.sum(seen.misses * (seen.misses - 1)) / 2)
    total = int(seen.misses.sum())
    by_chance = total * (total - 1) / 2 / seen.misses.size + 0.5
    more = seen.laps * (seen.laps - 1) / 2 / MOST_LINES
    return pairs * log1p(more / by_chance) - more


def decide(seen: MissesByLine) -> Fit:
    """The verdict, undecided while the evidence is thin."""
    odds, limit = log_odds(seen), -log(ERROR)
    if odds <= -limit:
        return Fit.FITS
    return Fit.OVERFLOWS if odds >= limit else Fit.UNDECIDED
