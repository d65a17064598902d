"""Replacement within one set, compiled: the state of each policy after a use, and the next victim.

Sets of LRU, FIFO, LIP and BIP are lists whose last line is the next victim; other policies keep a mark per way.
"""

import numpy as np

from gpudissect.simulation.cache.compiled import I8, I32, I64, Arrays, called, compiled, inlined, uniform

Int = int | np.int64

EMPTY = -1  # tag of a way that was never filled
REMOVED = -2  # of a way whose line was removed; a set whose first way is EMPTY holds no line

# Columns of Arrays.shape.
LINE_SHIFT, SECTOR_SHIFT, SECTORS, INDEX, TABLE, PER, PERIOD, FIRST, WAYS, STARTS = range(10)
POLICY, ODDS, ORDERS, TOUCHED, SETS, ROOM, LINE, SECTOR, FEEDS, HOLES, COLUMNS = range(10, 21)

# Values of column POLICY; sets of those up to BIP are lists.
LRU, FIFO, LIP, BIP, PLRU, NRU, MRU, SRRIP, SLRU, LAST_TWO_HITS, RANDOM, WEIGHTED, ORDER = range(13)

MAX_SHORT_LIST, MIN_LONG_LIST = 8, 24  # lines of lists that are always written whole; that are searched as a whole

BIP_FIRST_SHARE = 1 / 32  # of the fills of BIP, which insert at the front of the list
SETS_OF_HIT, SETS_OF_REPLACEMENT, SETS_OF_FILL = (
    1,
    2,
    5,
)  # sets that evict a line after an access, if data exceeded the room before


@inlined
def use(marks: I8, policy: Int, first: Int, ways: Int, way: Int, hit: bool) -> None:
    """Update the policy state of a set after a hit or fill of `way`."""
    if policy == PLRU:
        node = ways + way  # leaves are numbered from `ways` on, parents by halving
        while node > 1:
            marks[first + (node >> 1)] = 1 - (node & 1)  # away from here
            node >>= 1
    elif policy == NRU:
        marks[first + way] = 1
    elif policy == MRU:
        marks[first + way] = 1
        for other in range(ways):
            if marks[first + other] == 0:
                return
        for other in range(ways):
            marks[first + other] = 0
        marks[first + way] = 1
    elif policy == SRRIP:
        marks[first + way] = 0 if hit else 2
    elif policy in (SLRU, LAST_TWO_HITS):
        _use_ranked(marks, policy, first, ways, way, hit)


