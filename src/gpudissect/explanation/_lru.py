"""The compiled caches of `reuse`: least recently used replacement of lines with sectors."""

from typing import NamedTuple

import numpy as np

from gpudissect.simulation.cache.compiled import I64, compiled, inlined

NEAR, FAR, MEMORY = 0, 1, 2
"""Where a request is served: the partition of its SM, the other one that holds the line, or device memory."""


class Lists(NamedTuple):
    """Lines of several caches, each line of a cache with a number of its own: a node.

    `newer`, `older` (nodes + caches,): neighbours in the order of use, closed to a ring by the node that begins each
    cache: `nodes` + its number. `sectors`, `written` (nodes,): bits. `resident` (caches,): lines.
    """

    newer: I64
    older: I64
    sectors: I64
    written: I64
    resident: I64


def lists(nodes: int, caches: int) -> Lists:
    """Empty caches with room for so many nodes in all."""
    ring = np.arange(nodes + caches)
    sectors, written, resident = (np.zeros(count, np.int64) for count in (nodes, nodes, caches))
    return Lists(ring.copy(), ring, sectors, written, resident)


@inlined
def _unlink(caches: Lists, node: int) -> None:
    caches.newer[caches.older[node]] = caches.newer[node]
    caches.older[caches.newer[node]] = caches.older[node]


@inlined
def _touch(caches: Lists, cache: int, node: int, lines: int) -> None:
    """Make a line the most recently used one of its cache; without room the least recently used one leaves."""
    head = caches.sectors.size + cache
    if caches.newer[node] != node:
        _unlink(caches, node)
    else:
        caches.resident[cache] += 1
        if caches.resident[cache] > lines:
            caches.resident[cache] -= 1
            last = caches.newer[head]
            _unlink(caches, last)
            caches.newer[last] = caches.older[last] = last
            caches.sectors[last] = caches.written[last] = 0
    newest = caches.older[head]
    caches.newer[newest], caches.older[node] = node, newest
    caches.newer[node], caches.older[head] = head, node


@compiled
def fill_l1(requests: I64, lines: int, caches: Lists, is_hit: I64) -> None:
    """Whether each request hits. Columns of `requests` (n, 3): cache, node, sector."""
    for request in range(len(requests)):
        cache, node, sector = requests[request]
        is_hit[request] = caches.sectors[node] >> sector & 1
        _touch(caches, cache, node, lines)
        caches.sectors[node] |= 1 << sector


@compiled
def fill_l2(requests: I64, lines: int, per_fetch: int, caches: Lists, served: I64, sectors: I64) -> None:
    """Where each request is served, and the sectors that it moves from or to memory.

    Columns of `requests` (n, 7): partition of the SM, partition of the line, node of the line in each, sector, kind
    (0 a load, 1 a store or an atomic). Column 6 is the requester: requests of other sectors of a line by one
    requester in sequence are simultaneous, and none finds what another fetches.
    """
    first, new = 0, 0
    whole = (1 << per_fetch) - 1
    for request in range(len(requests)):
        near, home, near_node, home_node, sector, is_store, requester = requests[request]
        if request == 0 or home_node != requests[first, 3] or requester != requests[first, 6] or new >> sector & 1:
            first, new = request, 0
        unit = whole << (sector // per_fetch * per_fetch)
        if is_store:
            _touch(caches, home, home_node, lines)
            sectors[request] = 1 - (caches.written[home_node] >> sector & 1)
            served[request] = MEMORY if sectors[request] else NEAR if near == home else FAR
            caches.sectors[home_node] |= 1 << sector
            caches.written[home_node] |= 1 << sector
            for copy in range(home_node - home, home_node - home + len(caches.resident)):
                if copy != home_node:
                    caches.sectors[copy] &= ~(1 << sector)
            new |= 1 << sector
            continue
        sectors[request] = 0
        found = -1
        for other in range(first, request):
            if requests[other, 4] // per_fetch == sector // per_fetch:
                found = served[other]
        new |= 1 << sector
        if found >= 0:
            served[request] = found
            continue
        if caches.sectors[near_node] >> sector & 1:
            served[request] = NEAR
        elif near != home and caches.sectors[home_node] >> sector & 1:
            served[request] = FAR
            _touch(caches, home, home_node, lines)
        else:
            served[request] = MEMORY
            _touch(caches, home, home_node, lines)
            sectors[request] = per_fetch
            caches.sectors[home_node] |= unit
        if near != home or served[request] == NEAR:
            fetched = caches.sectors[home_node] & unit
            _touch(caches, near, near_node, lines)
            if served[request] != NEAR:
                caches.sectors[near_node] |= fetched
