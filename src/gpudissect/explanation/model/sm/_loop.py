"""The compiled loop that issues the instructions of the warps of one SM.

All warps of a kernel follow one path, or a few, through its machine code. Time advances to the next cycle in which a
scheduler may issue. A scheduler issues from the same warp as long as it is ready, otherwise from the oldest ready warp.
Instructions for a pipe of the SM have the lowest priority: those of the oldest block first, and within a block in the
order in which they became ready. Each scheduler has a queue in front of each pipe of the SM. On an H100, the warps of a
block advance evenly, and four blocks that keep shared memory busy end after 50, 63, 89 and 100 % of the time.
"""

import math

import numpy as np

from gpudissect.explanation.model.sm import _state as column
from gpudissect.explanation.model.sm._memory import fetch, load, next_random, request, write
from gpudissect.explanation.model.sm._state import Float, Int, State
from gpudissect.simulation.cache.compiled import F64, compiled, inlined

FETCHED_AHEAD = 2.0  # cycles by which a fetch can precede issue: fitted to a loop of 48 KiB on an H200 and an H100
WINDOW = 1.0  # cycles after issue in which operands are read, unless one bank has more reads


@inlined
def _pipe(state: State, s: Int, row: F64) -> Int:
    """The pipe of an instruction. Multiply-adds alternate between their two pipes."""
    if row[column.IS_EITHER] > 0.0:
        return np.int64(column.FMA + column.HEAVY - state.schedulers[s, column.S_FMA])
    return np.int64(row[column.PIPE])


@inlined
def _read_operands(state: State, s: Int, row: F64, follows: bool, t: Int) -> Int:
    """Cycle at which an instruction selected at `t` issues: it is fetched, and the register banks can read for it."""
    even, odd = (row[column.EVEN_AFTER], row[column.ODD_AFTER]) if follows else (row[column.EVEN], row[column.ODD])
    banks, window = state.banks, max(WINDOW, even, odd)
    start = np.float64(t)
    if even > 0.0:
        start = max(start, banks[s, 0] + even - window)
    if odd > 0.0:
        start = max(start, banks[s, 1] + odd - window)
    if row[column.FETCH] > 0.0:
        banks[s, 2] = max(banks[s, 2], start - FETCHED_AHEAD) + row[column.FETCH]
        start = max(start, banks[s, 2])
    at = np.int64(math.ceil(start))
    banks[s, 0] = max(banks[s, 0], np.float64(at)) + even
    banks[s, 1] = max(banks[s, 1], np.float64(at)) + odd
    return at


@inlined
def _issue(state: State, w: Int, s: Int, t: Int) -> None:
    """Issue the next instruction of warp `w` of scheduler `s` at cycle `t`, and set when the warp may issue again."""
    job, warps = state.job, state.warps
    instruction = state.path[warps[w, column.W_POSITION]]
    row = state.instructions[instruction]
    pipe, kind = _pipe(state, s, row), np.int64(row[column.KIND])
    if pipe in (column.FMA, column.HEAVY):
        state.schedulers[s, column.S_FMA] = pipe
    state.pipes[s, pipe] = max(state.pipes[s, pipe], np.float64(t)) + row[column.INTERVAL]
    state.busy[pipe] += row[column.INTERVAL]
    start: Float = np.float64(t)
    left: Float = start
    stratum = state.instructions.shape[0] + instruction  # independent of the random numbers for levels
    is_on = row[column.PREDICATED_ON] >= 1.0 or next_random(state.strata, stratum) < row[column.PREDICATED_ON]
    if is_on and row[column.SHARED] >= 0.0 and kind != column.MATRIX:
        start, left = _enter_shared_pipe(state, s, row, start)
    left = max(left, start + row[column.SHARED_INTERVAL]) - 1.0
    if not is_on:
        done = start + 1.0
    elif row[column.ACCESS] >= 0.0 and kind == column.LOAD:
        done = load(state, w, instruction, np.int64(row[column.SHARED]), left)
    elif kind in (column.LOAD, column.STORE):
        done = request(state, instruction, left)
        if row[column.ACCESS] >= 0.0:
            write(state, w, instruction, left)
    elif kind >= column.PREPARE:
        done = _use_barrier(state, w, kind, instruction, t)
    elif kind == column.MATRIX:
        done = _multiply(state, s, row, start)
    else:
        done = max(start, left) + row[column.LATENCY]
    _signal(state, w, row, start, done)
    warps[w, column.W_POSITION] += 1
    resident = w // job[column.J_PER_BLOCK]
    if warps[w, column.W_POSITION] == warps[w, column.W_END]:
        _end_warp(state, w, resident, t)
        return
    if kind == column.BARRIER:
        warps[w, column.W_AT] = column.NEVER
        state.residents[resident, column.B_ARRIVED] += 1
        _open_barrier(state, resident, t)
        _release(state, resident, t)
        return
    if warps[w, column.W_PARKED] > 0:
        warps[w, column.W_AT], warps[w, column.W_SINCE] = column.NEVER, t
        _release(state, resident, t)
        return
    is_next = state.path[warps[w, column.W_POSITION]] == instruction + 1
    _next(state, w, t + np.int64(row[column.STALL] if is_next else row[column.JUMP]))


