"""The compiled part of the simulated clock. Imports numba: import it only when a simulation is about to run."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.cache.compiled import compiled, uniform

DRIFT_STEP = 1024  # accesses between two evaluations of the drift


@compiled
def disturb(
    latencies: NDArray[np.float64],
    timer: float,
    settings: NDArray[np.float64],
    draws: NDArray[np.uint64],
    done: int,
) -> None:
    """Add the timer's cost and noise to latencies, in place.

    Args:
        latencies: float64 (n,), cycles.
        timer: cycles added to each.
        settings: float64 (6,): jitter, outliers, mean of the outliers, drift, its period and phase in accesses.
        draws: uint64 (1,), state of a SplitMix64 stream, changed by it; one draw an access, one more an outlier.
        done: timed accesses of this workload before these.

    """
    jitter, outliers, mean, drift, period, phase = settings
    scale = 1.0
    for i in range(latencies.size):
        if drift > 0.0 and (i == 0 or (done + i) % DRIFT_STEP == 0):
            block = (done + i) // DRIFT_STEP * DRIFT_STEP
            scale = 1.0 + drift * math.sin(2.0 * math.pi * (phase + block / period))
        cycles = latencies[i] * scale + timer
        if jitter + outliers > 0.0:
            drawn = uniform(draws, 0)
            if drawn < jitter:
                cycles += 1.0 if drawn < 0.5 * jitter else -1.0
            elif drawn >= 1.0 - outliers:
                cycles -= mean * math.log(1.0 - uniform(draws, 0))
        latencies[i] = max(cycles, 0.0)


@compiled
def read(durations: NDArray[np.float64], phase: float, cycles: NDArray[np.int64]) -> float:
    """What a clock that counts whole cycles shows for durations one after the other.

    The clock is read before and after each: durations of 30.5 cycles read 30 and 31 in turns, whole ones read true.

    Args:
        durations: float64 (n,), cycles.
        phase: fraction of a cycle, in [0, 1), at which the first begins.
        cycles: int64 (n,), out.

    Returns the phase after the last.

    """
    for i in range(durations.size):
        phase += durations[i]
        whole = math.floor(phase)
        cycles[i] = whole
        phase -= whole
    return phase
