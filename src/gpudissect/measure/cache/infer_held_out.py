"""A policy against accesses that were not used to choose it, each made twice.

What is misread is so by chance and changes nothing in the cache, so two runs are seldom wrong about the same access;
what the policy itself gets wrong is wrong in both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpudissect.measure.cache.infer_policy import MISS, UNKNOWN, Outcomes, agreement

MISREAD = 0.004  # share of accesses that may be misread, at least
SAME = 3.0  # times what chance explains
STUBBORN = 1  # accesses wrong both times that need no explanation
BY_CHANCE = 0.25  # of the differences of two runs that know nothing of each other: with fewer, nothing is random


def wrong_twice(foretold: Outcomes, one: Outcomes, two: Outcomes) -> int:
    """Accesses that were not as foretold in either of two runs: of a policy foretold rightly there are next to none."""
    seen = (one != UNKNOWN) & (two != UNKNOWN)
    return int(np.sum(seen & (one != foretold) & (two != foretold)))


def may_be_wrong_twice(share: float, accesses: int) -> float:
    """How many of so many accesses may be wrong in both runs if single runs are right about that share of them."""
    return STUBBORN + SAME * (1 - share) ** 2 * accesses


def drawn_anew(first: Sequence[Outcomes], second: Sequence[Outcomes], misread: float) -> bool:
    """Whether the same accesses, made again, miss elsewhere: as often as if victims were drawn, not as misread ones."""
    differing = 1 - float(np.mean([agreement(one, two) for one, two in zip(first, second, strict=True)]))
    missing = float(np.mean(np.concatenate(first) == MISS))
    return differing > max(SAME * misread, BY_CHANCE * 2 * missing * (1 - missing))
