"""Hit rates of the L1 and the L2 from the requests of a sample of lines.

Model: each cache is fully associative, replaces the least recently used line, and fetches sectors. The L1 of an SM
holds what loads fetch; stores write through it without allocating and do not change its order, atomics pass it, and it
is empty when a kernel starts. The L2 allocates lines for loads, stores and atomics. It is shared by all SMs, or each
partition serves its SMs and copies lines of the other: then pass the partitions, or a smaller effective capacity.

A request hits if fewer other lines than the cache has were requested since its sector was fetched: distances are
independent of the capacity (Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2),
1970). In a sample of lines they are shorter by the sampling rate (SHARDS: Waldspurger et al., FAST 2015).
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

SECTOR_BYTES = 32
_DEVIATIONS = 3.0
_UNSEEN = 3.0
"""With n sampled lines, a kind of lines of which none is in the sample has a share of at most 3/n at 95 % (Hanley and
Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983)."""


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


@dataclass(frozen=True, slots=True)
class Share:
    """A share of requests with bounds for the sample: value and bounds are equal if all lines are in the sample.

    `requests` and `lines` are those in the sample; without any the bounds are 0 and 1.
    """

    value: float
    low: float
    high: float
    requests: int
    lines: int


@dataclass(frozen=True)
class HitRates:
    """Hit rates of all requests, and by index of access."""

    total: Share
    by_access: dict[int, Share]


@dataclass(frozen=True)
class Reuse:
    """Requests and the distance of each in bytes (requests,): the capacity that it needs to hit exceeds it.

    The distance is that of all requests, estimated from the sample; infinite if the sector was not requested before.
    Each of the requests `is_fetch` fetches `fetch_bytes` if it misses; the others wait for the same bytes.
    """

    requests: Requests
    distances: NDArray[np.float64] = field(repr=False)
    is_fetch: NDArray[np.bool_] = field(repr=False)
    fetch_bytes: int

    def hit_rates(self, capacity_bytes: float) -> HitRates:
        """Hit rates of a cache of this effective capacity; infinite: all hit but the first requests of each sector.

        Bounds are three standard deviations of the sample: of the number of its lines within the capacity (binomial),
        and of a ratio of sums over its lines (Cochran, "Sampling Techniques", 1977, section 6.4). They do not hold if
        a few lines have most requests of an access.
        """
        rate, line_bytes, error = self.requests.rate, self.requests.line_bytes, 0.0
        if np.isfinite(capacity_bytes):
            sampled_lines = max(capacity_bytes, 0.0) / line_bytes * rate
            error = _DEVIATIONS * (sampled_lines * (1 - rate)) ** 0.5 * line_bytes / rate
        capacities = (capacity_bytes, capacity_bytes - error, capacity_bytes + error)
        hits = [self.distances < capacity for capacity in capacities]
        total = self._shares(hits, *self._by_line)
        by_access = self._shares(hits, *self._by_access)
        return HitRates(total.get(0, Share(np.nan, 0.0, 1.0, 0, 0)), by_access)

    def fetched_bytes(self, capacity_bytes: float) -> dict[int, float]:
        """Bytes that the misses of all requests fetch, estimated from the sample, by index of access.

        Stores that write whole sectors fetch nothing: leave them out.
        """
        misses = self.is_fetch & (self.distances >= capacity_bytes)
        counts = np.bincount(self.requests.access, misses)
        return {access: float(counts[access]) * self.fetch_bytes / self.requests.rate for access in self._accesses}

    @cached_property
    def _accesses(self) -> list[int]:
        return [int(access) for access in np.unique(self.requests.access)]

    @cached_property
    def _lines(self) -> NDArray[np.int64]:
        return _numbered(self.requests.address // np.uint64(self.requests.line_bytes))

    @cached_property
    def _by_line(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._cells(np.zeros_like(self._lines))

    @cached_property
    def _by_access(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._cells(self.requests.access.astype(np.int64))

    def _cells(self, group: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cell of each request, one of a group and a line, and the group of each cell."""
        size = int(self._lines.max(initial=0)) + 1
        keys, cells = np.unique(group * size + self._lines, return_inverse=True)
        return cells, keys // size

    def _shares(
        self, hits: list[NDArray[np.bool_]], cells: NDArray[np.int64], group: NDArray[np.int64]
    ) -> dict[int, Share]:
        """Share of the hits in each group: three masks, at the capacity and at both ends of its error."""
        requests = np.bincount(cells, minlength=len(group)).astype(float)
        sums, lines = np.bincount(group, requests), np.bincount(group)
        present, unsampled = np.flatnonzero(lines), 1 - self.requests.rate
        value, low, high = (np.zeros(len(lines)) for _ in range(3))
        for mask, bound, sign in zip(hits, (value, low, high), (0, -1, 1), strict=True):
            found = np.bincount(cells, mask, minlength=len(group))
            share = np.bincount(group, found) / np.maximum(sums, 1)
            squares = np.bincount(group, (found - share[group] * requests) ** 2)
            deviation = (unsampled * squares * lines / np.maximum(lines - 1, 1)) ** 0.5 / np.maximum(sums, 1)
            bound[:] = share + sign * (_DEVIATIONS * deviation + unsampled * _UNSEEN / np.maximum(lines, 1))
        bounds = zip(value, np.clip(low, 0, 1), np.clip(high, 0, 1), sums, lines, strict=True)
        shares = [Share(float(v), float(a), float(b), int(n), int(m)) for v, a, b, n, m in bounds]
        return {int(number): shares[number] for number in present}


