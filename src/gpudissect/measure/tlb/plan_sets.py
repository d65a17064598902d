"""Sets and ways of a TLB.

With up to 256 entries, without assuming equal sets or an index: the pages without which the others fit. All other
pages stay in the chain, so that a TLB in front of the one measured cannot come to hold them. Otherwise, or if that
fails, with a linear index: see `infer_linear_sets`.
"""

import math
from dataclasses import dataclass
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_structure import index_from_rows, linear_index
from gpudissect.measure.infer_confidence import CONFLICTED, DOUBTFUL, EXACT, UNTRIED
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, StopEarly, found, without
from gpudissect.measure.tlb.infer_linear_sets import LinearSets, fit_ways, infer_linear_sets
from gpudissect.measure.tlb.infer_miss_penalty import TlbLevel, count_misses
from gpudissect.measure.tlb.page_accesses import (
    LAPS,
    VISITS,
    PageAccesses,
    Pages,
    Undecided,
    memory_limit,
    random_visits,
)
from gpudissect.measure.tlb.plan_entries_and_page_size import MAX_UNUSED_SHARE, held_pages, tlb_of
from gpudissect.simulation.cache.index import canonical, matrix
from gpudissect.vocabulary import TLBS

ATTRIBUTES = ("sets", "ways", "index_function")
GROUPS = 64
MAX_ENTRIES, MIN_LINEAR_ENTRIES = 256, 64  # the most for group tests, the fewest for random visits
BATCH = 8  # pages tried at once
MIN_RANDOM_LAPS, MIN_RANDOM_VISITS = 4, 1 << 14  # the last lap checks the sets
PAGE_RATIO = 2.25  # pages visited at random, in entries
MAX_REST_SHARE = 0.08  # of the pages, in the last block
MAX_PAGE_RATIO = 5  # last page tried, in entries
SAMPLE = 16  # pages tried one by one where any group of them will do
MAX_EVIDENCE = 256  # workloads named: the last, which decide
MAX_OVERFLOW_PAGES = 8  # pages beyond those that fit, over which misses per lap are counted
METHOD = "group tests: pages without which the others fit"
RANDOM_METHOD = "random visits: XORs of page numbers at which pages evict each other"
CONSECUTIVE_METHOD = "consecutive pages that fit"
NOT_SEPARATED = (
    "its sets could not be separated: with unequal sets it has more entries than consecutive pages show, with a miss "
    "cache fewer"
)
NO_ADDRESS = "the device does not state where its memory begins, on which the sets depend"


@dataclass(frozen=True)
class TlbSets:
    """Sets of a TLB."""

    ways: tuple[int, ...]  # of each set
    set_of: tuple[int, ...]  # the set of each page from 0, as far as measured
    evidence: tuple[str, ...]  # digests of the workloads
    overflow: tuple[int, ...] = ()  # misses per lap with 1, 2, ... pages too many in order, where ways differ
    index: LinearSets | None = None  # over virtual page numbers, if found from random visits


def tlb_sets_of(element: str) -> Key[TlbSets | None]:
    """Sets and ways of a TLB; None if not all were found."""
    return Key(f"sets.{element}", (TlbSets, NoneType))


