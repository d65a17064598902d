"""The compiled inner loop: one access to one array, and a chain of accesses along a route.

Layout, chosen for big caches: 32-bit tags, the ways of a set contiguous: 16 are one line of the host's cache. Sets
that are lists (see `_replacement`) need no other state. All caches and TLBs of a hierarchy are contiguous in the same
flat arrays; `Arrays.shape` has a row for each with its place and parameters.
"""

import numpy as np

from gpudissect.simulation.cache._replacement import (
    BIP,
    EMPTY,
    FEEDS,
    FIFO,
    HOLES,
    INDEX,
    LAST_TWO_HITS,
    LINE,
    LINE_SHIFT,
    LIP,
    LRU,
    MAX_SHORT_LIST,
    MIN_LONG_LIST,
    PER,
    PERIOD,
    POLICY,
    ROOM,
    SECTOR,
    SECTOR_SHIFT,
    SECTORS,
    TABLE,
    TOUCHED,
    fill_list,
    limit_after_fill,
    limit_after_hit,
    place_of,
    remove,
    to_front,
    use,
    victim,
)
from gpudissect.simulation.cache.compiled import F64, I8, I32, I64, Arrays, called, compiled, inlined

Int = int | np.int64

# Values of column INDEX.
LINEAR, MODULO, LOOKUP = range(3)

# Kinds of steps of a route.
CACHE, TLB, PAGE_WALK, FAR_PARTITION, VICTIM_CACHE, EXCLUSIVE_CACHE = range(6)

# Entries of a route's extra costs, of the prefetcher's settings and of the walk's state.
X_WINDOW, X_SWITCH, X_FLOOR, X_COLD, X_HOME_MASK, X_NEAR, X_FAR_MEMORY, X_ROW, X_BANKS, X_SAVING = range(10)
X_HOME_GRANULE, X_PARTITIONS, X_SIZE = range(10, 13)
P_ARRAY, P_REACH, P_RUN, P_STEP_MAX, P_END, P_SIZE = range(6)
S_WINDOW, S_HIGHEST, S_STEP, S_RUN, S_HITS, S_SIZE = range(6)  # then 1 + the open row of each bank, 0 for none


@inlined
def _set_number(shape: I64, tables: I32, a: Int, line: Int) -> Int:
    """Set of a line; linear functions by four table look-ups, one per byte of the line number."""
    start = shape[a, TABLE]
    if shape[a, INDEX] == LINEAR:
        return np.int64(
            tables[start + (line & 255)]
            ^ tables[start + 256 + ((line >> 8) & 255)]
            ^ tables[start + 512 + ((line >> 16) & 255)]
            ^ tables[start + 768 + (line >> 24)]
        )
    granule = np.uint32(line)  # 32-bit unsigned division takes half the time of 64-bit division
    per = np.uint32(shape[a, PER])
    if per != 1:
        granule = granule // per
    number = np.int64(granule % np.uint32(shape[a, PERIOD]))
    if shape[a, INDEX] == LOOKUP:
        return np.int64(tables[start + number])
    return number


@inlined
def _find(tags: I32, first: Int, ways: Int, tag: np.int32) -> Int:
    """Way of a set that holds a tag, or `ways`.

    Every way is compared: the processor cannot predict after which one a search ends. Indices are unsigned because
    numba tests signed ones for counting from the end, which prevents vectorisation.
    """
    start = np.uint64(first)
    found = np.int32(0)  # a tag is in at most one way, so a sum finds it
    for way in range(np.uint64(ways)):
        found += np.int32(way + np.uint64(1)) if tags[start + way] == tag else np.int32(0)
    return np.int64(found) - 1 if found > 0 else ways


@inlined
def _find_to_front(tags: I32, first: Int, ways: Int, tag: np.int32) -> Int:
    """As `_find`, and move the tag to the front of its list, or insert it there instead of the last one."""
    if ways <= MAX_SHORT_LIST or ways >= MIN_LONG_LIST:
        way = _find(tags, first, ways, tag)
        to_front(tags, first, ways, min(way, ways - 1))
        tags[first] = tag
        return way
    start = np.uint64(first)
    carried = tag
    for place in range(np.uint64(ways)):  # search and move in one pass
        current = tags[start + place]
        tags[start + place] = carried
        if current == tag:
            return np.int64(place)
        carried = current
    return ways