def l1_reuse(requests: Requests, uses_l1: NDArray[np.bool_]) -> Reuse:
    """Distances within each SM. `uses_l1` is by index of access; accesses that do not use the L1 never hit."""
    chosen = np.flatnonzero(np.asarray(uses_l1, bool)[requests.access])
    return _reuse(requests, chosen, requests.sm.astype(np.int64), SECTOR_BYTES)


def behind_l1(requests: Requests, uses_l1: NDArray[np.bool_], capacity_bytes: float) -> Requests:
    """The requests that reach the L2: those that miss in L1s of this capacity each."""
    return requests.select(l1_reuse(requests, uses_l1).distances >= capacity_bytes)


def l2_reuse(
    requests: Requests,
    *,
    prior_launches: int = 0,
    fetch_bytes: int = SECTOR_BYTES,
    partition_of_sm: NDArray[np.int64] | None = None,
) -> Reuse:
    """Distances over the whole GPU, or within each partition of the L2, of the requests that reach the L2.

    They are those of a launch after earlier ones of the same kernel on the same data, which are the same after one as
    after many. A miss fetches `fetch_bytes` of a line. With the number of the near partition of each SM, hits are those
    in the near partition, whose capacity is that of one partition; a miss may hit in the other.
    """
    group = np.zeros(len(requests.sm), np.int64) if partition_of_sm is None else partition_of_sm[requests.sm]
    return _reuse(requests, np.arange(len(group)), group, fetch_bytes, 1 + min(prior_launches, 1))


def _reuse(
    requests: Requests, chosen: NDArray[np.int64], group: NDArray[np.int64], fetch_bytes: int, passes: int = 1
) -> Reuse:
    """Distances of chosen requests within each group in the last of several passes; the others never hit."""
    from gpudissect.explanation import _stack as stack  # imports numba

    fetch_bytes = min(fetch_bytes, requests.line_bytes)
    order = np.tile(chosen, passes)
    sorted_by_group = np.argsort(group[order].astype(np.uint16), kind="stable")
    order = order[sorted_by_group]
    line, offset = np.divmod(requests.address, np.uint64(requests.line_bytes))
    lines = line.astype(np.int64) * (int(group.max(initial=0)) + 1) + group
    columns = np.zeros((len(group), 3), np.int64)
    columns[chosen, 0] = _numbered(lines[chosen])
    columns[:, 1] = requests.access * (requests.sm.max(initial=0) + 1) + requests.sm
    columns[:, 2] = offset // np.uint64(SECTOR_BYTES)
    size = int(columns[:, 0].max(initial=0)) + 1
    tree, last = np.zeros(len(order) + 1, np.int64), np.zeros(size, np.int64)
    since, counts = np.zeros((size, requests.line_bytes // fetch_bytes), np.int64), np.zeros((2, len(order)), np.int64)
    stack.fill_distances(columns[order], fetch_bytes // SECTOR_BYTES, tree, last, since, *counts)
    results = np.empty_like(counts)
    results[:, sorted_by_group] = counts
    counts, is_fetch = results[:, len(order) - len(chosen) :]
    distances, fetches = np.full(len(group), np.inf), np.ones(len(group), bool)
    distances[chosen] = np.where(counts == stack.NEVER, np.inf, counts * (requests.line_bytes / requests.rate))
    fetches[chosen] = is_fetch != 0
    return Reuse(requests, distances, fetches, fetch_bytes)


def _numbered(values: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each value among the distinct ones, from 0."""
    return np.unique(values, return_inverse=True)[1]
