"""Which of several cards differs from its siblings by more than chance: without reference values.

Each value is compared with the median of the others, on the scale of their spread: the median absolute deviation, which
half of the cards cannot distort. Few cards show little of their spread. So a spread typical of GPUs counts as
`PRIOR_CARDS` further cards, as in a conjugate prior (Gelman et al., Bayesian Data Analysis, s3.3). The deviation then
follows Student's t distribution.
"""

from dataclasses import dataclass
from math import erfc, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

PRIOR_SPREAD, PRIOR_LATENCY_SPREAD, PRIOR_CARDS = 0.01, 0.025, 6
"""Relative standard deviation between cards of one model, and its weight. Over three H200s and over three H100s, the
median of 14 bandwidths is 0.4 %, the 90th percentile 1.1 %; of 14 latencies of L2 and DRAM 1.8 % and 2.4 %
(docs/results/cards.csv)."""
MAX_FREEDOM = 30  # degrees of freedom: real spreads have longer tails than a normal distribution
ALARM_CARDS = 4000  # healthy cards for one false alarm expected
MAD_OF_NORMAL = 1.4826  # standard deviations
MAD_EFFICIENCY = 0.37  # efficiency relative to the standard deviation, of normal values
MEDIAN_VARIANCE = 1.5708  # of a median, relative to that of the mean
MIN_EXACT_CARDS = 30  # from here on, a card is left among its own siblings
BRACKET_DEVIATIONS = 3.0  # standard deviations from the value to the end of its bracket


@dataclass(frozen=True)
class Prior:
    """A relative standard deviation known before, and the number of cards as which it counts."""

    spread: float
    cards: float


@dataclass(frozen=True)
class Deviations:
    """One value of each card against its siblings, shape (cards,).

    Attributes:
        centre: median of the siblings.
        relative: (value - centre) / centre.
        chance: probability of such a deviation, or a larger one, of a card like its siblings.

    """

    centre: Numbers
    relative: Numbers
    chance: Numbers

    def is_out(self, tests: float, min_deviation: float) -> NDArray[np.bool_]:
        """Cards that deviate by at least `min_deviation` (relative) and are out.

        If each card takes so many tests (Bonferroni), one false alarm in `ALARM_CARDS` healthy cards is expected.
        """
        return (self.chance * tests * ALARM_CARDS < 1) & (np.abs(self.relative) >= min_deviation)


def deviations(values: Numbers, errors: Numbers, prior: Prior | None = None) -> Deviations:
    """Compare the positive values of two or more cards, with half widths of their brackets; both of shape (cards,).

    `prior` is None for that of bandwidths from card to card.
    """
    prior = prior or Prior(PRIOR_SPREAD, PRIOR_CARDS)
    count = values.size
    if count >= MIN_EXACT_CARDS:
        centre = np.full(count, np.median(values))
        spread = np.full(count, MAD_OF_NORMAL * np.median(np.abs(values - centre)))
    else:
        others = np.array([np.delete(values, i) for i in range(count)])
        centre = np.median(others, axis=1)
        spread = MAD_OF_NORMAL * np.median(np.abs(others - centre[:, None]), axis=1)
    siblings = count - 1
    known = MAD_EFFICIENCY * (siblings - 1)  # degrees of freedom of the spread
    scale = np.sqrt((known * spread**2 + prior.cards * (prior.spread * centre) ** 2) / (known + prior.cards))
    of_centre = MEDIAN_VARIANCE / siblings
    measured = (errors**2 + of_centre * np.median(errors) ** 2) / BRACKET_DEVIATIONS**2
    deviation = np.sqrt(scale**2 * (1 + of_centre) + measured)
    freedom = min(MAX_FREEDOM, known + prior.cards)
    chance = np.array([two_sided(ratio, freedom) for ratio in (np.abs(values - centre) / deviation).tolist()])
    return Deviations(centre, (values - centre) / centre, chance)


def two_sided(ratio: float, freedom: float) -> float:
    """Probability that Student's t exceeds `ratio` in size, as Wallace approximates it (Ann. Math. Stat. 1959)."""
    correction = (8 * freedom + 1) / (8 * freedom + 3)
    return erfc(correction * sqrt(freedom * log1p(ratio * ratio / freedom) / 2))
