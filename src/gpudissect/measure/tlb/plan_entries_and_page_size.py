"""Entries and page size of TLBs, level by level, and the cost of a miss.

Chains with one line per page are compared with the same lines a few pages at a time. Entries: the largest number of
pages that all stay resident, so far apart that each needs an entry. Page size: the smallest distance at which that
number stays the same (MC16 s4.4).
"""

import math
from dataclasses import replace
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_residency import Fit
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL, EXACT, LATENCY
from gpudissect.measure.plan import (
    Ask,
    Bench,
    Experiment,
    Key,
    Known,
    Outcome,
    Plan,
    StopEarly,
    found,
    together,
    without,
)
from gpudissect.measure.tlb.infer_miss_penalty import (
    MIN_STEP_CYCLES,
    MIN_STEP_SHARE,
    PENALTY_ERROR,
    MissCosts,
    MissPenalty,
    Penalties,
    TlbLevel,
    next_miss_penalty,
)
from gpudissect.measure.tlb.page_accesses import (
    LAPS,
    SCATTERED_CHAINS,
    PageAccesses,
    Pages,
    Undecided,
    halves,
    memory_limit,
)
from gpudissect.units import MIB, format_bytes, format_bytes_rounded
from gpudissect.vocabulary import TLBS

ATTRIBUTES = ("entries", "page_size", "reach", "miss_penalty")
MAX_PAGE_SIZE = 64 * MIB  # distance of pages to begin with
MIN_PAGE_SIZE = 4096
MIN_PAGES = 40  # that must fit into memory at the first distance
FIRST_PAGES, MAX_PAGES = 8, 8192  # of chains
MAX_UNUSED_SHARE = 0.12
"""Entries of a large TLB that consecutive pages may leave unused if the memory begins at another address, relative to
those used. In one process, counts repeat within 2; from process to process, H200s gave 1,852 to 2,050 (34 counts)."""
MAX_EXACT_ENTRIES = 128  # of more entries, others may have taken one, or a few misses may have passed for misread
PLACEMENT = "depends on the address at which the memory begins, which differs from process to process"
COST_ROUNDS = 3  # latencies drift between the chains that are compared
MIN_MISS_SHARE = 0.4  # of accesses: with twice as many pages as entries half or more miss, whatever the policy
MIN_PACKED_PAGES = 2
MAX_PACKED_SHARE = 0.25  # of the share of slow accesses over all pages, for lines in few pages
SCATTER_RANGE = 16  # pages from which scattered ones are chosen, in entries
MAX_FEW = 16  # pages that must fit wherever they are; at most half of those that fit, which may be those of one set
MAX_HELD_SHARE = 0.25  # of the entries, which the TLB before may hold
MAX_SET_RATIO = 4  # times as many pages half as far apart as fit: they cannot all fit
PAGE_POSITIONS = 64  # in a page at which a line may be
NO_LARGER = "slower accesses reach no further than the previous TLB: they are misses of that TLB, not another level"
METHOD = "chains of one line per page compared with the same lines a few pages at a time"


def tlb_of(element: str) -> Key[TlbLevel | None]:
    """A TLB; None if it was not found."""
    return Key(f"tlb.{element}", (TlbLevel, NoneType))


