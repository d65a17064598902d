"""The compiled inner loop of an SM. Imports numba: import it only to simulate.

Time goes in cycles, from one at which a scheduler may issue to the next such; nothing happens in between. All state is
in flat arrays that the caller makes; the columns have names here.
"""

from __future__ import annotations

import math

import numpy as np

from gpudissect.simulation.cache.compiled import F64, I64, U64, compiled, inlined, uniform

Int = int | np.int64
Float = float | np.float64

NEVER = 1 << 60

# Columns of an operation.
(UNIT, INTERVAL, LATENCY, CORE_LATENCY, IS_CORE, SLOTS, BARRIER, QUEUE, SERVICE, VARIABILITY, AWAITED) = range(11)
OPERATION = 11

# The machine: schedulers, cycles between issues, instructions at once, cycles between issues of a warp, oldest first,
# number of pipes, cycles until a block is replaced.
M_SCHEDULERS, M_STEP, M_WIDTH, M_REISSUE, M_OLDEST, M_PIPES, M_REPLACEMENT, M_SIZE = range(8)

# The job: warps at once, warps of a block, chains, iterations, blocks, and how many of these have started.
# Of how many accesses of warp 0 one is timed, and how many it made.
J_WARPS, J_PER_BLOCK, J_CHAINS, J_ITERATIONS, J_BLOCKS, J_STARTED, J_SAMPLED, J_SEEN, J_SIZE = range(9)

# Columns of a warp: position in the body, chain, iteration, when its next instruction may be issued, its record.
W_POSITION, W_CHAIN, W_ITERATION, W_AT, W_RECORD, W_SIZE = range(6)

# Columns of a block's seat: warps not yet ended, and at the barrier.
B_LEFT, B_ARRIVED, B_SIZE = range(3)

# Columns of a scheduler: when it looks again, from when on it may issue, which of its warps issued last.
S_NEXT, S_FREE, S_LAST, S_SIZE = range(4)

# The random numbers: a SplitMix64 state, how many were drawn, the order of the parts of the run under way.
D_STATE, D_COUNT, D_ORDER, D_SIZE = range(4)
STRATA = 256  # a power of two

# Columns of a record: when a warp began and ended.
R_BEGIN, R_END, R_SIZE = range(3)


@inlined
def _aligned(time: Int, step: Int) -> Int:
    """First cycle, from this one on, at which schedulers issue."""
    return (time + step - 1) // step * step


