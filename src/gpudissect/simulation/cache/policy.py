"""Replacement policies: what each one means, to the letter, and whether it fits a cache.

Common to all: a line that is not in its set takes an invalid way if there is one, the lowest-numbered first;
only a full set replaces. Once filled, a way is never invalid again until the whole cache is reset. A sector
miss (line there, sector not) counts as a use of the line, as a hit does. "Use" below means hit or fill.

- LRU: the way whose last use is longest ago.
- FIFO: the way that was filled longest ago; hits change nothing.
- PLRU: tree pseudo-LRU. A binary tree over the ways, one bit a node; each use turns the bits on the way's path
  away from it; the victim is found by following the bits from the root. All bits begin by pointing to way 0.
  Ways must be a power of two (Al-Zoubi et al. 2004, "Performance evaluation of cache replacement policies",
  section 2).
- NRU: one reference bit a way, set by a use. Victim: the lowest way with a clear bit; if none is clear, *at that
  moment* all are cleared and way 0 goes. (Lazy clearing; Jaleel et al. 2010, section 2.)
- MRU: also called bit-PLRU. One bit a way, set by a use; the use that would leave every bit set clears all
  others *at once*, keeping its own. Victim: the lowest way with a clear bit. (Eager clearing: the most recently
  used way is never the victim, hence the name; Malamy et al. 1994, US patent 5353425; "MRU" in Grund & Reineke
  2010 and in nanoBench.) With two ways this is LRU, NRU is not: after filling A, B and using B, A, a miss
  replaces B under MRU and A under NRU.
- SRRIP: 2-bit re-reference predictions, hit priority (Jaleel et al. 2010, section 4): filled with 2, a hit sets
  0. Victim: the lowest way holding 3; while there is none all are raised by one.
- SLRU: segmented LRU (Karedla, Love & Wherry 1994, "Caching strategies to improve disk system performance", IEEE
  Computer 27(3)). A line enters a probationary segment; a hit makes it the most recent of a protected one of half
  the ways (rounded down), and one too many there falls back to the most recent place of the other. Victim: the least
  recent on probation. 64 ways at most. (What comes nearest to the L1 of an H200, seen here.)
- RANDOM: each way with the same probability.
- WEIGHTED: way i with probability weights[i] (MC16 s4.5, fig 11).

The random ones draw one number a replacement, uniform in [0, 1), from a SplitMix64 stream of the cache's own
(Steele et al. 2014, "Fast splittable pseudorandom number generators", fig 16): the victim is the first way
whose cumulative probability exceeds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import Policy, PolicyKind

MOST_RANKED = 64
TOLERANCE = 1e-6  # by which weights may miss a sum of 1: they are written as decimals in GPU files


def cumulative_odds(policy: Policy) -> tuple[float, ...]:
    """Cumulative probabilities of the ways of a WEIGHTED policy, ending in exactly 1."""
    total = sum(policy.weights)
    return (*(partial / total for partial in accumulate(policy.weights[:-1])), 1.0)


def check_policy(policy: Policy, ways: Sequence[int]) -> None:
    """Raise `UsageError` unless `policy` can run sets of `ways` lines."""
    if not ways or min(ways) < 1:
        raise UsageError("a cache needs at least one set, and each set at least one way")
    if policy.kind is PolicyKind.PLRU and any(count & (count - 1) for count in ways):
        raise UsageError(f"policy 'plru' needs a power of two of ways, got {sorted(set(ways))}")
    if policy.kind is PolicyKind.SLRU and max(ways) > MOST_RANKED:
        raise UsageError(f"policy 'slru' is simulated for up to {MOST_RANKED} ways, got {max(ways)}")
    if policy.kind is not PolicyKind.WEIGHTED:
        if policy.weights:
            raise UsageError(f"weights belong to policy 'weighted', not to {policy.kind.value!r}")
        return
    if set(ways) != {len(policy.weights)}:
        raise UsageError(f"policy 'weighted' has {len(policy.weights)} weights for sets of {sorted(set(ways))} ways")
    if min(policy.weights) < 0 or abs(sum(policy.weights) - 1) > TOLERANCE:
        raise UsageError(f"weights must be probabilities that sum to 1, got {policy.weights}")
