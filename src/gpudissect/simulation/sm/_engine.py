"""The compiled inner loop of an SM.

Time advances from one cycle at which a scheduler may issue to the next. All state is in flat arrays of the caller;
their columns have names here.

Without random service times a run becomes periodic: once all state is as before but for the time and the iterations,
further periods are skipped. The result is the same as without it.
"""

import math
from typing import NamedTuple

import numpy as np

from gpudissect.simulation.cache.compiled import F64, I64, U64, called, compiled, inlined, uniform

Int = int | np.int64
Float = float | np.float64

NEVER = 1 << 60
MAX_CHECKS = 32  # comparisons of the state before a run counts as not periodic

# Columns of an operation.
(UNIT, INTERVAL, LATENCY, CORE_LATENCY, IS_CORE, SLOTS, BARRIER, QUEUE, SERVICE, VARIABILITY, AWAITED) = range(11)
OPERATION = 11

# The machine: schedulers, cycles between issues, instructions at once, cycles between issues of a warp, oldest first,
# number of pipes, cycles until a block is replaced, loads of a warp in flight (0 for no limit).
M_SCHEDULERS, M_STEP, M_WIDTH, M_REISSUE, M_OLDEST, M_PIPES, M_REPLACEMENT, M_IN_FLIGHT, M_SIZE = range(9)

# The job: warps at once, warps of a block, chains, iterations, blocks, started blocks; sampling interval of the queued
# accesses of warp 0, and their number so far.
J_WARPS, J_PER_BLOCK, J_CHAINS, J_ITERATIONS, J_BLOCKS, J_STARTED, J_SAMPLED, J_ACCESSES, J_SIZE = range(9)

# Columns of a warp: position in the body, chain, iteration, when its next instruction may be issued, its record.
W_POSITION, W_CHAIN, W_ITERATION, W_AT, W_RECORD, W_SIZE = range(6)

# Columns of the place of a resident block: warps not yet ended, and at the barrier.
B_LEFT, B_ARRIVED, B_SIZE = range(3)

# Columns of a scheduler: next cycle to look for a warp, first cycle to issue, warp that issued last.
S_NEXT, S_FREE, S_LAST, S_SIZE = range(4)

# Random numbers: a SplitMix64 state, how many were used, the order of the strata of the current run.
D_STATE, D_COUNT, D_ORDER, D_SIZE = range(4)
STRATA = 256  # a power of two

# Columns of a record: begin and end of a warp.
R_BEGIN, R_END, R_SIZE = range(3)


class State(NamedTuple):
    """The arrays of a run, zeros at first unless noted; the last four and `job` are modified."""

    machine: I64  # (M_SIZE,), see the M_ names
    job: I64  # (J_SIZE,), see the J_ names
    operations: F64  # (operations, OPERATION), see `Operation`; UNIT: see `_free_at`; QUEUE: -1 for none; others 1 or 0
    body: I64  # operations of one iteration, in order
    warps: I64  # (warps, W_SIZE), W_RECORD: number of the warp
    ready: I64  # (warps, chains), cycle of the last result of each chain
    residents: I64  # (resident blocks, B_SIZE), B_LEFT: warps of a block
    schedulers: I64  # (schedulers, S_SIZE), S_LAST: the warp before its first one
    units: F64  # (pipes * (1 + schedulers),), cycle at which each pipe accepts the next instruction
    queues: F64  # (queues,), cycle at which all accesses in each queue have been served
    records: I64  # (warps of all blocks, R_SIZE), out
    draws: U64  # (D_SIZE,), D_STATE: seed
    samples: I64  # (bins,), out: number of timed accesses by cycles, the last bin for as many or more
    states: F64  # (2, state_size), of `_write_state`: now and earlier; or (2, 0), so that no periods are skipped


@inlined
def _aligned(time: Int, step: Int) -> Int:
    """First cycle at or after `time` at which schedulers issue."""
    return time if step == 1 else (time + step - 1) // step * step


@inlined
def _stratified(draws: U64) -> Float:
    """Next number in [0, 1): stratified, each run of STRATA numbers has one in each of as many equal strata.

    So means over some thousand accesses hardly depend on the seed, as those of many SMs at once. The order of the
    strata is random in each run (a bijection of their numbers).
    """
    count = draws[D_COUNT] & np.uint64(STRATA - 1)
    if count == 0:
        uniform(draws, D_STATE)
        draws[D_ORDER] = draws[D_STATE]
    draws[D_COUNT] += np.uint64(1)
    order, mask = draws[D_ORDER], np.uint64(STRATA - 1)
    part = (count * (order | np.uint64(1)) + (order >> np.uint64(16))) & mask
    part ^= part >> np.uint64(4)
    part = (part * ((order >> np.uint64(32)) | np.uint64(1))) & mask
    part ^= part >> np.uint64(3)
    part = (part * ((order >> np.uint64(48)) | np.uint64(1))) & mask
    return (np.float64(part) + uniform(draws, D_STATE)) / STRATA


