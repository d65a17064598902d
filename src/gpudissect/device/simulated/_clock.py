"""The compiled part of the simulated clock."""

import math

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.cache.compiled import compiled, uniform

DRIFT_STEP = 1024  # accesses between two evaluations of the drift


@compiled
def disturb(
    latencies: NDArray[np.float64], timer: float, settings: NDArray[np.float64], draws: NDArray[np.uint64], done: int
) -> None:
    """Add the timer's cost and noise to latencies (cycles), in place.

    `settings`: jitter, outliers, mean of the outliers, drift, its period and phase in accesses. `draws` (1,) is the
    state of a SplitMix64 stream: one number per access, one more per outlier. `done`: earlier timed accesses.
    """
    jitter, outliers, mean, drift, period, phase = settings
    scale = 1.0
    for i in range(latencies.size):
        if drift > 0.0 and (i == 0 or (done + i) % DRIFT_STEP == 0):
            block = (done + i) // DRIFT_STEP * DRIFT_STEP
            scale = 1.0 + drift * math.sin(2.0 * math.pi * (phase + block / period))
        cycles = latencies[i] * scale + timer
        if jitter + outliers > 0.0:
            number = uniform(draws, 0)
            if number < jitter:
                cycles += 1.0 if number < 0.5 * jitter else -1.0
            elif number >= 1.0 - outliers:
                cycles -= mean * math.log(1.0 - uniform(draws, 0))
        latencies[i] = max(cycles, 0.0)


@compiled
def count(cycles: NDArray[np.int64], bounds: NDArray[np.int64], done: int, lap: int, counts: NDArray[np.int64]) -> None:
    """Add hits, misses and unknown accesses of every lap to `counts` (laps, 3).

    `bounds`: largest hit, smallest and largest miss, in cycles. `done`: earlier timed accesses; `lap`: accesses of one.
    """
    hit_max, miss_min, miss_max = bounds
    row, left = done // lap, lap - done % lap
    for i in range(cycles.size):
        if left == 0:
            row, left = row + 1, lap
        left -= 1
        read = cycles[i]
        kind = 0 if read <= hit_max else 1 if miss_min <= read <= miss_max else 2
        counts[row, kind] += 1


@compiled
def read(durations: NDArray[np.float64], phase: float, cycles: NDArray[np.int64]) -> float:
    """Write the readings (cycles) of a clock that counts whole cycles, for consecutive durations.

    The clock is read before and after each: durations of 30.5 cycles alternately read 30 and 31, whole ones are exact.
    `phase` is the fraction of a cycle, in [0, 1), at the begin of the first; returns that after the last.
    """
    for i in range(durations.size):
        phase += durations[i]
        whole = np.floor(phase)
        cycles[i] = np.int64(whole)
        phase -= whole
    return phase
