"""Units of a scheduler from pairs of instructions: which of them are shared, and what is lost between separate ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

MAX_SHARED_OVERLAP = 0.25  # of the shorter time: with less, two instructions use the same unit
MIN_SEPARATE_OVERLAP = 0.4  # with more, they use separate ones


@dataclass(frozen=True)
class Pair:
    """Cycles of a scheduler for one of each of two instructions, and for either alone."""

    names: tuple[str, str]
    alone: tuple[float, float]
    together: float

    @property
    def overlap(self) -> float:
        """Share of the shorter time that the longer one hides: 1 in separate units, 0 in the same one."""
        return (sum(self.alone) - self.together) / min(self.alone)

    def loss(self, issue: float) -> float:
        """Time beyond the longer of the two and the issue of both, relative to that; `issue`: cycles of one."""
        return self.together / max(*self.alone, 2 * issue) - 1


def issue_interval(alone: Iterable[float], pairs: Iterable[Pair]) -> float:
    """Cycles of a scheduler from one instruction to the next, at least: the fastest mixture."""
    return min(*alone, *(pair.together / 2 for pair in pairs))


def shared_units(names: Iterable[str], pairs: Iterable[Pair]) -> tuple[tuple[str, ...], ...]:
    """Groups of instructions that share a unit, those of one group in the order of `names`."""
    group = {name: {name} for name in names}
    for pair in pairs:
        if pair.overlap <= MAX_SHARED_OVERLAP:
            one, other = (group[name] for name in pair.names)
            one |= other
            for name in one:
                group[name] = one
    distinct = {id(each): each for each in group.values()}
    return tuple(tuple(name for name in group if name in each) for each in distinct.values())


def undecided(groups: Iterable[tuple[str, ...]], pairs: Iterable[Pair]) -> list[Pair]:
    """Pairs of different groups that overlap by less than separate units allow."""
    together = {frozenset(two) for group in groups for two in combinations(group, 2)}
    return [p for p in pairs if frozenset(p.names) not in together and p.overlap < MIN_SEPARATE_OVERLAP]


def losses(groups: Iterable[tuple[str, ...]], pairs: Iterable[Pair], issue: float) -> Mapping[tuple[str, str], float]:
    """Losses of all pairs of instructions with separate units."""
    shared = {frozenset(two) for group in groups for two in combinations(group, 2)}
    return {pair.names: pair.loss(issue) for pair in pairs if frozenset(pair.names) not in shared}


def median_and_range(values: Iterable[float]) -> tuple[float, float, float]:
    """Median, least and greatest. Raises `ValueError` without values."""
    every = np.array(list(values))
    if not every.size:
        raise ValueError("a median needs values")
    return float(np.median(every)), float(every.min()), float(every.max())
