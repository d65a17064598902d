"""Replacement within one set, compiled: the state of each policy after a use, and the next victim.

Sets of LRU, FIFO, LIP and BIP are lists whose last line is the next victim; other policies keep a mark per way.
"""

import numpy as np

from gpudissect.simulation.cache.compiled import I8, I32, I64, Arrays, called, inlined, uniform

Int = int | np.int64

EMPTY = -1  # tag of a way that was never filled
REMOVED = -2  # of a way whose line was removed; a set whose first way is EMPTY holds no line

# Columns of Arrays.shape.
LINE_SHIFT, SECTOR_SHIFT, SECTORS, INDEX, TABLE, PER, PERIOD, FIRST, WAYS, STARTS = range(10)
POLICY, ODDS, ORDERS, TOUCHED, SETS, ROOM, FIRST_USE, LINE, SECTOR, FEEDS, HOLES, COLUMNS = range(10, 22)

# Values of column POLICY; sets of those up to BIP are lists.
LRU, FIFO, LIP, BIP, PLRU, NRU, MRU, SRRIP, SLRU, LAST_TWO_HITS, RANDOM, WEIGHTED, ORDER = range(13)

MAX_SHORT_LIST, MIN_LONG_LIST = 8, 24  # lines of lists that are always written whole; that are searched as a whole

BIP_FIRST_SHARE = 1 / 32  # of the fills of BIP, which insert at the front of the list


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
    elif policy == SLRU:
        _use_segmented(marks, first, ways, way, hit)
    elif policy == LAST_TWO_HITS:
        _use_behind_hits(marks, first, ways, way, hit)


@inlined
def _place_after(mark: Int, old_rank: Int, rank: Int) -> Int:
    """Rank of another way after one moves from `old_rank` (0: from outside) to the place before those of `rank` on."""
    place = abs(np.int64(mark))
    place -= 0 < old_rank < place
    return np.int64(place + (place >= rank))


@inlined
def _use_segmented(marks: I8, first: Int, ways: Int, way: Int, hit: bool) -> None:
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
            place = _place_after(mark, old_rank, rank)
            marks[first + other] = -place if mark < 0 and not (hit and place > ways // 2) else place
    marks[first + way] = -rank if hit and ways > 1 else rank


@inlined
def _use_behind_hits(marks: I8, first: Int, ways: Int, way: Int, hit: bool) -> None:
    """Update ranks as `_use_segmented` does; negative are those of the last two hits."""
    old_rank = abs(np.int64(marks[first + way]))
    rank = np.int64(1)
    for other in range(ways):
        rank += marks[first + other] < 0 and other != way and not hit
    for other in range(ways):
        mark = np.int64(marks[first + other])
        if other != way and mark != 0:
            place = _place_after(mark, old_rank, rank)
            marks[first + other] = -place if mark == -1 or (mark < 0 and not hit) else place
    marks[first + way] = -1 if hit else rank


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
def make_room(arrays: Arrays, a: Int) -> None:
    """Evict lines of sets that are no lists, the sets in sequence, while the room in use is exceeded.

    A line takes two half lines of room. The line with the greatest rank goes, but never the only one of a set.
    """
    shape, tables, _, tags, marks, _, _, _, _, used, turns, _ = arrays
    while used[a] > shape[a, ROOM]:
        start, ways = place_of(shape, tables, a, turns[a])
        held = oldest = np.int64(0)
        for way in range(ways):
            if tags[start + way] >= 0:
                held += 1
                if tags[start + oldest] < 0 or abs(marks[start + way]) > abs(marks[start + oldest]):
                    oldest = np.int64(way)
        if held > 1:
            tags[start + oldest] = REMOVED
            used[a] -= 2
        turns[a] = turns[a] + 1 if turns[a] + 1 < shape[a, SETS] else 0


@called
def take_room(arrays: Arrays, a: Int, first: Int, ways: Int, way: Int) -> None:
    """Update the room in use after a hit at `way` of a list, or a fill if `way` is `ways`; evict while it is exceeded.

    Marks are the half lines that the line at each place in the list takes. The list of tags is already up to date.
    """
    shape, tables, _, tags, marks, _, _, _, _, used, turns, _ = arrays
    if shape[a, POLICY] > BIP:  # the room in use is up to date
        make_room(arrays, a)
        return
    place = way if way < ways and shape[a, POLICY] == FIFO else 0
    if way == ways:
        used[a] -= marks[first + ways - 1]
        to_front(marks, first, ways, ways - 1)
        marks[first] = shape[a, FIRST_USE]
        used[a] += shape[a, FIRST_USE]
    else:
        if place == 0:
            to_front(marks, first, ways, way)
        used[a] += 2 - marks[first + place]
        marks[first + place] = 2
    while used[a] > shape[a, ROOM]:
        start, count = place_of(shape, tables, a, turns[a])
        last = count - 1
        while last > 0 and tags[start + last] == EMPTY:
            last -= 1
        if last > 0:
            used[a] -= marks[start + last]
            tags[start + last] = EMPTY
            marks[start + last] = 0
        turns[a] = turns[a] + 1 if turns[a] + 1 < shape[a, SETS] else 0


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
