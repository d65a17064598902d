"""Periodic runs of an SM, whose further periods are skipped.

Without random service times a run becomes periodic: once all state is as before but for the time and the iterations,
further periods are skipped. The result is the same as without it.
"""

import numpy as np

from gpudissect.simulation.cache.compiled import F64, called
from gpudissect.simulation.sm._state import (
    B_ARRIVED,
    B_LEFT,
    J_CHAINS,
    J_ITERATIONS,
    J_WARPS,
    NEVER,
    S_FREE,
    S_LAST,
    S_NEXT,
    W_AT,
    W_CHAIN,
    W_ITERATION,
    W_POSITION,
    Int,
    State,
)

MAX_CHECKS = 32  # comparisons of the state before a run counts as not periodic


@called
def write_state(state: State, t: Int, next_scheduler: Int, values: F64) -> None:
    """Write the state at cycle `t` relative to that cycle: what has passed is equivalent, as nothing waits for it.

    The iterations of the warps come last: states that differ in these only have the same future.
    """
    _, job, _, _, warps, ready, residents, schedulers, units, queues, _, _, _, _ = state
    values[0] = next_scheduler
    place = 1
    for w in range(job[J_WARPS]):
        values[place], values[place + 1] = warps[w, W_POSITION], warps[w, W_CHAIN]
        values[place + 2] = NEVER if warps[w, W_AT] >= NEVER else max(warps[w, W_AT] - t, 0)
        values[values.size - job[J_WARPS] + w] = warps[w, W_ITERATION]
        place += 3
        runs = warps[w, W_ITERATION] < job[J_ITERATIONS]
        for chain in range(job[J_CHAINS]):
            values[place] = max(ready[w, chain] - t, 0) if runs else 0
            place += 1
    for s in range(schedulers.shape[0]):
        values[place] = NEVER if schedulers[s, S_NEXT] >= NEVER else schedulers[s, S_NEXT] - t
        values[place + 1], values[place + 2] = max(schedulers[s, S_FREE] - t, 0), schedulers[s, S_LAST]
        place += 3
    for resident in range(residents.shape[0]):
        values[place], values[place + 1] = residents[resident, B_LEFT], residents[resident, B_ARRIVED]
        place += 2
    for times in (units, queues):
        for number in range(times.size):
            values[place] = max(times[number] - t, 0.0)
            place += 1


@called
def are_same(states: F64, warps: Int) -> bool:
    """Whether two states differ in the iterations of the warps only."""
    differences = 0
    for place in range(states.shape[1] - warps):
        differences += states[0, place] != states[1, place]
    return differences == 0


@called
def skip_periods(state: State, period: Int) -> Int:
    """Skip as many periods of so many cycles as end no warp; returns the cycles skipped."""
    _, job, _, _, warps, ready, _, schedulers, units, queues, _, _, _, states = state
    start = states.shape[1] - job[J_WARPS]
    count = np.int64(NEVER)
    for w in range(job[J_WARPS]):
        gain = warps[w, W_ITERATION] - np.int64(states[1, start + w])
        if gain > 0:
            count = min(count, (job[J_ITERATIONS] - 1 - warps[w, W_ITERATION]) // gain)
    if count <= 0 or count >= NEVER:
        return np.int64(0)
    skipped = count * period
    for w in range(job[J_WARPS]):
        if warps[w, W_ITERATION] == job[J_ITERATIONS]:
            continue
        warps[w, W_ITERATION] += count * (warps[w, W_ITERATION] - np.int64(states[1, start + w]))
        if warps[w, W_AT] < NEVER:
            warps[w, W_AT] += skipped
        for chain in range(job[J_CHAINS]):
            ready[w, chain] += skipped
    for s in range(schedulers.shape[0]):
        if schedulers[s, S_NEXT] < NEVER:
            schedulers[s, S_NEXT] += skipped
        schedulers[s, S_FREE] += skipped
    for unit in range(units.size):
        units[unit] += skipped
    for queue in range(queues.size):
        queues[queue] += skipped
    return skipped
