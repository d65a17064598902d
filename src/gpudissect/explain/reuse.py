"""Hit rates of the L1 and the L2 from the requests of a sample of lines.

Model: each cache is fully associative, replaces the least recently used line, and fetches sectors. The L1 of an SM
holds what loads fetch; stores write through it without allocating and do not change its order, atomics pass it, and it
is empty when a kernel starts. The L2 is shared by all SMs and allocates lines for loads, stores and atomics. An L2 of
two partitions that hold copies of each other's lines has a smaller effective capacity: pass that.

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
    """

    requests: Requests
    distances: NDArray[np.float64] = field(repr=False)

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
    distances = np.full(len(requests.address), np.inf)
    chosen = np.flatnonzero(np.asarray(uses_l1, bool)[requests.access])
    chosen = chosen[np.argsort(requests.sm[chosen], kind="stable")]
    sms = int(requests.sm.max(initial=0)) + 1
    lines = _numbered(requests.address // np.uint64(requests.line_bytes)) * sms + requests.sm
    distances[chosen] = _distances(requests, chosen, _numbered(lines[chosen]), SECTOR_BYTES)
    return Reuse(requests, distances)


def behind_l1(requests: Requests, uses_l1: NDArray[np.bool_], capacity_bytes: float) -> Requests:
    """The requests that reach the L2: those that miss in L1s of this capacity each."""
    return requests.select(l1_reuse(requests, uses_l1).distances >= capacity_bytes)


def l2_reuse(requests: Requests, *, prior_launches: int = 0, fetched_bytes: int = SECTOR_BYTES) -> Reuse:
    """Distances over the whole GPU, after earlier launches of the same kernel on the same data.

    All launches after the first have the same distances. A miss fetches `fetched_bytes` of a line. Pass the requests
    that reach the L2.
    """
    count = len(requests.address)
    passes = np.tile(np.arange(count), 1 + min(prior_launches, 1))
    lines = _numbered(requests.address // np.uint64(requests.line_bytes))
    return Reuse(requests, _distances(requests, passes, lines[passes], fetched_bytes)[len(passes) - count :])


def _distances(
    requests: Requests, order: NDArray[np.int64], lines: NDArray[np.int64], fetched_bytes: int
) -> NDArray[np.float64]:
    """Distances in bytes of requests in an order, for lines numbered in this order."""
    from gpudissect.explain import _stack as stack  # imports numba

    fetched = min(fetched_bytes, requests.line_bytes)
    sectors = (requests.address[order] % np.uint64(requests.line_bytes) // np.uint64(fetched)).astype(np.int64)
    counts, size = np.empty(len(order), np.int64), int(lines.max(initial=-1)) + 1
    since = np.zeros((size, requests.line_bytes // fetched), np.int64)
    stack.fill_distances(lines, sectors, np.zeros(len(order) + 1, np.int64), np.zeros(size, np.int64), since, counts)
    scaled = counts * (requests.line_bytes / requests.rate)
    return np.where(counts == stack.NEVER, np.inf, scaled)


def _numbered(values: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each value among the distinct ones, from 0."""
    return np.unique(values, return_inverse=True)[1]
