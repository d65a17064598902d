"""The L1 of the simulated SM, compiled.

Tags are set-associative. All sets share one pool of lines, which is smaller than the tags if shared memory takes part
of the array: on an H200 and an H100, an L1 of 21 KiB holds any 164 lines, with one sector or all sectors valid. A line
is allocated on a miss, before its data arrive. The pool therefore also limits the misses in flight: a miss waits until
a victim has its data.
"""

from typing import NamedTuple

from gpudissect.simulation.cache.compiled import F64, I64, inlined

NONE = -1
OLDEST, NEWEST, FREE, USES = 0, 1, 2, 3  # of `ends`
LISTED = 8  # least recently used places that are searched in order, before all places
NEVER_USED = 1 << 62


class L1(NamedTuple):
    """The arrays of an L1. All are modified."""

    places: I64  # (sets, ways), place in the pool of each tag, or NONE
    line: I64  # (pool,), number of the line
    sectors: I64  # (pool,), bits of the sectors that are valid or in flight
    filled: F64  # (pool,), cycle at which the last of them is valid
    tag: I64  # (pool,), set * ways + way
    older: I64  # (pool,), next less recently used place
    newer: I64  # (pool,), next more recently used place
    used: I64  # (pool,), sequence number of the last use
    soonest: I64  # (2 * pool,), binary tree: each node has the place in its subtree whose data arrive first
    ends: I64  # (4,), least and most recently used place, number of allocated places, number of uses


@inlined
def set_of(line: int, sets: int) -> int:
    """The set of a line. Adjacent lines have adjacent sets; lines far apart have random sets."""
    return int((line + (((line >> 9) * 0x9E3779B97F4A7C1) >> 23)) % sets)


@inlined
def find(l1: L1, line: int) -> int:
    """The place of a line in the pool, or NONE."""
    sets, ways = l1.places.shape
    s = set_of(line, sets)
    for way in range(ways):
        place = l1.places[s, way]
        if place != NONE and l1.line[place] == line:
            return int(place)
    return NONE


@inlined
def victim(l1: L1, line: int, now: float) -> int:
    """The place that a missing line replaces: in its set if all ways are valid, otherwise in the pool.

    It is the least recently used place whose data have arrived. If there is none, the place whose data arrive first.
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
    """A free place, or the victim among all places."""
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
    """The less recently used of `place`, if its data have arrived, and `ready`, the best so far; and its last use."""
    if l1.filled[place] <= now and l1.used[place] < oldest:
        return place, l1.used[place]
    return ready, oldest


@inlined
def fill(l1: L1, place: int, cycle: float) -> None:
    """Set the cycle at which the data of a place arrive, and update the tree `soonest`."""
    l1.filled[place] = cycle
    node = l1.line.size + place
    while node > 1:
        node >>= 1
        left, right = l1.soonest[2 * node], l1.soonest[2 * node + 1]
        l1.soonest[node] = left if (l1.filled[left], left) < (l1.filled[right], right) else right


@inlined
def insert(l1: L1, place: int, line: int) -> None:
    """Allocate a line without valid sectors at a place."""
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
    """Mark a place as most recently used."""
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
