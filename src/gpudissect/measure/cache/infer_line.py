"""Fetch granularity and line size, from pairs of words at rising distance.

Fetch granularity: after one cold load, the nearest distance at which the next word was not fetched with it.

Line size: blocks are scattered over memory, a few more than the cache has lines. With one word visited in each, some
share of them is resident. With a second word in each, the share stays the same if both words lie in one line;
otherwise twice as many lines compete, and the share falls to that of twice as many blocks. Both shares are measured,
so the result does not depend on policy, index function, unequal sets, sectors or the ratio of tags to data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from gpudissect.trace import Array

CyclesByDistance = Mapping[int, Array]

MIN_SHARE_GAP = 0.05  # between the hit shares of single and double
MAX_BELOW_DOUBLE = 0.6  # of that gap: pairs further below the share of double are not explained by full sets
MAX_DEVIATION = 0.3  # of that gap: pairs must come this close to either share
MAX_LOG_ODDS = 60.0
MIN_DEVIATIONS = 4.0


@dataclass(frozen=True)
class SecondAccesses:
    """Cycles of second accesses, by distance (bytes) from a cold first one at the end of an aligned block.

    `after`: the first access was to the start of the block, the second behind it; `before`: the reverse.
    """

    after: CyclesByDistance
    before: CyclesByDistance


@dataclass(frozen=True)
class Granularity:
    """Fetch granularity in bytes, or None and a reason."""

    fetch: int | None
    agreement: float  # lowest share of samples that agree at any distance
    reason: str = ""
    ahead: int | None = None  # bytes present behind the start of a block, if more than `fetch`: a prefetch


def fetch_granularity(seconds: SecondAccesses, hit_max: int) -> Granularity:
    """Infer the fetch granularity; `hit_max` is the highest latency of a hit in cycles.

    What is neither a clear hit nor a clear miss was not fetched: an open row of memory answers faster than others.

    A miss fetches a whole aligned block: from either end, every distance below the granularity hits, every other
    misses. If more is present after a first access than before one, the amount before it is the granularity.
    """
    before, after = _one_direction(seconds.before, hit_max), _one_direction(seconds.after, hit_max)
    if before.fetch is None or after.fetch is None or before.fetch == after.fetch:
        return before if before.fetch is None or before.agreement < after.agreement else after
    if after.fetch < before.fetch:
        reason = f"{before.fetch} B before a first access are present, but only {after.fetch} B after it"
        return Granularity(None, 0.0, reason)
    return Granularity(before.fetch, before.agreement, ahead=after.fetch)


def fastest_misses(seconds: SecondAccesses, granularity: Granularity) -> Array | None:
    """Cycles of second accesses at the distance beyond all that was fetched at which they are fastest."""
    reach = max(granularity.fetch or 0, granularity.ahead or 0)
    missing = [side[d] for side in (seconds.before, seconds.after) for d in side if reach and d >= reach]
    return min(missing, key=lambda cycles: float(np.median(cycles)), default=None)


def _one_direction(samples: CyclesByDistance, hit_max: int) -> Granularity:
    distances = sorted(samples)
    miss_share = {d: float(np.mean(samples[d] > hit_max)) for d in distances}
    missing = [d for d in distances if miss_share[d] > 0.5]
    if not missing:
        return Granularity(None, 0.0, f"no distance up to {distances[-1]} B misses")
    first = missing[0]
    if first == distances[0]:
        return Granularity(None, 0.0, f"even {first} B away misses: nothing else is fetched, or nothing is cached")
    if any(miss_share[d] <= 0.5 for d in distances if d > first):
        return Granularity(None, 0.0, f"misses do not rise with distance: {miss_share}")
    return Granularity(first, min(1 - miss_share[d] if d < first else miss_share[d] for d in distances))


@dataclass(frozen=True)
class Hits:
    """Hits among a number of probes."""

    hits: int
    probes: int

    @property
    def share(self) -> float:
        """Share of hits, never quite 0 or 1."""
        return (self.hits + 1) / (self.probes + 2)


def same_line_probability(pairs: Hits, single: Hits, double: Hits) -> float:
    """Probability that both words of a pair lie in one line.

    `single` are probes of as many blocks with one word each (or two, in one granule), `double` of twice as many.
    Binomial likelihoods at the measured shares, equal priors. Returns 0.5 if `single` and `double` hardly differ, or if
    `pairs` matches neither, as with a policy that favours lines visited twice.
    """
    gap = single.share - double.share
    between = double.share + MAX_DEVIATION * gap < pairs.share < single.share - MAX_DEVIATION * gap
    # Somewhat below both shares is fine: neighbouring lines crowd some sets more. Far below, the policy interferes.
    if gap < MIN_SHARE_GAP or between or pairs.share < double.share - MAX_BELOW_DOUBLE * gap:
        return 0.5

    def log_likelihood(expected: float) -> float:
        return pairs.hits * log(expected) + (pairs.probes - pairs.hits) * log(1 - expected)

    odds = log_likelihood(single.share) - log_likelihood(double.share)
    return 1 / (1 + exp(-max(min(odds, MAX_LOG_ODDS), -MAX_LOG_ODDS)))


def hits_more_often(some: Hits, others: Hits) -> bool:
    """Whether the share of hits is larger by more than chance: by `MIN_DEVIATIONS` standard deviations."""
    deviation = sqrt(sum(each.share * (1 - each.share) / each.probes for each in (some, others)))
    return some.share - others.share > MIN_DEVIATIONS * deviation
