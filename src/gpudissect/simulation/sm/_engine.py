"""The compiled inner loop of an SM: time advances from one cycle at which a scheduler may issue to the next."""

import math

import numpy as np

from gpudissect.simulation.cache.compiled import U64, compiled, inlined, uniform
from gpudissect.simulation.sm._periods import MAX_CHECKS, are_same, skip_periods, write_state
from gpudissect.simulation.sm._state import (
    B_ARRIVED,
    B_LEFT,
    D_COUNT,
    D_ORDER,
    D_STATE,
    J_ACCESSES,
    J_BLOCKS,
    J_CHAINS,
    J_FIRST,
    J_ITERATIONS,
    J_PAUSE,
    J_PER_BLOCK,
    J_SAMPLED,
    J_STARTED,
    J_WARPS,
    M_IN_FLIGHT,
    M_OLDEST,
    M_REISSUE,
    M_REPLACEMENT,
    M_SCHEDULERS,
    M_STEP,
    M_WIDTH,
    NEVER,
    P_AWAITED,
    P_BARRIER,
    P_INTERVAL,
    P_LATENCY,
    P_QUEUE,
    P_SERVICE,
    P_SLOTS,
    P_STRIDE,
    P_UNIT,
    P_VARIABILITY,
    R_BEGIN,
    R_END,
    S_FREE,
    S_LAST,
    S_NEXT,
    W_AT,
    W_CHAIN,
    W_ITERATION,
    W_POSITION,
    W_RECORD,
    W_RESIDENT,
    W_SCHEDULER,
    Float,
    Int,
    State,
)

STRATA = 256  # a power of two


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
def _wake(state: State, warp: Int, at: Int) -> None:
    """Schedule the next look of a warp's scheduler for when the warp can go on."""
    s, schedulers = state.warps[warp, W_SCHEDULER], state.schedulers
    look = max(schedulers[s, S_FREE], _aligned(at, state.machine[M_STEP]))
    if look < schedulers[s, S_NEXT]:
        schedulers[s, S_NEXT] = look


@inlined
def _unit(state: State, position: Int, scheduler: Int) -> Int:
    """Place of the pipe of a position in `units`."""
    return np.int64(state.positions[position, P_UNIT] + state.positions[position, P_STRIDE] * scheduler)


@inlined
def _issue(state: State, w: Int, s: Int, t: Int) -> np.int64:
    """Issue the next instruction of warp `w` of scheduler `s` at cycle `t`, and update when the warp can go on.

    Returns its issue cycles, negative if all schedulers share the pipe.
    """
    machine, job, positions, cycles, warps, ready, residents, _, units, queues, _, draws, samples, _ = state
    position, chain = warps[w, W_POSITION], warps[w, W_CHAIN]
    unit = _unit(state, position, s)
    start = max(units[unit], np.float64(t))
    units[unit] = start + cycles[position, P_INTERVAL]
    latency, queue = cycles[position, P_LATENCY], positions[position, P_QUEUE]
    if queue < 0:
        done = np.int64(math.ceil(t + latency))
    else:
        mean = cycles[position, P_SERVICE]
        served = max(queues[queue], start) + _service(mean, cycles[position, P_VARIABILITY], draws)
        queues[queue] = served
        if positions[position, P_AWAITED] > 0:
            served += max(latency - mean, 0.0)
        done = max(np.int64(math.ceil(served)), t + np.int64(1))
        if w == 0 and job[J_SAMPLED] > 0:
            if job[J_ACCESSES] % job[J_SAMPLED] == 0:
                samples[np.int64(min(done - t, np.int64(samples.size - 1)))] += 1
            job[J_ACCESSES] += 1
    ready[w, chain] = done

    slots, barrier = positions[position, P_SLOTS], positions[position, P_BARRIER]
    chain += 1
    if chain == job[J_CHAINS]:
        chain = np.int64(0)
        position += 1
        if position == positions.shape[0]:
            position = np.int64(0)
            warps[w, W_ITERATION] += 1
            if warps[w, W_ITERATION] == job[J_PAUSE]:
                job[J_PAUSE] = -1
    warps[w, W_POSITION], warps[w, W_CHAIN] = position, chain
    at = max(t + machine[M_REISSUE], ready[w, chain])
    if positions[position, P_AWAITED] > 0 and 0 < machine[M_IN_FLIGHT] < job[J_CHAINS]:  # loads return in order
        at = max(at, ready[w, (chain - machine[M_IN_FLIGHT]) % job[J_CHAINS]])
    warps[w, W_AT] = at

    if barrier > 0:
        resident = warps[w, W_RESIDENT]
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
                _wake(state, other, at)

    if warps[w, W_ITERATION] == job[J_ITERATIONS]:
        warps[w, W_AT] = NEVER
        resident = warps[w, W_RESIDENT]
        residents[resident, B_LEFT] -= 1
        if residents[resident, B_LEFT] == 0:
            _end_block(state, resident)
    return np.int64(slots)


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
        _wake(state, w, begin)


