"""How wrong a model is: its throughput over what was measured, at every occupancy and every alpha (VV16 s7.9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.models.base import Floats, Loop, Machine, Model
from gpudissect.models.bounds import peak


@dataclass(frozen=True)
class Measured:
    """Throughput of one loop at several occupancies.

    Attributes:
        loop: what ran.
        warps: of an SM, shape (samples,); several samples of one occupancy are allowed.
        rate: instructions a cycle of one SM, shape (samples,).

    Raises `ValueError` without samples, for shapes that differ, or for what is not above 0.

    """

    loop: Loop
    warps: Floats
    rate: Floats

    def __post_init__(self) -> None:
        if self.warps.ndim != 1 or not self.warps.size or self.warps.shape != self.rate.shape:
            raise ValueError(f"samples have warps and a rate each, got {self.warps.shape} and {self.rate.shape}")
        if not (self.warps.min() > 0 and self.rate.min() > 0):
            raise ValueError("warps and rates are above 0")


@dataclass(frozen=True)
class Quotient:
    """Estimate over measurement: above 1, the estimate is too large. With where that is."""

    value: float
    alpha: float
    warps: float


@dataclass(frozen=True)
class Error:
    """The least and the largest quotient of one loop: the edges of the shaded regions of VV16 figure 7.11."""

    low: Quotient
    high: Quotient


@dataclass(frozen=True)
class Judgement:
    """One model against a set of loops.

    Attributes:
        errors: of each loop, in the order given.
        under, over: the worst of them.

    """

    errors: tuple[Error, ...]
    under: Quotient
    over: Quotient


def best_samples(measured: Measured, schedulers: int = 1) -> Measured:
    """The largest throughput at each occupancy that gives each scheduler equally many warps (VV16 chapter 7, 7.9).

    Raises `ValueError` if no sample is of such an occupancy.
    """
    even = measured.warps % schedulers == 0
    if not even.any():
        raise ValueError(f"no occupancy is a multiple of {schedulers} schedulers")
    warps = np.unique(measured.warps[even])
    rate = np.array([measured.rate[measured.warps == n].max() for n in warps])
    return Measured(measured.loop, warps, rate)


def error(model: Model, machine: Machine, measured: Measured) -> Error:
    """Quotients of one loop (VV16 s7.9), over the `best_samples` of it."""
    best = best_samples(measured, machine.schedulers)
    quotients = model.throughput(machine, best.loop, best.warps) / best.rate
    low, high = int(np.argmin(quotients)), int(np.argmax(quotients))
    found = [Quotient(float(quotients[i]), best.loop.alpha, float(best.warps[i])) for i in (low, high)]
    return Error(*found)


def judge(model: Model, machine: Machine, measured: Sequence[Measured]) -> Judgement:
    """Errors over all loops, such as those of `needed.ALPHAS` (VV16 figures 7.11-7.13).

    Raises `ValueError` without any.
    """
    if not measured:
        raise ValueError("a model is judged by measurements, got none")
    errors = tuple(error(model, machine, each) for each in measured)
    under = min((each.low for each in errors), key=lambda quotient: quotient.value)
    over = max((each.high for each in errors), key=lambda quotient: quotient.value)
    return Judgement(errors, under, over)


def warps_observed(machine: Machine, measured: Measured, share: float) -> float | None:
    """Least occupancy at which `share` of the peak was measured: the dots of VV16 figures 4.6 and 7.14; None if never.

    The peak is `bounds.peak`, one of the machine's (VV16 s4.5).
    """
    reached = measured.warps[measured.rate >= share * peak(machine, measured.loop)]
    return float(reached.min()) if reached.size else None
