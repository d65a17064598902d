"""Throughput: the rate of one configuration from its runs, and the plateau that many configurations reach.

The fastest of many configurations is in part the luckiest, so the answer is the level that several reach when measured
again. Throughput approaches its limit gradually, so a band of fixed width below the fastest also holds slower ones. The
members of a plateau differ from the fastest by no more than a configuration differs from itself when measured twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TIMER_STEP_NS = 1024  # largest step of a global timer: 32 to 1024, by GPU
MAX_REPEAT_CHANGE = 0.05  # relative, up to which two measurements of one configuration agree
MAX_RAMP = 0.05  # of a run, spent on starting and ending, if its slowest block took all the rest
STANDARD_ERRORS = 2.0  # of a median to either side
MIN_RUNS_PER_RATE, MIN_GAP = 3, 2.0  # of alternating runs; the gap is relative to their spread
MEDIAN_ERROR = 1.2533  # of a normal distribution, relative to the standard error of the mean
NORMAL_MAD = 1.4826  # standard deviation of a normal distribution relative to its median absolute deviation

NEAR = 0.015  # relative distance from the fastest within which configurations are near it
FAR = 0.05  # relative distance from the fastest beyond which none is its equal, whatever the scatter
ERRORS_OF_FASTEST = 2.0  # of a typical configuration, by which the fastest may just be the luckiest
MIN_WIDTH = 0.005  # of a plateau, and to either side of a rate: the clock alone changes it by so much between runs
SCATTERS = 3.0  # of a measurement, by which two configurations differ
MIN_KNOWN_SCATTER = 4  # configurations measured twice from which their scatter is known
MIN_MEMBERS = 3  # of a plateau, if so many are near the fastest
SATURATION = 1.25  # ratio of most to least in flight on a plateau: without one, that would have cost a fifth


@dataclass(frozen=True)
class Throughput:
    """Bytes per second, or bytes or operations per cycle, with the bracket of a typical run, not of disturbed ones."""

    rate: float
    low: float
    high: float


def throughput(moved: NDArray[np.int64], nanoseconds: NDArray[np.int64]) -> Throughput:
    """Median of runs in B/s, with its error and the timer's step; `ValueError` without runs or for too short ones."""
    if moved.size == 0 or moved.shape != nanoseconds.shape:
        raise ValueError(f"throughput needs runs, got {moved.shape} and {nanoseconds.shape}")
    if (shortest := nanoseconds.min()) <= 2 * TIMER_STEP_NS:
        raise ValueError(f"a run of {shortest} ns is too short for a timer with steps of {TIMER_STEP_NS} ns")
    rates = moved / nanoseconds * 1e9
    low, high = moved / (nanoseconds + TIMER_STEP_NS) * 1e9, moved / (nanoseconds - TIMER_STEP_NS) * 1e9
    return _median(rates, low, high)


def _median(rates: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]) -> Throughput:
    """Median of runs, each of which may be misread between `low` and `high`, all of shape (runs,)."""
    rate = float(np.median(rates))
    factor = STANDARD_ERRORS * MEDIAN_ERROR * NORMAL_MAD
    error = factor * float(np.median(np.abs(rates - rate))) / float(np.sqrt(rates.size))
    return Throughput(rate, max(0.0, float(np.median(low)) - error), float(np.median(high)) + error)


def alternation(moved: NDArray[np.int64], nanoseconds: NDArray[np.int64]) -> float:
    """Relative distance of two rates between which runs alternate (all odd runs faster, or all even ones), else 0."""
    rates = moved / nanoseconds
    if rates.size < 2 * MIN_RUNS_PER_RATE:
        return 0.0
    slower, faster = sorted((rates[::2], rates[1::2]), key=lambda runs: float(runs.max()))
    gap = float(faster.min() - slower.max())
    return gap / float(np.median(rates)) if gap > MIN_GAP * max(np.ptp(slower), np.ptp(faster)) else 0.0


def fastest(rates: Sequence[Throughput]) -> int:
    """Index of the highest rate. Raises `ValueError` without any."""
    return int(np.argmax([each.rate for each in rates]))


def combine_repeats(first: Throughput, again: Throughput) -> Throughput | None:
    """The second of two measurements, for the first was chosen by luck too, and both brackets; None if they differ."""
    if abs(again.rate - first.rate) > MAX_REPEAT_CHANGE * again.rate:
        return None
    return _at_least_misread(again.rate, min(first.low, again.low), max(first.high, again.high))


def _at_least_misread(rate: float, low: float, high: float) -> Throughput:
    """A rate whose bracket is at least `MIN_WIDTH` of it wide to either side."""
    return Throughput(rate, min(low, rate * (1 - MIN_WIDTH)), max(high, rate * (1 + MIN_WIDTH)))


