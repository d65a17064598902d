"""Which lines compete for the same set: group tests that ask only whether lines fit together.

Lines fit if and only if no set gets more of them than it has ways, whatever the replacement policy: an invalid way is
filled first, and of one line too many at least one misses in every lap. So nothing here knows of policies, of index
functions or of equal sets. Group testing for eviction sets: Vila et al. 2019, "Theory and practice of finding
eviction sets", section 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_first_miss import Fit
from gpudissect.measure.cache.residency_test import Fitting
from gpudissect.measure.plan import Ask, Bench
from gpudissect.workload import Explicit

GROUPS = 64
Lines = NDArray[np.int64]


class Unclear(Exception):
    """Whether some lines fit together could not be told."""


class Conflicts:
    """Asks about lines, given by number; raises `Unclear` where the answer does not come."""

    def __init__(self, fitting: Fitting, line: int, bench: Bench) -> None:
        self.fitting, self.line, self.bench = fitting, line, bench
        self._asked = 0

    def fit(self, sets_of_lines: Sequence[Lines]) -> Ask[list[bool]]:
        """Whether each of these sets of lines fits."""
        fits = yield from self.fitting.decide([self.ring(lines) for lines in sets_of_lines])
        if Fit.UNDECIDED in fits:
            raise Unclear(f"of {len(fits)} sets of lines {fits.count(Fit.UNDECIDED)} neither clearly fit nor miss")
        return [fit is Fit.FITS for fit in fits]

    def ring(self, lines: Lines) -> Explicit:
        """The lines in random order, a new one each time."""
        return Explicit(self.rng("ring").permutation(lines) * self.line)

    def rng(self, purpose: str) -> np.random.Generator:
        """A random generator, another one each time."""
        self._asked += 1
        return self.bench.rng(purpose, self.fitting.level.element, self._asked)

    def minimal(self, lines: Lines) -> Ask[Lines]:
        """The lines of the one set that gets one line too many; sorted.

        Group by group is left out: what fits without a group needs it. `lines` must overflow one set by one line.
        """
        groups = GROUPS
        while True:
            if lines.size < 2:
                raise Unclear("even a line alone does not fit")
            parts = np.array_split(self.rng("groups").permutation(lines), min(groups, lines.size))
            without = [np.concatenate([*parts[:i], *parts[i + 1 :]]) for i in range(len(parts))]
            told = iter((yield from self.fit([rest for rest in without if rest.size])))
            needed = [part for part, rest in zip(parts, without, strict=True) if rest.size == 0 or next(told)]
            if not needed:
                raise Unclear(f"no group of {len(parts)} is needed for {lines.size} lines not to fit")
            if all(part.size == 1 for part in parts) and len(needed) == len(parts):
                return np.sort(lines)
            lines = np.concatenate(needed)
            if len(needed) > groups // 2:
                groups *= 2