@inlined
def _free(state: State, s: Int, w: Int) -> Float:
    """Cycle from which scheduler `s` can issue from warp `w`: the pipe is free, and the queue to the SM has room."""
    pipe, place = state.warps[w, column.W_PIPE], state.warps[w, column.W_SHARED]
    if pipe == column.EITHER:
        pipe = column.FMA + column.HEAVY - state.schedulers[s, column.S_FMA]
    free: Float = state.pipes[s, pipe]
    if place < 0:
        return free
    return np.float64(max(free, state.entered[s, place, state.queued[s, place]]))


@inlined
def _rank(state: State, w: Int) -> np.int64:
    """The place of a ready warp among those of its scheduler; the least one issues."""
    warps = state.warps
    if warps[w, column.W_SHARED] < 0:
        return np.int64(warps[w, column.W_NUMBER])
    return np.int64(column.FOR_SM + (warps[w, column.W_BLOCK] << column.CYCLE_BITS) + warps[w, column.W_AT])


@inlined
def _goes_on(state: State, s: Int, t: Int) -> bool:
    """Whether scheduler `s` issues again from the warp that issued last: it is ready, and its pipe is free.

    If its instruction is for a pipe of the SM, it must not have waited for it.
    """
    last = state.schedulers[s, column.S_LAST]
    if last < 0 or state.warps[last, column.W_AT] > t:
        return False
    has_waited = state.warps[last, column.W_SHARED] >= 0 and state.warps[last, column.W_AT] < t
    return not has_waited and bool(_free(state, s, last) < t + 1)


@inlined
def _enter_shared_pipe(state: State, s: Int, row: F64, start: Float) -> tuple[Float, Float]:
    """Cycles at which an instruction that was issued at `start` enters its pipe of the SM, and leaves the tag banks."""
    place, left, interval = np.int64(row[column.SHARED]), start, row[column.SHARED_INTERVAL]
    if row[column.TAG_INTERVAL] > 0.0:
        start = max(state.shared[column.TAGS], start)
        left = start + row[column.TAG_INTERVAL]
        state.shared[column.TAGS] = left
    start = max(state.shared[place], start)
    if np.int64(row[column.KIND]) in (column.LOAD, column.STORE):
        start = max(start, max(state.queues[0], state.queues[1], state.queues[3]) - state.machine[column.M_BACKLOG])
    if row[column.FITS] > 0.0:
        spare = min(state.shared[column.SPARE], interval)
        state.shared[column.SPARE] -= spare
        interval -= spare
    elif place == column.LSU and interval > 1.0:
        state.shared[column.SPARE] = min(state.shared[column.SPARE] + interval - 1.0, column.MAX_SPARE)
    state.shared[place] = start + interval
    state.entered[s, place, state.queued[s, place]] = start
    state.queued[s, place] += 1
    if state.queued[s, place] == state.entered.shape[2]:
        state.queued[s, place] = 0
    state.busy[state.pipes.shape[1] + place] += interval
    return start, left


