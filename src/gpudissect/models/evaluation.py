"""Evaluation of models: warps that a loop needs (VV16 s4.5), and throughput over measured throughput (s7.9)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.models.base import Floats, Loop, Machine, Model, peak

MAX_WARPS = 1024  # per SM, searched by `warps_needed`, far above what any GPU holds
BISECTIONS = 48  # of one warp
ALPHAS = tuple(float(alpha) for alpha in 2 ** (np.arange(19) / 2))
"""1 to 512 in steps of sqrt 2 (VV16 s7.9)."""


def warps_needed(model: Model, machine: Machine, loop: Loop, share: float = 1.0) -> float | None:
    """Minimum warps per SM, not rounded, at which throughput is `share` of `base.peak`; None if no number suffices.

    The peak is the machine's, not the model's, as VV16 s4.5 and s7.10 compare them. The first crossing counts.
    """
    target = share * peak(machine, loop) * (1 - 1e-12)
    whole = np.arange(1, MAX_WARPS + 1, dtype=float)
    reached = np.flatnonzero(model.throughput(machine, loop, whole) >= target)
    if not reached.size:
        return None
    high = float(whole[reached[0]])
    low = high - 1
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle and float(model.throughput(machine, loop, middle)) >= target:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True)
class Measurement:
    """Throughput of one loop at several occupancies; several samples of one occupancy are allowed.

    Raises `ValueError` without samples, for shapes that differ, or for values that are not positive.
    """

    loop: Loop
    warps: Floats  # per SM, shape (samples,)
    rate: Floats  # instructions per cycle of one SM, shape (samples,)

    def __post_init__(self) -> None:
        if self.warps.ndim != 1 or not self.warps.size or self.warps.shape != self.rate.shape:
            raise ValueError(f"samples need warps and one rate each, got {self.warps.shape} and {self.rate.shape}")
        if not (self.warps.min() > 0 and self.rate.min() > 0):
            raise ValueError("warps and rates must be positive")


@dataclass(frozen=True)
class Quotient:
    """Estimate over measurement, and where: above 1, the estimate is too large."""

    value: float
    alpha: float
    warps: float


@dataclass(frozen=True)
class Evaluation:
    """One model on a set of loops: the error range of each loop in the order given, and the worst quotients."""

    errors: tuple[tuple[Quotient, Quotient], ...]
    under: Quotient
    over: Quotient


def best_samples(measurement: Measurement, schedulers: int = 1) -> Measurement:
    """The highest rate at each occupancy that gives each scheduler equally many warps (VV16 chapter 7, 7.9).

    Raises `ValueError` if there is no such occupancy.
    """
    even = measurement.warps % schedulers == 0
    if not even.any():
        raise ValueError(f"no occupancy is a multiple of {schedulers} schedulers, got {measurement.warps}")
    warps = np.unique(measurement.warps[even])
    rate = np.array([measurement.rate[measurement.warps == n].max() for n in warps])
    return Measurement(measurement.loop, warps, rate)


def error_range(model: Model, machine: Machine, measurement: Measurement) -> tuple[Quotient, Quotient]:
    """The smallest and the largest quotient of one loop, over its `best_samples` (VV16 s7.9, figure 7.11: regions)."""
    best = best_samples(measurement, machine.schedulers)
    quotients = model.throughput(machine, best.loop, best.warps) / best.rate
    ends = (int(np.argmin(quotients)), int(np.argmax(quotients)))
    low, high = (Quotient(float(quotients[i]), best.loop.alpha, float(best.warps[i])) for i in ends)
    return low, high


def evaluate(model: Model, machine: Machine, measurements: Sequence[Measurement]) -> Evaluation:
    """Error ranges of all loops, such as those of `ALPHAS` (VV16 figures 7.11-7.13).

    Raises `ValueError` if there are no measurements.
    """
    if not measurements:
        raise ValueError("a model is evaluated on measurements, got none")
    errors = tuple(error_range(model, machine, measurement) for measurement in measurements)
    under = min((low for low, _ in errors), key=lambda quotient: quotient.value)
    return Evaluation(errors, under, max((high for _, high in errors), key=lambda quotient: quotient.value))
