"""The compiled inner loop of stack distances. Imports numba: import it only to compute them."""

import numpy as np

from gpudissect.simulation.cache.compiled import I64, compiled

NEVER = 1 << 62
"""Distance of a sector that was not requested before."""


@compiled
def fill_distances(lines: I64, sectors: I64, tree: I64, last: I64, since: I64, distances: I64) -> None:
    """Number of other lines since the last request of each sector, at the request of its line with the most of them.

    `lines` are numbers from 0, `sectors` positions in the line. `distances` (requests) is the result; zeros are `last`
    (lines): position of the last request of each line, from 1; `tree` (requests + 1): a Fenwick tree that counts these
    positions; `since` (lines, sectors per line): the distance of a sector that is requested next.

    Bennett and Kruskal, "LRU stack processing", IBM Journal of Research and Development 19(4), 1975.
    """
    size, distinct = len(tree), 0
    for request in range(len(lines)):
        line, position = lines[request], request + 1
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
        for sector in range(since.shape[1]):
            since[line, sector] = max(since[line, sector], distance)
        distances[request] = since[line, sectors[request]]
        since[line, sectors[request]] = np.int64(0)