def tlb_sets_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Sets and ways of a TLB; knowledge: `TlbSets` if all its sets were found."""
    level = known[tlb_of(element)]
    if level is None:
        return Outcome(without(Status.NOT_FOUND, element, "the level itself was not found", *ATTRIBUTES))
    search = _SetSearch(level, bench)
    try:
        sets = yield from search.sets()
    except Undecided as undecided:
        unknown = without(Status.AMBIGUOUS, element, str(undecided), *ATTRIBUTES)
        return Outcome((*unknown, *_doubtful(element, level)))
    return Outcome(_estimates(element, sets, level), sets)


class _SetSearch:
    """Finds the sets of a TLB."""

    def __init__(self, level: TlbLevel, bench: Bench) -> None:
        self.level, self.bench = level, bench
        self.accesses = PageAccesses(level.page_size, bench)
        self.pages = memory_limit(bench) // level.page_size

    @property
    def evidence(self) -> tuple[str, ...]:
        return tuple(self.accesses.evidence[-MAX_EVIDENCE:])

    def sets(self) -> Ask[TlbSets]:
        """By group tests, if there are few entries and the tests separate the sets; otherwise from random visits."""
        if self.level.entries > MAX_ENTRIES:
            return (yield from self.linear_sets())
        try:
            return (yield from self.all_sets())
        except Undecided as undecided:
            if self.level.entries < MIN_LINEAR_ENTRIES:
                raise
            try:
                return (yield from self.linear_sets())
            except (Undecided, StopEarly):  # early recordings have no random visits of few pages
                raise undecided from None

    def all_sets(self) -> Ask[TlbSets]:
        """Add pages to those that just fit; find the set that each overflows, or keep it if it does not."""
        resident = list(range(self.level.entries))
        set_of: dict[int, int] = {}
        sets: list[frozenset[int]] = []
        page, end = self.level.entries, min(self.pages, (1 + MAX_PAGE_RATIO) * self.level.entries + BATCH)
        while len(set_of) < page and page < end:
            batch = range(page, min(page + BATCH, end))
            fits = yield from self._fit([np.array([*resident, each]) for each in batch])
            page += fits.index(True) if True in fits else len(fits)
            known = yield from self._known_sets(resident, range(batch.start, page), sets)
            for extra, number in known.items():
                if number is not None:
                    set_of[extra] = number
                    continue
                members = yield from self._needed(np.array([*resident, extra]))
                others = frozenset(members) - {extra}
                if not others:
                    raise Undecided(f"page {extra} alone does not fit")
                if others not in sets:
                    if any(others & each for each in sets):
                        raise Undecided(f"page {extra} conflicts with pages of several sets: replacement may be random")
                    sets.append(others)
                set_of.update(dict.fromkeys(members, sets.index(others)))
            if True in fits:
                resident.append(page)
                page += 1  # it is in a set that is not full yet; full ones stay as they are
        if len(set_of) < page or sum(map(len, sets)) != len(resident):
            raise Undecided(f"of {page} pages {page - len(set_of)} could not be assigned to a set")
        ways, held = tuple(map(len, sets)), self.level.costs.held
        if held and len(sets) > 1:
            raise Undecided(f"{held} of the pages hit in the TLB before, and it is not known in which set they are")
        ways = (ways[0] - held,) if held else ways
        overflow = (yield from self._overflow(page - 1)) if len(set(ways)) > 1 else ()
        return TlbSets(ways, tuple(set_of[each] for each in range(page)), self.evidence, overflow)

    def linear_sets(self) -> Ask[TlbSets]:
        """Sets with a linear index, from random visits to more pages than fit."""
        address = self.level.address
        if address is None:
            raise Undecided(NO_ADDRESS)
        max_count = min(self.pages, int(PAGE_RATIO * self.level.entries))
        count = max_count - _few_of_last_block(address // self.level.page_size, max_count)
        laps = max(MIN_RANDOM_LAPS, MIN_RANDOM_VISITS // (VISITS * count))
        rngs = [self.bench.rng("visits for sets", self.level.page_size, lap) for lap in range(laps)]
        visits = [random_visits(count, rng) for rng in rngs]
        missed = yield from self.accesses.misses(visits, 1, self.level.miss.threshold)
        observed = [*zip(visits, missed, strict=True)]
        sets = infer_linear_sets(observed[:-1], self.accesses.virtual_page_numbers(np.arange(count), address))
        if isinstance(sets, str):
            raise Undecided(sets)
        if isinstance(ways := fit_ways(sets, observed, self.level.entries), str):
            raise Undecided(ways)
        return TlbSets((ways,) * (1 << len(sets.rows)), tuple(sets.set_of.tolist()), self.evidence, index=sets)

    def _overflow(self, last: int) -> Ask[tuple[int, ...]]:
        """Median misses per lap over consecutive pages in order, up to page `last`: what MC16 figure 8 counts."""
        entries = self.level.entries
        counts = range(entries + 1, min(last + 1, entries + MAX_OVERFLOW_PAGES) + 1)
        measured = yield from self.accesses.visits([np.arange(count) for count in counts], LAPS)
        return tuple(int(np.median(count_misses(each, self.level.miss.threshold)[:, 1])) for each in measured)

    def _known_sets(self, resident: list[int], pages: range, sets: list[frozenset[int]]) -> Ask[dict[int, int | None]]:
        """Which known set each page overflows: the only one that has room for it without one of its pages."""
        chains = [
            np.array([*(each for each in resident if each != min(members)), page]) for page in pages for members in sets
        ]
        fits = np.array((yield from self._fit(chains)) if chains else [], dtype=bool).reshape(len(pages), len(sets))
        return {page: int(np.argmax(row)) if row.sum() == 1 else None for page, row in zip(pages, fits, strict=True)}

    def _needed(self, pages: Pages) -> Ask[list[int]]:
        """The pages without which the others fit: first groups of pages, then those of groups that have one."""
        groups = np.array_split(self.bench.rng("groups of pages", pages.size).permutation(pages), GROUPS)
        groups = [group for group in groups if group.size]
        fits = yield from self._fit([np.setdiff1d(pages, group) for group in groups])
        candidates = [int(page) for group, fit in zip(groups, fits, strict=True) if fit for page in group]
        if len(candidates) == sum(fits) > 0:
            return sorted(candidates)
        if all(fits):
            sample = self.bench.rng("any page", pages.size).choice(
                candidates, min(SAMPLE, len(candidates)), replace=False
            )
            if all((yield from self._fit([np.setdiff1d(pages, [page]) for page in sample]))):
                return sorted(pages.tolist())  # all are in one set
            what = f"removing any 1/{len(groups)} of {pages.size} pages makes them fit"
            raise Undecided(
                f"{what}, so no single set explains the conflict (the next level may hide the first conflicts)"
            )
        fits = yield from self._fit([np.setdiff1d(pages, [page]) for page in candidates])
        if True not in fits:
            raise Undecided(f"{pages.size} pages do not fit whichever one of them is left out")
        return sorted(page for page, fit in zip(candidates, fits, strict=True) if fit)

    def _fit(self, chains: list[Pages]) -> Ask[list[bool]]:
        return (yield from self.accesses.stay_resident(chains, self.level.miss.threshold))


def _few_of_last_block(first: int, count: int) -> int:
    """Pages in the last of the aligned blocks from page `first` on, if too few to show what its address bit does."""
    rest = (first + count) % (1 << (count.bit_length() - 1))
    return rest if rest < MAX_REST_SHARE * count else 0


def _estimates(element: str, sets: TlbSets, level: TlbLevel) -> tuple[Estimate, ...]:
    ways, count, total = tuple(sorted(sets.ways, reverse=True)), len(sets.ways), sum(sets.ways)
    held = held_pages(level)
    confidence, method = (CONFLICTED if held else EXACT, METHOD) if sets.index is None else (UNTRIED, RANDOM_METHOD)
    origin, reach = (confidence, method, sets.evidence), total * level.page_size
    equal = ways[0] if len(set(ways)) == 1 else None
    overflow = (*held, *_overflow_caveat(sets, level.entries))
    estimates = (
        found(element, "sets", count, count, count, *origin, overflow),
        found(element, "ways", equal or ways, equal, equal and equal + level.costs.held, *origin, overflow),
        _index_estimate(element, sets, level.page_size, confidence, method),
    )
    if total == level.entries:
        return estimates
    # Consecutive pages may overflow one set before the others are full, or a miss cache may hold some of them.
    caveats = (f"the ways of all sets; {level.entries} consecutive pages fit",)
    entries = found(element, "entries", total, total, total, *origin, caveats)
    return (*estimates, entries, found(element, "reach", reach, reach, reach, *origin, caveats))


def _doubtful(element: str, level: TlbLevel) -> tuple[Estimate, ...]:
    """What was found without the sets: they may be unequal, or the page size wrong."""
    page, low = level.page_size, math.floor(level.entries / (1 + MAX_UNUSED_SHARE))
    fields = DOUBTFUL, CONSECUTIVE_METHOD, level.evidence, (NOT_SEPARATED,)
    return (
        found(element, "entries", level.entries, low, None, *fields),
        found(element, "page_size", page, page, page, *fields),
        found(element, "reach", level.entries * page, low * page, None, *fields),
    )


def _overflow_caveat(sets: TlbSets, entries: int) -> tuple[str, ...]:
    """Misses per lap, beside those of LRU: they distinguish these sets from others that hold as many pages."""
    if not sets.overflow:
        return ()
    lru, pages = [], np.bincount(sets.set_of[:entries], minlength=len(sets.ways))
    for page in range(entries, entries + len(sets.overflow)):
        pages[sets.set_of[page]] += 1
        lru.append(int(pages[pages > sets.ways].sum()))
    counted, predicted = (", ".join(map(str, misses)) for misses in (sets.overflow, lru))
    return (
        f"misses per lap over {entries + 1}, {entries + 2}, ... pages in order: {counted}; LRU in these sets predicts "
        f"{predicted}: a set with one page too many misses once more than it has ways",
    )


def _index_estimate(element: str, sets: TlbSets, page_size: int, confidence: float, method: str) -> Estimate:
    text, bits = _index(sets, page_size)
    low, evidence = page_size.bit_length() - 1, sets.evidence
    caveats = (f"over the measured pages, only address bits {low} to {low + bits - 1} vary",) if bits else ()
    if sets.index is None or sets.index.is_unique:
        return found(element, "index_function", text, None, None, confidence, method, evidence, caveats)
    together = "some of them change only together over the measured pages"
    reason = f"{text}, but other combinations of high address bits are possible: {together}"
    return without(Status.AMBIGUOUS, element, reason, "index_function", method=method, evidence=evidence)[0]


def _index(sets: TlbSets, page: int) -> tuple[str, int]:
    """The index: one set, address bits, a remainder, or the table of the pages measured.

    With the number of bits of the page numbers that vary, if it is linear, otherwise 0.
    """
    count, table = len(sets.ways), sets.set_of
    if count == 1:
        return "one set", 0
    if sets.index is not None:
        return canonical(index_from_rows(sets.index.rows, page), page, count), sets.index.bits
    linear = linear_index(np.array(table), page)
    if linear is not None and 1 << len(matrix(linear)) == count:
        return canonical(linear, page, count), (len(table) - 1).bit_length()
    # what is left are remainders of divisors that are no power of two, and tables
    if len(set(table[:count])) == count and all(table[i] == table[i - count] for i in range(count, len(table))):
        return f"page mod {count}", 0
    return "not a remainder, table " + " ".join(map(str, table)), 0


EXPERIMENTS = tuple(
    Experiment(
        tlb_sets_of(tlb),
        partial(tlb_sets_plan, tlb),
        ATTRIBUTES,
        (tlb_of(tlb),),
        (f"{tlb}.entries", f"{tlb}.page_size", f"{tlb}.reach"),
    )
    for tlb in TLBS
)
