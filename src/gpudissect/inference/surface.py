"""What throughput does over many configurations: where its plateau lies, and whether there is one.

The best of many cells is in part the luckiest, so it is never the answer: what counts is the level that several reach,
measured anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.inference.throughput import Throughput, repeated

NEAR = 0.015  # relative distance from the best within which a cell belongs to the plateau
SATURATED = 1.3  # a plateau is reached with so much less in flight than its fullest cell has: without one that would
# have cost a quarter


@dataclass(frozen=True)
class Cell:
    """One configuration: how much it has under way at a time (bytes, or chains of instructions), and its rate."""

    in_flight: float
    rate: float


@dataclass(frozen=True)
class Top:
    """The cells that come near the best.

    Attributes:
        members: their indices, the fastest first.
        first: index of the member with the least in flight.
        rising: more in flight was more throughput up to the most that was tried: there may be more to be had.
    """

    members: tuple[int, ...]
    first: int
    rising: bool

    @property
    def lonely(self) -> bool:
        """Whether one cell alone is that fast: a peak, or luck."""
        return len(self.members) == 1


def top_of(cells: Sequence[Cell]) -> Top:
    """The plateau of a surface.

    By Little's law throughput rises with what is in flight until something saturates. So it has saturated if much
    less in flight does as well, or if more does worse. Raises `ValueError` without cells.
    """
    if not cells:
        raise ValueError("a surface needs cells")
    rates = np.array([cell.rate for cell in cells])
    flying = np.array([cell.in_flight for cell in cells])
    order = np.argsort(-rates, kind="stable")
    members = [int(i) for i in order if rates[i] >= (1 - NEAR) * rates.max()]
    own = flying[members]
    rising = bool(flying.max() <= own.max() and own.min() * SATURATED > own.max())
    return Top(tuple(members), members[int(np.argmin(own))], rising)


def settled(first: Sequence[Throughput], again: Sequence[Throughput]) -> Throughput | None:
    """The level of a plateau from its members, measured twice; None if it was another one the second time.

    The median of the second time, between the least and the most that any of them did then. Raises `ValueError`
    without members.
    """
    if not first or len(first) != len(again):
        raise ValueError(f"a plateau needs members, each measured twice, got {len(first)} and {len(again)}")
    before, level = (_middle(each) for each in (first, again))
    return None if repeated(before, level) is None else level


def _middle(members: Sequence[Throughput]) -> Throughput:
    rate = float(np.median([each.rate for each in members]))
    return Throughput(rate, min(each.low for each in members), max(each.high for each in members))