def rate_per_sm(
    moved: NDArray[np.int64], cycles: NDArray[np.int64], sms: int, elapsed: NDArray[np.float64], step: float = 0.0
) -> Throughput:
    """Bytes per cycle of one SM if all SMs do the same: median over runs.

    Blocks of one SM do not all begin and end together, so the `elapsed` cycles of the whole run count, or where they
    are NaN (unknown) the typical block. If the slowest block took nearly all of the run (`MAX_RAMP`), the rest was
    spent on starting and ending, and the bracket reaches up to the rate without it. `moved` (bytes of all SMs) and
    `elapsed`, which may be misread by `step`, have shape (runs,); `cycles` of each block (runs, blocks).

    Raises `ValueError` without runs or blocks, or for a block that took no time.
    """
    if cycles.ndim != 2 or cycles.size == 0 or len(cycles) != len(moved) or cycles.min() < 1:
        raise ValueError(f"a rate needs the cycles of every block of every run, got {cycles.shape} for {moved.shape}")
    per_sm = moved / sms
    typical, slowest = np.median(cycles, axis=1), cycles.max(axis=1).astype(np.float64)
    unknown = np.isnan(elapsed)
    busy = np.where(unknown, typical, elapsed)
    longest = np.where(unknown, slowest, busy + step)
    shortest = np.where(~unknown & (slowest >= (1 - MAX_RAMP) * busy), np.fmin(slowest, busy), busy)
    shortest = np.where(unknown, busy, np.fmin(shortest, np.fmax(busy - step, 1.0)))
    return _median(per_sm / busy, per_sm / longest, per_sm / shortest)


def nearness(rates: Sequence[Throughput]) -> float:
    """Relative distance from the fastest within which its equals may lie; `ValueError` without rates."""
    if not rates:
        raise ValueError("a surface needs at least one rate")
    error = float(np.median([1 - each.low / each.rate for each in rates]))
    return min(FAR, max(NEAR, ERRORS_OF_FASTEST * error))


def is_rising(in_flight: Sequence[float], rates: Sequence[float], near: float = NEAR) -> bool:
    """Whether rates still rise with the most `in_flight` (bytes, or chains of instructions).

    By Little's law throughput rises with it until something saturates: then much less in flight comes within `near` of
    the fastest, or more does not. Raises `ValueError` without rates.
    """
    values, amounts = np.array(rates), np.array(in_flight)
    top = amounts[values >= (1 - near) * values.max()]
    return bool(amounts.max() <= top.max() and top.min() * SATURATION > top.max())


@dataclass(frozen=True)
class Plateau:
    """The level that several configurations reach: the median of the second measurements of its members.

    Its bracket holds these, and the fastest of both measurements; beyond them the error of a typical member over the
    root of their number.
    """

    level: Throughput
    members: tuple[int, ...]  # indices of its configurations
    width: float  # relative distance from the fastest within which they lie
    scatter: float  # relative standard deviation of the ratio of both measurements
    isolated: bool  # in both measurements the same configuration alone was that fast


def find_plateau(first: Sequence[Throughput], again: Sequence[Throughput]) -> Plateau | None:
    """The plateau among configurations near the fastest, each measured twice; None if the two differ.

    Members are chosen by the first measurement and their level is that of the second, so that luck does not count
    twice. Those far from the level in the second are left out, of the bracket too; if they are half of them there is
    none. Raises `ValueError` without configurations.
    """
    if not first or len(first) != len(again):
        raise ValueError(f"a plateau needs members, each measured twice, got {len(first)} and {len(again)}")
    before, after = (np.array([each.rate for each in rates]) for rates in (first, again))
    scatter = _scatter(before, after)
    width = float(min(FAR, max(MIN_WIDTH, SCATTERS * scatter))) if len(before) >= MIN_KNOWN_SCATTER else NEAR
    near = max(NEAR, width)
    single = {_isolated(before, near), _isolated(after, near)}
    isolated = len(single) == 1 and None not in single
    members = [int(np.argmax(after))] if isolated else _members(before, width, near)
    rate = float(np.median(after[members]))
    if abs(rate - float(np.median(before[members]))) > MAX_REPEAT_CHANGE * rate:
        return None
    kept = [i for i in members if abs(after[i] - rate) <= near * rate]  # the others were lucky
    if 2 * len(kept) <= len(members):
        return None
    rate, root = float(np.median(after[kept])), len(kept) ** 0.5
    below = float(np.median([again[i].rate - again[i].low for i in kept])) / root
    above = float(np.median([again[i].high - again[i].rate for i in kept])) / root
    level = _at_least_misread(rate, float(after[kept].min()) - below, float(max(before.max(), after.max())) + above)
    return Plateau(level, tuple(kept), width, scatter, isolated)


def _isolated(rates: NDArray[np.float64], near: float) -> int | None:
    """The only configuration within `near` of the fastest; None if there are several."""
    return int(np.argmax(rates)) if np.sum(rates >= (1 - near) * rates.max()) == 1 else None


def _members(before: NDArray[np.float64], width: float, near: float) -> list[int]:
    """The fastest within `width`, and up to `MIN_MEMBERS` if so many are near. If no other is, that was luck."""
    order = np.argsort(-before, kind="stable")
    alike, about = (int(np.sum(before >= (1 - band) * before.max())) for band in (width, near))
    return [int(i) for i in order[: max(alike, min(MIN_MEMBERS, about if about > 1 else len(before)))]]


def _scatter(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """Relative standard deviation of a configuration measured twice, without the common change (the GPU's clock)."""
    ratio = after / before
    return NORMAL_MAD * float(np.median(np.abs(ratio - np.median(ratio))))
