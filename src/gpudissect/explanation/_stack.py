"""The compiled inner loop of stack distances. Imports numba: import it only to compute them."""

from gpudissect.simulation.cache.compiled import I64, compiled

NEVER = 1 << 62
"""Distance of a sector that was not requested before."""


@compiled
def fill_distances(
    requests: I64, per_fetch: int, tree: I64, last: I64, since: I64, distances: I64, is_fetch: I64
) -> None:
    """Number of other lines since the last request of each sector, at the request of its line with the most of them.

    Columns of `requests` (n, 3) are line and requester, both from 0, and sector in the line. Requests of other sectors
    of a line by one requester in sequence are simultaneous: none finds what another fetches. A miss fetches `per_fetch`
    sectors; `is_fetch` (n,) is 1 for one of simultaneous requests of these.

    Zeros are `last` (lines): position of the last request of each line, from 1; `tree` (n + 1): a Fenwick tree that
    counts these positions; `since` (lines, fetches per line): the distance of what is requested next.

    Bennett and Kruskal, "LRU stack processing", IBM Journal of Research and Development 19(4), 1975.
    """
    size, distinct, first = len(tree), 0, 0
    for request in range(len(requests)):
        line, requester, sector = requests[request]
        fetch = sector // per_fetch
        is_new = line != requests[first, 0] or requester != requests[first, 1] or request == 0
        is_fetch[request] = 1
        for other in range(first, request):
            is_new |= requests[other, 2] == sector
            if requests[other, 2] // per_fetch == fetch:
                is_fetch[request] = 0
        if is_new:
            is_fetch[request] = 1
            for other in range(first, request):
                since[requests[other, 0], requests[other, 2] // per_fetch] = 0
            first, position = request, request + 1
            earlier = last[line]
            distance = NEVER
            if earlier:
                distance = distinct
                place = earlier
                while place > 0:
                    distance -= tree[place]
                    place &= place - 1
                place = earlier
                while place < size:
                    tree[place] -= 1
                    place += place & -place
            else:
                distinct += 1
            place = position
            while place < size:
                tree[place] += 1
                place += place & -place
            last[line] = position
            for other in range(since.shape[1]):
                since[line, other] = max(since[line, other], distance)
        distances[request] = since[line, fetch]
