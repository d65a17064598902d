"""The L1 of the simulated SM, compiled.

Tags are set-associative. Room for lines is one pool, smaller than the tags if shared memory takes a part of the array:
on an H200 and an H100 an L1 of 21 KiB holds any 164 lines, of which one sector or all are touched. A line takes room
when a load misses it, so that the room also limits the loads in flight: a miss waits until the least recently used line
has its data.
"""

from typing import NamedTuple

from gpudissect.simulation.cache.compiled import F64, I64, inlined

NONE = -1
OLDEST, NEWEST, FREE, USES = 0, 1, 2, 3  # of `ends`
LISTED = 8  # least recently used places, searched in their order before all places are
NEVER_USED = 1 << 62


class L1(NamedTuple):
    """The arrays of an L1; all are modified."""

    places: I64  # (sets, ways), place in the pool of each tag, or NONE
    line: I64  # (pool,), number of the line
    sectors: I64  # (pool,), bits of the sectors that are there or on their way
    filled: F64  # (pool,), cycle at which the last of them is there
    tag: I64  # (pool,), set * ways + way
    older: I64  # (pool,), the line used before it
    newer: I64  # (pool,)
    used: I64  # (pool,), number of the last use
    soonest: I64  # (2 * pool,), binary tree: each node has the place below it whose data come first
    ends: I64  # (4,), least and most recently used place, places taken and uses so far


@inlined
def set_of(line: int, sets: int) -> int:
    """The set of a line: neighbouring lines have neighbouring sets, lines far apart random ones."""
    return int((line + (((line >> 9) * 0x9E3779B97F4A7C1) >> 23)) % sets)


@inlined
def find(l1: L1, line: int) -> int:
    """The place of a line, or NONE."""
    sets, ways = l1.places.shape
    s = set_of(line, sets)
    for way in range(ways):
        place = l1.places[s, way]
        if place != NONE and l1.line[place] == line:
            return int(place)
    return NONE


@inlined
def victim(l1: L1, line: int, now: float) -> int:
    """The place that a missing line takes: of its set if that has no free way.

    It is the least recently used one whose data are there, or else the one whose data come first.
    """
    sets, ways = l1.places.shape
    s = set_of(line, sets)
    ready, oldest, soonest = NONE, NEVER_USED, l1.places[s, 0]
    for way in range(ways):
        place = l1.places[s, way]
        if place == NONE:
            return _of_pool(l1, now)
        ready, oldest = _better(l1, place, now, ready, oldest)
        if (l1.filled[place], l1.used[place]) < (l1.filled[soonest], l1.used[soonest]):
            soonest = place
    return int(soonest if ready == NONE else ready)


@inlined
def _of_pool(l1: L1, now: float) -> int:
    """A free place, or the victim among the places of all sets."""
    if l1.ends[FREE] < l1.line.size:
        return int(l1.ends[FREE])
    place = l1.ends[OLDEST]
    for _ in range(LISTED):
        if place == NONE:
            break
        if l1.filled[place] <= now:
            return int(place)
        place = l1.newer[place]
    if l1.filled[l1.soonest[1]] > now:
        return int(l1.soonest[1])
    ready, oldest = NONE, NEVER_USED
    for place in range(l1.line.size):
        ready, oldest = _better(l1, place, now, ready, oldest)
    return int(ready)


@inlined
def _better(l1: L1, place: int, now: float, ready: int, oldest: int) -> tuple[int, int]:
    """The less recently used of `place`, if its data are there, and `ready`, the best so far; and its last use."""
    if l1.filled[place] <= now and l1.used[place] < oldest:
        return place, l1.used[place]
    return ready, oldest


@inlined
def fill(l1: L1, place: int, cycle: float) -> None:
    """Set the cycle at which the data of a place are there, and update the tree of places whose data come first."""
    l1.filled[place] = cycle
    node = l1.line.size + place
    while node > 1:
        node >>= 1
        left, right = l1.soonest[2 * node], l1.soonest[2 * node + 1]
        l1.soonest[node] = left if (l1.filled[left], left) < (l1.filled[right], right) else right


@inlined
def insert(l1: L1, place: int, line: int) -> None:
    """Put a line without sectors into a place."""
    sets, ways = l1.places.shape
    if place == l1.ends[FREE]:
        l1.ends[FREE] += 1
    else:
        _unlink(l1, place)
        l1.places[l1.tag[place] // ways, l1.tag[place] % ways] = NONE
    s = set_of(line, sets)
    for way in range(ways):
        if l1.places[s, way] == NONE:
            l1.places[s, way], l1.tag[place] = place, s * ways + way
            break
    l1.line[place], l1.sectors[place] = line, 0
    fill(l1, place, 0.0)
    _link(l1, place)


@inlined
def use(l1: L1, place: int) -> None:
    """Make a line the most recently used one."""
    if l1.ends[NEWEST] != place:
        _unlink(l1, place)
        _link(l1, place)


@inlined
def _unlink(l1: L1, place: int) -> None:
    older, newer = l1.older[place], l1.newer[place]
    if older == NONE:
        l1.ends[OLDEST] = newer
    else:
        l1.newer[older] = newer
    if newer == NONE:
        l1.ends[NEWEST] = older
    else:
        l1.older[newer] = older


@inlined
def _link(l1: L1, place: int) -> None:
    newest = l1.ends[NEWEST]
    l1.ends[USES] += 1
    l1.used[place] = l1.ends[USES]
    l1.older[place], l1.newer[place] = newest, NONE
    if newest == NONE:
        l1.ends[OLDEST] = place
    else:
        l1.newer[newest] = place
    l1.ends[NEWEST] = place
