"""Latency plateaus: how many levels a size sweep shows, and where each lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RELATIVE_STEP = 1.10  # two medians further apart than this, and by ABSOLUTE_STEP cycles, are two levels
ABSOLUTE_STEP = 5.0
PURE = 0.97  # share of a footprint's samples that must lie on the plateau for it to count as served there
SPREAD = 0.22  # how far from the plateau's median, relative, a sample may lie and still belong to it


@dataclass(frozen=True)
class Plateau:
    """One level of a staircase.

    Attributes:
        median, low, high: cycles of a single access as timed: median, 0.5 % and 99.5 % quantiles.
        points: (footprint, stride) in bytes of the rings whose accesses are served here, but for a few in a hundred.
        samples: every sample of those rings.
    """

    median: float
    low: float
    high: float
    points: tuple[tuple[int, int], ...]
    samples: NDArray[np.int64]

    @property
    def largest(self) -> int:
        """The largest footprint (bytes) at the finest stride."""
        finest = min(stride for _, stride in self.points)
        return max(size for size, stride in self.points if stride == finest)


def summarise(points: Sequence[tuple[int, int]], samples: Sequence[NDArray[np.int64]]) -> Plateau:
    """One plateau from samples known to belong together."""
    pooled = np.concatenate(samples)
    low, median, high = np.quantile(pooled, [0.005, 0.5, 0.995])
    return Plateau(float(median), float(low), float(high), tuple(points), pooled)


def plateaus(points: Sequence[tuple[int, int]], samples: Sequence[NDArray[np.int64]]) -> list[Plateau]:
    """Split a sweep over footprints and strides into plateaus, fastest first.

    `samples[i]` holds the cycles of single accesses at `points[i]`. The median of a ring always sits
    on some level (a half-and-half mixture jumps from one to the next), so levels are groups of medians with a
    gap between them. A ring that mixes two levels names neither.
    """
    # The lower median: half way between two levels there is nothing.
    medians = [float(np.quantile(each, 0.5, method="lower")) for each in samples]
    order = np.argsort(medians, kind="stable")
    groups: list[list[int]] = []
    for i in order:
        last = medians[groups[-1][-1]] if groups else None
        if last is not None and medians[i] <= max(last * RELATIVE_STEP, last + ABSOLUTE_STEP):
            groups[-1].append(int(i))
        else:
            groups.append([int(i)])
    found = []
    for group in groups:
        centre = float(np.quantile([medians[i] for i in group], 0.5, method="lower"))
        reach = max(SPREAD * centre, ABSOLUTE_STEP)
        pure = [i for i in sorted(group) if np.mean(np.abs(samples[i] - centre) <= reach) >= PURE]
        members = pure or sorted(group)
        # Whatever is faster was served nearer by; where no ring is pure, slower accesses do not belong either.
        slowest = np.inf if pure else centre + reach
        own = [samples[i][(samples[i] >= centre - reach) & (samples[i] <= slowest)] for i in members]
        found.append(summarise([points[i] for i in members], own))
    return found
