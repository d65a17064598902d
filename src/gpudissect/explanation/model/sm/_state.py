"""The state of the simulated SM: arrays that the caller allocates, and names of their columns."""

from typing import NamedTuple

import numpy as np

from gpudissect.explanation.model.sm._l1 import L1
from gpudissect.simulation.cache.compiled import F64, I64

Int = int | np.int64
Float = float | np.float64
LOCAL_LINE, LOCAL_LINE_BITS = 1 << 55, 17  # first line of local memory; log2 of the lines of a warp
NEVER = 1 << 60
FOR_SM, CYCLE_BITS = 1 << 58, 40  # ranks of warps at a scheduler: of instructions for pipes of the SM; bits of a cycle
BARRIERS = 6

# Columns of an instruction. PIPE: pipe of the scheduler; IS_EITHER: FMA and HEAVY alternate. SHARED: pipe of the SM, -1
# for none. SETS, READS: barrier that is set until the result is available, and until the operands are read, -1 for
# none. EVEN, ODD: cycles of the register banks that read its operands; _AFTER: the same if its warp was the last to
# issue on the scheduler. STALL, JUMP: cycles until the next instruction of the warp, if it is adjacent, and if it is
# not. PREDICATED_ON: share of the executions whose predicate is true: only these make a request. TAG_INTERVAL: cycles
# of the tag banks of the L1, before SHARED. FITS: issued between passes of loads and stores. FETCH: cycles of the
# scheduler, 0 if it is not more than one.
# Columns of requests. ACCESS: index in the sample, -1 for none. Without a sample: IN_SM, share that hits the L1; IN_L2,
# share that hits the L1 or the L2; L2_BYTES, DRAM_BYTES, LINK: bytes from the L2, from memory, and between SM and L2.
# With a sample: shares of the lines, and bytes of the sectors, that miss the L1. FAR: share of the L2 hits that are in
# the far partition. IS_WHOLE: the sample has all requests of the access; a warp on a longer path repeats the last one.
# BYPASSES: its lines are not allocated in the L1.
# Columns of asynchronous operations, -1 for none. QUEUE: in-order queue of the warp that it joins. COUNTER: counter of
# the warp that it increments until it is done; with PENDING, it waits until the counter is at most PENDING. OPERANDS:
# cycles of shared memory that read the operands of a matrix instruction. OPERATION: index of an operation on a barrier
# in memory. SIZE: mean bytes of a bulk copy, for which L2_BYTES, DRAM_BYTES and LINK are given.
(STALL, WAITS, SETS, READS, PIPE, INTERVAL, IS_EITHER, SHARED, SHARED_INTERVAL, LATENCY, READ_LATENCY) = range(11)
(KIND, IN_SM, IN_L2, L2_BYTES, L2_MORE, L2_WRITTEN, DRAM_BYTES, LINK, FAR, ACCESS, IS_WHOLE) = range(11, 22)
JUMP, EVEN, ODD, EVEN_AFTER, ODD_AFTER = range(22, 27)
BYPASSES, QUEUE, COUNTER, PENDING, OPERANDS, OPERATION = range(27, 33)
SIZE, FITS, TAG_INTERVAL, PREDICATED_ON, FETCH, INSTRUCTION = range(33, 39)
TRAFFIC = (SHARED_INTERVAL, TAG_INTERVAL, L2_BYTES, L2_MORE, L2_WRITTEN, DRAM_BYTES, LINK)
PLAIN, LOAD, STORE, BARRIER, MATRIX, PREPARE, ARRIVE, WAIT, BULK = range(9)
MAX_SPARE = 24.0  # cycles
LSU, TAGS, SPARE = 0, -2, -1  # first pipe of the SM; tag banks; idle issue cycles between passes of loads and stores
COPIES, QUEUES = 0, 2  # queues of a warp: copies to shared memory, matrix instructions
COUNTERS, COUNTED = BARRIERS + 1, 16  # scoreboard barriers and matrix instructions; last operations whose ends are kept
FMA, HEAVY, EITHER = 0, 1, -1  # the first pipes of a scheduler; either of them

# The machine. L2_LATENCY, DRAM_LATENCY: cycles for lines of the near partition; _FARTHER: additional cycles for those
# of the far partition; FAR_HOMES: share of the lines that have their home there. REFRESH: cycles of a refresh of a
# memory bank, once per REFRESH_PERIOD. LINE_INTERVAL: cycles from one line of a request to the next. LINK_BYTES:
# maximum bytes per cycle from the L2 and memory to the SM. RISE: memory latency rises by RISE * load / (1 - load)
# cycles (VV16 s6.4); MIXED_RISE: mean of a random rise of reads that queue behind writes. CREDIT: cycles by which an
# idle SM can get ahead of its share of the bandwidth. BACKLOG: cycles of work in the queues of the L2 and memory from
# which loads wait in the SM.
M_BACKLOG, M_REPLACEMENT, M_L2_LATENCY, M_DRAM_LATENCY = range(4)
M_L2_BYTES, M_DRAM_BYTES, M_LINK_BYTES, M_RISE, M_CREDIT = range(4, 9)
M_L2_FARTHER, M_DRAM_FARTHER, M_FAR_HOMES, M_REFRESH, M_REFRESH_PERIOD = range(9, 14)
M_LINE_INTERVAL, M_MIXED_RISE, M_L2_RISE, M_SIZE = range(14, 18)

