"""Banks of shared memory, from what a warp's access costs at every stride (MC16 s6.2, VV16 s2.6).

Lane l of a warp asks for `width` bytes at byte 4 x stride x l. A bank gives one row at a time, whoever wants it; of
different rows it gives one after the other. So an access costs as many turns as the bank with the most rows needs,
and each further turn costs the same again. Every layout that there might be foretells the turns of every stride; the
likelihood of what was measured tells the layouts apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.infer_latency import DRIFT
from gpudissect.units import WARP_SIZE

LANES = WARP_SIZE
WORD = 4
COUNTS = (8, 16, 32, 64)
INTERLEAVED = ((4, 4), (8, 8), (4, 8))  # bytes after which the next bank comes, bytes of a row of one bank
AT_ONCE = (16, 32)
FLOOR = 0.1  # cycles: no measurement is believed to be better
FLAT = 0.02  # relative: strides that differ by less than this, or by a cycle, show no conflicts
EXPLAINED = 0.98  # share of the variance that a layout must explain
ODDS = 10.0  # natural logarithm of the likelihood ratio from which another layout is out
HIDDEN = 4  # turns from which stores wait for them, and for nothing else


@dataclass(frozen=True)
class Layout:
    """One way in which shared memory may be laid out.

    Attributes:
        banks: how many.
        interleave: bytes after which the next bank comes.
        width: bytes a bank gives at a time, one row of it. More than `interleave` in the 4-byte mode of Kepler, where
            words as far apart as all banks are still in the same row.
        at_once: lanes whose accesses are looked at together: a warp, or half of one.
    """

    banks: int
    interleave: int
    width: int
    at_once: int

    def turns(self, stride: int, width: int) -> int:
        """Turns that an access of a warp takes: words of 4 B between lanes, bytes of an access.

        Banks and rows are asked one by one, lane by lane: no formula that could be wrong for odd strides.
        """
        return _turns(self, stride, width)


@cache
def _turns(layout: Layout, stride: int, width: int) -> int:
    turns = 0
    for start in range(0, LANES, layout.at_once):
        rows: dict[int, set[int]] = {}
        for lane in range(start, start + layout.at_once):
            for byte in range(lane * stride * WORD, lane * stride * WORD + width, WORD):
                bank = byte // layout.interleave % layout.banks
                rows.setdefault(bank, set()).add(byte // (layout.width * layout.banks))
        turns += max(len(each) for each in rows.values())
    return turns


LAYOUTS = tuple(
    Layout(banks, interleave, width, at_once)
    for banks, (interleave, width), at_once in product(COUNTS, INTERLEAVED, AT_ONCE)
)


@dataclass(frozen=True)
class Point:
    """What an access of a warp took: words between lanes, bytes an access, cycles."""

    stride: int
    width: int
    cycles: float


@dataclass(frozen=True)
class Banks:
    """What was made of the points.

    Attributes:
        layout: the likeliest; None if there are no conflicts, or no layout explains them.
        rivals: others that explain them as well.
        cost, low, high: cycles that each further turn takes, and its bracket.
        explained: share of the variance that the layout explains.
        reason: why there is no layout.
    """

    layout: Layout | None
    rivals: tuple[Layout, ...] = ()
    cost: float = 0.0
    low: float = 0.0
    high: float = 0.0
    explained: float = 0.0
    reason: str = ""


def banks_of(points: Sequence[Point]) -> Banks:
    """The layout that explains the latencies of all strides, by least squares.

    The latency without conflicts may be another for every width; what a turn costs is the same. Stride 0 has no say:
    broadcasts may have rules of their own. Raises `ValueError` without points.
    """
    told = [point for point in points if point.stride]
    if not told:
        raise ValueError("banks need accesses at different strides")
    cycles = np.array([point.cycles for point in told])
    widths = np.array([point.width for point in told])
    within = np.concatenate([cycles[widths == w] - np.median(cycles[widths == w]) for w in np.unique(widths)])
    if np.ptp(within) <= max(1.0, FLAT * float(np.median(cycles))):
        return Banks(None, reason="no stride is slower than another: no conflicts were seen")
    fits = [_fit(layout, told, cycles, widths) for layout in LAYOUTS]
    best = min(fits, key=lambda fit: fit.squares)
    spread = float(np.sum(within**2))
    explained = 1 - best.squares / spread
    if explained < EXPLAINED or best.cost <= 0:
        reason = f"no layout of banks explains which strides are slow: the best {explained:.0%} of it"
        return Banks(None, explained=explained, reason=reason)
    variance = max(best.squares / max(1, len(told) - best.parameters), FLOOR**2)
    rivals = tuple(
        fit.layout for fit in fits
        if fit is not best and fit.cost > 0 and (fit.squares - best.squares) / (2 * variance) < ODDS
    )  # fmt: skip
    error = max(3 * best.error, FLOOR / 4) + DRIFT * best.cost
    return Banks(best.layout, rivals, best.cost, best.cost - error, best.cost + error, explained)


@dataclass(frozen=True)
class _Fit:
    layout: Layout
    squares: float
    cost: float
    error: float
    parameters: int


DIGITS = 9  # of a slope: what follows is another with every build of the linear algebra


def _fit(layout: Layout, points: Sequence[Point], cycles: NDArray[np.float64], widths: NDArray[np.int64]) -> _Fit:
    """Cycles = (base of that width) + cost x turns, by least squares."""
    kinds = np.unique(widths)
    turns = np.array([layout.turns(point.stride, point.width) for point in points], float)
    bases = (widths[:, None] == kinds[None, :]).astype(float)
    design = np.column_stack([turns, bases])
    solution, _, rank, _ = np.linalg.lstsq(design, cycles, rcond=None)
    left = cycles - design @ solution
    squares = float(left @ left)
    spare = max(1, len(points) - int(rank))
    spread = float(np.sum((turns - bases @ (bases.T @ turns / bases.sum(axis=0))) ** 2))
    error = float(np.sqrt(squares / spare / spread)) if spread > 0 else float("inf")
    cost = round(float(solution[0]), DIGITS) if spread > 0 else 0.0
    return _Fit(layout, squares, cost, error, design.shape[1])


def without_wide(points: Sequence[Point]) -> list[Point]:
    """Only the accesses of one word: the rules for wider ones are the hardware's own."""
    return [point for point in points if point.width == WORD]


