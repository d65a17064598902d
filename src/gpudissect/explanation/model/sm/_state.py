"""The state of the simulated SM: flat arrays of the caller, whose columns have names here."""

from typing import NamedTuple

import numpy as np

from gpudissect.explanation.model.sm._l1 import L1
from gpudissect.simulation.cache.compiled import F64, I64

Int = int | np.int64
Float = float | np.float64
LOCAL_LINE, LOCAL_LINE_BITS = 1 << 55, 17  # number of the first line of local memory; bits of those of a warp
NEVER = 1 << 60
BARRIERS = 6

# Columns of an instruction. PIPE: of each scheduler; IS_EITHER: FMA or HEAVY, by what the last multiply-add took.
# SHARED: pipe of the SM, -1 for none. SETS and READS: barrier set until the result is there, and until the operands are
# read, -1 for none. EVEN, ODD: cycles that its operands keep the banks of registers busy; _AFTER: if the instruction
# before it was the last of the scheduler.
# Columns of requests. ACCESS: of the sample, -1 for none. Without one: IN_SM and IN_L2, shares that end in the SM and
# in the L2 at most; L2_BYTES, DRAM_BYTES, LINK: bytes from the L2, from memory, and between SM and L2. With one these
# are shares of lines, and bytes of sectors, that miss the L1. FAR: share of the hits in the L2 that are in the far
# partition. IS_WHOLE: the sample has all requests of the access; a warp on a longer path repeats its last one.
# BYPASSES: its lines are not in the L1.
# STALL, JUMP: cycles to the next instruction, if that is the one behind it, and if it is another.
# Columns of asynchronous operations, -1 for none. QUEUE: of the warp, that it joins; it then ends with the last one in
# the queue. COUNTER: of the warp, that counts it until its end, or waits for all but PENDING of those it counts.
# OPERANDS: cycles of shared memory that read the operands of a matrix instruction. OPERATION: of the barriers in
# memory. SIZE: mean bytes of a bulk copy, to which its bytes belong. FITS: issued between passes of loads and stores.
# TAG_INTERVAL: cycles of the tag banks of the L1, which an instruction passes before SHARED.
# PREDICATED_ON: share of the executions whose predicate is true: only these make a request.
(STALL, WAITS, SETS, READS, PIPE, INTERVAL, IS_EITHER, SHARED, SHARED_INTERVAL, LATENCY, READ_LATENCY) = range(11)
(KIND, IN_SM, IN_L2, L2_BYTES, L2_MORE, L2_WRITTEN, DRAM_BYTES, LINK, FAR, ACCESS, IS_WHOLE) = range(11, 22)
JUMP, EVEN, ODD, EVEN_AFTER, ODD_AFTER = range(22, 27)
BYPASSES, QUEUE, COUNTER, PENDING, OPERANDS, OPERATION = range(27, 33)
SIZE, FITS, TAG_INTERVAL, PREDICATED_ON, INSTRUCTION = range(33, 38)
PLAIN, LOAD, STORE, BARRIER, MATRIX, PREPARE, ARRIVE, WAIT, BULK = range(9)
MAX_SPARE = 24.0  # cycles
LSU, TAGS, SPARE = 0, -2, -1  # the first pipe of the SM, the tag banks; cycles in which special functions fit
COPIES, QUEUES = 0, 2  # queues of a warp: copies to shared memory, matrix instructions
COUNTERS, COUNTED = BARRIERS + 1, 16  # each scoreboard barrier, matrix instructions; the last operations that have ends
FMA, HEAVY = 0, 1  # the first pipes of a scheduler

# The machine. L2_LATENCY, DRAM_LATENCY: of lines of the near partition; _FARTHER: cycles more for one of the far
# partition, in which FAR_HOMES of the lines are. REFRESH: cycles that a bank of memory refreshes, every
# REFRESH_PERIOD. LINE_INTERVAL: cycles from one line of a request to the next. LINK_BYTES: bytes per cycle that the
# SM takes from the L2 and memory at most. RISE: cycles by which the latency of memory rises with the load, times load
# over what is left of it (VV16 s6.4); MIXED_RISE: the mean of a random rise of reads behind writes. CREDIT: cycles by
# which an SM that was idle may be ahead of its share of the bandwidth. DEPTH: cycles by which the queue in front of a
# shared pipe may be behind before schedulers wait; BACKLOG: by which the L2 and memory may be before loads wait in
# the SM.
(M_DEPTH, M_BACKLOG, M_REPLACEMENT, M_L2_LATENCY, M_DRAM_LATENCY) = range(5)
(M_L2_BYTES, M_DRAM_BYTES, M_LINK_BYTES, M_RISE, M_CREDIT) = range(5, 10)
(M_L2_FARTHER, M_DRAM_FARTHER, M_FAR_HOMES, M_REFRESH, M_REFRESH_PERIOD) = range(10, 15)
(M_LINE_INTERVAL, M_MIXED_RISE, M_L2_RISE, M_SIZE) = range(15, 19)

