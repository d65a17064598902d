"""The structure of a cache as inferred: which set a line belongs to, and how many ways each set has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.cache.geometry import Index
from gpudissect.simulation.cache.index import set_numbers

Lines = NDArray[np.int64]


@dataclass(frozen=True)
class Structure:
    """Sets, ways and index function of a cache.

    Attributes:
        line: bytes of a line.
        index: from byte offsets to set numbers; the numbering itself is arbitrary.
        ways: lines each set holds.
        lines: line numbers below this were looked at.
        evidence: digests of the workloads behind it.

    """

    line: int
    index: Index
    ways: tuple[int, ...]
    lines: int
    evidence: tuple[str, ...] = ()

    def set_of(self, lines: Lines) -> Lines:
        """Set numbers of lines (numbers, not bytes)."""
        return set_numbers(self.index, self.line, len(self.ways), lines * self.line)

    def draw(self, quotas: Sequence[int] | Lines, rng: np.random.Generator) -> Lines:
        """Distinct random lines, so many of each set; fewer where a set has fewer. Sorted by set."""
        return self._deck.draw(quotas, rng)

    @cached_property
    def _deck(self) -> Deck:
        return Deck(self.set_of(np.arange(self.lines, dtype=np.int64)), len(self.ways), np.random.default_rng(0))


class Deck:
    """Lines by their sets, each set in an order shuffled once: cheap to draw from again and again.

    `labels` are the set numbers of lines 0, 1, ...
    """

    def __init__(self, labels: Lines, sets: int, rng: np.random.Generator) -> None:
        self.labels = labels
        self.sizes: Lines = np.bincount(labels, minlength=sets)
        shuffled = rng.permutation(labels.size)
        self._lines = shuffled[np.argsort(labels[shuffled], kind="stable")]
        self._first = np.cumsum(self.sizes) - self.sizes

    def draw(self, quotas: Sequence[int] | Lines, rng: np.random.Generator) -> Lines:
        """Distinct random lines, `quotas[s]` of each set s or all it has; sorted by set.

        They follow one another in the shuffled order of their set, from a random place on.
        """
        taken = np.minimum(np.asarray(quotas, dtype=np.int64), self.sizes)
        sets = np.repeat(np.arange(taken.size), taken)
        rank = np.arange(sets.size) - (np.cumsum(taken) - taken)[sets]
        start = rng.integers(0, np.maximum(self.sizes, 1))
        return np.asarray(self._lines[self._first[sets] + (start[sets] + rank) % self.sizes[sets]], dtype=np.int64)