@inlined
def _use_ranked(marks: I8, policy: Int, first: Int, ways: Int, way: Int, hit: bool) -> None:
    """Update ranks: 1 for the line that is replaced last; negative if protected; 0 if never filled.

    A way whose line was removed keeps its mark until it is filled again.
    """
    old_rank = abs(np.int64(marks[first + way]))
    rank = np.int64(1)
    for other in range(ways):
        rank += marks[first + other] < 0 and other != way and not hit  # new lines follow protected ones
    for other in range(ways):
        mark = np.int64(marks[first + other])
        if other != way and mark != 0:
            place = abs(mark)
            place -= 0 < old_rank < place
            place += place >= rank
            remains = not hit or (place <= ways // 2 if policy == SLRU else mark == -1)  # if it was protected
            marks[first + other] = -place if mark < 0 and remains else place
    marks[first + way] = -rank if hit and ways > 1 else rank


@inlined
def victim(arrays: Arrays, a: Int, policy: Int, first: Int, ways: Int) -> Int:
    """The way of a full set that is replaced next (not for sets that are lists)."""
    shape, tables, odds, _, marks, _, _, _, draws, _, _, _ = arrays
    if policy == PLRU:
        node = 1
        while node < ways:
            node = 2 * node + marks[first + node]
        return np.int64(node - ways)
    if policy == RANDOM:
        return np.int64(uniform(draws, a) * ways)
    if policy == WEIGHTED:
        number = uniform(draws, a)
        way = 0
        while odds[shape[a, ODDS] + way] <= number:
            way += 1
        return np.int64(way)
    if policy == ORDER:
        start, place = shape[a, ORDERS], np.int64(marks[first])
        marks[first] = place + 1 if place + 1 < tables[start] else 0
        return np.int64(tables[start + 1 + place])
    if policy in (SLRU, LAST_TWO_HITS):
        for way in range(ways):
            if abs(np.int64(marks[first + way])) == ways:
                return np.int64(way)
    if policy == MRU and ways == 1:  # its one bit is always set
        return np.int64(0)
    victim_mark = 3 if policy == SRRIP else 0
    while True:
        for way in range(ways):
            if marks[first + way] == victim_mark:
                return np.int64(way)
        for way in range(ways):  # SRRIP: all age by one; NRU: all are cleared; never MRU
            marks[first + way] = marks[first + way] + 1 if policy == SRRIP else 0


@inlined
def to_front(values: I32 | I8, first: Int, ways: Int, way: Int) -> None:
    """Move an element of a list to its front, and those before it back by one.

    Short lists are written whole, with a choice but no branch for each element: see `_kernel._find`.
    """
    start, last = np.uint64(first), np.uint64(way)
    moved = values[start + last]
    if ways > MAX_SHORT_LIST:
        for step in range(last):
            place = start + last - step
            values[place] = values[place - np.uint64(1)]
    else:
        for step in range(np.uint64(1), np.uint64(ways)):
            place = np.uint64(ways) - step
            other = start + place
            values[other] = values[other - np.uint64(1)] if place <= last else values[other]
    values[start] = moved


@inlined
def fill_list(arrays: Arrays, a: Int, policy: Int, first: Int, ways: Int, sectored: bool) -> Int:
    """Make room in the list of a set and return the place for a new line; a full list loses its last line.

    LRU and FIFO insert at the front of the list, LIP at its end, BIP mostly at its end.
    """
    _, _, _, tags, _, sectors, _, _, draws, _, _, _ = arrays
    if policy == LIP or (policy == BIP and uniform(draws, a) >= BIP_FIRST_SHARE):
        way = ways - 1
        while way > 0 and tags[first + way - 1] < 0:
            way -= 1
        return np.int64(way)
    if policy != LRU:  # its list is moved by the search
        to_front(tags, first, ways, ways - 1)
    if sectored:
        to_front(sectors, first, ways, ways - 1)
    return np.int64(0)


@inlined
def place_of(shape: I64, tables: I32, a: Int, number: Int) -> tuple[Int, Int]:
    """Start of a set in `tags`, and its ways."""
    ways = shape[a, WAYS]
    if ways > 0:
        return shape[a, FIRST] + number * ways, ways
    start = shape[a, STARTS] + number
    return shape[a, FIRST] + tables[start], np.int64(tables[start + 1] - tables[start])


@called
def _give_room(arrays: Arrays, a: Int, first: Int, kept: Int, sets: Int) -> None:
    """Evict the next victims of the next `sets` sets with lines; see `geometry.Room`.

    `first`: start of the set of the access. `kept`: tag of the line there that stays, or `EMPTY`.
    """
    shape, tables, _, tags, marks, _, _, _, _, used, turns, _ = arrays
    is_list = shape[a, POLICY] <= BIP
    for number in range(sets):
        for _ in range(shape[a, SETS]):
            start, ways = place_of(shape, tables, a, turns[a])
            turns[a] = turns[a] + 1 if turns[a] + 1 < shape[a, SETS] else 0
            last = np.int64(-1)
            for way in range(ways):
                if tags[start + way] >= 0 and (
                    is_list or last < 0 or abs(marks[start + way]) > abs(marks[start + last])
                ):
                    last = np.int64(way)
            is_kept = last >= 0 and start == first and tags[start + last] == kept
            if last >= 0 and not is_kept:
                tags[start + last] = REMOVED
                marks[start + last] = abs(marks[start + last])  # its hits no longer count
                used[a] -= 1
            if last >= 0 and not (is_kept and number == 0 and sets != SETS_OF_HIT):
                break


@called
def limit_after_hit(arrays: Arrays, a: Int, first: Int, kept: Int) -> None:
    """Evict a line where data exceeded the room before a hit; see `_give_room`."""
    if arrays.used[a] > arrays.shape[a, ROOM]:
        _give_room(arrays, a, first, kept, SETS_OF_HIT)


@called
def limit_after_fill(arrays: Arrays, a: Int, first: Int, kept: Int, is_free_way: bool) -> None:
    """The same after a line entered: a free way, or that of a victim."""
    exceeds = arrays.used[a] > arrays.shape[a, ROOM]
    arrays.used[a] += is_free_way
    if exceeds:
        _give_room(arrays, a, first, kept, SETS_OF_FILL if is_free_way else SETS_OF_REPLACEMENT)


@called
def remove(arrays: Arrays, policy: Int, first: Int, ways: Int, way: Int) -> None:
    """Remove the line at `way` of a set. Lists close up; other policies keep their state."""
    tags, sectors = arrays.tags, arrays.sectors
    if policy <= BIP:
        for place in range(first + way, first + ways - 1):
            tags[place] = tags[place + 1]
            if sectors.size > 1:
                sectors[place] = sectors[place + 1]
        way = ways - 1
    tags[first + way] = REMOVED
    if tags[first] == EMPTY:
        tags[first] = REMOVED


@compiled
def reset(arrays: Arrays) -> None:
    """Empty every array, at a cost proportional to its content, not to its size."""
    shape, tables, _, tags, marks, _, touched, filled, _, used, turns, _ = arrays
    for a in range(shape.shape[0]):
        for entry in range(filled[a]):
            first, ways = place_of(shape, tables, a, np.int64(touched[shape[a, TOUCHED] + entry]))
            for place in range(first, first + ways):
                tags[place] = EMPTY
                marks[place] = 0
        filled[a] = used[a] = turns[a] = 0