# The job: warps of a block, blocks, started blocks, warps that waited for an arrival that no path has.
J_PER_BLOCK, J_BLOCKS, J_STARTED, J_RELEASED, J_SIZE = range(5)

# Columns of a warp (W_PARKED: 0, or 2 x barrier in memory + parity + 1 for which it waits since cycle W_SINCE):
# position on its path and the end of that, when it may issue next, when its stores have reached the
# L2, its number in the order of starts, the sampled warp whose loads it has, how many warps had these before; then when
# each barrier is clear.
W_POSITION, W_END, W_AT, W_STORED, W_NUMBER, W_SLOT, W_LAP, W_PARKED, W_SINCE, W_BARRIERS = range(10)
W_SIZE = W_BARRIERS + BARRIERS

# Columns of a resident block: its number, warps not yet ended and at the barrier.
B_NUMBER, B_LEFT, B_ARRIVED, B_SIZE = range(4)

# Columns of a scheduler: next cycle to look for a warp, warp that issued last, pipe of its last multiply-add.
S_NEXT, S_LAST, S_FMA, S_SIZE = range(4)

# Columns of a tensor core: cycle at which it is free, and at which shared memory has read the operands before; cycles
# of loads and stores of shared memory before that.
C_FREE, C_READ, C_SERVED, C_SIZE = range(4)


# Columns of a barrier in memory of a resident block: arrivals of a phase, those so far, bytes to come, cycle of the
# last of both, phases that are complete, cycle of the last one.
(P_EXPECTED, P_ARRIVED, P_BYTES, P_READY, P_COMPLETE, P_AT, P_SIZE) = range(7)
WAKING, ARRIVAL = (
    20.0,
    85.0,
)  # cycles from a phase to a warp that waits; from an arrival to the phase: H200, 127 for both
CHUNK, SHARED_BYTES = 2048, 128.0  # of a bulk copy that come from one level of memory; of shared memory in a cycle


class Phases(NamedTuple):
    """The arrays of `phases.Events`, and the barriers of resident blocks."""

    begins: I64  # (sampled warps, operations)
    ends: I64
    barrier: I64  # (events,)
    arrivals: I64
    value: I64
    cursors: I64  # (warps, operations); modified
    barriers: F64  # (resident blocks, barriers, P_SIZE); modified


class Loads(NamedTuple):
    """The arrays of a `Sample`, and where the warps are in it."""

    begins: I64  # (sampled warps, accesses)
    ends: I64
    lines: I64  # (requests + 1,)
    number: I64  # (lines of requests,)
    sectors: I64
    new: I64
    is_shared: I64
    strides: F64  # (sampled warps, accesses), requests of the sample for each on the path, at least 1
    cursors: I64  # (warps, accesses), requests of each access so far in this block; modified
    seen: F64  # (instructions, 4), out: requests, those that missed, lines and sectors that missed


class State(NamedTuple):
    """The arrays of a run; all from `job` on are modified."""

    machine: F64  # (M_SIZE,)
    instructions: F64  # (instructions, INSTRUCTION)
    path: I64  # instructions of warps in order, one path after the other
    spans: I64  # (warps in turn, 2), start and end of the path of each
    job: I64  # (J_SIZE,)
    warps: I64  # (warps, W_SIZE)
    residents: I64  # (resident blocks, B_SIZE)
    schedulers: I64  # (schedulers, S_SIZE)
    banks: F64  # (schedulers, 2), cycle at which each bank of registers has read all operands
    pipes: F64  # (schedulers, pipes), cycle at which each accepts the next instruction
    shared: F64  # (shared pipes,), the same
    cores: F64  # (schedulers, C_SIZE)
    last: F64  # (warps, QUEUES), cycle at which all asynchronous operations of a queue have ended
    counted: F64  # (warps, COUNTERS, COUNTED), the ends of the last operations that a counter counts
    counts: I64  # (warps, COUNTERS), operations so far
    queues: F64  # (4,), cycle at which the L2, memory, the link of the SM and the way of stores have moved all bytes
    loads: Loads
    phases: Phases
    l1: L1
    ends: I64  # (blocks,), out: end of each block
    busy: F64  # (pipes + shared pipes + 2,), out: cycles of work of each, of all schedulers together
    waited: F64  # (instructions, 2), out: cycles that warps waited to issue each: for a barrier, and for a pipe
    strata: I64  # (2 * instructions,), random numbers of each instruction so far: for levels, then for predicates
