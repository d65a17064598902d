"""Where requests of a sample of lines are served: the L1, the partitions of the L2, or device memory.

Model: each cache is fully associative, replaces the least recently used line, and fetches sectors. The L1 of an SM
holds what loads fetch; stores write through it without allocating and do not change its order, atomics pass it, and it
is empty when a kernel starts. Each line has a home in one partition of the L2. A load looks in the partition of its SM,
then in the home; both keep what they fetch. Stores and atomics go to the home. Which lines have their home where is
random here (measured: partitions take turns line by line, in no simple order).

A sample of lines behaves in caches that are smaller by the sampling rate as all lines do in the whole ones (Waldspurger
et al., "Cache Modeling and Optimization using Miniature Simulations", USENIX ATC 2017).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation import _lru as lru
from gpudissect.explanation.rows import numbered

SECTOR_BYTES = 32
_HOME_MULTIPLIER = np.uint64(0xD1342543DE82EF95)


@dataclass(frozen=True)
class Requests:
    """Requests of sectors in their order, each array (requests,): address in bytes, index of the access, SM.

    They are all requests of the lines in the sample, which has `rate` of all lines. `overflow_count` later ones are
    missing.
    """

    address: NDArray[np.uint64] = field(repr=False)
    access: NDArray[np.uint32] = field(repr=False)
    sm: NDArray[np.uint32] = field(repr=False)
    line_bytes: int
    rate: float
    overflow_count: int = 0

    def select(self, chosen: NDArray[np.bool_]) -> "Requests":
        """The requests of a mask."""
        return replace(self, address=self.address[chosen], access=self.access[chosen], sm=self.sm[chosen])

    @property
    def line(self) -> NDArray[np.uint64]:
        """Numbers of the lines, shape (requests,)."""
        return self.address // np.uint64(self.line_bytes)

    @property
    def sector(self) -> NDArray[np.int64]:
        """Numbers of the sectors in their lines, shape (requests,)."""
        return (self.address % np.uint64(self.line_bytes) // np.uint64(SECTOR_BYTES)).astype(np.int64)

    def lines_of(self, capacity_bytes: float) -> int:
        """Lines of the sample that a cache of this capacity has room for."""
        return max(0, math.ceil(capacity_bytes * self.rate / self.line_bytes))


@dataclass(frozen=True)
class L2:
    """The L2: bytes of a partition, bytes that a miss of a load fetches, partition of each SM, bytes in flight.

    `in_flight_bytes`: of the requests that it is serving.
    """

    partition_bytes: float
    fetch_bytes: int
    partition_of_sm: Sequence[int]
    in_flight_bytes: float = 0.0


@dataclass(frozen=True)
class Served:
    """What becomes of requests at the L2, arrays (requests,).

    Whether the near partition or the far home has the sector; bytes that it moves from or to device memory.
    """

    is_near: NDArray[np.bool_] = field(repr=False)
    is_far: NDArray[np.bool_] = field(repr=False)
    memory_bytes: NDArray[np.int64] = field(repr=False)


def behind_l1(requests: Requests, uses_l1: NDArray[np.bool_], capacity_bytes: float) -> Requests:
    """The requests that reach the L2: those that miss in L1s of this capacity each, and those that do not use it.

    `uses_l1` is by index of access.
    """
    chosen = np.flatnonzero(np.asarray(uses_l1, bool)[requests.access])
    lines = requests.lines_of(capacity_bytes)
    if not lines or not chosen.size:
        return requests
    sm = requests.sm[chosen].astype(np.int64)
    node = numbered(numbered(requests.line[chosen]) * (int(sm.max()) + 1) + sm)
    columns = np.stack([sm, node, requests.sector[chosen]], axis=1)
    is_hit = np.zeros(len(chosen), np.int64)
    lru.fill_l1(np.ascontiguousarray(columns), lines, lru.lists(int(node.max()) + 1, int(sm.max()) + 1), is_hit)
    reaches = np.ones(len(requests.address), bool)
    reaches[chosen] = is_hit == 0
    return requests.select(reaches)


def served_by(requests: Requests, is_load: NDArray[np.bool_], l2: L2, *, prior_launches: int = 1) -> Served:
    """Where the L2 serves requests of a launch after earlier ones of the same kernel on the same data.

    These are the same after one as after many. `is_load` is by index of access.
    """
    count = len(requests.address)
    partition_of_sm = np.asarray(l2.partition_of_sm, np.int64)
    partitions = int(partition_of_sm.max()) + 1
    line = requests.line
    home = home_of(line, partitions)
    near = partition_of_sm[requests.sm % np.uint32(len(partition_of_sm))]
    number = numbered(line) * partitions
    requester = requests.access.astype(np.int64) * (int(requests.sm.max(initial=0)) + 1) + requests.sm
    is_store = ~np.asarray(is_load, bool)[requests.access]
    columns = np.stack([near, home, number + near, number + home, requests.sector, is_store, requester], axis=1)
    per_fetch = max(1, min(l2.fetch_bytes, requests.line_bytes) // SECTOR_BYTES)
    caches = lru.lists((int(number.max(initial=0)) // partitions + 1) * partitions, partitions)
    lines = max(1, requests.lines_of(l2.partition_bytes))
    for _ in range(1 + min(prior_launches, 1)):
        served, sectors = np.zeros(count, np.int64), np.zeros(count, np.int64)
        lru.fill_l2(np.ascontiguousarray(columns, np.int64), lines, per_fetch, caches, served, sectors)
    return Served(served == lru.NEAR, served == lru.FAR, sectors * SECTOR_BYTES)


def merged_by(requests: Requests, is_load: NDArray[np.bool_], moved: NDArray[np.float64], l2: L2) -> NDArray[np.bool_]:
    """Whether each request, a load, comes while one of another SM for the same sector is in flight, (requests,).

    `is_load` and `moved`, bytes of a request, are by index of access. Requests are taken to come at a steady rate.
    """
    mean = float(moved[requests.access].mean()) if requests.access.size else SECTOR_BYTES
    window = l2.in_flight_bytes * requests.rate / mean  # requests of the sample
    chosen = np.flatnonzero(np.asarray(is_load, bool)[requests.access])
    sectors = (requests.address[chosen] // np.uint64(SECTOR_BYTES)).astype(np.int64)
    order = np.argsort(sectors, kind="stable")
    before, after = chosen[order[:-1]], chosen[order[1:]]
    is_same = sectors[order[:-1]] == sectors[order[1:]]
    found = np.zeros(len(requests.address), bool)
    found[after] = is_same & (after - before <= window) & (requests.sm[after] != requests.sm[before])
    return found


def home_of(line: NDArray[np.uint64], partitions: int) -> NDArray[np.int64]:
    """The partition in which each line has its home."""
    return (line * _HOME_MULTIPLIER >> np.uint64(40)).astype(np.int64) % partitions