# The job: warps per block, blocks, started blocks, warps that waited for an arrival which no path has.
J_PER_BLOCK, J_BLOCKS, J_STARTED, J_RELEASED, J_SIZE = range(5)

# Columns of a warp: position on its path, end of the path, cycle of its next issue, cycle at which its stores have
# reached the L2, its number in the order of starts, the sampled warp whose loads it makes, number of earlier warps that
# made these. W_PIPE, W_SHARED: pipes of its next instruction, as PIPE and SHARED, or EITHER. W_BLOCK: its block.
# W_PARKED: 0, or 2 * barrier in memory + parity + 1 if it has waited for this barrier since cycle W_SINCE. From
# W_BARRIERS on: cycle at which each barrier is clear.
W_POSITION, W_END, W_AT, W_STORED, W_NUMBER, W_SLOT, W_LAP, W_PARKED, W_SINCE = range(9)
W_PIPE, W_SHARED, W_BLOCK, W_BARRIERS = range(9, 13)
W_SIZE = W_BARRIERS + BARRIERS

# Columns of a resident block: its number, warps that have not exited, warps that wait at the barrier.
B_NUMBER, B_LEFT, B_ARRIVED, B_SIZE = range(4)

# Columns of a scheduler: next cycle in which it may issue, warp that issued last, pipe of its last multiply-add.
S_NEXT, S_LAST, S_FMA, S_SIZE = range(4)

# Columns of a tensor core: cycle at which it is free, cycle at which shared memory has read its last operands, and
# cycles of loads and stores that shared memory had served by then.
C_FREE, C_READ, C_SERVED, C_SIZE = range(4)

# Columns of a barrier in memory of a resident block: expected arrivals per phase, arrivals of the current phase, bytes
# that it still expects, cycle of its last arrival or byte, completed phases, cycle at which the last one completed.
(P_EXPECTED, P_ARRIVED, P_BYTES, P_READY, P_COMPLETE, P_AT, P_SIZE) = range(7)
WAKING, ARRIVAL = 20.0, 85.0
"""Cycles from the completion of a phase until a waiting warp resumes, and from an arrival to the completion. An arrival
and a wait take 127 cycles on an H200."""
CHUNK, SHARED_BYTES = 2048, 128.0  # bytes of a bulk copy from the same level; bytes of shared memory per cycle


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
    """The arrays of a `Sample`, and the positions of the warps in it."""

    begins: I64  # (sampled warps, accesses)
    ends: I64
    lines: I64  # (requests + 1,)
    number: I64  # (lines of requests,)
    sectors: I64
    new: I64
    is_shared: I64
    strides: F64  # (sampled warps, accesses), sampled requests per request on the path, at least 1
    cursors: I64  # (warps, accesses), requests of each access by the warp so far; modified
    l1_counts: F64  # (instructions, 4), out: requests, requests that missed the L1, lines and sectors that missed


class State(NamedTuple):
    """The arrays of a run. All from `job` on are modified."""

    machine: F64  # (M_SIZE,)
    instructions: F64  # (instructions, INSTRUCTION)
    path: I64  # instructions of all paths, one path after the other
    spans: I64  # (warps, 2), start and end of the path of each warp; later warps repeat them
    job: I64  # (J_SIZE,)
    warps: I64  # (warps, W_SIZE)
    residents: I64  # (resident blocks, B_SIZE)
    schedulers: I64  # (schedulers, S_SIZE)
    banks: F64  # (schedulers, 3), cycle at which each register bank has read all operands, and fetches are complete
    pipes: F64  # (schedulers, pipes), cycle at which each pipe accepts the next instruction
    shared: F64  # (shared pipes + 2,), the same for the pipes of the SM and TAGS; and SPARE
    entered: F64  # (schedulers, shared pipes, depth), cycles at which the last instructions entered each shared pipe
    queued: I64  # (schedulers, shared pipes), place of the next instruction in `entered`
    cores: F64  # (schedulers, C_SIZE)
    last: F64  # (warps, QUEUES), cycle at which all asynchronous operations of a queue are done
    counted: F64  # (warps, COUNTERS, COUNTED), cycles at which the last operations of each counter are done
    counts: I64  # (warps, COUNTERS), operations of each counter so far
    queues: F64  # (4,), cycle at which the L2, memory, the link to the SM and the path of stores have moved all bytes
    loads: Loads
    phases: Phases
    l1: L1
    ends: I64  # (blocks,), out: end of each block
    busy: F64  # (pipes + shared pipes + 2,), out: busy cycles of each pipe (sum over schedulers), the L2 and memory
    waited: F64  # (instructions, 2), out: cycles that warps waited to issue each instruction: for barriers, for pipes
    strata: I64  # (2 * instructions,), random numbers used by each instruction: for levels, then for predicates
