"""Requests of the simulated SM to the L1, the L2 and device memory, compiled."""

import math

import numpy as np

from gpudissect.explanation.model.sm import _state as column
from gpudissect.explanation.model.sm._l1 import NONE, fill, find, insert, use, victim
from gpudissect.explanation.model.sm._state import Float, Int, State
from gpudissect.simulation.cache.compiled import F64, I64, inlined

MIN_HISTORY, MAX_LOAD = 2000.0, 0.85  # cycles over which load is averaged at least; largest load of a rise
REGION = 8  # lines in the same bank of memory: fitted to blocks that load 1, 2 and 4 KiB (ADR 23)
PRIME, OF_HOME, OF_BANK, OF_QUEUE = 2147483647, 1103515245, 630360016, 950706376
WRITES_LAST, PRIME_WAIT = 1000.0, 7919  # cycles in which the number of writes queued at a bank is constant
LAPS = 1 << 12  # traversals of its sampled requests by a warp, after which its private lines repeat
LINE_BITS = 41


@inlined
def next_random(strata: I64, instruction: Int) -> Float:
    """Next number in [0, 1) of an instruction: multiples of the golden ratio, evenly spread from the start."""
    strata[instruction] += 1
    number = strata[instruction] * 0.6180339887498949 + instruction * 0.377
    return np.float64(number - math.floor(number))


@inlined
def _scatter(region: Int, factor: int) -> Float:
    """Hash of a region of memory to a number in [0, 1)."""
    return np.float64((region % PRIME) * factor % PRIME / PRIME)


@inlined
def _memory_latency(state: State, region: Int, at: Float) -> Float:
    """Unloaded latency of a memory access at cycle `at`: depends on the home of the region and waits for a refresh."""
    machine = state.machine
    latency = machine[column.M_DRAM_LATENCY]
    if _scatter(region, OF_HOME) < machine[column.M_FAR_HOMES]:
        latency += machine[column.M_DRAM_FARTHER]
    period = machine[column.M_REFRESH_PERIOD]
    since = (at + period * _scatter(region, OF_BANK)) % period
    return np.float64(latency + max(0.0, machine[column.M_REFRESH] - since))


@inlined
def fetch(state: State, row: F64, start: Float, amount: Float, region: Int, goes_on: bool) -> Float:
    """Cycle at which `amount` times the bytes of an L1 miss have arrived. `goes_on`: the miss also misses the L2."""
    machine, queues, busy = state.machine, state.queues, state.busy
    credit = start - machine[column.M_CREDIT]
    l2_bytes = row[column.L2_BYTES] + row[column.L2_MORE] if goes_on else row[column.L2_BYTES]
    l2, link = amount * l2_bytes / machine[column.M_L2_BYTES], amount * row[column.LINK] / machine[column.M_LINK_BYTES]
    queues[0], queues[2] = max(queues[0], credit) + l2, max(queues[2], start) + link
    queues[3] = max(queues[3], credit) + amount * row[column.L2_WRITTEN] / machine[column.M_L2_BYTES]
    busy[busy.size - 2] += l2
    served = max(queues[0], queues[2])
    farther = machine[column.M_L2_FARTHER] if _scatter(region, OF_HOME) < row[column.FAR] else 0.0
    l2_load = min(busy[busy.size - 2] / max(start, MIN_HISTORY), MAX_LOAD)
    farther += machine[column.M_L2_RISE] * l2_load / (1.0 - l2_load)
    done = np.float64(max(served - link, start) + machine[column.M_L2_LATENCY] + farther)
    if goes_on:
        dram = amount * row[column.DRAM_BYTES] / machine[column.M_DRAM_BYTES]
        load = min(busy[busy.size - 1] / max(start, MIN_HISTORY), MAX_LOAD)
        queues[1] = max(queues[1], credit) + dram
        busy[busy.size - 1] += dram
        served = max(served, queues[1])
        if row[column.KIND] != column.STORE:
            at = max(served - link, start)
            behind_writes = -math.log(1.0 - _scatter(region + PRIME_WAIT * np.int64(at / WRITES_LAST), OF_QUEUE))
            rise = (machine[column.M_RISE] + machine[column.M_MIXED_RISE] * behind_writes) * load / (1.0 - load)
            done = np.float64(at + rise + _memory_latency(state, region, at))
    return done


@inlined
def request(state: State, instruction: Int, start: Float) -> Float:
    """Cycle at which a request without sampled addresses that left its pipe at `start` is done."""
    row = state.instructions[instruction]
    number = next_random(state.strata, instruction)
    if number < row[column.IN_SM]:
        return start + np.float64(row[column.LATENCY])
    region = state.strata[instruction] // REGION  # consecutive requests access adjacent lines
    return fetch(state, row, start, 1.0, region, number >= row[column.IN_L2])


@inlined
def _count(sectors: Int) -> Int:
    """Number of sectors in a mask."""
    return (sectors & 1) + (sectors >> 1 & 1) + (sectors >> 2 & 1) + (sectors >> 3 & 1)