@inlined
def _spread(draws: U64) -> Float:
    """Next number in [0, 1): random, but each run of STRATA of them has one in each of as many equal parts.

    So means over some thousand accesses come out alike whatever the seed is, as they do of as many SMs at once.
    The parts are gone through in an order drawn anew for each run (a bijection of their numbers).
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
    """How long one access is served: `variability` is half of one plus the squared coefficient of variation.

    From 1 on most accesses are free and the others exponential (rows of memory that are open, or are not); below a
    constant part and an exponential one.
    """
    if variability <= 0.5:
        return mean
    drawn = _spread(draws)
    if variability < 1.0:
        share = math.sqrt(2.0 * variability - 1.0)
        return mean * (1.0 - share - share * math.log(1.0 - drawn))
    if drawn * variability >= 1.0:
        return 0.0
    return -mean * variability * math.log(1.0 - drawn * variability)


@inlined
def _wake(schedulers: I64, warp: Int, at: Int, count: Int, step: Int) -> None:
    """Have the scheduler of a warp look when the warp can go on."""
    s = warp % count
    look = max(schedulers[s, S_FREE], _aligned(at, step))
    if look < schedulers[s, S_NEXT]:
        schedulers[s, S_NEXT] = look


@inlined
def _free_at(units: F64, operations: F64, operation: Int, scheduler: Int, pipes: Int) -> tuple[Int, Float]:
    """The pipe of an operation (each scheduler's own, or from row 0 if there is one for all) and when it is free."""
    unit = np.int64(operations[operation, UNIT])
    place = unit if unit >= 0 else np.int64(-1 - unit) + pipes * (1 + scheduler)
    return place, units[place]


@inlined
def _issue(
    machine: I64, job: I64, operations: F64, body: I64, warps: I64, ready: I64, seats: I64,
    schedulers: I64, units: F64, queues: F64, records: I64, draws: U64, samples: I64, w: Int, t: Int,
) -> np.int64:  # fmt: skip
    """Issue the next instruction of warp `w` at cycle `t`; the warp's state afterwards says when it can go on.

    Returns the issue cycles that it took, negative if the pipe is one that all schedulers share.
    """
    position, chain = warps[w, W_POSITION], warps[w, W_CHAIN]
    operation = body[position]
    count, step = machine[M_SCHEDULERS], machine[M_STEP]
    place, free = _free_at(units, operations, operation, w % count, machine[M_PIPES])
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
            if job[J_SEEN] % job[J_SAMPLED] == 0:
                took = np.int64(min(done - t, np.int64(samples.size - 1)))
                samples[took] += 1
            job[J_SEEN] += 1
    ready[w, chain] = done

    seat = w // job[J_PER_BLOCK]
    chain += 1
    if chain == job[J_CHAINS]:
        chain = 0
        position = following
        if position == 0:
            warps[w, W_ITERATION] += 1
    warps[w, W_POSITION], warps[w, W_CHAIN] = position, chain
    warps[w, W_AT] = max(t + machine[M_REISSUE], ready[w, chain])

    if operations[operation, BARRIER] > 0.0:
        seats[seat, B_ARRIVED] += 1
        warps[w, W_AT] = NEVER
        if seats[seat, B_ARRIVED] == job[J_PER_BLOCK]:
            seats[seat, B_ARRIVED] = 0
            first = seat * job[J_PER_BLOCK]
            for other in range(first, first + job[J_PER_BLOCK]):
                at = max(done, ready[other, warps[other, W_CHAIN]])
                warps[other, W_AT] = at
                for each in range(job[J_CHAINS]):  # what ends with the barrier ends for all that wait at it
                    ready[other, each] = max(ready[other, each], done)
                _wake(schedulers, other, at, count, step)

    if warps[w, W_ITERATION] == job[J_ITERATIONS]:
        warps[w, W_AT] = NEVER
        seats[seat, B_LEFT] -= 1
        if seats[seat, B_LEFT] == 0:
            _end_block(machine, job, warps, ready, seats, schedulers, records, seat)
    slots = np.int64(operations[operation, SLOTS])
    return slots if operations[operation, UNIT] < 0.0 else -slots


@inlined
def _end_block(
    machine: I64, job: I64, warps: I64, ready: I64, seats: I64, schedulers: I64, records: I64, seat: Int
) -> None:  # fmt: skip
    """Note when the warps of a block ended, and seat the next block if there is one."""
    first = seat * job[J_PER_BLOCK]
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
    seats[seat, B_LEFT] = job[J_PER_BLOCK]
    for w in range(first, first + job[J_PER_BLOCK]):
        record = block * job[J_PER_BLOCK] + w - first
        records[record, R_BEGIN] = begin
        warps[w, W_POSITION] = warps[w, W_CHAIN] = warps[w, W_ITERATION] = 0
        warps[w, W_AT] = begin
        warps[w, W_RECORD] = record
        for chain in range(job[J_CHAINS]):
            ready[w, chain] = begin
        _wake(schedulers, w, begin, machine[M_SCHEDULERS], machine[M_STEP])


@compiled
def simulate(
    machine: I64,
    job: I64,
    operations: F64,
    body: I64,
    warps: I64,
    ready: I64,
    seats: I64,
    schedulers: I64,
    units: F64,
    queues: F64,
    records: I64,
    draws: U64,
    samples: I64,
) -> None:
    """Run all blocks of a job on one SM.

    Args:
        machine: (M_SIZE,), see the M_ names.
        job: (J_SIZE,), see the J_ names; J_STARTED is changed by it.
        operations: (operations, OPERATION). UNIT: its pipe, counted from 0, if there is one for all schedulers, else
            -1 less that; INTERVAL, LATENCY, CORE_LATENCY: see `Operation`; IS_CORE, BARRIER, AWAITED: 1 or 0; SLOTS;
            QUEUE: -1 for none; SERVICE: cycles of one service, with VARIABILITY. Of an access that is not AWAITED
            the chain goes on when it has been served.
        body: operations of one iteration, in order.
        warps: (warps, W_SIZE), zeros, but W_RECORD, the warp's number.
        ready: (warps, chains), zeros: when the last result of each chain is there.
        seats: (blocks at once, B_SIZE), zeros, but B_LEFT, the warps of a block.
        schedulers: (schedulers, S_SIZE), zeros.
        units: (pipes * (1 + schedulers),), zeros: when each pipe takes the next instruction.
        queues: (queues,), zeros: when all that waits in each will have been served.
        records: (warps of all blocks, R_SIZE), out, cycles.
        draws: (D_SIZE,), zeros, but D_STATE, the seed.
        samples: (bins,), out: how many of the timed accesses took so many cycles, the last: or more.

    """
    count, step, width = machine[M_SCHEDULERS], machine[M_STEP], machine[M_WIDTH]
    turn = np.int64(0)
    alike = True
    for operation in body:
        alike = alike and operations[operation, UNIT] == operations[body[0], UNIT]
    while True:
        t = schedulers[0, S_NEXT]
        for s in range(1, count):
            t = min(t, schedulers[s, S_NEXT])
        if t >= NEVER:
            return
        first = turn
        for k in range(count):
            s = (first + k) % count
            if schedulers[s, S_NEXT] != t:
                continue
            if alike:  # all wait for the same pipe: no need to ask each
                _, free = _free_at(units, operations, body[0], s, machine[M_PIPES])
                if free >= t + step:
                    schedulers[s, S_NEXT] = _aligned(np.int64(math.floor(free)) - step + 1, step)
                    continue
            mine = (job[J_WARPS] - s + count - 1) // count
            soonest, chosen = np.int64(NEVER), np.int64(-1)
            after = np.int64(0) if machine[M_OLDEST] else schedulers[s, S_LAST] + 1
            for j in range(mine):
                own = after + j
                if own >= mine:
                    own -= mine
                w = own * count + s
                if warps[w, W_AT] > t:
                    soonest = min(soonest, warps[w, W_AT])
                    continue
                _, free = _free_at(units, operations, body[warps[w, W_POSITION]], s, machine[M_PIPES])
                if free >= t + step:
                    soonest = min(soonest, np.int64(math.floor(free)) - step + 1)
                    continue
                if machine[M_OLDEST]:  # blocks begin in the order of their numbers
                    if chosen < 0 or warps[w, W_RECORD] < warps[chosen, W_RECORD]:
                        chosen = w
                    continue
                chosen = w
                schedulers[s, S_LAST] = own
                break
            if chosen < 0:
                schedulers[s, S_NEXT] = _aligned(soonest, step) if soonest < NEVER else NEVER
                continue
            slots = np.int64(1)
            for n in range(width):
                if n > 0:
                    position = warps[chosen, W_POSITION]
                    _, free = _free_at(units, operations, body[position], s, machine[M_PIPES])
                    waits = ready[chosen, warps[chosen, W_CHAIN]] > t or operations[body[position], BARRIER] > 0.0
                    if warps[chosen, W_AT] >= NEVER or waits or free >= t + step:
                        break
                taken = _issue(
                    machine, job, operations, body, warps, ready, seats, schedulers, units, queues, records, draws,
                    samples, chosen, t,
                )  # fmt: skip
                if taken < 0:
                    turn = (s + 1) % count
                slots = max(slots, taken if taken > 0 else -taken)
            schedulers[s, S_FREE] = t + step * slots
            schedulers[s, S_NEXT] = schedulers[s, S_FREE]