@dataclass(frozen=True)
class Slope:
    """Cycles that each further turn adds, and its bracket."""

    cycles: float
    low: float
    high: float


def per_turn(points: Sequence[Point], layout: Layout) -> Slope | None:
    """What each turn adds to the time between two stores: slope over the strides that take `HIDDEN` turns or more.

    Fewer may hide behind what starting a store takes anyway. None if there are too few, or they lie on no line.
    """
    chosen = [point for point in points if point.width == WORD and layout.turns(point.stride, WORD) >= HIDDEN]
    turns = np.array([layout.turns(point.stride, WORD) for point in chosen], float)
    if len(np.unique(turns)) < 2:
        return None
    cycles = np.array([point.cycles for point in chosen])
    centred = turns - turns.mean()
    slope = float(centred @ cycles / (centred @ centred))
    left = cycles - cycles.mean() - slope * centred
    spread = float(np.sum((cycles - cycles.mean()) ** 2))
    if slope <= 0 or float(left @ left) > (1 - EXPLAINED) * spread:
        return None
    error = 3 * float(np.sqrt(left @ left / max(1, len(chosen) - 2) / (centred @ centred)))
    error = max(error, FLOOR / 4) + DRIFT * slope
    return Slope(slope, slope - error, slope + error)


def hidden(points: Sequence[Point], layout: Layout) -> dict[int, float]:
    """Cycles between two stores of a word each that take fewer than `HIDDEN` turns, by turns: the median of each."""
    by_turns: dict[int, list[float]] = {}
    for point in points:
        turns = layout.turns(point.stride, WORD) if point.stride else HIDDEN
        if point.width == WORD and turns < HIDDEN:
            by_turns.setdefault(turns, []).append(point.cycles)
    return {turns: float(np.median(cycles)) for turns, cycles in sorted(by_turns.items())}


def stride_of(layout: Layout, turns: int) -> int | None:
    """The power of two that is the smallest stride at which a word takes so many times as many turns as at stride 1.

    Of those all banks have equally much to do. None if there is none up to 64.
    """
    least = layout.turns(1, WORD)
    return next((stride for stride in (1, 2, 4, 8, 16, 32, 64) if layout.turns(stride, WORD) == turns * least), None)


def same_answer(one: Layout, other: Layout) -> bool:
    """Whether two layouts have as many banks, as wide: the lanes looked at together may differ."""
    return replace(one, at_once=other.at_once, interleave=other.interleave) == other
