"""Throughput from runs of a stream: bytes a second of all SMs, bytes a cycle of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLOCK_STEP = 1024  # ns, at most, by which a global timer moves at a time: 32 to 1024, by GPU
REPEATS = 0.05  # relative distance up to which two measurements of one configuration are the same
TOGETHER = 0.05  # of a run: if its slowest block took all of it but so much, the rest is starting and ending
ERRORS = 2.0  # standard errors of a median to either side
FEWEST_IN_TURN, APART = 3, 2.0  # runs of either kind, and how many times their spread two kinds must lie apart
OF_MEDIAN, OF_DEVIATIONS = 1.2533, 1.4826
"""Standard error of a median over that of a mean, and a standard deviation over the median deviation from the median,
of a normal distribution."""


@dataclass(frozen=True)
class Throughput:
    """Bytes per second, bytes or operations a cycle, and the bracket of what is typical of them.

    A run that somebody disturbs is slower by as much as it likes: no bracket holds what was seen once.
    """

    rate: float
    low: float
    high: float


def throughput(moved: NDArray[np.int64], nanoseconds: NDArray[np.int64]) -> Throughput:
    """Bytes per second from runs: their median, bracketed by how well it is known and by the timer's step.

    Args:
        moved: bytes of each run, shape (runs,).
        nanoseconds: how long each took, shape (runs,).

    Raises `ValueError` without runs, or for one too short for the timer.

    """
    if moved.size == 0 or moved.shape != nanoseconds.shape:
        raise ValueError(f"throughput needs runs, got {moved.shape} and {nanoseconds.shape}")
    if nanoseconds.min() <= 2 * CLOCK_STEP:
        raise ValueError(f"a run of {nanoseconds.min()} ns is too short for a timer with steps of {CLOCK_STEP} ns")
    rates = moved / nanoseconds * 1e9
    low, high = moved / (nanoseconds + CLOCK_STEP) * 1e9, moved / (nanoseconds - CLOCK_STEP) * 1e9
    return _typical(rates, low, high)


def _typical(rates: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]) -> Throughput:
    """Median of runs, each of which may have been misread between `low` and `high`, all of shape (runs,).

    The bracket holds `ERRORS` standard errors of the median, from the deviations of the runs, and the misreading of a
    typical run.
    """
    middle = float(np.median(rates))
    error = ERRORS * OF_MEDIAN * OF_DEVIATIONS * float(np.median(np.abs(rates - middle))) / float(np.sqrt(rates.size))
    return Throughput(middle, max(0.0, float(np.median(low)) - error), float(np.median(high)) + error)


def alternation(moved: NDArray[np.int64], nanoseconds: NDArray[np.int64]) -> float:
    """How far apart two rates are, relative, between which runs alternate; 0 where they do not, or are too few.

    Every other run is then faster than all runs between, by far more than either kind scatters. Args as `throughput`.
    """
    rates = moved / nanoseconds
    if rates.size < 2 * FEWEST_IN_TURN:
        return 0.0
    one, other = sorted((rates[::2], rates[1::2]), key=lambda runs: float(runs.max()))
    gap = float(other.min() - one.max())
    return gap / float(np.median(rates)) if gap > APART * max(np.ptp(one), np.ptp(other)) else 0.0


def fastest(found: Sequence[Throughput]) -> int:
    """Index of the configuration that moves most. Raises `ValueError` without any."""
    return int(np.argmax([each.rate for each in found]))


def repeated(first: Throughput, again: Throughput) -> Throughput | None:
    """A configuration measured twice, or None if the two differ.

    The best of many is in part the luckiest, so the value is that of the second time; the bracket holds both.
    """
    if abs(again.rate - first.rate) > REPEATS * again.rate:
        return None
    return Throughput(again.rate, min(first.low, again.low), max(first.high, again.high))


def rate_of_one(
    moved: NDArray[np.int64], cycles: NDArray[np.int64], sms: int, whole: NDArray[np.float64], step: float = 0.0
) -> Throughput:
    """Bytes a cycle that one SM moves, where all SMs do the same: median over runs.

    The whole run counts, not what its blocks took: where several run on an SM they do not all begin and end together,
    and none of them tells how long the SM was busy. Only if the slowest took nearly all of the run (`TOGETHER`), what
    is left was spent on starting and ending, and the bracket reaches up to the rate without it. Where the length of
    the run is not known an SM counts as busy for as long as its typical block.

    Args:
        moved: bytes of each run, all SMs together, shape (runs,).
        cycles: of each block by its SM's clock, shape (runs, blocks).
        sms: how many SMs.
        whole: cycles of each run from its first block's begin to its last one's end, shape (runs,); NaN if not known.
        step: cycles by which `whole` may be misread.

    Raises `ValueError` without runs or blocks, or for a block that took no time.

    """
    if cycles.ndim != 2 or cycles.size == 0 or len(cycles) != len(moved) or cycles.min() < 1:
        raise ValueError(f"a rate needs the cycles of every block of every run, got {cycles.shape} for {moved.shape}")
    own = moved / sms
    typical, slowest = np.median(cycles, axis=1), cycles.max(axis=1).astype(np.float64)
    lacking = np.isnan(whole)
    took = np.where(lacking, typical, whole)
    longest = np.where(lacking, slowest, took + step)
    together = ~lacking & (slowest >= (1 - TOGETHER) * took)
    shortest = np.where(together, np.fmin(slowest, took), took)
    shortest = np.where(lacking, took, np.fmin(shortest, np.fmax(took - step, 1.0)))
    return _typical(own / took, own / longest, own / shortest)