@inlined
def _sampled(state: State, w: Int, row: F64, now: Float) -> tuple[Int, Int]:
    """The next sampled request of an access of warp `w`, and the offset of lines that no other block touches.

    A path with fewer loop iterations than the kernel skips requests. Their lines are put into the L1 without waiting.
    """
    loads, slot, access = state.loads, state.warps[w, column.W_SLOT], np.int64(row[column.ACCESS])
    begin, count = loads.begins[slot, access], loads.ends[slot, access] - loads.begins[slot, access]
    turn, stride = loads.cursors[w, access], loads.strides[slot, access]
    last = np.int64(turn * stride)
    lap, number = (np.int64((turn + 1) * stride) - 1) // count, begin + (np.int64((turn + 1) * stride) - 1) % count
    loads.cursors[w, access] += 1
    if lap > 0 and row[column.IS_WHOLE] > 0.0:
        lap, number = 0, begin + count - 1
    fresh = (state.warps[w, column.W_LAP] * LAPS + lap) << LINE_BITS
    for skipped in range(max(begin, begin + last - lap * count), number):
        _put(state, w, skipped, fresh, now)
    return number, fresh


@inlined
def _line(state: State, w: Int, at: Int, fresh: Int) -> int:
    """A line of a sampled request. Local memory belongs to the warp slot: each warp reuses that of its predecessor."""
    line = state.loads.number[at]
    if line >= column.LOCAL_LINE:
        return int(column.LOCAL_LINE + (w << column.LOCAL_LINE_BITS) + line % (1 << column.LOCAL_LINE_BITS))
    return int(line if state.loads.is_shared[at] else line + fresh)


@inlined
def write(state: State, w: Int, instruction: Int, now: Float) -> None:
    """Allocate the lines of a sampled store of warp `w` in the L1, which writes through to the L2.

    A load of the written bytes hits the L1. A load of other bytes of the sector misses (H100).
    """
    number, fresh = _sampled(state, w, state.instructions[instruction], now)
    _put(state, w, number, fresh, now)


@inlined
def _put(state: State, w: Int, number: Int, fresh: Int, now: Float) -> None:
    """Put the sectors of a sampled request of warp `w` into the L1, except lines that would wait for a victim."""
    loads, l1 = state.loads, state.l1
    for at in range(loads.lines[number], loads.lines[number + 1]):
        line = _line(state, w, at, fresh)
        place = find(l1, line)
        if place == NONE:
            place = victim(l1, line, now)
            if l1.filled[place] > now:
                continue
            insert(l1, place, line)
            fill(l1, place, now)
        else:
            use(l1, place)
        l1.sectors[place] |= loads.sectors[at]


@inlined
def load(state: State, w: Int, instruction: Int, pipe: Int, start: Float) -> Float:
    """Cycle at which a sampled load of warp `w` that left its pipe at `start` is done.

    A line that misses the L1 waits for a victim, and stalls the pipe meanwhile. If several lines come from memory, all
    lines of the request stay in the L1 until the last one arrives: with random lines of which a tenth misses the L2, an
    L1 of 168 lines has the throughput that it would have if each line took the latency of memory (H200).
    """
    row, loads, l1 = state.instructions[instruction], state.loads, state.l1
    number, fresh = _sampled(state, w, row, start)
    done, missed, missed_sectors, of_memory = start + row[column.LATENCY], 0, 0, 0
    for at in range(loads.lines[number], loads.lines[number + 1]):
        line = _line(state, w, at, fresh)
        if row[column.BYPASSES] > 0.0:
            sectors = int(_count(loads.sectors[at]))
            is_new = bool(loads.sectors[at] & loads.new[at])
            goes_on = is_new and next_random(state.strata, instruction) >= row[column.IN_L2]
            arrival = fetch(state, row, start, np.float64(sectors), line // REGION, goes_on)
            done = max(done, arrival + state.machine[column.M_LINE_INTERVAL] * missed)
            missed, missed_sectors = missed + 1, missed_sectors + sectors
            continue
        place = find(l1, line)
        if place == NONE:
            place = victim(l1, line, start)
            start = max(start, l1.filled[place] - row[column.LATENCY])
            insert(l1, place, line)
        else:
            use(l1, place)
        lacking = loads.sectors[at] & ~l1.sectors[place]
        if lacking:
            sectors = int(_count(lacking))
            missed, missed_sectors = missed + 1, missed_sectors + sectors
            goes_on = bool(lacking & loads.new[at]) and next_random(state.strata, instruction) >= row[column.IN_L2]
            filled = fetch(state, row, start, np.float64(sectors), line // REGION, goes_on)
            filled += state.machine[column.M_LINE_INTERVAL] * (missed - 1)
            of_memory += goes_on
            l1.sectors[place] |= lacking
            fill(l1, place, max(l1.filled[place], filled))
        done = max(done, l1.filled[place])
    if of_memory > 1:
        for at in range(loads.lines[number], loads.lines[number + 1]):
            place = find(l1, _line(state, w, at, fresh))
            if place != NONE:
                fill(l1, place, max(l1.filled[place], done))
    for each in (pipe, column.TAGS):
        state.shared[each] = max(state.shared[each], start)
    loads.l1_counts[instruction, 0] += 1
    loads.l1_counts[instruction, 1] += missed > 0
    loads.l1_counts[instruction, 2] += missed
    loads.l1_counts[instruction, 3] += missed_sectors
    return np.float64(done)