@inlined
def _service(mean: Float, variability: Float, draws: U64) -> Float:
    """Service time of one access: `variability` is half of one plus the squared coefficient of variation.

    From 1 on many accesses are free and the others exponential (open and closed rows of memory); below, a constant part
    plus an exponential one.
    """
    if variability <= 0.5:
        return mean
    number = _stratified(draws)
    if variability < 1.0:
        share = math.sqrt(2.0 * variability - 1.0)
        return mean * (1.0 - share - share * math.log(1.0 - number))
    if number * variability >= 1.0:
        return 0.0
    return -mean * variability * math.log(1.0 - number * variability)


@inlined
def _wake(schedulers: I64, warp: Int, at: Int, count: Int, step: Int) -> None:
    """Schedule the next look of a warp's scheduler for when the warp can go on."""
    s = warp % count
    look = max(schedulers[s, S_FREE], _aligned(at, step))
    if look < schedulers[s, S_NEXT]:
        schedulers[s, S_NEXT] = look


@inlined
def _free_at(state: State, operation: Int, scheduler: Int) -> tuple[Int, Float]:
    """Place of the pipe of an operation in `units`, and when it is free.

    UNIT is the number of a pipe that all schedulers share, else -1 minus the number; shared pipes come first.
    """
    unit = np.int64(state.operations[operation, UNIT])
    place = unit if unit >= 0 else np.int64(-1 - unit) + state.machine[M_PIPES] * (1 + scheduler)
    return place, state.units[place]


@inlined
def _issue(state: State, w: Int, s: Int, t: Int) -> np.int64:
    """Issue the next instruction of warp `w` of scheduler `s` at cycle `t`, and update when the warp can go on.

    Returns its issue cycles, negative if all schedulers share the pipe.
    """
    machine, job, operations, body, warps, ready, residents, schedulers, units, queues, _, draws, samples, _ = state
    position, chain = warps[w, W_POSITION], warps[w, W_CHAIN]
    operation = body[position]
    count, step = machine[M_SCHEDULERS], machine[M_STEP]
    place, free = _free_at(state, operation, s)
    start = max(free, np.float64(t))
    units[place] = start + operations[operation, INTERVAL]

    following = position + 1
    if following == body.size:
        following = 0
    to_core = operations[body[following], IS_CORE] > 0.0
    latency = operations[operation, CORE_LATENCY] if to_core else operations[operation, LATENCY]
    queue = np.int64(operations[operation, QUEUE])
    if queue < 0:
        done = np.int64(math.ceil(t + latency))
    else:
        mean = operations[operation, SERVICE]
        served = max(queues[queue], start) + _service(mean, operations[operation, VARIABILITY], draws)
        queues[queue] = served
        if operations[operation, AWAITED] > 0.0:
            served += max(latency - mean, 0.0)
        done = max(np.int64(math.ceil(served)), t + np.int64(1))
        if w == 0 and job[J_SAMPLED] > 0:
            if job[J_ACCESSES] % job[J_SAMPLED] == 0:
                cycles = np.int64(min(done - t, np.int64(samples.size - 1)))
                samples[cycles] += 1
            job[J_ACCESSES] += 1
    ready[w, chain] = done

    chain += 1
    if chain == job[J_CHAINS]:
        chain = 0
        position = following
        if position == 0:
            warps[w, W_ITERATION] += 1
    warps[w, W_POSITION], warps[w, W_CHAIN] = position, chain
    warps[w, W_AT] = max(t + machine[M_REISSUE], ready[w, chain])
    is_load = operations[body[position], QUEUE] >= 0.0 and operations[body[position], AWAITED] > 0.0
    if is_load and 0 < machine[M_IN_FLIGHT] < job[J_CHAINS]:  # loads return in order
        warps[w, W_AT] = max(warps[w, W_AT], ready[w, (chain - machine[M_IN_FLIGHT]) % job[J_CHAINS]])

    if operations[operation, BARRIER] > 0.0:
        resident = w // job[J_PER_BLOCK]
        residents[resident, B_ARRIVED] += 1
        warps[w, W_AT] = NEVER
        if residents[resident, B_ARRIVED] == job[J_PER_BLOCK]:
            residents[resident, B_ARRIVED] = 0
            first = resident * job[J_PER_BLOCK]
            for other in range(first, first + job[J_PER_BLOCK]):
                at = max(done, ready[other, warps[other, W_CHAIN]])
                warps[other, W_AT] = at
                for number in range(job[J_CHAINS]):  # the barrier ends for all waiting warps at once
                    ready[other, number] = max(ready[other, number], done)
                _wake(schedulers, other, at, count, step)

    if warps[w, W_ITERATION] == job[J_ITERATIONS]:
        warps[w, W_AT] = NEVER
        resident = w // job[J_PER_BLOCK]
        residents[resident, B_LEFT] -= 1
        if residents[resident, B_LEFT] == 0:
            _end_block(state, resident)
    slots = np.int64(operations[operation, SLOTS])
    return slots if operations[operation, UNIT] < 0.0 else -slots


