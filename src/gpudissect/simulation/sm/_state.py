"""The state of a simulated SM: all in flat arrays, whose columns have names here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:  # the compiler is imported when something runs
    from gpudissect.simulation.cache.compiled import F64, I64, U64

Int = int | np.int64
Float = float | np.float64

NEVER = 1 << 60

# A position of the body, whole numbers: place in `units` of its pipe for the first scheduler, and from there to that of
# the next (0 for a pipe that all schedulers share); issue cycles, negative if all share the pipe; 1 or 0: whether it
# is a barrier, whether it is an access that its chain awaits; queue, -1 for none.
P_UNIT, P_STRIDE, P_SLOTS, P_BARRIER, P_AWAITED, P_QUEUE, P_SIZE = range(7)

# The same in cycles; the latency is that until the following position.
P_INTERVAL, P_LATENCY, P_SERVICE, P_VARIABILITY, P_CYCLES = range(5)

# The machine: schedulers, cycles between issues, instructions at once, cycles between issues of a warp, oldest first,
# cycles until a block is replaced, loads of a warp in flight (0 for no limit).
M_SCHEDULERS, M_STEP, M_WIDTH, M_REISSUE, M_OLDEST, M_REPLACEMENT, M_IN_FLIGHT, M_SIZE = range(8)

# The job: warps at once, warps of a block, chains, iterations, blocks, started blocks; sampling interval of the queued
# accesses of warp 0, and their number so far; iteration of any warp at which to pause (0 for none, -1 once reached);
# scheduler that goes first.
J_WARPS, J_PER_BLOCK, J_CHAINS, J_ITERATIONS, J_BLOCKS, J_STARTED = range(6)
J_SAMPLED, J_ACCESSES, J_PAUSE, J_FIRST, J_SIZE = range(6, 11)

# Columns of a warp: position in the body, chain, iteration, when its next instruction may be issued, its record, its
# scheduler, the place of its block.
W_POSITION, W_CHAIN, W_ITERATION, W_AT, W_RECORD, W_SCHEDULER, W_RESIDENT, W_SIZE = range(8)

# Columns of the place of a resident block: warps not yet ended, and at the barrier.
B_LEFT, B_ARRIVED, B_SIZE = range(3)

# Columns of a scheduler: next cycle to look for a warp, first cycle to issue, warp that issued last.
S_NEXT, S_FREE, S_LAST, S_SIZE = range(4)

# Random numbers: a SplitMix64 state, how many were used, the order of the strata of the current run.
D_STATE, D_COUNT, D_ORDER, D_SIZE = range(4)

# Columns of a record: begin and end of a warp.
R_BEGIN, R_END, R_SIZE = range(3)


class State(NamedTuple):
    """The arrays of a run, zeros at first unless noted; `job` and those from `warps` on are modified."""

    machine: I64  # (M_SIZE,), see the M_ names
    job: I64  # (J_SIZE,), see the J_ names
    positions: I64  # (positions, P_SIZE), one iteration, see the P_ names
    cycles: F64  # (positions, P_CYCLES)
    warps: I64  # (warps, W_SIZE), W_RECORD: number of the warp
    ready: I64  # (warps, chains), cycle of the last result of each chain
    residents: I64  # (resident blocks, B_SIZE), B_LEFT: warps of a block
    schedulers: I64  # (schedulers, S_SIZE), S_LAST: the warp before its first one
    units: F64  # (pipes * (1 + schedulers),), cycle at which each pipe accepts the next instruction
    queues: F64  # (queues,), cycle at which all accesses in each queue have been served
    records: I64  # (warps of all blocks, R_SIZE), out
    draws: U64  # (D_SIZE,), D_STATE: seed
    samples: I64  # (bins,), out: number of timed accesses by cycles, the last bin for as many or more
    states: F64  # (2, state_size), of `write_state`: now and earlier; or (2, 0), so that no periods are skipped


def state_size(warps: int, chains: int, residents: int, schedulers: int, units: int, queues: int) -> int:
    """Numbers in one of `State.states`."""
    return 1 + warps * (4 + chains) + residents * B_SIZE + schedulers * S_SIZE + units + queues
