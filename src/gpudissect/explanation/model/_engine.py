"""The compiled loop that runs the warps of one SM by instructions. Imports numba: import it only to simulate.

All warps of a kernel follow one path through its machine code. Time advances from one cycle at which a scheduler may
issue to the next. All state is in flat arrays of the caller; their columns have names here.
"""

import math
from typing import NamedTuple

import numpy as np

from gpudissect.simulation.cache.compiled import F64, I64, compiled, inlined

Int = int | np.int64
Float = float | np.float64
NEVER = 1 << 60
MIN_HISTORY, MAX_LOAD = 2000.0, 0.95  # cycles from which on the load of memory is known; beyond, its queue limits
BARRIERS = 6
LEVELS = 3
"""Where a request ends: in the SM (L1 or shared memory), in the L2, in device memory."""

# Columns of an instruction. PIPE: of each scheduler, from 0 on; SHARED: of the SM, -1 for none. KIND: see below.
# SETS and READS: barrier set until the result is there, and until the operands are read, -1 for none.
# The columns from ONLY_L1 on are of requests: share that ends in the SM and in the L2 at most, bytes from the L2 and
# from device memory of a request that goes there; LINK: bytes between SM and L2; LINES: lines of the L1
# that a load holds until its data are there; SPREAD: cycles from the first of them to the last.
(STALL, WAITS, SETS, READS, PIPE, INTERVAL, SHARED, SHARED_INTERVAL, LATENCY, READ_LATENCY, KIND, IN_SM, IN_L2) = range(
    13
)
L2_BYTES, DRAM_BYTES, LINK, LINES, SPREAD, INSTRUCTION = 13, 14, 15, 16, 17, 18
PLAIN, LOAD, STORE, BARRIER = range(4)

# The machine. LINK_BYTES: bytes per cycle that the SM takes from the L2 and memory at most. RISE: cycles by which the
# latency of memory rises with the load, times load over what is left of it (VV16 s6.4). CREDIT: cycles by which an SM
# that was idle may be ahead of its share of the bandwidth. DEPTH: cycles by which the queue in front of a shared pipe
# may be behind before schedulers wait; BACKLOG: by which the L2 and memory may be before loads wait in the SM.
(M_SCHEDULERS, M_DEPTH, M_BACKLOG, M_REPLACEMENT, M_L2_LATENCY, M_DRAM_LATENCY) = range(6)
(M_L2_BYTES, M_DRAM_BYTES, M_LINK_BYTES, M_RISE, M_CREDIT, M_SIZE) = range(6, 12)

# The job: warps of a block, blocks, started blocks, lines filled so far.
J_PER_BLOCK, J_BLOCKS, J_STARTED, J_FILLED, J_SIZE = range(5)

# Columns of a warp: position on its path and the end of that, when it may issue next, when its
# stores have reached the L2; then when each barrier is clear.
W_POSITION, W_END, W_AT, W_STORED, W_BARRIERS = range(5)
W_SIZE = W_BARRIERS + BARRIERS

# Columns of a resident block: its number, warps not yet ended and at the barrier, begin.
B_NUMBER, B_LEFT, B_ARRIVED, B_SIZE = range(4)

# Columns of a scheduler: next cycle to look for a warp, warp that issued last.
S_NEXT, S_LAST, S_SIZE = range(3)


class State(NamedTuple):
    """The arrays of a run; all from `job` on are modified."""

    machine: F64  # (M_SIZE,)
    instructions: F64  # (instructions, INSTRUCTION)
    path: I64  # instructions of warps in order, one path after the other
    starts: I64  # (paths + 1,), where each path starts, and the last one ends
    job: I64  # (J_SIZE,)
    warps: I64  # (warps, W_SIZE)
    residents: I64  # (resident blocks, B_SIZE)
    schedulers: I64  # (schedulers, S_SIZE)
    pipes: F64  # (schedulers, pipes), cycle at which each accepts the next instruction
    shared: F64  # (shared pipes,), the same
    queues: F64  # (3,), cycle at which the shares of the L2 and of memory, and the link of the SM, have moved all bytes
    fills: F64  # (lines of the L1,), cycle at which the data of each of the last lines are there
    ends: I64  # (blocks,), out: end of each block
    busy: F64  # (pipes + shared pipes + 2,), out: cycles of work of each, of all schedulers together
    waited: F64  # (instructions, 2), out: cycles that warps waited to issue each: for a barrier, and for a pipe
    strata: I64  # (instructions,), requests of each instruction so far


