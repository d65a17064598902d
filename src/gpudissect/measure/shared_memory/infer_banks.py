"""Banks of shared memory, from the cost of a warp's access at every stride (MC16 s6.2, VV16 s2.6).

Lane l of a warp accesses `width` bytes at byte 4 x stride x l. A bank serves one row at a time, to any number of lanes;
different rows of a bank are served one after the other. So an access takes as many bank passes as the bank with the
most rows has rows, and each further pass costs the same again. Every candidate layout predicts the passes of every
stride; the likelihood of the measured cycles selects the layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT, Latency
from gpudissect.trace import Array
from gpudissect.units import WARP_SIZE

WORD = 4
BANK_COUNTS = (8, 16, 32, 64)
INTERLEAVE_AND_WIDTH = ((4, 4), (8, 8), (4, 8))  # bytes
LANE_GROUPS = (16, 32)
MIN_ERROR_CYCLES = 0.1  # of any measurement
MAX_FLAT_DIFFERENCE = 0.02  # relative: strides that differ by less, or by a cycle, show no conflicts
MIN_EXPLAINED = 0.98  # share of the variance
MIN_LEAD_NATS = 10.0  # by which a layout is rejected
HIDDEN_PASSES = 4  # from so many on, stores wait for bank passes and nothing else


@dataclass(frozen=True)
class Layout:
    """A layout of shared memory.

    A row is wider than the interleave in the 4-byte mode of Kepler, where words as far apart as all banks are still in
    the same row.
    """

    banks: int
    interleave: int  # bytes after which the next bank comes
    width: int  # bytes of a row of one bank
    lanes: int  # whose accesses are served together: a warp, or half of one

    def passes(self, stride: int, width: int) -> int:
        """Bank passes of a warp's access, `stride` words of 4 B between lanes, `width` bytes of each lane; counted."""
        return _count_passes(self, stride, width)

    def same_banks(self, other: Layout) -> bool:
        """Whether both have as many banks, as wide; lanes and interleave may differ."""
        return replace(self, lanes=other.lanes, interleave=other.interleave) == other

    def stride_for(self, factor: int) -> int | None:
        """Smallest power-of-two stride at which a word takes `factor` times the passes of stride 1; None beyond 64."""
        passes = factor * self.passes(1, WORD)
        return next((stride for stride in (1, 2, 4, 8, 16, 32, 64) if self.passes(stride, WORD) == passes), None)