@compiled
def simulate(state: State) -> None:
    """Run all blocks of a job on one SM, or until some warp reaches the iteration at which to pause.

    After a pause the same state goes on as if there had been none.
    """
    machine, job, positions, _, warps, ready, _, schedulers, units, _, _, _, _, states = state
    count, step, width, is_periodic = machine[M_SCHEDULERS], machine[M_STEP], machine[M_WIDTH], states.size > 0
    oldest, first = machine[M_OLDEST] > 0, job[J_FIRST]
    one_pipe = True
    for position in range(positions.shape[0]):
        one_pipe = one_pipe and _unit(state, position, 1) == _unit(state, 0, 1)
    stored_at, checks, iteration = np.int64(0), np.int64(0), np.int64(0)  # each iteration of warp 0 ends with a check
    while True:
        t = schedulers[0, S_NEXT]
        for number in range(1, count):
            t = min(t, schedulers[number, S_NEXT])
        if t >= NEVER or job[J_PAUSE] < 0:
            job[J_FIRST], job[J_PAUSE] = first, 0
            return
        if checks < MAX_CHECKS and is_periodic and warps[0, W_ITERATION] != iteration:
            checks += 1
            write_state(state, t, first, states[0])
            if checks > 1 and (t - stored_at) % step == 0 and are_same(states, job[J_WARPS]):
                t += skip_periods(state, t - stored_at)
                checks = np.int64(0)
            iteration = warps[0, W_ITERATION]
            if checks & (checks - 1) == 0:  # powers of two: so the earlier state precedes a period of any length
                write_state(state, t, first, states[1])
                stored_at = t
        s = np.int64(first - 1)
        for _ in range(count):
            s = s + 1 if s + 1 < count else np.int64(0)
            if schedulers[s, S_NEXT] != t:
                continue
            if one_pipe:  # all warps wait for the same pipe
                free = units[_unit(state, 0, s)]
                if free >= t + step:
                    schedulers[s, S_NEXT] = _aligned(np.int64(math.floor(free)) - step + 1, step)
                    continue
            soonest, chosen = np.int64(NEVER), np.int64(-1)
            w = schedulers[s, S_LAST]
            for _ in range(s, job[J_WARPS], count):
                w += count
                if w >= job[J_WARPS]:
                    w = s
                at = warps[w, W_AT]
                if at <= t and not one_pipe:
                    free = units[_unit(state, warps[w, W_POSITION], s)]
                    if free >= t + step:
                        at = np.int64(math.floor(free)) - step + 1
                if at > t:
                    soonest = min(soonest, at)
                elif chosen < 0:
                    chosen = w
                    if is_periodic and not oldest:
                        break
                elif not oldest:
                    soonest = t
                    break
                else:  # blocks begin in the order of their numbers
                    soonest = t
                    if warps[w, W_RECORD] < warps[chosen, W_RECORD]:
                        chosen = w
            if chosen < 0:
                schedulers[s, S_NEXT] = _aligned(soonest, step) if soonest < NEVER else NEVER
                continue
            if not oldest:
                schedulers[s, S_LAST] = chosen
            if not is_periodic:
                schedulers[s, S_NEXT] = NEVER  # until a warp wakes it
            slots = np.int64(1)
            for n in range(width):
                if n > 0:
                    position = warps[chosen, W_POSITION]
                    waits = ready[chosen, warps[chosen, W_CHAIN]] > t or positions[position, P_BARRIER] > 0
                    if warps[chosen, W_AT] >= NEVER or waits or units[_unit(state, position, s)] >= t + step:
                        break
                issued = _issue(state, chosen, s, t)
                if issued < 0:
                    first = s + 1 if s + 1 < count else np.int64(0)
                slots = max(slots, abs(issued))
            free_at = t + step * slots
            schedulers[s, S_FREE] = free_at
            if is_periodic:
                schedulers[s, S_NEXT] = free_at
                continue
            soonest = min(soonest, warps[chosen, W_AT])
            look = _aligned(soonest, step) if soonest < NEVER else np.int64(NEVER)
            schedulers[s, S_NEXT] = max(min(schedulers[s, S_NEXT], look), free_at)
