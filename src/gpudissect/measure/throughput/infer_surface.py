"""What throughput does over many configurations: where its plateau lies, and whether there is one.

The best of many cells is in part the luckiest, so it is never the answer: what counts is the level that several reach,
measured anew. Which of them belong to it is not a matter of taste either. Under load throughput comes near its limit
little by little, so that a band of any given width below the best also holds configurations that are slower for good,
and the median of such a band says how wide it was made. A plateau are those that cannot be told from the best: they
differ from it by no more than a configuration differs from itself when it is measured twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.measure.throughput.infer_throughput import REPEATS, Throughput

NEAR = 0.015  # relative distance from the best within which cells are near it
FAR = 0.05  # relative distance from the best farther than which none is its equal, however much cells scatter
MISREAD = 2.0  # errors of a typical cell by which the best may be but the luckiest, and another its equal
ALIKE = 0.005  # by so much a rate may be misread: no plateau is narrower
SCATTERS = 3.0  # scatters of a measurement that make two of them differ
ENOUGH = 4  # cells measured twice from which their scatter is known
FEWEST = 3  # cells that a plateau has, if so many are near the best
SATURATED = 1.25  # a plateau is reached with so much less in flight than its fullest cell has: without one that would
# have cost a fifth


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
        rising: more in flight was more throughput up to the most that was tried: there may be more to be had.
    """

    members: tuple[int, ...]
    rising: bool


def nearness(cells: Sequence[Throughput]) -> float:
    """How far below the best of cells measured once its equals may lie, relative, by how well a typical one is known.

    Where each run gives something else, the best of many cells is mostly the luckiest. Raises `ValueError` without
    cells.
    """
    if not cells:
        raise ValueError("a surface needs cells")
    error = float(np.median([1 - each.low / each.rate for each in cells]))
    return min(FAR, max(NEAR, MISREAD * error))


def top_of(cells: Sequence[Cell], near: float = NEAR) -> Top:
    """The top of a surface: what there may be a plateau among, all within `near` of the best (relative).

    By Little's law throughput rises with what is in flight until something saturates. So it has saturated if much
    less in flight does as well, or if more does worse. Raises `ValueError` without cells.
    """
    if not cells:
        raise ValueError("a surface needs cells")
    rates = np.array([cell.rate for cell in cells])
    flying = np.array([cell.in_flight for cell in cells])
    order = np.argsort(-rates, kind="stable")
    members = [int(i) for i in order if rates[i] >= (1 - near) * rates.max()]
    own = flying[members]
    rising = bool(flying.max() <= own.max() and own.min() * SATURATED > own.max())
    return Top(tuple(members), rising)


@dataclass(frozen=True)
class Plateau:
    """The level that several configurations reach.

    Attributes:
        level: median of its members the second time. The bracket holds each of them as it was that time, and whatever
            was faster, the luckiest cell of the first time too; beyond these how well the level is known: by how much a
            typical member may be misread, over the root of how many there are.
        members: which of the cells belong to it.
        width: relative distance from the best within which they were looked for.
        scatter: standard deviation, relative, of what a cell gives the second time over the first.
        lonely: both times one and the same cell was alone that fast.
    """

    level: Throughput
    members: tuple[int, ...]
    width: float
    scatter: float
    lonely: bool


def plateau_of(first: Sequence[Throughput], again: Sequence[Throughput]) -> Plateau | None:
    """The plateau among cells near the best, each measured twice; None if they did something else the second time.

    Members are chosen by the first time and counted by the second, so that nobody's luck counts twice; those far from
    the level the second time are left out, of the bracket too, and there is none if they are half of them. Raises
    `ValueError` without cells.
    """
    if not first or len(first) != len(again):
        raise ValueError(f"a plateau needs members, each measured twice, got {len(first)} and {len(again)}")
    before = np.array([each.rate for each in first])
    after = np.array([each.rate for each in again])
    scatter = _scatter(before, after)
    width = float(min(FAR, max(ALIKE, SCATTERS * scatter))) if len(before) >= ENOUGH else NEAR
    near = max(NEAR, width)
    alone = {_alone(before, near), _alone(after, near)}
    lonely = len(alone) == 1 and None not in alone
    members = (int(np.argmax(after)),) if lonely else _members(before, width, near)
    rate = float(np.median(after[list(members)]))
    if abs(rate - float(np.median(before[list(members)]))) > REPEATS * rate:
        return None
    kept = tuple(i for i in members if abs(after[i] - rate) <= near * rate)  # the others were not alike but lucky
    if 2 * len(kept) <= len(members):
        return None  # they fell apart: no level
    members, rate = kept, float(np.median(after[list(kept)]))
    below, above = (float(np.median(each)) / len(members) ** 0.5 for each in zip(
        *((again[i].rate - again[i].low, again[i].high - again[i].rate) for i in members), strict=True
    ))  # fmt: skip
    level = Throughput(rate, float(after[list(members)].min()) - below, float(max(before.max(), after.max())) + above)
    return Plateau(level, members, width, scatter, lonely)


def _alone(rates: np.ndarray, near: float) -> int | None:
    """Which cell is faster than all others by more than `near`, relative; None if more than one comes near the best."""
    return int(np.argmax(rates)) if np.sum(rates >= (1 - near) * rates.max()) == 1 else None


def _members(before: np.ndarray, width: float, near: float) -> tuple[int, ...]:
    """The fastest within `width` of the best, and a few more if so many are near. If none is, that was luck."""
    order = np.argsort(-before, kind="stable")
    alike, about = (int(np.sum(before >= (1 - band) * before.max())) for band in (width, near))
    return tuple(int(i) for i in order[: max(alike, min(FEWEST, about if about > 1 else len(before)))])


def _scatter(before: np.ndarray, after: np.ndarray) -> float:
    """By how much a cell differs from itself when it is measured again, relative.

    By how much all of them moved together does not count: that is the GPU's clock, not their scatter. Two cells
    measured once each differ by as much as one that is measured twice.
    """
    moved = after / before
    return 1.4826 * float(np.median(np.abs(moved - np.median(moved))))  # of a normal distribution
