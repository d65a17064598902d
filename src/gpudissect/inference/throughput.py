"""Bandwidth from runs of a stream: how many bytes a second, and which of several configurations moves most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLOCK_STEP = 1024  # ns, at most, by which a global timer moves at a time: 32 to 1024, by GPU
REPEATS = 0.05  # relative distance up to which two measurements of one configuration are the same


@dataclass(frozen=True)
class Throughput:
    """Bytes per second, bytes or operations a cycle, and their bracket."""

    rate: float
    low: float
    high: float


def throughput(moved: NDArray[np.int64], nanoseconds: NDArray[np.int64]) -> Throughput:
    """Bytes per second from runs: their median, bracketed by the slowest and fastest and by the timer's step.

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
    return Throughput(float(np.median(rates)), float(low.min()), float(high.max()))


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
    moved: NDArray[np.int64], cycles: NDArray[np.int64], sms: int, whole: NDArray[np.float64]
) -> Throughput:
    """Bytes a cycle that one SM moves, where all SMs do the same: median over runs.

    The whole run counts, not what its blocks took: where several run on an SM they do not all begin and end together.
    Only where its length is not known an SM counts as busy for as long as its typical block.

    Args:
        moved: bytes of each run, all SMs together, shape (runs,).
        cycles: of each block by its SM's clock, shape (runs, blocks).
        sms: how many SMs.
        whole: cycles of each run from its first block's begin to its last one's end, shape (runs,); NaN if not known.

    Raises `ValueError` without runs or blocks, or for a block that took no time.

    """
    if cycles.ndim != 2 or cycles.size == 0 or len(cycles) != len(moved) or cycles.min() < 1:
        raise ValueError(f"a rate needs the cycles of every block of every run, got {cycles.shape} for {moved.shape}")
    own = moved / sms
    typical, slowest = np.median(cycles, axis=1), cycles.max(axis=1)
    rates = own / np.where(np.isnan(whole), typical, whole)
    low, high = own / np.fmax(slowest, whole), own / np.fmin(slowest, np.where(np.isnan(whole), typical, whole))
    return Throughput(float(np.median(rates)), float(min(low.min(), rates.min())), float(max(high.max(), rates.max())))
