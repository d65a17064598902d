"""Levels of instruction caches from the cost of a line of straight-line code against the size of a loop.

A loop larger than a cache misses in every lap: under LRU everywhere at once, a cliff; under other policies more and
more, a ramp that ends where almost no line survives a lap. A level is a plateau of the curve, a rise and another
plateau; its capacity is where the rise begins (JIA18 and JIA19 read the same curve by eye). Plateaus must be flat and
rises short in proportion to the step between them: a curve that climbs all the way, or whose noise could be the step,
has no levels that could be found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gpudissect.units import format_bytes

MIN_STEP = 0.15  # of a plateau's cycles: rise to another level
MAX_SLOPE = 0.12  # of the step: range of a plateau over PLATEAU_SPAN, while a ramp runs out
MAX_SCATTER = 0.05  # of the step: scatter of the plateau before a rise
MAX_ERROR = 0.1  # of the step: error of any point of the two plateaus
PLATEAU_SPAN = 1.4  # smallest ratio of the last size of a plateau to its first ...
MIN_PLATEAU_POINTS = 3  # ... and number of points
WIDE_RISE = 1.5  # ratio of sizes that a rise under LRU or a similar policy stays below
MAX_RISE = 4.0  # ratio of sizes after which any rise is over (random replacement: 2 % of the lines survive)
MIN_MISSES = 2  # per lap that can be detected
SIGMAS = 4.0
PENALTY_TOLERANCE = 0.25  # share by which a fixed penalty may differ from size to size


@dataclass(frozen=True)
class Curve:
    """Cycles per line of code against the size of the loop, arrays of shape (sizes,)."""

    sizes: NDArray[np.int64]  # bytes, rising
    lines: NDArray[np.int64]  # lines of code in each
    cycles: NDArray[np.float64]  # per line, without the overhead of a lap
    error: NDArray[np.float64]  # one standard deviation of `cycles`


@dataclass(frozen=True)
class Plateau:
    """A flat part of the curve: cycles per line (median, min, max), scatter, and the size it begins at."""

    cycles: float
    low: float
    high: float
    scatter: float
    first: int


@dataclass(frozen=True)
class Rise:
    """From one plateau to the next.

    Whatever the policy, a loop n lines larger than a cache misses at least n times a lap, so the cache holds at least
    `fits` - `slack`.
    """

    fits: int  # largest size in bytes at which no line was observed to miss
    slack: int  # bytes that might miss without being observed
    overflows: int  # bytes of code from which lines miss
    before: Plateau
    after: Plateau
    fixed_penalty: float = 0.0  # cycles added to a lap of any size before any line misses; 0 if there are none
    penalty_from: int = 0  # bytes of code from which they are

    @property
    def step(self) -> float:
        """Cycles by which a line is slower beyond this level."""
        return self.after.cycles - self.before.cycles

    @property
    def wide(self) -> bool:
        """Whether it spans so many sizes that the rise of another level may be part of it."""
        return self.after.first > WIDE_RISE * self.fits


@dataclass(frozen=True)
class CurveLevels:
    """The levels of a curve, nearest first, and why there are no more."""

    rises: tuple[Rise, ...]
    end: str
    fits: int | None = None  # last size of the last plateau, if the curve leaves it but reaches no other


def lap_overhead(lines: Sequence[int], laps: Sequence[NDArray[np.int64]]) -> tuple[float, float]:
    """Cycles of a lap beyond those of its lines, and their standard deviation; `ValueError` for fewer than two loops.

    The median intercept (Theil-Sen) of laps of a few short loops.
    """
    if len(lines) < 2:
        raise ValueError(f"the overhead of a lap follows from at least two loops, got {len(lines)}")
    times = [_undisturbed(cycles) for cycles in laps]
    pairs = list(combinations(range(len(lines)), 2))
    intercepts = [(times[i][0] * lines[j] - times[j][0] * lines[i]) / (lines[j] - lines[i]) for i, j in pairs]
    # The error of an intercept is about twice that of the loops it follows from.
    error = max(2 * max(error for _, error in times), _scatter(np.array(intercepts)))
    return float(np.median(intercepts)), error


def curve_of(
    sizes: Sequence[int], line: int, laps: Sequence[NDArray[np.int64]], overhead: tuple[float, float]
) -> Curve:
    """The curve from laps (cycles, each of shape (laps,)) of loops of `sizes` bytes in lines of `line` bytes."""
    lines = np.array(sizes, dtype=np.int64) // line
    cycles, errors = np.array([_undisturbed(each) for each in laps]).reshape(-1, 2).T
    error = np.hypot(errors, overhead[1]) / lines
    return Curve(np.array(sizes, dtype=np.int64), lines, (cycles - overhead[0]) / lines, error)


def find_levels(curve: Curve) -> CurveLevels:
    """Plateaus and rises of a curve over sizes that grow by the same small factor."""
    rises: list[Rise] = []
    begin = 0
    while (left := _plateau_end(curve, begin)) is not None:
        candidates = [_rise(curve, begin, left, start) for start in range(left, curve.sizes.size)]
        found = next((rise for rise in candidates if isinstance(rise, Rise)), None)
        if found is None:
            reasons = [reason for reason in candidates if isinstance(reason, str)]
            reason = reasons[-1] if reasons else "the curve leaves its last plateau and reaches no other"
            fits = int(curve.sizes[left - 1]) if left - begin >= MIN_PLATEAU_POINTS else None
            return CurveLevels(tuple(rises), f"{reason}: {_summary(curve, begin)}", fits)
        if rises:
            rises[-1] = replace(rises[-1], after=found.before)
        rises.append(found)
        begin = int(np.searchsorted(curve.sizes, found.after.first))
    if rises:
        rises[-1] = replace(rises[-1], after=_plateau(curve, begin, curve.sizes.size))
    return CurveLevels(tuple(rises), f"no further level: {_summary(curve, begin)}")


def narrow_onset(between: Curve, rise: Rise) -> Rise:
    """Narrow a rise by a curve over sizes between `fits` and `overflows`; the bracket spans sizes that alternate."""
    threshold = _threshold(between, rise.before, rise.step)
    missing = between.cycles - rise.before.cycles > threshold
    over = [*between.sizes[missing].tolist(), rise.overflows]
    under = [rise.fits, *between.sizes[~missing].tolist()]
    fits = max(size for size in under if size < min(over))
    overflows = min(size for size in over if size > max(under))
    at = np.flatnonzero(between.sizes == fits)
    slack = _undetected(between, threshold, rise.step, int(at[0])) if at.size else rise.slack
    return replace(rise, fits=fits, slack=slack, overflows=overflows)


def skip_fixed_penalty(curve: Curve, line: int, rise: Rise) -> Rise:
    """A rise without the fixed penalty of a lap that it begins with: it begins where lines miss.

    Whatever the policy, n lines of `line` bytes too many miss at least n times a lap. So a cache is no smaller than any
    loop minus the misses that its cycles allow. If that exceeds the size from which laps take longer, the additional
    cycles were no misses; the cache ends where they begin to grow.
    """
    excess = (curve.cycles - rise.before.cycles) * curve.lines
    climb = np.flatnonzero((curve.sizes >= rise.overflows) & (curve.sizes <= rise.after.first))
    if not climb.size:
        return rise
    min_capacity = float(np.max(curve.sizes[climb] - line * excess[climb] / rise.step))
    if min_capacity <= rise.overflows:
        return rise
    penalty = float(excess[climb[0]])
    last = int(np.argmin(excess[climb] <= (1 + PENALTY_TOLERANCE) * penalty))
    if last == 0:  # the first, or none
        return rise
    fits, overflows = curve.sizes[climb[last - 1 : last + 1]].tolist()
    slack = max(0, fits - int(min_capacity))
    return Rise(fits, slack, overflows, rise.before, rise.after, fixed_penalty=penalty, penalty_from=rise.overflows)


def _plateau_end(curve: Curve, begin: int) -> int | None:
    """First of two consecutive points off the plateau that begins there; None if there are none."""
    for at in range(begin + 1, curve.sizes.size - 1):
        base = float(np.median(curve.cycles[begin:at]))
        if np.all(np.abs(curve.cycles[at : at + 2] - base) > MIN_STEP * abs(base)):
            return at
    return None


def _rise(curve: Curve, begin: int, left: int, start: int) -> Rise | str | None:
    """The rise from the plateau at `begin` to one at `start`; a text if a single condition is not met; or None."""
    sizes, cycles = curve.sizes, curve.cycles
    stop = int(np.searchsorted(sizes, PLATEAU_SPAN * sizes[start])) + 1
    if stop > sizes.size or stop - start < MIN_PLATEAU_POINTS:
        return None
    after = _plateau(curve, start, stop)
    base = float(np.median(cycles[begin:left]))
    step = after.cycles - base
    if step < MIN_STEP * base or float(np.ptp(cycles[start:stop])) > MAX_SLOPE * step:
        return None
    flat = _settled(curve, begin, left, base + MAX_SLOPE * step)
    before = _plateau(curve, int(flat[0]), int(flat[-1]) + 1)
    if before.scatter > MAX_SCATTER * step or float(np.ptp(cycles[flat])) > MAX_SLOPE * step:
        return "the curve climbs all the way"
    if float(np.max(curve.error[[*flat, *range(start, stop)]])) > MAX_ERROR * step:
        return "laps differ too much"
    threshold = _threshold(curve, before, step)
    missing = cycles - before.cycles > threshold
    fits = begin + int(np.argmax(missing[begin:])) - 1
    if fits - begin + 1 < MIN_PLATEAU_POINTS:
        return "there is no plateau before the rise"
    if sizes[start] > MAX_RISE * sizes[fits]:
        return "the rise spans too many sizes"
    overflows = next(at for at in range(fits + 1, start + 1) if missing[at : start + 1].all())
    slack = _undetected(curve, threshold, step, fits)
    return Rise(int(sizes[fits]), slack, int(sizes[overflows]), _plateau(curve, begin, fits + 1), after)


def _settled(curve: Curve, begin: int, left: int, max_cycles: float) -> NDArray[np.intp]:
    """Points of a plateau before the rise, without its first ones, which may still settle, if enough are left."""
    flat = begin + np.flatnonzero(curve.cycles[begin:left] <= max_cycles)
    settled = flat[curve.sizes[flat] >= PLATEAU_SPAN * curve.sizes[begin]]
    return settled if settled.size >= MIN_PLATEAU_POINTS else flat


def _plateau(curve: Curve, begin: int, end: int) -> Plateau:
    cycles, error = curve.cycles[begin:end], float(np.max(curve.error[begin:end]))
    low, high = float(cycles.min()) - error, float(cycles.max()) + error
    return Plateau(float(np.median(cycles)), low, high, _scatter(cycles), int(curve.sizes[begin]))


def _threshold(curve: Curve, before: Plateau, step: float) -> NDArray[np.float64]:
    """Cycles per line above a plateau from which lines miss, for each size: detectable misses, and no scatter."""
    return np.maximum(MIN_MISSES * step / curve.lines, SIGMAS * np.hypot(before.scatter, curve.error))


def _undetected(curve: Curve, threshold: NDArray[np.float64], step: float, at: int) -> int:
    """Bytes of code that may miss in each lap of the size at that index without reaching the threshold."""
    return int(np.ceil(threshold[at] / step * curve.sizes[at]))


def _undisturbed(laps: NDArray[np.int64]) -> tuple[float, float]:
    """Cycles of an undisturbed lap and their standard deviation: the lower quartile, for delays only add."""
    if laps.size == 0:
        raise ValueError("a loop needs at least one lap")
    return float(np.quantile(laps, 0.25)), 1.4 * _scatter(laps.astype(float)) / float(np.sqrt(laps.size))


def _scatter(values: NDArray[np.float64]) -> float:
    """Standard deviation of a normal distribution with this median absolute deviation."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _summary(curve: Curve, begin: int) -> str:
    cycles = curve.cycles[begin:]
    sizes = f"{format_bytes(int(curve.sizes[begin]))} to {format_bytes(int(curve.sizes[-1]))}"
    return f"{cycles.min():.1f} to {cycles.max():.1f} cycles per line over {sizes} of code"