@cache
def _count_passes(layout: Layout, stride: int, width: int) -> int:
    passes = 0
    for start in range(0, WARP_SIZE, layout.lanes):
        words = {
            (byte // layout.interleave % layout.banks, byte // (layout.width * layout.banks))
            for lane in range(start, start + layout.lanes)
            for byte in range(lane * stride * WORD, lane * stride * WORD + width, WORD)
        }
        passes += max(Counter(bank for bank, _ in words).values())
    return passes


LAYOUTS = tuple(
    Layout(banks, interleave, width, lanes)
    for banks, (interleave, width), lanes in product(BANK_COUNTS, INTERLEAVE_AND_WIDTH, LANE_GROUPS)
)


@dataclass(frozen=True)
class StridedAccess:
    """Cycles of a warp's access; stride in words between lanes, width in bytes of each lane."""

    stride: int
    width: int
    cycles: float


@dataclass(frozen=True)
class BankFit:
    """The layout fitted to strided accesses."""

    layout: Layout | None  # the likeliest; None if there are no conflicts, or no layout explains them
    rivals: tuple[Layout, ...] = ()  # others that explain them as well
    cost: float = 0.0  # cycles of each further bank pass
    low: float = 0.0
    high: float = 0.0
    explained: float = 0.0  # share of the variance
    reason: str = ""  # why there is no layout


def fit_layout(accesses: Sequence[StridedAccess]) -> BankFit:
    """The layout that explains the latencies of all strides, by least squares.

    The latency without conflicts may depend on the width; the cost of a pass does not. Stride 0 is ignored: broadcasts
    may follow other rules. Raises `ValueError` without accesses.
    """
    accesses = [access for access in accesses if access.stride]
    if not accesses:
        raise ValueError("banks need accesses at different strides")
    cycles = np.array([access.cycles for access in accesses])
    widths = np.array([access.width for access in accesses])
    within = np.concatenate([cycles[widths == w] - np.median(cycles[widths == w]) for w in np.unique(widths)])
    if np.ptp(within) <= max(1.0, MAX_FLAT_DIFFERENCE * float(np.median(cycles))):
        return BankFit(None, reason="no stride is slower than another: no conflicts were observed")
    fits = [_fit(layout, accesses, cycles, widths) for layout in LAYOUTS]
    best = min(fits, key=lambda fit: fit.squares)
    explained = 1 - best.squares / float(np.sum(within**2))
    if explained < MIN_EXPLAINED or best.cost <= 0:
        reason = f"no layout of banks explains which strides are slow: the best explains {explained:.0%}"
        return BankFit(None, explained=explained, reason=reason)
    variance = max(best.squares / max(1, len(accesses) - best.parameters), MIN_ERROR_CYCLES**2)
    likely = [fit for fit in fits if fit.cost > 0 and (fit.squares - best.squares) / (2 * variance) < MIN_LEAD_NATS]
    rivals = tuple(fit.layout for fit in likely if fit is not best)
    error = max(3 * best.error, MIN_ERROR_CYCLES / 4) + MAX_CLOCK_DRIFT * best.cost
    return BankFit(best.layout, rivals, best.cost, best.cost - error, best.cost + error, explained)


@dataclass(frozen=True)
class _Fit:
    layout: Layout
    squares: float
    cost: float
    error: float
    parameters: int


COST_DIGITS = 9  # further ones differ between builds of the linear algebra


def _fit(layout: Layout, accesses: Sequence[StridedAccess], cycles: NDArray[np.float64], widths: Array) -> _Fit:
    """Cycles = (base of that width) + cost x passes, by least squares."""
    passes = np.array([layout.passes(access.stride, access.width) for access in accesses], float)
    bases = (widths[:, None] == np.unique(widths)).astype(float)
    design = np.column_stack([passes, bases])
    solution, _, rank, _ = np.linalg.lstsq(design, cycles, rcond=None)
    residual = cycles - design @ solution
    squares = float(residual @ residual)
    freedom = max(1, len(accesses) - int(rank))
    spread = float(np.sum((passes - bases @ (bases.T @ passes / bases.sum(axis=0))) ** 2))
    error = float(np.sqrt(squares / freedom / spread)) if spread > 0 else float("inf")
    cost = round(float(solution[0]), COST_DIGITS) if spread > 0 else 0.0
    return _Fit(layout, squares, cost, error, design.shape[1])


def single_words(accesses: Sequence[StridedAccess]) -> list[StridedAccess]:
    """Only the accesses of one word per lane: wider ones may follow rules of their own."""
    return [access for access in accesses if access.width == WORD]


def store_cost(stores: Sequence[StridedAccess], layout: Layout) -> Latency | None:
    """Cycles that each bank pass adds to the time between two stores: slope over `HIDDEN_PASSES` passes or more.

    Fewer may be hidden by the start of a store. None if there are too few strides, or they lie on no line.
    """
    chosen = [store for store in single_words(stores) if layout.passes(store.stride, WORD) >= HIDDEN_PASSES]
    passes = np.array([layout.passes(store.stride, WORD) for store in chosen], float)
    if len(np.unique(passes)) < 2:
        return None
    cycles = np.array([store.cycles for store in chosen])
    centred = passes - passes.mean()
    slope = float(centred @ cycles / (centred @ centred))
    residual = cycles - cycles.mean() - slope * centred
    squares, spread = float(residual @ residual), float(np.sum((cycles - cycles.mean()) ** 2))
    if slope <= 0 or squares > (1 - MIN_EXPLAINED) * spread:
        return None
    error = 3 * float(np.sqrt(residual @ residual / max(1, len(chosen) - 2) / (centred @ centred)))
    error = max(error, MIN_ERROR_CYCLES / 4) + MAX_CLOCK_DRIFT * slope
    return Latency(slope, slope - error, slope + error)


def hidden_store_cycles(stores: Sequence[StridedAccess], layout: Layout) -> dict[int, float]:
    """Median cycles between two stores of a word that take fewer than `HIDDEN_PASSES` passes, by passes."""
    by_passes: dict[int, list[float]] = {}
    for store in single_words(stores):
        passes = layout.passes(store.stride, WORD) if store.stride else HIDDEN_PASSES
        if passes < HIDDEN_PASSES:
            by_passes.setdefault(passes, []).append(store.cycles)
    return {passes: float(np.median(cycles)) for passes, cycles in sorted(by_passes.items())}