@inlined
def _line_and_sector(shape: I64, a: Int, offset: Int) -> tuple[Int, np.int32]:
    """Line number of a byte, and the bit of its sector; 0 if lines have one sector."""
    shift = shape[a, LINE_SHIFT]
    line = offset >> shift if shift >= 0 else offset // shape[a, LINE]
    bit = np.int32(0)
    if shape[a, SECTORS] > 1:
        if shift >= 0:
            bit = np.int32(1 << ((offset >> shape[a, SECTOR_SHIFT]) & (shape[a, SECTORS] - 1)))
        else:
            bit = np.int32(1 << ((offset - line * shape[a, LINE]) // shape[a, SECTOR]))
    return line, bit


@inlined
def _access(arrays: Arrays, a: Int, offset: Int) -> bool:
    """Use the sector at byte `offset` in array `a`, fetching it on a miss; returns whether it hit."""
    shape, tables, _, tags, marks, sectors, touched, filled, _, _, _, lost = arrays
    line, bit = _line_and_sector(shape, a, offset)
    number = _set_number(shape, tables, a, line)
    first, ways = place_of(shape, tables, a, number)
    policy = shape[a, POLICY]
    tag = np.int32(line)
    untouched = tags[first] == EMPTY
    evicted = tags[first + ways - 1]  # of lists, before the search moves them
    way = _find_to_front(tags, first, ways, tag) if policy == LRU else _find(tags, first, ways, tag)
    sectored = shape[a, SECTORS] > 1

    if way < ways:
        hit = True
        if sectored:
            hit = (sectors[first + way] & bit) != 0
            sectors[first + way] |= bit
            if policy <= BIP and policy != FIFO:
                to_front(sectors, first, ways, way)
        if policy in (LIP, BIP):
            to_front(tags, first, ways, way)
        elif policy > BIP:
            use(marks, policy, first, ways, way, True)
        if shape[a, ROOM] > 0:
            limit_after_hit(arrays, a, first, EMPTY if hit else np.int64(tag))
        if not hit:
            lost[a, 0] = EMPTY
        return hit

    if untouched:
        touched[shape[a, TOUCHED] + filled[a]] = number
        filled[a] += 1
    if policy <= BIP:
        way = fill_list(arrays, a, policy, first, ways, sectored)
    else:
        way = ways
        if tags[first + ways - 1] < 0 or shape[a, HOLES] != 0:
            way = 0
            while way < ways and tags[first + way] >= 0:
                way += 1
        if way == ways:
            way = victim(arrays, a, policy, first, ways)
        use(marks, policy, first, ways, way, False)
        evicted = tags[first + way]
    if shape[a, FEEDS] != 0:
        lost[a, 0] = evicted
        lost[a, 1] = sectors[first + way] if sectored else 1
    tags[first + way] = tag
    if sectored:
        sectors[first + way] = bit
    if shape[a, ROOM] > 0:
        limit_after_fill(arrays, a, first, np.int64(tag), evicted < 0)
    return False


@called
def _look_up(arrays: Arrays, a: Int, offset: Int, moves: bool) -> bool:
    """Use the sector at byte `offset` if array `a` holds it; returns whether it does. If `moves`, it is removed."""
    shape, tables, _, tags, _, sectors, _, _, _, _, _, _ = arrays
    line, bit = _line_and_sector(shape, a, offset)
    first, ways = place_of(shape, tables, a, _set_number(shape, tables, a, line))
    way = _find(tags, first, ways, np.int32(line))
    if way == ways or (bit != 0 and sectors[first + way] & bit == 0):
        return False
    if not moves:
        return _access(arrays, a, offset)
    if bit != 0:
        sectors[first + way] &= ~bit
    if bit == 0 or sectors[first + way] == 0:
        remove(arrays, shape[a, POLICY], first, ways, way)
    return True


@called
def _access_both(arrays: Arrays, a: Int, b: Int, offset: Int) -> bool:
    """Use the sector in array `a` and in its miss cache `b`; returns whether one held it. If not, both are filled."""
    in_a, in_b = _look_up(arrays, a, offset, False), _look_up(arrays, b, offset, False)
    if not (in_a or in_b):
        _access(arrays, b, offset)
        _access(arrays, a, offset)
    return in_a or in_b


@called
def _receive_victim(arrays: Arrays, giver: Int, a: Int) -> None:
    """Fill array `a` with the sectors of the line that array `giver` evicted last, if any."""
    lost, sector = arrays.lost, arrays.shape[a, SECTOR]
    start, valid = lost[giver, 0] * arrays.shape[a, LINE], lost[giver, 1]
    if start >= 0:
        for number in range(arrays.shape[a, SECTORS]):
            if valid >> number & 1:
                _access(arrays, a, start + number * sector)


@inlined
def _parity(bits: Int) -> Int:
    """Parity of a number that is not negative."""
    bits ^= bits >> 32
    bits ^= bits >> 16
    bits ^= bits >> 8
    bits ^= bits >> 4
    bits ^= bits >> 2
    bits ^= bits >> 1
    return bits & 1


@inlined
def _starts_prefetch(prefetch: I64, state: I64, offset: Int) -> bool:
    """Record a miss in the prefetching cache; returns whether it completes a run of equal small cold steps."""
    step = offset - state[S_HIGHEST]
    if step <= 0:  # not cold
        state[S_RUN] = 0
        return False
    if step > prefetch[P_STEP_MAX]:
        state[S_RUN] = 0
    elif step == state[S_STEP]:
        state[S_RUN] += 1
    else:
        state[S_RUN] = 1
    state[S_STEP] = step
    state[S_HIGHEST] = offset
    if state[S_RUN] < prefetch[P_RUN]:
        return False
    state[S_RUN] = 0
    return True


@compiled
def walk(
    arrays: Arrays,
    steps: I64,
    costs: F64,
    extras: F64,
    prefetch: I64,
    state: I64,
    chain: I64,
    position: int,
    levels: I8,
    latencies: F64,
) -> int:
    """Run accesses along a route, from `position` of the chain on, lap after lap.

    Args:
        arrays: the caches and TLBs, modified.
        steps: (n, 4): kind, array, for TLB the next step after a hit, else the level, and for FAR_PARTITION its
            number: accesses to lines whose home is another skip it; for others 1 + the array that receives the victims
            of this one, or 0; for TLB 1 + the array of its miss cache, or 0. VICTIM_CACHE and EXCLUSIVE_CACHE are
            not filled by misses; the latter loses what hits.
        costs: (n + 1,), cycles added by a hit (CACHE, TLB) or by passing (PAGE_WALK); last, by memory.
        extras: (X_SIZE,): X_WINDOW, X_SWITCH: size in bytes (0: none) and penalty in cycles of the page window;
            X_FLOOR: minimum cycles of a hit after a miss in the first TLB; X_COLD: extra cycles of a page walk when
            memory serves the access; X_PARTITIONS: their number (0: not partitioned); X_HOME_MASK: mask of address
            bits whose parity is a line's home, or 0: X_HOME_GRANULE bytes after another in consecutive partitions;
            X_NEAR: the near partition; X_FAR_MEMORY: extra cycles of memory behind a far partition;
            X_ROW, X_BANKS, X_SAVING: bytes of a row of memory (0: none), banks, and cycles saved by an open row.
        prefetch: (P_SIZE,), see the P_ names; array -1 for none.
        state: (S_SIZE + banks,), state of the walk, modified. S_HITS: accesses since the last one that may have
            changed the content of a cache or TLB, the page window, or the open row of a bank.
        chain: byte offsets of a lap.
        position: position in the chain of the first access.
        levels: (m,), out: level that served each access; the number of levels for memory.
        latencies: (m,) or empty, out: cycles of each access.

    Returns the position after the last access.
    """
    last = len(steps)
    memory = 0
    for s in range(last):
        memory += steps[s, 0] == CACHE or steps[s, 0] >= VICTIM_CACHE
    home_mask, near = np.int64(extras[X_HOME_MASK]), np.int64(extras[X_NEAR])
    granule, partitions = np.int64(extras[X_HOME_GRANULE]), np.int64(extras[X_PARTITIONS])
    window, row_size, banks = np.int64(extras[X_WINDOW]), np.int64(extras[X_ROW]), np.int64(extras[X_BANKS])
    timed = latencies.size > 0
    hit_tlb, hit_page = np.int64(-1), np.int64(-1)  # of the last hit: another one there changes nothing
    for i in range(levels.size):
        offset = chain[position]
        position += 1
        if position == chain.size:
            position = 0
        base, penalty = costs[last], 0.0
        level = memory
        state[S_HITS] += 1
        prefetcher_missed = tlb_missed = walked = False  # prefetching cache; first TLB; all TLBs
        home: Int = near
        giver, receiver = np.int64(-1), np.int64(-1)
        if home_mask != 0:
            home = _parity(offset & home_mask)
        elif partitions > 0:
            home = offset // granule % partitions
        s = 0
        while s < last:
            kind, array = steps[s, 0], steps[s, 1]
            if kind == PAGE_WALK:
                walked = True
                penalty += costs[s]
                if window > 0 and offset // window != state[S_WINDOW]:
                    state[S_WINDOW] = offset // window
                    state[S_HITS] = 0
                    penalty += extras[X_SWITCH]
                s += 1
            elif kind == FAR_PARTITION and steps[s, 3] != home:
                s += 1
            elif kind == TLB and array == hit_tlb and offset >> arrays.shape[array, LINE_SHIFT] == hit_page:
                penalty += costs[s]
                s = steps[s, 2]
            elif kind >= VICTIM_CACHE:
                state[S_HITS] = 0
                if _look_up(arrays, array, offset, kind == EXCLUSIVE_CACHE):
                    base, level = costs[s], steps[s, 2]
                    break
                if array == prefetch[P_ARRAY]:
                    prefetcher_missed = True
                s += 1
            elif (
                _access_both(arrays, array, steps[s, 3] - 1, offset)
                if kind == TLB and steps[s, 3] > 0
                else _access(arrays, array, offset)
            ):
                if arrays.shape[array, ROOM] > 0:  # a line that is used again may take the room of others
                    state[S_HITS] = 0
                if kind != TLB:
                    base, level = costs[s], steps[s, 2]
                    break
                if arrays.shape[array, POLICY] != LAST_TWO_HITS:  # to which a second hit of a line matters
                    hit_tlb, hit_page = array, offset >> arrays.shape[array, LINE_SHIFT]
                penalty += costs[s]
                s = steps[s, 2]
            else:
                state[S_HITS] = 0
                if kind == TLB:
                    tlb_missed = True
                    hit_tlb = np.int64(-1)
                elif array == prefetch[P_ARRAY]:
                    prefetcher_missed = True
                if kind == CACHE and steps[s, 3] > 0:
                    giver, receiver = array, steps[s, 3] - 1
                s += 1
        if giver >= 0:
            _receive_victim(arrays, giver, receiver)
        if tlb_missed:
            base = max(base, extras[X_FLOOR])
        if walked and level == memory:
            penalty += extras[X_COLD]
        if home != near and level == memory:
            penalty += extras[X_FAR_MEMORY]
        if level == memory and row_size > 0:
            state[S_HITS] = 0
            row = offset // row_size
            bank = S_SIZE + row % banks
            if state[bank] == row + 1:
                penalty -= extras[X_SAVING]
            state[bank] = row + 1
        if prefetcher_missed and (prefetch[P_RUN] == 0 or _starts_prefetch(prefetch, state, offset)):
            _fetch_ahead(arrays, prefetch, offset)
        levels[i] = level
        if timed:
            latencies[i] = base + penalty
    return position


@called
def _fetch_ahead(arrays: Arrays, prefetch: I64, offset: Int) -> None:
    """Fetch the sectors after the one at `offset` into the prefetching cache."""
    a = prefetch[P_ARRAY]
    sector = arrays.shape[a, SECTOR]
    start = (offset // sector + 1) * sector
    end = min(start + prefetch[P_REACH], prefetch[P_END])
    for ahead in range(start, end, sector):
        _access(arrays, a, ahead)