def tlb_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Entries, page size, reach and miss penalty of a TLB."""
    levels = known[levels_of("l2")]
    if levels.level("l2") is None:
        absence = levels.absent["l2"]
        return Outcome(without(absence.status, element, absence.reason, *ATTRIBUTES))
    number = TLBS.index(element)
    last = known[tlb_of(TLBS[number - 1])] if number else None
    if number and last is None:
        return Outcome(without(Status.NOT_FOUND, element, "the level before it was not found", *ATTRIBUTES))
    search = _Search(bench, last)
    slow_pages = yield from search.slow_pages()
    if slow_pages is None:
        size, origin = search.max_fast_bytes, {"method": METHOD, "evidence": tuple(search.evidence)}
        reason = f"no access within {format_bytes_rounded(size)} is slower because of its page"
        absent = without(Status.NOT_FOUND, element, reason, *ATTRIBUTES, **origin)
        return Outcome(tuple(replace(each, low=size if each.attribute == "reach" else None) for each in absent))
    try:
        level = yield from search.level(*slow_pages)
    except Undecided as undecided:
        return Outcome(without(Status.AMBIGUOUS, element, str(undecided), *ATTRIBUTES))
    if isinstance(level, str):
        return Outcome(without(Status.NOT_FOUND, element, level, *ATTRIBUTES))
    if last is not None and level.entries * level.page_size <= last.entries * last.page_size:
        return Outcome(without(Status.NOT_FOUND, element, NO_LARGER, *ATTRIBUTES))
    certain = level.page_size > MIN_PAGE_SIZE and search.limit // level.page_size > level.entries
    return Outcome(_estimates(element, level, last, certain), level)


class _Search:
    """Search for the next slower class of accesses as the number of pages grows."""

    def __init__(self, bench: Bench, last: TlbLevel | None) -> None:
        self.bench, self.last_miss, self.last_entries = bench, last.miss if last else None, last.entries if last else 0
        self.min_page = last.page_size if last else MIN_PAGE_SIZE
        self.limit = memory_limit(bench)
        self.evidence: list[str] = []
        self.max_fast_bytes = 0  # over which no access was slow
        self.next_entries: int | None = None  # of the level after the one that is searched, if it was found before
        self._accesses: dict[int, PageAccesses] = {}

    def at(self, spacing: int) -> PageAccesses:
        """Accesses to pages that far apart."""
        accesses = self._accesses.setdefault(spacing, PageAccesses(spacing, self.bench))
        accesses.evidence = self.evidence
        return accesses

    def slow_pages(self) -> Ask[tuple[MissPenalty, int, int, int] | None]:
        """The next penalty, the distance at which it shows, and numbers of pages without and with it."""
        spacing = MAX_PAGE_SIZE
        while spacing > max(MIN_PAGE_SIZE, self.limit // MIN_PAGES):
            spacing //= 2
        while spacing >= self.min_page:
            most = min(self.limit // spacing, MAX_PAGES)
            sizes = [FIRST_PAGES << i for i in range(20) if FIRST_PAGES << i < most] + [most]
            before = 1
            for size in sizes:
                penalties = yield from self.at(spacing).penalties([np.arange(size)])
                miss = next_miss_penalty(penalties, self.last_miss, self.at(spacing).noise)
                if miss is not None:
                    return miss, spacing, before, size
                before = size
                self.max_fast_bytes = max(self.max_fast_bytes, size * spacing)
            spacing //= 2
        return None

    def level(self, miss: MissPenalty, spacing: int, low: int, high: int) -> Ask[TlbLevel | str]:
        """The level whose misses show with `high` pages, not with `low`; or why it is no TLB. Raises `Undecided`."""
        entries = yield from self.max_resident(spacing, miss, low, high)
        resident = self.at(spacing).resident
        nearer = next_miss_penalty(resident, self.last_miss, self.at(spacing).noise)
        if nearer is not None and nearer.cycles < miss.threshold and self.next_entries is None:
            # Pages that fit are slow too: between two sizes both this level and a smaller one before it overflowed.
            self.next_entries = entries
            return (yield from self.level(nearer, spacing, 1, entries))
        page, miss, entries = yield from self.smallest_distance(spacing, miss, entries)
        ordered, slower = yield from self.in_order(entries, page, miss)
        if isinstance(slower, str) and np.any(ordered >= miss.threshold):
            more = yield from self.max_resident(page, miss, entries, self.max_in_sets(entries, page))
            if more >= 2 * entries - 1:  # farther apart, they used half of the sets; if fewer, they share entries
                page, miss, entries = yield from self.smallest_distance(page, miss, more)
                ordered, slower = yield from self.in_order(entries, page, miss)
        if isinstance(slower, str):
            return slower
        miss, slow = slower, float(np.mean(ordered >= slower.threshold))
        slowest = float(np.median(ordered[ordered >= miss.threshold]))
        if self.next_entries is None and slowest > (1 + MIN_STEP_SHARE) * miss.cycles + MIN_STEP_CYCLES:
            self.next_entries = entries + max(1, entries // 8)  # twice as many overflow the next level too
        if page == spacing:
            page, entries = yield from self.wider_pages(spacing, miss, entries)
        yield from self.check_packed(page, miss, entries, slow)
        widest, few = page, min(max(2, entries // 2), MAX_FEW)
        smaller, entries = yield from self.smaller_pages(page, miss, entries)
        while smaller < page:  # XORs of address bits may use all sets at other distances, too
            page, miss, entries = yield from self.smallest_distance(smaller, miss, entries)
            smaller, entries = yield from self.smaller_pages(page, miss, entries)
        if page < widest:
            yield from self.check_again(page, miss, entries, few)
            if self.overflow(entries, page).size == 2 * entries:  # pages far apart change the window even in order
                _, slower = yield from self.in_order(entries, page, miss)
                if isinstance(slower, str):
                    return slower
                miss = slower
        costs = yield from self.repeat_costs(self.overflow(entries, page), page, miss)
        if (yield from self.fits_in_halves(page, miss, entries)):
            raise Undecided(f"{entries + 1} lines {format_bytes(page)} apart overflow, others in half pages do not")
        evidence = *self.evidence, *costs.evidence
        return TlbLevel(miss, costs, page, entries - costs.held, evidence, self.at(page).address)

    def in_order(self, entries: int, page: int, miss: MissPenalty) -> Ask[tuple[Penalties, MissPenalty | str]]:
        """Penalties of pages in order, and that of a miss among them, or why they do not miss a TLB.

        Accesses that are slow in random order only change the page-table window; without that the penalty is smaller.
        """
        (ordered,) = yield from self.at(page).visits([self.overflow(entries, page)], LAPS)
        if (slow := float(np.mean(ordered >= miss.threshold))) >= MIN_MISS_SHARE:
            return ordered, miss
        smaller = next_miss_penalty([ordered], self.last_miss, self.at(page).noise)
        return ordered, smaller or (
            f"over twice {format_bytes(entries * page)} in order, {slow:.0%} of accesses are slower; TLB misses would "
            "slow half or more: it may be changes of the page-table window (MC16 s5.2, P6), or conflicts in the L2"
        )

    def overflow(self, entries: int, page: int) -> Pages:
        """Pages that the level does not hold, twice as many as it has entries unless the next level holds fewer."""
        return np.arange(min(2 * entries, self.limit // page, self.next_entries or MAX_PAGES * entries))

    def max_resident(self, spacing: int, miss: MissPenalty, low: int, high: int) -> Ask[int]:
        """The most pages that stay resident, of which `low` probably do and `high` do not. Raises `Undecided`."""
        while low > 1 and (yield from self.at(spacing).fit([np.arange(low)], miss.threshold)) != [Fit.FITS]:
            low, high = low // 2, low
        return (yield from self.at(spacing).max_resident(np.arange(high), miss.threshold, low))

    def wider_pages(self, spacing: int, miss: MissPenalty, entries: int) -> Ask[tuple[int, int]]:
        """A distance at which no pages share an entry, and how many fit: twice as far apart, no fewer."""
        while 2 * spacing * entries <= self.limit:
            if (yield from self.at(2 * spacing).fit([np.arange(entries)], miss.threshold)) != [Fit.OVERFLOWS]:
                break
            try:
                entries = yield from self.max_resident(2 * spacing, miss, 1, entries)
            except Undecided:
                break
            spacing *= 2
        return spacing, entries

    def smallest_distance(self, spacing: int, miss: MissPenalty, entries: int) -> Ask[tuple[int, MissPenalty, int]]:
        """The smallest distance at which pages still need an entry each, the penalty there, and how many fit.

        Twice as many pages half as far apart: below the page size, two share an entry and all fit. Over less memory a
        miss may cost less: page tables have windows (MC16 s5.2, P6), or pages far apart overflowed the next level as
        well; then the entries are counted again. Raises `Undecided`.
        """
        while spacing > MIN_PAGE_SIZE:
            half, pages = self.at(spacing // 2), np.arange(2 * entries)
            penalties = yield from half.penalties([pages])
            nearer = next_miss_penalty(penalties, self.last_miss, half.noise)
            if nearer is None and (yield from half.stay_resident([pages], miss.threshold)) == [True]:
                break
            spacing //= 2
            if nearer is not None and nearer.cycles < miss.cycles:
                recount, miss = nearer.cycles < miss.threshold, nearer
                if recount:
                    entries = yield from self.max_resident(spacing, miss, 1, 2 * entries)
        return spacing, miss, entries

    def check_packed(self, page: int, miss: MissPenalty, entries: int, slow: float) -> Ask[None]:
        """Raise `Undecided` if more lines within fewer pages are nearly as often slow: that is no TLB.

        Shares of all accesses count: under random replacement each line of a cache is slow only now and then.
        """
        packed = yield from self.at(page).packed(2 * entries + 1, max(MIN_PACKED_PAGES, entries // 2))
        share = float(np.mean(packed >= miss.threshold))
        if share > MAX_PACKED_SHARE * slow:
            shares = f"{share:.0%} of accesses, {slow:.0%} over all pages"
            raise Undecided(f"more lines within fewer pages are slow too ({shares})")

    def smaller_pages(self, page: int, miss: MissPenalty, entries: int) -> Ask[tuple[int, int]]:
        """The distance at which one page more than entries overflows wherever it is. Raises `Undecided`.

        Where the page number selects a set, pages far apart may share one: its ways then look like all entries, and as
        many pages as there are sets like one. Lines anywhere in such pages would not conflict.
        """
        while (reason := (yield from self.overflow_in_sets(page, miss, entries))) and page > MIN_PAGE_SIZE:
            more = yield from self.max_resident(page, miss, entries, self.max_in_sets(entries, page))
            if more == entries:
                page //= 2
                more = yield from self.max_resident(page, miss, entries, self.max_in_sets(entries, page))
            entries = more
        if reason:
            raise Undecided(reason)
        return page, entries

    def check_again(self, page: int, miss: MissPenalty, entries: int, few: int) -> Ask[None]:
        """Raise `Undecided` unless one page more than entries overflows wherever it is, and `few` fit anywhere.

        Measured again from the beginning: what is slow because of its distance is so relative to any other line. In
        halves of pages twice as large, half of the entries and one more must fit: otherwise pages are that large.
        """
        again, room = PageAccesses(page, self.bench), self.limit // page
        chains = [pages for count in (entries + 1, few) for pages in again.scattered(count, page, room)]
        fits = yield from again.fit([*chains, halves(entries // 2 + 1)], miss.threshold)
        self.evidence += again.evidence
        if fits != [Fit.OVERFLOWS] * SCATTERED_CHAINS + [Fit.FITS] * (SCATTERED_CHAINS + 1):
            raise Undecided(f"measured again, {few} pages of {format_bytes(page)} overflow, or {entries + 1} do not")

    def max_in_sets(self, entries: int, page: int) -> int:
        """Pages that cannot all fit, if `entries` do twice as far apart."""
        return min(MAX_SET_RATIO * entries, self.limit // page)

    def overflow_in_sets(self, page: int, miss: MissPenalty, entries: int) -> Ask[str]:
        """Why pages may be smaller, in sets; empty if one page more than entries overflows wherever it is."""
        grain, room = self.grain(page), min(self.limit // page, max(SCATTER_RANGE * entries, MAX_PAGES))
        if room <= entries:
            return ""
        chains = self.at(grain).scattered(entries + 1, page, room)
        if grain < page:
            chains.append(halves(entries + 1) * (page // 2 // grain))
        fits = yield from self.at(grain).fit(chains, miss.threshold)
        if Fit.FITS not in fits or (yield from self.held_before(page, miss, entries)):
            return ""
        return (
            f"{entries + 1} lines {format_bytes(page)} apart overflow, but {entries + 1} scattered ones do not: pages "
            "are smaller, and the entries are in sets"
        )

    def fits_in_halves(self, page: int, miss: MissPenalty, entries: int) -> Ask[bool]:
        """Whether one page more than entries fits if half are moved by half a page, and all have other lines.

        Then pages are smaller: what looked like misses of the TLB were lines that conflict in the L2.
        """
        grain = self.grain(page)
        if grain == page or self.limit // page <= entries:
            return False
        others = self.at(grain).to_other_lines()
        try:
            fits = yield from others.fit([halves(entries + 1) * (page // 2 // grain)], miss.threshold)
        except StopEarly:  # early recordings have no such chain
            return False
        self.evidence += others.evidence
        return fits != [Fit.OVERFLOWS] and not (yield from self.held_before(page, miss, entries))

    def grain(self, page: int) -> int:
        """Bytes of which the places of lines in pages are multiples."""
        return min(max(page // PAGE_POSITIONS, self.min_page), page)

    def held_before(self, page: int, miss: MissPenalty, entries: int) -> Ask[bool]:
        """Whether pages beyond the entries stay in the TLB before, for with as many more as that holds they overflow.

        If pages were half as large, so few more lines in both halves would fit, even in unequal sets.
        """
        held = self.last_entries
        if not 0 < held <= MAX_HELD_SHARE * entries or (entries + held + 1) * page > self.limit:
            return False
        return (yield from self.at(page // 2).fit([halves(entries + held + 1)], miss.threshold)) == [Fit.OVERFLOWS]

    def repeat_costs(self, pages: Pages, page: int, miss: MissPenalty) -> Ask[MissCosts]:
        """Penalties of a chain of which every page misses, each measured several times from the beginning."""
        costs: tuple[list[float], list[float]] = ([], [])
        evidence: list[str] = []
        held = [pages.size]
        repetitions = [PageAccesses(page, self.bench, number) for number in range(1, COST_ROUNDS + 1)]
        measured = yield from together([each.in_both_orders(pages) for each in repetitions])
        for again, both in zip(repetitions, measured, strict=True):
            evidence += again.evidence
            for cycles, penalties in zip(costs, both, strict=True):
                by_page = np.median(penalties, axis=0)  # single accesses are delayed by chance
                held.append(int(np.sum(by_page < self.last_miss.threshold)) if self.last_miss else 0)
                if (slow := by_page[by_page >= miss.threshold]).size:
                    cycles.append(float(np.median(slow)))
        return MissCosts(tuple(costs[0]), tuple(costs[1]), tuple(evidence), min(held))


def _estimates(element: str, level: TlbLevel, last: TlbLevel | None, certain: bool) -> tuple[Estimate, ...]:
    entries, page = level.entries, level.page_size
    slack = 2 * (entries // MAX_EXACT_ENTRIES)
    low, high = entries - slack, entries + level.costs.held + slack
    if entries > MAX_EXACT_ENTRIES:
        low, high = math.floor(low / (1 + MAX_UNUSED_SHARE)), math.ceil(entries * (1 + MAX_UNUSED_SHARE))
    placement = (PLACEMENT,) if entries > MAX_EXACT_ENTRIES else ()
    origin = METHOD, level.evidence
    is_exact = certain and entries <= MAX_EXACT_ENTRIES and not level.costs.held
    unsure = CONFLICTED if level.costs.held else BRACKETED
    counted, sized = (EXACT if sure else unsure for sure in (is_exact, certain and not level.costs.held))
    return (
        found(element, "entries", entries, low, high, counted, *origin, (*held_pages(level), *placement)),
        found(element, "page_size", page, page, page, sized, *origin, ("what one entry covers",)),
        found(element, "reach", entries * page, low * page, high * page, counted, *origin, placement),
        _penalty_estimate(element, level, last),
    )


def held_pages(level: TlbLevel) -> tuple[str, ...]:
    """The caveat about pages that the level before holds; empty without such pages."""
    held = level.costs.held
    return (f"{level.entries + held} pages fit, but {held} hit in every lap in the TLB before",) if held else ()


def _penalty_estimate(element: str, level: TlbLevel, last: TlbLevel | None) -> Estimate:
    """Cost of a miss beyond one in the level before."""
    before = (last.costs.of_tlb or (last.miss.cycles,)) if last else (0.0,)
    costs, confidence = level.costs.of_tlb, LATENCY
    if not costs:
        return without(Status.NOT_FOUND, element, "when measured again no page was slow", "miss_penalty")[0]
    caveats = ["beyond a hit in this TLB, with the line in the L2"]
    if not level.costs.in_order:
        caveats.append("no page is slow in order: it may be the cost of another window of the page table")
        confidence = DOUBTFUL
    elif level.costs.order_matters:
        other = float(np.median(level.costs.at_random) - np.median(before))
        caveats.append(f"of pages in order; in random order {other:.1f}, with changes of the page-table window")
    value = float(np.median(costs) - np.median(before))
    low, high = min(costs) - max(before) - PENALTY_ERROR, max(costs) - min(before) + PENALTY_ERROR
    return found(element, "miss_penalty", value, low, high, confidence, METHOD, level.evidence, tuple(caveats))


EXPERIMENTS = tuple(
    Experiment(tlb_of(tlb), partial(tlb_plan, tlb), ATTRIBUTES, (levels_of("l2"), *map(tlb_of, TLBS[:number][-1:])))
    for number, tlb in enumerate(TLBS)
)
