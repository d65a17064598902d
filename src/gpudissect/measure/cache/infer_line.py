"""Line size: do two words at some distance cost one line or two?

Blocks scattered over memory, a few more than the cache has lines: with one word visited in each, a certain share
of them is resident at any one time. Visit a second word in every block: if both lie in one line, nothing changes;
if not, twice as many lines compete, and the share falls to what twice as many blocks had. The two shares are
measured, so neither policy nor index function, unequal sets, sectors or a store for data that is smaller than its
tags can cover make a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

SMALLEST_GAP = 0.05  # between the shares of single and double
BELOW = 0.6  # of that gap, below the lower one: no mere crowding
NEAR = 0.3  # of that gap: pairs must come so close to one of the two


@dataclass(frozen=True)
class Hits:
    """Probes that hit, of so many."""

    hits: int
    probes: int

    @property
    def share(self) -> float:
        """Share of hits, never quite 0 or 1."""
        return (self.hits + 1) / (self.probes + 2)


def one_line(pairs: Hits, single: Hits, double: Hits) -> float:
    """Probability that the two words of a pair share a line.

    `single` are probes with as many blocks of a word each (or two, in one granule), `double` with twice as many.
    Binomial likelihoods at
    the measured shares, equal priors; 0.5 if single and double hardly differ, or if pairs behave like neither, as
    under a policy that favours what is visited twice.
    """

    def log_likelihood(expected: float) -> float:
        return pairs.hits * log(expected) + (pairs.probes - pairs.hits) * log(1 - expected)

    if _neither(pairs, single, double):
        return 0.5
    odds = log_likelihood(single.share) - log_likelihood(double.share)
    return 1 / (1 + exp(-max(min(odds, 60.0), -60.0)))


def _neither(pairs: Hits, single: Hits, double: Hits) -> bool:
    """Near neither of the two shares.

    Somewhat below both is clear: neighbouring lines crowd some sets even more. Far below is a policy at work that makes
    what is visited twice harder to evict.
    """
    gap = single.share - double.share
    if gap < SMALLEST_GAP or double.share + NEAR * gap < pairs.share < single.share - NEAR * gap:
        return True
    return pairs.share < double.share - BELOW * gap