@inlined
def _draw(strata: I64, instruction: Int) -> Float:
    """Next number in [0, 1) of an instruction: multiples of the golden ratio, whose shares are right from the start."""
    strata[instruction] += 1
    return np.float64((strata[instruction] * 0.6180339887498949 + instruction * 0.377) % 1.0)


@inlined
def _request(state: State, instruction: Int, start: Float) -> Float:
    """Cycle at which a request that left the pipe at `start` is done."""
    machine, row, queues, busy = state.machine, state.instructions[instruction], state.queues, state.busy
    number = _draw(state.strata, instruction)
    if number < row[IN_SM]:
        return start + np.float64(row[LATENCY])
    fills, job, lines = state.fills, state.job, np.int64(row[LINES])
    for line in range(lines):
        start = max(start, fills[(job[J_FILLED] + line) % fills.size])
    credit = start - machine[M_CREDIT]
    l2, link = row[L2_BYTES] / machine[M_L2_BYTES], row[LINK] / machine[M_LINK_BYTES]
    queues[0], queues[2] = max(queues[0], credit) + l2, max(queues[2], start) + link
    busy[busy.size - 2] += l2
    served = max(queues[0], queues[2])
    done = np.float64(max(served - link, start) + machine[M_L2_LATENCY])
    if number >= row[IN_L2]:
        dram = row[DRAM_BYTES] / machine[M_DRAM_BYTES]
        load = min(busy[busy.size - 1] / max(start, MIN_HISTORY), MAX_LOAD)
        queues[1] = max(queues[1], credit) + dram
        busy[busy.size - 1] += dram
        served = max(served, queues[1])
        rise = machine[M_RISE] * load / (1.0 - load)
        if row[KIND] == LOAD:
            done = max(done, max(served - link, start) + machine[M_DRAM_LATENCY] + rise)
    for line in range(lines):
        fills[(job[J_FILLED] + line) % fills.size] = done
    job[J_FILLED] += lines
    return np.float64(done + row[SPREAD])


@inlined
def _issue(state: State, w: Int, s: Int, t: Int) -> None:
    """Issue the next instruction of warp `w` of scheduler `s` at cycle `t`, and set when the warp can go on."""
    machine, job, warps = state.machine, state.job, state.warps
    instruction = state.path[warps[w, W_POSITION]]
    row = state.instructions[instruction]
    pipe, kind = np.int64(row[PIPE]), np.int64(row[KIND])
    state.pipes[s, pipe] = max(state.pipes[s, pipe], np.float64(t)) + row[INTERVAL]
    state.busy[pipe] += row[INTERVAL]
    start = np.float64(t)
    if row[SHARED] >= 0.0:
        place = np.int64(row[SHARED])
        start = max(state.shared[place], start)
        if kind in (LOAD, STORE):
            start = max(start, max(state.queues[0], state.queues[1]) - machine[M_BACKLOG])
        state.shared[place] = start + row[SHARED_INTERVAL]
        state.busy[state.pipes.shape[1] + place] += row[SHARED_INTERVAL]
    if kind in (LOAD, STORE):
        done = _request(state, instruction, start + row[SHARED_INTERVAL] - 1.0)
    else:
        done = start + max(0.0, row[SHARED_INTERVAL] - 1.0) + row[LATENCY]
    if kind == STORE:
        warps[w, W_STORED] = max(warps[w, W_STORED], np.int64(math.ceil(done)))
    if row[SETS] >= 0.0:
        place = W_BARRIERS + np.int64(row[SETS])
        warps[w, place] = max(warps[w, place], np.int64(math.ceil(done)))
    if row[READS] >= 0.0:
        place = W_BARRIERS + np.int64(row[READS])
        warps[w, place] = max(warps[w, place], np.int64(math.ceil(start + row[READ_LATENCY])))
    warps[w, W_POSITION] += 1
    resident = w // job[J_PER_BLOCK]
    if warps[w, W_POSITION] == warps[w, W_END]:
        _end_warp(state, w, resident, t)
        return
    if kind == BARRIER:
        warps[w, W_AT] = NEVER
        state.residents[resident, B_ARRIVED] += 1
        _open_barrier(state, resident, t)
        return
    _next(state, w, t + np.int64(row[STALL]))


@inlined
def _next(state: State, w: Int, at: Int) -> None:
    """Set when a warp may issue its next instruction: not before `at`, and when its barriers are clear."""
    warps = state.warps
    instruction = state.path[warps[w, W_POSITION]]
    mask, ready = np.int64(state.instructions[instruction, WAITS]), at
    for barrier in range(BARRIERS):
        if mask >> barrier & 1:
            ready = max(ready, warps[w, W_BARRIERS + barrier])
    state.waited[instruction, 0] += ready - at
    warps[w, W_AT] = ready
    s = w % state.schedulers.shape[0]
    state.schedulers[s, S_NEXT] = min(state.schedulers[s, S_NEXT], ready)