@inlined
def _signal(state: State, w: Int, row: F64, start: Float, done: Float) -> None:
    """Set the barriers and counters of warp `w` for an instruction that starts and is done at these cycles."""
    warps = state.warps
    if row[column.QUEUE] >= 0.0:
        queue = np.int64(row[column.QUEUE])
        done = max(state.last[w, queue], done)
        state.last[w, queue] = done
    if row[column.COUNTER] >= 0.0 and row[column.PENDING] < 0.0:
        counter = np.int64(row[column.COUNTER])
        state.counted[w, counter, state.counts[w, counter] % column.COUNTED] = done
        state.counts[w, counter] += 1
    if np.int64(row[column.KIND]) == column.STORE:
        warps[w, column.W_STORED] = max(warps[w, column.W_STORED], np.int64(math.ceil(done)))
    if row[column.SETS] >= 0.0:
        place = column.W_BARRIERS + np.int64(row[column.SETS])
        warps[w, place] = max(warps[w, place], np.int64(math.ceil(done)))
    if row[column.READS] >= 0.0:
        place = column.W_BARRIERS + np.int64(row[column.READS])
        warps[w, place] = max(warps[w, place], np.int64(math.ceil(start + row[column.READ_LATENCY])))


@inlined
def _use_barrier(state: State, w: Int, kind: Int, instruction: Int, t: Int) -> float | np.float64:
    """Cycle at which an operation on a barrier in memory is done. A warp that must wait for the barrier is parked."""
    phases, warps, row = state.phases, state.warps, state.instructions[instruction]
    operation, slot = np.int64(row[column.OPERATION]), warps[w, column.W_SLOT] % state.phases.begins.shape[0]
    count = phases.ends[slot, operation] - phases.begins[slot, operation]
    done = np.float64(t + row[column.LATENCY])
    if count == 0:
        return done
    event = phases.begins[slot, operation] + phases.cursors[w, operation] % count
    phases.cursors[w, operation] += 1
    resident, number, value = w // state.job[column.J_PER_BLOCK], phases.barrier[event], phases.value[event]
    barrier = phases.barriers[resident, number]
    if kind == column.WAIT:
        if np.int64(barrier[column.P_COMPLETE]) % 2 == value:
            warps[w, column.W_PARKED] = 2 * number + value + 1
        return np.float64(max(done, barrier[column.P_AT] + column.WAKING))
    if kind == column.PREPARE:
        barrier[column.P_EXPECTED] = value
        return done
    if kind == column.BULK:
        barrier[column.P_BYTES] -= value
        barrier[column.P_READY] = max(barrier[column.P_READY], _copy(state, instruction, value, np.float64(t)))
    else:
        barrier[column.P_ARRIVED] += phases.arrivals[event]
        barrier[column.P_BYTES] += value
        barrier[column.P_READY] = max(barrier[column.P_READY], t + column.ARRIVAL)
    if barrier[column.P_ARRIVED] >= barrier[column.P_EXPECTED] and barrier[column.P_BYTES] <= 0.0:
        barrier[column.P_AT], barrier[column.P_READY] = barrier[column.P_READY], 0.0
        barrier[column.P_ARRIVED], barrier[column.P_BYTES] = 0.0, 0.0
        barrier[column.P_COMPLETE] += 1
        parity = 1 - np.int64(barrier[column.P_COMPLETE]) % 2
        at = np.int64(math.ceil(barrier[column.P_AT] + column.WAKING))
        per_block = state.job[column.J_PER_BLOCK]
        for v in range(resident * per_block, (resident + 1) * per_block):
            if warps[v, column.W_PARKED] == 2 * number + parity + 1:
                _wake(state, v, at)
    return done


