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

    `single` are probes with as many blocks of one word each, `double` with twice as many. Binomial likelihoods at
    the measured shares, equal priors; 0.5 if single and double hardly differ, or if pairs behave like neither, as
    under a policy that favours what is visited twice.
    """

    def log_likelihood(expected: float) -> float:
        return pairs.hits * log(expected) + (pairs.probes - pairs.hits) * log(1 - expected)

    if _neither(pairs.share, single.share, double.share):
        return 0.5
    odds = log_likelihood(single.share) - log_likelihood(double.share)
    return 1 / (1 + exp(-max(min(odds, 60.0), -60.0)))


def _neither(pairs: float, single: float, double: float) -> bool:
    """Between the two shares and near neither. Below both is clear: neighbouring lines crowd some sets even more."""
    gap = single - double
    return gap < SMALLEST_GAP or double + NEAR * gap < pairs < single - NEAR * gap
