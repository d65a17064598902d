"""The L1 of the simulated SM, compiled.

Tags are set-associative. All sets share one pool of lines, which is smaller than the tags if shared memory takes part
of the array: on an H200 and an H100, an L1 of 21 KiB holds any 164 lines, with one sector or all sectors valid. A line
is allocated on a miss, before its data arrive. The pool therefore also limits the misses in flight: a miss waits until
a victim has its data.
"""

from typing import NamedTuple

from gpudissect.simulation.cache.compiled import F64, I64, inlined

NONE = -1
FREE, USES = 0, 1  # of `counts`
TRIED, SCATTER = 2, 2654435761  # random places among which a victim is chosen; multiplier of their numbers
NEVER_USED = 1 << 62


class L1(NamedTuple):
    """The arrays of an L1. All are modified."""

    places: I64  # (sets, ways), place in the pool of each tag, or NONE
    line: I64  # (pool,), number of the line
    sectors: I64  # (pool,), bits of the sectors that are valid or in flight
    filled: F64  # (pool,), cycle at which the last of them is valid
    tag: I64  # (pool,), set * ways + way
    used: I64  # (pool,), sequence number of the last use
    soonest: I64  # (2 * pool,), binary tree: each node has the place in its subtree whose data arrive first
    counts: I64  # (2,), allocated places and uses


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
            return _choose_place(l1, now)
        ready, oldest = _better(l1, place, now, ready, oldest)
        if (l1.filled[place], l1.used[place]) < (l1.filled[soonest], l1.used[soonest]):
            soonest = place
    return int(soonest if ready == NONE else ready)


@inlined
def _choose_place(l1: L1, now: float) -> int:
    """A free place, or the less recently used of two random places whose data have arrived.

    Of 30 pairs of counts of hardware counters (15 kernels, H100), two random places give misses that are nearer to the
    counted ones than the least recently used place (n_queens, mri_q, lz_matches, varint_decode) and than one random
    place (knn, whose loads return to a line at once).
    """
    if l1.counts[FREE] < l1.line.size:
        return int(l1.counts[FREE])
    ready, oldest = NONE, NEVER_USED
    for tried in range(TRIED):
        place = int(((l1.counts[USES] * TRIED + tried) * SCATTER >> 7) % l1.line.size)
        ready, oldest = _better(l1, place, now, ready, oldest)
    if ready != NONE:
        return int(ready)
    if l1.filled[l1.soonest[1]] > now:
        return int(l1.soonest[1])
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
        first = left if (l1.filled[left], left) < (l1.filled[right], right) else right
        if first == l1.soonest[node] and first != place:
            return  # nothing changes for the nodes above
        l1.soonest[node] = first


@inlined
def insert(l1: L1, place: int, line: int) -> None:
    """Allocate a line without valid sectors at a place. The caller then calls `fill`."""
    sets, ways = l1.places.shape
    if place == l1.counts[FREE]:
        l1.counts[FREE] += 1
    else:
        l1.places[l1.tag[place] // ways, l1.tag[place] % ways] = NONE
    s = set_of(line, sets)
    for way in range(ways):
        if l1.places[s, way] == NONE:
            l1.places[s, way], l1.tag[place] = place, s * ways + way
            break
    l1.line[place], l1.sectors[place], l1.filled[place] = line, 0, 0.0
    use(l1, place)


@inlined
def use(l1: L1, place: int) -> None:
    """Mark a place as most recently used."""
    l1.counts[USES] += 1
    l1.used[place] = l1.counts[USES]