@inlined
def _copy(state: State, instruction: Int, size: Int, start: float | np.float64) -> float | np.float64:
    """Cycle at which a bulk copy of `size` bytes is complete in shared memory."""
    row, chunks, done = state.instructions[instruction], max(1, size // column.CHUNK), start
    amount = np.float64(size) / row[column.SIZE] / chunks
    for _ in range(chunks):
        goes_on = next_random(state.strata, instruction) >= row[column.IN_L2]
        done = max(done, fetch(state, row, start, amount, state.strata[instruction], goes_on))
    state.busy[state.pipes.shape[1] + column.LSU] += size / column.SHARED_BYTES
    return np.float64(done)


@inlined
def _release(state: State, resident: Int, t: Int) -> None:
    """Resume the first parked warp of a block if all its warps wait: sampled paths can lack an arrival."""
    warps, per_block, parked = state.warps, state.job[column.J_PER_BLOCK], -1
    for w in range(resident * per_block, (resident + 1) * per_block):
        if warps[w, column.W_AT] < column.NEVER:
            return
        if warps[w, column.W_PARKED] > 0 and parked < 0:
            parked = w
    if parked >= 0:
        state.job[column.J_RELEASED] += 1
        _wake(state, parked, t + 1)


@inlined
def _wake(state: State, w: Int, at: Int) -> None:
    """Resume a parked warp at cycle `at`."""
    warps = state.warps
    instruction = state.path[warps[w, column.W_POSITION] - 1]
    warps[w, column.W_PARKED] = 0
    state.waited[instruction, 0] += max(0, at - warps[w, column.W_SINCE])
    _next(state, w, max(at, warps[w, column.W_SINCE] + 1))


@inlined
def _multiply(state: State, s: Int, row: F64, start: float | np.float64) -> float | np.float64:
    """Cycle at which the tensor core of scheduler `s` completes a matrix instruction that was issued at `start`.

    A tensor core executes in order. Shared memory reads the operands of all tensor cores at the same time, in cycles in
    which it serves no loads or stores.
    """
    core, schedulers, first = state.cores[s], state.schedulers.shape[0], state.pipes.shape[1]
    interval, operands = row[column.SHARED_INTERVAL] * schedulers, row[column.OPERANDS] * schedulers
    begin, served = max(start, core[column.C_FREE]), state.busy[first + column.LSU]
    core[column.C_READ] = max(core[column.C_READ] + served - core[column.C_SERVED], begin) + operands
    core[column.C_FREE], core[column.C_SERVED] = max(begin + interval, core[column.C_READ]), served
    state.busy[first + np.int64(row[column.SHARED])] += row[column.SHARED_INTERVAL]
    return np.float64(core[column.C_FREE] - max(interval, operands) + row[column.LATENCY])


@inlined
def _next(state: State, w: Int, at: Int) -> None:
    """Set when a warp may issue its next instruction: at cycle `at`, or when the barriers it waits for are clear."""
    warps = state.warps
    instruction = state.path[warps[w, column.W_POSITION]]
    row = state.instructions[instruction]
    mask, ready = np.int64(row[column.WAITS]), at
    warps[w, column.W_PIPE] = column.EITHER if row[column.IS_EITHER] > 0.0 else np.int64(row[column.PIPE])
    warps[w, column.W_SHARED] = np.int64(row[column.SHARED])
    for barrier in range(column.BARRIERS):
        if mask >> barrier & 1:
            ready = max(ready, warps[w, column.W_BARRIERS + barrier])
    if row[column.PENDING] >= 0.0:
        counter = np.int64(row[column.COUNTER])
        last = state.counts[w, counter] - 1 - np.int64(row[column.PENDING])
        if last >= 0:
            ready = max(ready, np.int64(math.ceil(state.counted[w, counter, last % column.COUNTED])))
    state.waited[instruction, 0] += ready - at
    warps[w, column.W_AT] = ready
    s = w % state.schedulers.shape[0]
    state.schedulers[s, column.S_NEXT] = min(state.schedulers[s, column.S_NEXT], ready)


@inlined
def _open_barrier(state: State, resident: Int, t: Int) -> None:
    """Resume the warps of a block if all that have not exited have arrived at the barrier."""
    residents, warps, per_block = state.residents, state.warps, state.job[column.J_PER_BLOCK]
    arrived = residents[resident, column.B_ARRIVED]
    if arrived == 0 or arrived < residents[resident, column.B_LEFT]:
        return
    residents[resident, column.B_ARRIVED] = 0
    for w in range(resident * per_block, (resident + 1) * per_block):
        if warps[w, column.W_AT] == column.NEVER and warps[w, column.W_POSITION] < warps[w, column.W_END]:
            barrier = state.path[warps[w, column.W_POSITION] - 1]
            _next(state, w, t + np.int64(state.instructions[barrier, column.LATENCY]))


@inlined
def _end_warp(state: State, w: Int, resident: Int, t: Int) -> None:
    """End a warp. After the last warp of a block, start the next block."""
    warps, residents, job = state.warps, state.residents, state.job
    per_block = job[column.J_PER_BLOCK]
    warps[w, column.W_AT], warps[w, column.W_PARKED] = column.NEVER, 0
    residents[resident, column.B_LEFT] -= 1
    if residents[resident, column.B_LEFT] > 0:
        _open_barrier(state, resident, t)
        _release(state, resident, t)
        return
    end = t
    for v in range(resident * per_block, (resident + 1) * per_block):
        end = max(end, warps[v, column.W_STORED], np.int64(math.ceil(state.last[v, column.COPIES])))
        for barrier in range(column.BARRIERS):
            end = max(end, warps[v, column.W_BARRIERS + barrier])
    state.ends[residents[resident, column.B_NUMBER]] = end
    if job[column.J_STARTED] < job[column.J_BLOCKS]:
        _start_block(state, resident, end + np.int64(state.machine[column.M_REPLACEMENT]))


@inlined
def _start_block(state: State, resident: Int, t: Int) -> None:
    """Start the next block in place of resident block `resident`."""
    warps, job = state.warps, state.job
    per_block = job[column.J_PER_BLOCK]
    state.residents[resident, column.B_NUMBER] = job[column.J_STARTED]
    state.residents[resident, column.B_LEFT], state.residents[resident, column.B_ARRIVED] = per_block, 0
    job[column.J_STARTED] += 1
    state.phases.barriers[resident] = 0.0
    for w in range(resident * per_block, (resident + 1) * per_block):
        number = state.residents[resident, column.B_NUMBER] * per_block + w - resident * per_block
        variant = number % state.spans.shape[0]
        warps[w, column.W_STORED] = t
        warps[w, column.W_NUMBER], warps[w, column.W_BLOCK] = number, state.residents[resident, column.B_NUMBER]
        warps[w, column.W_SLOT] = number % state.loads.begins.shape[0]
        warps[w, column.W_LAP] = number // state.loads.begins.shape[0]
        state.loads.cursors[w, :] = 0
        state.last[w, :], state.counts[w, :] = 0.0, 0
        state.phases.cursors[w, :] = 0
        warps[w, column.W_PARKED], warps[w, column.W_SINCE] = 0, t
        warps[w, column.W_POSITION], warps[w, column.W_END] = state.spans[variant, 0], state.spans[variant, 1]
        for barrier in range(column.BARRIERS):
            warps[w, column.W_BARRIERS + barrier] = t
        _next(state, w, t)


@compiled
def simulate(state: State) -> None:
    """Simulate all blocks of a job on one SM."""
    warps, schedulers = state.warps, state.schedulers
    count = schedulers.shape[0]
    for resident in range(state.residents.shape[0]):
        _start_block(state, resident, 0)
    while True:
        t = schedulers[0, column.S_NEXT]
        for s in range(1, count):
            t = min(t, schedulers[s, column.S_NEXT])
        if t >= column.NEVER:
            return
        for s in range(count):
            if schedulers[s, column.S_NEXT] != t:
                continue
            soonest, chosen, rank = np.int64(column.NEVER), np.int64(-1), np.int64(column.NEVER)
            if _goes_on(state, s, t):
                chosen = schedulers[s, column.S_LAST]
            else:
                for w in range(s, warps.shape[0], count):
                    if warps[w, column.W_AT] > t:
                        soonest = min(soonest, warps[w, column.W_AT])
                        continue
                    free = _free(state, s, w)
                    if free >= t + 1:
                        soonest = min(soonest, np.int64(math.floor(free)))
                        continue
                    before = _rank(state, w)
                    if before < rank:
                        rank, chosen = before, np.int64(w)
            if chosen < 0:
                schedulers[s, column.S_NEXT] = max(soonest, t + 1)
                continue
            row = state.instructions[state.path[warps[chosen, column.W_POSITION]]]
            at = _read_operands(state, s, row, chosen == schedulers[s, column.S_LAST], t)
            schedulers[s, column.S_NEXT], schedulers[s, column.S_LAST] = at + 1, chosen
            state.waited[state.path[warps[chosen, column.W_POSITION]], 1] += at - warps[chosen, column.W_AT]
            _issue(state, chosen, s, at)