@inlined
def _open_barrier(state: State, resident: Int, t: Int) -> None:
    """Let the warps of a block go on if all that have not ended have arrived."""
    residents, warps, per_block = state.residents, state.warps, state.job[J_PER_BLOCK]
    if residents[resident, B_ARRIVED] == 0 or residents[resident, B_ARRIVED] < residents[resident, B_LEFT]:
        return
    residents[resident, B_ARRIVED] = 0
    for w in range(resident * per_block, (resident + 1) * per_block):
        if warps[w, W_AT] == NEVER and warps[w, W_POSITION] < warps[w, W_END]:
            barrier = state.path[warps[w, W_POSITION] - 1]
            _next(state, w, t + np.int64(state.instructions[barrier, LATENCY]))


@inlined
def _end_warp(state: State, w: Int, resident: Int, t: Int) -> None:
    """End a warp; after the last one of its block, the next block begins."""
    warps, residents, job = state.warps, state.residents, state.job
    per_block = job[J_PER_BLOCK]
    warps[w, W_AT] = NEVER
    residents[resident, B_LEFT] -= 1
    if residents[resident, B_LEFT] > 0:
        _open_barrier(state, resident, t)
        return
    end = t
    for v in range(resident * per_block, (resident + 1) * per_block):
        end = max(end, warps[v, W_STORED])
        for barrier in range(BARRIERS):
            end = max(end, warps[v, W_BARRIERS + barrier])
    state.ends[residents[resident, B_NUMBER]] = end
    if job[J_STARTED] < job[J_BLOCKS]:
        _start_block(state, resident, end + np.int64(state.machine[M_REPLACEMENT]))


@inlined
def _start_block(state: State, resident: Int, t: Int) -> None:
    """Begin the next block in a place."""
    warps, job = state.warps, state.job
    per_block = job[J_PER_BLOCK]
    state.residents[resident, B_NUMBER] = job[J_STARTED]
    state.residents[resident, B_LEFT], state.residents[resident, B_ARRIVED] = per_block, 0
    job[J_STARTED] += 1
    for w in range(resident * per_block, (resident + 1) * per_block):
        number = state.residents[resident, B_NUMBER] * per_block + w - resident * per_block
        variant = number % (state.starts.size - 1)
        warps[w, W_STORED] = t
        warps[w, W_POSITION], warps[w, W_END] = state.starts[variant], state.starts[variant + 1]
        for barrier in range(BARRIERS):
            warps[w, W_BARRIERS + barrier] = t
        _next(state, w, t)


@compiled
def simulate(state: State) -> None:
    """Run all blocks of a job on one SM."""
    warps, schedulers, pipes, shared = state.warps, state.schedulers, state.pipes, state.shared
    count, depth = schedulers.shape[0], state.machine[M_DEPTH]
    for resident in range(state.residents.shape[0]):
        _start_block(state, resident, 0)
    while True:
        t = schedulers[0, S_NEXT]
        for s in range(1, count):
            t = min(t, schedulers[s, S_NEXT])
        if t >= NEVER:
            return
        for s in range(count):
            if schedulers[s, S_NEXT] != t:
                continue
            soonest, chosen = np.int64(NEVER), np.int64(-1)
            w = schedulers[s, S_LAST]
            for _ in range(s, warps.shape[0], count):
                w += count
                if w >= warps.shape[0]:
                    w = s
                if warps[w, W_AT] > t:
                    soonest = min(soonest, warps[w, W_AT])
                    continue
                instruction = state.path[warps[w, W_POSITION]]
                row = state.instructions[instruction]
                free = pipes[s, np.int64(row[PIPE])]
                if row[SHARED] >= 0.0:
                    free = max(free, shared[np.int64(row[SHARED])] - depth)
                if free >= t + 1:
                    soonest = min(soonest, np.int64(math.floor(free)))
                    continue
                chosen = schedulers[s, S_LAST] = w
                break
            if chosen < 0:
                schedulers[s, S_NEXT] = max(soonest, t + 1)
                continue
            schedulers[s, S_NEXT] = t + 1
            state.waited[state.path[warps[chosen, W_POSITION]], 1] += t - warps[chosen, W_AT]
            _issue(state, chosen, s, t)
