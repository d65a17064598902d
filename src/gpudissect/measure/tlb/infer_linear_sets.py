"""Sets of a TLB from visits in random order: after misses of which pages does a page miss, too?

A page is evicted by misses of pages in its own set, so whether it misses correlates with these and with no others. In a
linear index, the XOR of the numbers of two pages decides whether they share a set. So all pairs of pages with the same
XOR count together, and the XORs of those that conflict are the null space of the index.

Unlike group tests, this needs no minimal set of conflicting pages. None exists where a further structure holds some of
the pages that a set lost: beside the second TLB of an H200, a miss cache holds the last 16 misses.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_policy import DETERMINISTIC, MISS, Outcomes, agreement, is_possible
from gpudissect.measure.cache.infer_structure import rows_from
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.index import reduced, set_numbers
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.trace import Array

MAX_VISITS = 1 << 15  # that are examined
CHUNK_VISITS = 16  # examined at a time
VISITS_PER_BIN = 256  # a bin has similar numbers of misses since the last visit
MIN_SCORE = 6.0  # standard deviations; of 8,192 random scores, the largest is about 4
MIN_PAIRS_SHARE = 0.01  # relative to the XOR with most pairs; fewer decide nothing
MIN_MISSES = 256
MAX_WAY_RATIO = 1.3  # ways tried, relative to entries / sets
MIN_AGREEMENT = 0.97  # of a policy with a lap; a wrong number of sets or ways predicts less
NORMAL_MAD = 0.6745  # median absolute deviation of a normal distribution, in standard deviations
Lap = tuple[Array, Outcomes]
"""Pages visited in random order, each several times, and whether each visit missed, after an equal lap."""


@dataclass(frozen=True)
class LinearSets:
    """Sets of pages under a linear index.

    Attributes:
        rows: rows of the index, over the low bits of page numbers.
        bits: number of these bits; those above do not vary, or only together with the last of them.
        set_of: the set of each page, shape (pages,).
        is_unique: False if some bits of the index vary only together with others, so that other rows group pages alike.

    """

    rows: tuple[int, ...]
    bits: int
    set_of: Array
    is_unique: bool


def infer_linear_sets(laps: Sequence[Lap], numbers: Array) -> LinearSets | str:
    """The sets of pages, or why none were found; `numbers` are addresses in units of the page size, rising."""
    pages, low = numbers.size, int(numbers[-1] - numbers[0]).bit_length()
    short, bits = _short_numbers(numbers, low)
    visited, misses = sum(missed.size for _, missed in laps), sum(int(missed.sum()) for _, missed in laps)
    if min(misses, visited - misses) < MIN_MISSES:
        return f"of {visited} visits of {pages} pages in random order, {misses} missed"
    rows = _rows(*_count_conflicts([(short[visits], missed) for visits, missed in laps], 1 << bits))
    if len(rows) == bits:
        return f"among {pages} pages, no XOR of page numbers conflicts more than the others"
    varying = tuple(row for row in rows if np.ptp(_sets((row,), short)))
    carry = int(numbers[0] ^ numbers[-1]) >> low
    if len(reduced(row & ((1 << low) - 1) for row in varying)) < len(varying):
        return f"it is unclear whether pages below and above a multiple of {1 << low} pages share sets"
    is_unique = len(varying) == len(rows) and (carry <= 1 or not any(row >> low for row in varying))
    return LinearSets(reduced(varying), bits, _sets(varying, short), is_unique)


def fit_ways(sets: LinearSets, laps: Sequence[Lap], entries: int) -> int | str:
    """Ways of each set; or why none fit. `entries` are those of all sets, about.

    They are chosen, with a policy, by the first lap, and must predict the last one.
    """
    count = 1 << len(sets.rows)
    max_ways = int(np.ceil(MAX_WAY_RATIO * entries / count))
    caches = [
        _cache(sets, count, ways, kind)
        for ways in range(max(1, max_ways // 2), max_ways + 1)
        for kind in DETERMINISTIC
        if is_possible(kind, (ways,))
    ]
    best = max(caches, key=lambda cache: agreement(_predicted(cache, laps[0][0]), laps[0][1]))
    share = agreement(_predicted(best, laps[-1][0]), laps[-1][1])
    if share < MIN_AGREEMENT:
        return f"{count} sets of {best.ways[0]} ways predict {share:.1%} of the visits, fewer than {MIN_AGREEMENT:.0%}"
    return best.ways[0]


def _cache(sets: LinearSets, count: int, ways: int, kind: PolicyKind) -> Cache:
    """The TLB as a cache with a line of one byte for each page."""
    index = Index(IndexKind.TABLE, table=tuple(sets.set_of.tolist()))
    return Cache((ways,) * count, 1, 1, index, Policy(kind))


def _predicted(cache: Cache, visits: Array) -> Outcomes:
    """Which visits of a second lap miss."""
    return CacheModel(cache).access_many(np.tile(visits, 2))[visits.size :]


def _rows(excess: NDArray[np.float64], pairs: NDArray[np.float64]) -> tuple[int, ...]:
    """Rows of the index, from conflicts by XOR: the most significant one joins the null space as long as there is one.

    XORs that differ by a member of the null space are counted together, so each member makes others more significant.
    """
    bits, null, deviation = excess.size.bit_length() - 1, list[int](), 0.0
    while rows := rows_from(null, bits):
        of_set = _sets(rows, np.arange(excess.size))
        total, count = (np.bincount(of_set, each) for each in (excess, pairs))
        total[0] = count[0] = 0.0
        known = np.flatnonzero(count > MIN_PAIRS_SHARE * count.max())
        # All pairs share a rate: misses within a set leave fewer for the others.
        scores = (total[known] / count[known] - np.median(total[known] / count[known])) * np.sqrt(count[known])
        deviation = deviation or float(np.median(np.abs(scores))) / NORMAL_MAD  # of single XORs, few of which conflict
        if scores.max() < MIN_SCORE * deviation:
            break
        null.append(int(np.argmax(of_set == known[np.argmax(scores)])))
    return rows


def _count_conflicts(laps: Sequence[Lap], end: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By XOR below `end`: misses of a page after the other missed, beyond those expected; number of such visits."""
    sums, pairs = np.zeros(end), np.zeros(end)
    present = np.empty((CHUNK_VISITS, end), dtype=np.float32)
    step = -(-sum(visits.size for visits, _ in laps) // MAX_VISITS)
    for visits, missed in laps:
        twice = np.tile(missed == MISS, 2)  # laps are alike
        evicting, before = np.tile(visits, 2)[twice], np.append(0, np.cumsum(twice))
        begin, stop = before[visits.size + _last_visits(visits) + 1][::step], before[visits.size : -1][::step]
        excess = _excess(missed[::step].astype(np.float32), stop - begin, visits[::step])
        for chunk in np.array_split(np.arange(stop.size), -(-stop.size // CHUNK_VISITS)):
            rows = present[: chunk.size]
            rows[:] = 0
            for row, i in zip(rows, chunk.tolist(), strict=True):
                row[evicting[begin[i] : stop[i]] ^ visits[i * step]] = 1
            sums += excess[chunk] @ rows
            pairs += rows.sum(axis=0)
    return sums, pairs


def _short_numbers(numbers: Array, low: int) -> tuple[Array, int]:
    """Numbers with at most two values above the `low` bits, and their bits: one more bit stands for those above."""
    high = numbers >> low != numbers[0] >> low
    return (numbers & ((1 << low) - 1)) | (high.astype(np.int64) << low), low + int(high[-1])


def _sets(rows: Sequence[int], numbers: Array) -> Array:
    """The set of each number: bit i is the parity of number & row i."""
    return set_numbers(Index(IndexKind.XOR, masks=tuple(rows)), 1, 1 << len(rows), numbers)


def _last_visits(visits: Array) -> Array:
    """Position of the visit before each one to the same page; negative in the lap before."""
    order = np.argsort(visits, kind="stable")
    is_first = np.append(True, visits[order][1:] != visits[order][:-1])
    is_last = np.append(is_first[1:], True)
    last = np.append(0, order[:-1])
    last[is_first] = order[is_last] - visits.size
    positions = np.empty_like(order)
    positions[order] = last
    return positions


def _excess(missed: NDArray[np.float32], misses: Array, visits: Array) -> NDArray[np.float32]:
    """Misses beyond the usual share of visits after about as many `misses` since the last one, and of that page."""
    excess = np.empty_like(missed)
    for part in np.array_split(np.argsort(misses, kind="stable"), max(1, missed.size // VISITS_PER_BIN)):
        excess[part] = missed[part] - missed[part].mean()
    of_page = np.bincount(visits, excess) / np.maximum(1, np.bincount(visits))
    return excess - of_page[visits].astype(np.float32)
