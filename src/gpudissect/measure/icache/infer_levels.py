"""Levels of instruction caches: what a line of straight-line code costs, against how much of it there is.

A loop longer than a cache misses in it, lap after lap: under LRU everywhere at once, a cliff; under other policies more
and more, a ramp that ends where hardly a line survives a lap. So a level shows as a *rest* of the curve, a rise, and
another rest, and its capacity is where the rise begins (JIA18 and JIA19 read the same curve by eye).
Rests are flat and rises short in proportion to the step between them, or nothing is claimed: a curve that climbs all
the way, or one whose noise could be the step, has no levels that could be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gpudissect.units import format_bytes

STEP = 0.15  # of a rest's cycles: the least rise to another level
FLAT = 0.12  # of the step: most that a rest may still rise over REST, while a ramp runs out
STEADY = 0.05  # of the step: scatter of the rest before a rise
SURE = 0.1  # of the step: error of any point of the two rests
REST = 1.4  # a rest reaches over sizes up to this multiple of its first, at least, ...
FEWEST = 3  # ... and over so many points
WIDE = 1.5  # times the last size that fits: most that a rise takes where the policy is LRU or near it
WIDEST = 4.0  # times the last size that fits: there the rise is over (random replacement: 2 % of the lines survive)
MISSING = 2  # lines that miss in each lap: the fewest that are taken notice of
SIGMAS = 4.0
MORE = 0.25  # by which share the cycles of a stumble may differ from size to size


@dataclass(frozen=True)
class Curve:
    """Cycles that a line of code takes, by size of the loop.

    Attributes:
        sizes: bytes, rising, int64 (n,).
        lines: lines of code in each, int64 (n,).
        cycles: a line, float64 (n,), without what a lap costs beside its code.
        error: of each, one standard deviation, float64 (n,).

    """

    sizes: NDArray[np.int64]
    lines: NDArray[np.int64]
    cycles: NDArray[np.float64]
    error: NDArray[np.float64]


@dataclass(frozen=True)
class Own:
    """Cycles that a lap costs beside its code, and their standard deviation."""

    cycles: float
    error: float


@dataclass(frozen=True)
class Rest:
    """A level stretch of the curve: cycles a line (median, least, most), scatter, and the size it begins at."""

    cycles: float
    low: float
    high: float
    scatter: float
    first: int


@dataclass(frozen=True)
class Rise:
    """From one rest to the next.

    Attributes:
        fits: bytes of code that no line was seen missing of.
        slack: bytes that might have missed all the same without being seen. Whatever the policy, a loop longer than
            a cache by n lines misses at least n times a lap, so the cache holds at least `fits` - `slack`.
        overflows: bytes of code from which on lines miss.
        before, after: the rests.
        stumble: cycles that a lap takes longer, however long it is, before any line is missing; 0 if it does not.
        stumbles: bytes of code from which on it does.

    """

    fits: int
    slack: int
    overflows: int
    before: Rest
    after: Rest
    stumble: float = 0.0
    stumbles: int = 0

    @property
    def step(self) -> float:
        """Cycles that a line takes longer behind this level."""
        return self.after.cycles - self.before.cycles

    @property
    def wide(self) -> bool:
        """Whether it climbs over so many sizes that the rise from another level may be part of it."""
        return self.after.first > WIDE * self.fits


@dataclass(frozen=True)
class Stairs:
    """The levels of a curve, nearest first, and why there are no more.

    `fits` is set where the curve leaves its last rest for no other: the last size on it.
    """

    rises: tuple[Rise, ...]
    end: str
    fits: int | None = None


def own_cost(lines: Sequence[int], laps: Sequence[NDArray[np.int64]]) -> Own:
    """What a lap costs beside its code, from laps (cycles) of a few short loops that surely fit.

    The median of the intercepts of all pairs (Theil-Sen). Raises `ValueError` for fewer than two loops.
    """
    if len(lines) < 2:
        raise ValueError("what a lap costs beside its code takes two loops to tell")
    times = [_typical(each) for each in laps]
    pairs = list(combinations(range(len(lines)), 2))
    intercepts = [(times[i][0] * lines[j] - times[j][0] * lines[i]) / (lines[j] - lines[i]) for i, j in pairs]
    # An intercept errs about twice as much as the loops it follows from.
    error = max(2 * max(error for _, error in times), _scatter(np.array(intercepts)))
    return Own(float(np.median(intercepts)), error)


def curve(sizes: Sequence[int], line: int, laps: Sequence[NDArray[np.int64]], own: Own) -> Curve:
    """The curve from laps (cycles, each shape (laps,)) of loops of `sizes` bytes in lines of `line` bytes."""
    lines = np.array(sizes, dtype=np.int64) // line
    times = np.array([_typical(each) for each in laps]).reshape(-1, 2)
    return Curve(
        sizes=np.array(sizes, dtype=np.int64),
        lines=lines,
        cycles=(times[:, 0] - own.cycles) / lines,
        error=np.hypot(times[:, 1], own.error) / lines,
    )


def stairs(whole: Curve) -> Stairs:
    """Rests and rises of a curve over sizes that grow by the same small factor."""
    rises: list[Rise] = []
    begin = 0
    while (left := _left(whole, begin)) is not None:
        tried = [_rise(whole, begin, left, start) for start in range(left, whole.sizes.size)]
        found = next((rise for rise in tried if isinstance(rise, Rise)), None)
        if found is None:
            reasons = [each for each in tried if isinstance(each, str)]
            told = reasons[-1] if reasons else "the cycles change and do not come to rest"
            fits = int(whole.sizes[left - 1]) if left - begin >= FEWEST else None
            return Stairs(tuple(rises), f"{told}: {_range(whole, begin)}", fits)
        if rises:
            rises[-1] = replace(rises[-1], after=found.before)
        rises.append(found)
        begin = int(np.searchsorted(whole.sizes, found.after.first))
    if rises:
        rises[-1] = replace(rises[-1], after=_rest(whole, begin, whole.sizes.size))
    return Stairs(tuple(rises), f"no level shows beyond: {_range(whole, begin)}")


def onset(near: Curve, rise: Rise) -> Rise:
    """Narrow a rise down by a second curve over sizes between those that fit and those that overflow.

    Where sizes that fit and sizes that overflow alternate, the bracket spans them all.
    """
    threshold = _threshold(near, rise.before, rise.step)
    missing = near.cycles - rise.before.cycles > threshold
    over = [*near.sizes[missing].tolist(), rise.overflows]
    under = [rise.fits, *near.sizes[~missing].tolist()]
    fits = max(size for size in under if size < min(over))
    overflows = min(size for size in over if size > max(under))
    at = np.flatnonzero(near.sizes == fits)
    slack = _unseen(near, threshold, rise.step, int(at[0])) if at.size else rise.slack
    return replace(rise, fits=fits, slack=slack, overflows=overflows)


def past_a_stumble(whole: Curve, line: int, rise: Rise) -> Rise:
    """A rise that begins with a step of the whole lap, and not of lines: it begins where lines are missing.

    Whatever the policy, n lines of `line` bytes too many miss at least n times a lap: so a cache is no smaller than any
    loop less the lines that its cycles have room for. If that is more than the size from which on laps take longer,
    those cycles were no misses of lines; the cache ends where they begin to grow, and is no smaller than that.
    """
    excess = (whole.cycles - rise.before.cycles) * whole.lines
    climb = np.flatnonzero((whole.sizes >= rise.overflows) & (whole.sizes <= rise.after.first))
    if not climb.size:
        return rise
    least = float(np.max(whole.sizes[climb] - line * excess[climb] / rise.step))
    if least <= rise.overflows:
        return rise
    stumble = float(excess[climb[0]])
    still = excess[climb] <= (1 + MORE) * stumble
    last = int(np.argmin(still)) if not still.all() else still.size
    if last in (0, still.size):
        return rise
    fits, overflows = int(whole.sizes[climb[last - 1]]), int(whole.sizes[climb[last]])
    slack = max(0, fits - int(least))
    return replace(rise, fits=fits, slack=slack, overflows=overflows, stumble=stumble, stumbles=rise.overflows)


def _left(whole: Curve, begin: int) -> int | None:
    """First of two points in a row that leave the rest which begins there, None if none do."""
    for at in range(begin + 1, whole.sizes.size - 1):
        base = float(np.median(whole.cycles[begin:at]))
        if np.all(np.abs(whole.cycles[at : at + 2] - base) > STEP * abs(base)):
            return at
    return None


def _rise(whole: Curve, begin: int, left: int, start: int) -> Rise | str | None:
    """The rise from the rest at `begin`, left at `left`, to one that starts at `start`; or why there is none.

    Only what would be a rise but for one thing is worth a word.
    """
    sizes, cycles = whole.sizes, whole.cycles
    stop = int(np.searchsorted(sizes, REST * sizes[start])) + 1
    if stop > sizes.size or stop - start < FEWEST:
        return None
    after = _rest(whole, start, stop)
    base = float(np.median(cycles[begin:left]))
    step = after.cycles - base
    if step < STEP * base or float(np.ptp(cycles[start:stop])) > FLAT * step:
        return None
    flat = _flat(whole, begin, left, base + FLAT * step)
    before = _rest(whole, int(flat[0]), int(flat[-1]) + 1)
    if before.scatter > STEADY * step or float(np.ptp(cycles[flat])) > FLAT * step:
        return "the cycles climb all the way"
    if float(np.max(whole.error[[*flat, *range(start, stop)]])) > SURE * step:
        return "laps differ too much from each other"
    threshold = _threshold(whole, before, step)
    missing = cycles - before.cycles > threshold
    fits = begin + int(np.argmax(missing[begin:])) - 1
    if fits - begin + 1 < FEWEST:
        return "there is no rest before the rise"
    if sizes[start] > WIDEST * sizes[fits]:
        return "the cycles climb over too many sizes"
    overflows = next(at for at in range(fits + 1, start + 1) if missing[at : start + 1].all())
    slack = _unseen(whole, threshold, step, fits)
    return Rise(int(sizes[fits]), slack, int(sizes[overflows]), _rest(whole, begin, fits + 1), after)


def _flat(whole: Curve, begin: int, left: int, most: float) -> NDArray[np.intp]:
    """Points of a rest before it is left: none that already rise, and, if there are enough, none still settling."""
    flat = begin + np.flatnonzero(whole.cycles[begin:left] <= most)
    settled = flat[whole.sizes[flat] >= REST * whole.sizes[begin]]
    return settled if settled.size >= FEWEST else flat


def _rest(whole: Curve, begin: int, end: int) -> Rest:
    own = whole.cycles[begin:end]
    error = float(np.max(whole.error[begin:end]))
    return Rest(
        cycles=float(np.median(own)), low=float(own.min()) - error, high=float(own.max()) + error,
        scatter=_scatter(own), first=int(whole.sizes[begin]),
    )  # fmt: skip


def _threshold(some: Curve, before: Rest, step: float) -> NDArray[np.float64]:
    """Cycles a line above a rest from which on a few lines of a lap miss, and it is no scatter; one for each size."""
    return np.maximum(MISSING * step / some.lines, SIGMAS * np.hypot(before.scatter, some.error))


def _unseen(some: Curve, threshold: NDArray[np.float64], step: float, at: int) -> int:
    """Bytes of code that may miss in each lap at the size number `at` without reaching the threshold."""
    return int(np.ceil(threshold[at] / step * some.sizes[at]))


def _typical(laps: NDArray[np.int64]) -> tuple[float, float]:
    """Cycles of an undisturbed lap, delays only add: the lower quartile, and its standard deviation."""
    if laps.size == 0:
        raise ValueError("a loop needs at least one lap")
    return float(np.quantile(laps, 0.25)), 1.4 * _scatter(laps.astype(float)) / float(np.sqrt(laps.size))


def _scatter(values: NDArray[np.float64]) -> float:
    """Standard deviation of a normal distribution with this median absolute deviation."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _range(whole: Curve, begin: int) -> str:
    own = whole.cycles[begin:]
    sizes = f"{format_bytes(int(whole.sizes[begin]))} to {format_bytes(int(whole.sizes[-1]))}"
    return f"{own.min():.1f} to {own.max():.1f} cycles a line over {sizes} of code"
