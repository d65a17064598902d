"""The structure of a cache as inferred: which set a line belongs to, and how many ways each set has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.cachemodel.geometry import Index
from gpudissect.cachemodel.index import set_numbers

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
        return draw(self.set_of(np.arange(self.lines, dtype=np.int64)), quotas, rng)


def draw(sets: Lines, quotas: Sequence[int] | Lines, rng: np.random.Generator) -> Lines:
    """Distinct random lines, `quotas[s]` of each set s, of the lines whose set numbers are given; sorted by set."""
    order = rng.permutation(sets.size)
    order = order[np.argsort(sets[order], kind="stable")]
    own = sets[order]
    first = np.searchsorted(own, np.arange(len(quotas)))
    rank = np.arange(own.size) - first[own]
    return np.asarray(order[rank < np.asarray(quotas, dtype=np.int64)[own]], dtype=np.int64)