@inlined
def _end_block(state: State, resident: Int) -> None:
    """Record the end of the warps of a block, and start the next block in its place."""
    machine, job, warps, ready, records = state.machine, state.job, state.warps, state.ready, state.records
    first = resident * job[J_PER_BLOCK]
    last = np.int64(0)
    for w in range(first, first + job[J_PER_BLOCK]):
        end = np.int64(0)
        for chain in range(job[J_CHAINS]):
            end = max(end, ready[w, chain])
        records[warps[w, W_RECORD], R_END] = end
        last = max(last, end)
    if job[J_STARTED] == job[J_BLOCKS]:
        return
    block = job[J_STARTED]
    job[J_STARTED] += 1
    begin = last + machine[M_REPLACEMENT]
    state.residents[resident, B_LEFT] = job[J_PER_BLOCK]
    for w in range(first, first + job[J_PER_BLOCK]):
        record = block * job[J_PER_BLOCK] + w - first
        records[record, R_BEGIN] = begin
        warps[w, W_POSITION] = warps[w, W_CHAIN] = warps[w, W_ITERATION] = 0
        warps[w, W_AT] = begin
        warps[w, W_RECORD] = record
        for chain in range(job[J_CHAINS]):
            ready[w, chain] = begin
        _wake(state.schedulers, w, begin, machine[M_SCHEDULERS], machine[M_STEP])


def state_size(warps: int, chains: int, residents: int, schedulers: int, units: int, queues: int) -> int:
    """Numbers in one of `State.states`."""
    return 1 + warps * (4 + chains) + residents * B_SIZE + schedulers * S_SIZE + units + queues


@called
def _write_state(state: State, t: Int, next_scheduler: Int, values: F64) -> None:
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
def _are_same(states: F64, warps: Int) -> bool:
    """Whether two states differ in the iterations of the warps only."""
    differences = 0
    for place in range(states.shape[1] - warps):
        differences += states[0, place] != states[1, place]
    return differences == 0


@called
def _skip_periods(state: State, period: Int) -> Int:
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


@compiled
def simulate(state: State) -> None:
    """Run all blocks of a job on one SM."""
    machine, job, operations, body, warps, ready, _, schedulers, _, _, _, _, _, states = state
    count, step, width = machine[M_SCHEDULERS], machine[M_STEP], machine[M_WIDTH]
    next_scheduler = np.int64(0)
    one_pipe = True
    for operation in body:
        one_pipe = one_pipe and operations[operation, UNIT] == operations[body[0], UNIT]
    stored_at, checks, iteration = np.int64(0), np.int64(0), np.int64(0)  # each iteration of warp 0 ends with a check
    while True:
        t = schedulers[0, S_NEXT]
        for s in range(1, count):
            t = min(t, schedulers[s, S_NEXT])
        if t >= NEVER:
            return
        if checks < MAX_CHECKS and states.size > 0 and warps[0, W_ITERATION] != iteration:
            checks += 1
            _write_state(state, t, next_scheduler, states[0])
            if checks > 1 and (t - stored_at) % step == 0 and _are_same(states, job[J_WARPS]):
                t += _skip_periods(state, t - stored_at)
                checks = np.int64(0)
            iteration = warps[0, W_ITERATION]
            if checks & (checks - 1) == 0:  # powers of two: so the earlier state precedes a period of any length
                _write_state(state, t, next_scheduler, states[1])
                stored_at = t
        first = next_scheduler
        for k in range(count):
            s = (first + k) % count
            if schedulers[s, S_NEXT] != t:
                continue
            if one_pipe:  # all warps wait for the same pipe
                _, free = _free_at(state, body[0], s)
                if free >= t + step:
                    schedulers[s, S_NEXT] = _aligned(np.int64(math.floor(free)) - step + 1, step)
                    continue
            soonest, chosen = np.int64(NEVER), np.int64(-1)
            w = schedulers[s, S_LAST]
            for _ in range(s, job[J_WARPS], count):
                w += count
                if w >= job[J_WARPS]:
                    w = s
                if warps[w, W_AT] > t:
                    soonest = min(soonest, warps[w, W_AT])
                    continue
                _, free = _free_at(state, body[warps[w, W_POSITION]], s)
                if free >= t + step:
                    soonest = min(soonest, np.int64(math.floor(free)) - step + 1)
                    continue
                if machine[M_OLDEST]:  # blocks begin in the order of their numbers
                    if chosen < 0 or warps[w, W_RECORD] < warps[chosen, W_RECORD]:
                        chosen = w
                    continue
                chosen = schedulers[s, S_LAST] = w
                break
            if chosen < 0:
                schedulers[s, S_NEXT] = _aligned(soonest, step) if soonest < NEVER else NEVER
                continue
            slots = np.int64(1)
            for n in range(width):
                if n > 0:
                    position = warps[chosen, W_POSITION]
                    _, free = _free_at(state, body[position], s)
                    waits = ready[chosen, warps[chosen, W_CHAIN]] > t or operations[body[position], BARRIER] > 0.0
                    if warps[chosen, W_AT] >= NEVER or waits or free >= t + step:
                        break
                issued = _issue(state, chosen, s, t)
                if issued < 0:
                    next_scheduler = (s + 1) % count
                slots = max(slots, abs(issued))
            schedulers[s, S_FREE] = t + step * slots
            schedulers[s, S_NEXT] = schedulers[s, S_FREE]
