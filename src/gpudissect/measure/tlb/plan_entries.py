"""TLBs, level by level: how many translations each keeps, how much memory one covers, and what a miss costs.

Rings of one line a page, against the same lines a few pages at a time. Entries: the most pages that are all kept, far
enough apart that each needs an entry of its own. Page size: the least distance at which that number stays (MC16 s4.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import NoneType

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_first_miss import Fit, probe_sizes
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.infer_confidence import BRACKETED, DOUBTFUL, EXACT, LATENCY
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.tlb.infer_translation import Penalties, Stair, next_stair
from gpudissect.measure.tlb.miss_cost import PENALTY_SPREAD, Costs, costs_of
from gpudissect.measure.tlb.translation import LAPS, Translations, memory
from gpudissect.units import MIB, format_bytes
from gpudissect.vocabulary import TLBS

ATTRIBUTES = ("entries", "page_size", "reach", "miss_penalty")
WIDEST = 64 * MIB  # distance of pages to begin with
NARROWEST = 4096
FEWEST = 40  # pages that must fit into memory at the first distance
SMALLEST_RING = 8
MOST_PAGES = 8192
MANY = 7
MANY_ENTRIES = 128  # for one entry of so many others may have taken one, or a few misses have passed for misread
FEW_SLOW = 0.4  # share of accesses: of twice as many pages as it keeps a TLB misses half or more, whatever its policy
FEW_PAGES = 2  # at least, for lines without the pages
AS_SLOW = 0.25  # of the share of slow accesses over all pages, at which lines in few of them are slow as well
SCATTERED = 3  # rings of pages anywhere
ELSEWHERE = 16  # times as many pages as are kept: from so many they are drawn
MOST_SETS = 4  # times as many pages half as far apart as fitted: they cannot all fit
MOST_PLACES = 6  # log2 of the places in a page at which a line is looked for
NO_EDGE = "between the pages that fit and those that do not there is no clear edge"
METHOD = "rings of one line a page against the same lines a few pages at a time"


@dataclass(frozen=True)
class TlbLevel:
    """One level.

    Attributes:
        stair: what tells its misses.
        costs: what they cost beyond a hit in the first level.
        page: bytes that one entry covers.
        entries: pages next to one another that are all kept.
        evidence: digests of the workloads behind it.

    """

    stair: Stair
    costs: Costs
    page: int
    entries: int
    evidence: tuple[str, ...]


def tlb_of(element: str) -> Key[TlbLevel | None]:
    """A TLB; None if it was not found."""
    return Key(f"tlb.{element}", (TlbLevel, NoneType))


def tlb_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Entries, page size, reach and cost of a miss of a TLB."""
    levels = known[levels_of("l2")]
    if levels.level("l2") is None:
        absence = levels.absent["l2"]
        return Outcome(without(absence.status, element, absence.reason, *ATTRIBUTES))
    number = TLBS.index(element)
    last = known[tlb_of(TLBS[number - 1])] if number else None
    if number and last is None:
        return Outcome(without(Status.NOT_FOUND, element, "the level before it was not found", *ATTRIBUTES))
    search = _Search(bench, last)
    found = yield from search.stair()
    if found is None:
        return Outcome(_none(element, search, bench))
    stair, spacing, fewest, most = found
    entries = yield from search.onset(spacing, stair, fewest, most)
    if entries is None:
        return Outcome(_ambiguous(element, NO_EDGE))
    narrowest = yield from search.page_size(spacing, stair, entries)
    if narrowest is None:
        return Outcome(_ambiguous(element, NO_EDGE))
    page, stair, entries = narrowest
    ordered = yield from search.in_order(page, entries)
    slow = float(np.mean(ordered >= stair.threshold))
    if slow < FEW_SLOW:
        # What is slow at random alone are jumps between windows of the page table; what it costs beside them?
        alone = next_stair([ordered], last.stair if last else None, search.at(page).noise)
        if alone is None:
            reason = (
                f"of accesses to twice {format_bytes(entries * page)} in order {slow:.0%} are slower: of a TLB it "
                "would be half or more; they may jump between windows of the page table (MC16 s5.2, P6), or lines "
                "conflict in the L2"
            )
            return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
        stair, slow = alone, float(np.mean(ordered >= alone.threshold))
    if page == spacing:
        page, entries = yield from search.wider_pages(spacing, stair, entries)
    reason = yield from search.without_pages(page, stair, entries, slow)
    if reason:
        return Outcome(_ambiguous(element, reason))
    smaller = yield from search.smaller_pages(page, stair, entries)
    if isinstance(smaller, str):
        return Outcome(_ambiguous(element, smaller))
    page, entries = smaller
    ring = np.arange(min(2 * entries, search.limit // page))
    costs = yield from costs_of(ring, page, stair, bench)
    level = TlbLevel(stair, costs, page, entries, (*search.evidence, *costs.evidence))
    told = page > search.narrowest and search.limit // page > entries  # by the last doubt, too
    return Outcome(_found(element, level, last, told), level)


class _Search:
    """Looks for the next slower kind of access as pages become more."""

    def __init__(self, bench: Bench, last: TlbLevel | None) -> None:
        self.bench, self.last = bench, last
        self.limit = memory(bench)
        self.evidence: list[str] = []
        self.narrowest = NARROWEST
        self._translations: dict[int, Translations] = {}
        self.looked = 0  # bytes over which no slower access was seen

    def at(self, spacing: int) -> Translations:
        """Pages so far apart."""
        if spacing not in self._translations:
            self._translations[spacing] = Translations(spacing, self.bench)
            self._translations[spacing].evidence = self.evidence
        return self._translations[spacing]

    def stair(self) -> Ask[tuple[Stair, int, int, int] | None]:
        """The next stair, at which distance it shows, with how many pages not yet and with how many."""
        spacing = WIDEST
        while spacing * FEWEST > self.limit and spacing > NARROWEST:
            spacing //= 2
        least = self.last.page if self.last else NARROWEST
        while spacing >= least:
            most = min(self.limit // spacing, MOST_PAGES)
            sizes = [SMALLEST_RING << i for i in range(20) if SMALLEST_RING << i < most] + [most]
            before = 1
            for size in sizes:
                told = yield from self.at(spacing).penalties([np.arange(size)])
                found = next_stair(told, self.last.stair if self.last else None, self.at(spacing).noise)
                if found is not None:
                    return found, spacing, before, size
                before = size
                self.looked = max(self.looked, size * spacing)
            spacing //= 2
        return None

    def onset(self, spacing: int, stair: Stair, low: int, high: int) -> Ask[int | None]:
        """The most pages that fit, of which `low` probably do and `high` do not; None if some size is unclear.

        Of pages a little more than fit only few are slow, if those replaced are drawn at random.
        """
        while low > 1 and (yield from self.at(spacing).fit([np.arange(low)], stair.threshold))[0] is not Fit.FITS:
            low, high = low // 2, low
        while sizes := probe_sizes(low, high, 1, MANY):
            fits = yield from self.at(spacing).fit([np.arange(size) for size in sizes], stair.threshold)
            if Fit.UNDECIDED in fits:
                return None
            verdicts = dict(zip(sizes, fits, strict=True))
            high = min([high, *(size for size in sizes if verdicts[size] is Fit.OVERFLOWS)])
            low = max([low, *(size for size in sizes if verdicts[size] is Fit.FITS and size < high)])
        return low

    def wider_pages(self, spacing: int, stair: Stair, entries: int) -> Ask[tuple[int, int]]:
        """A distance at which no two pages share an entry, and how many then fit: twice as far apart, not fewer."""
        while 2 * spacing * entries <= self.limit:
            (fit,) = yield from self.at(2 * spacing).fit([np.arange(entries)], stair.threshold)
            if fit is not Fit.OVERFLOWS:
                break
            fewer = yield from self.onset(2 * spacing, stair, 1, entries)
            if fewer is None:
                break
            spacing, entries = 2 * spacing, fewer
        return spacing, entries

    def page_size(self, spacing: int, stair: Stair, entries: int) -> Ask[tuple[int, Stair, int] | None]:
        """The least distance at which pages still need an entry each, what a miss costs there, and how many fit.

        Twice as many pages half as far apart: are they narrower than pages, two share an entry, and all fit. Over less
        memory a miss may cost less: page tables come in windows (MC16 s5.2, P6), or far apart the pages overflowed the
        next level as well; then what fits is looked for again. None if that cannot be told.
        """
        while spacing > NARROWEST:
            ring = np.arange(2 * entries)
            (told,) = yield from self.at(spacing // 2).penalties([ring])
            nearer = next_stair([told], self.last.stair if self.last else None, self.at(spacing // 2).noise)
            if nearer is None:
                (fit,) = yield from self.at(spacing // 2).fit([ring], stair.threshold)
                if fit is Fit.UNDECIDED:
                    return None
                if fit is Fit.FITS:
                    break
            spacing //= 2
            if nearer is not None and nearer.cycles < stair.cycles:
                other, stair = nearer.cycles < stair.threshold, nearer
                if other:
                    again = yield from self.onset(spacing, stair, 1, 2 * entries)
                    if again is None:
                        return None
                    entries = again
        return spacing, stair, entries

    def in_order(self, page: int, entries: int) -> Ask[Penalties]:
        """Cycles of twice as many pages visited in order: a TLB would miss all the same."""
        count = min(2 * entries, self.limit // page)
        (told,) = yield from self.at(page).visits([np.arange(count)], LAPS)
        return told

    def without_pages(self, page: int, stair: Stair, entries: int, slow: float) -> Ask[str]:
        """Why it may be no TLB: more lines within fewer pages are nearly as often `slow`; empty if they are not.

        Shares of all accesses: of lines that a cache replaces at random each is slow only now and then.
        """
        packed = yield from self.at(page).packed(2 * entries + 1, max(FEW_PAGES, entries // 2))
        slower = float(np.mean(packed >= stair.threshold))
        if slower <= AS_SLOW * slow:
            return ""
        return f"more lines within fewer pages are slower, too ({slower:.0%} of accesses, {slow:.0%} over all pages)"

    def smaller_pages(self, page: int, stair: Stair, entries: int) -> Ask[tuple[int, int] | str]:
        """The distance at which one page more than there are entries is not kept wherever it is; or that there is none.

        Where sets are chosen by the page number, pages far apart fall into one of them: its ways then look like all
        the entries, and as many pages as there are sets like one. Lines anywhere in such pages would not conflict.
        """
        wide, few = page, max(2, entries // 2)  # so few fit into one set, or anywhere
        before = entries
        while (reason := (yield from self._in_sets(page, stair, entries))) and page > self.narrowest:
            more = yield from self.onset(page, stair, entries, min(MOST_SETS * entries, self.limit // page))
            if more == entries:
                before, page = entries, page // 2
                more = yield from self.onset(page, stair, entries, min(MOST_SETS * entries, self.limit // page))
            if more is None:
                return NO_EDGE
            entries = more
        if reason or page == wide:
            return reason or (page, entries)
        # Once more from scratch: what takes longer for its distance alone does so beside any other line.
        afresh, room = Translations(page, self.bench), self.limit // page
        rings = [each for count in (entries + 1, few) for each in self._anywhere(count, page, page, room)]
        fits = yield from afresh.fit([*rings, _halves(before + 1)], stair.threshold)
        self.evidence += afresh.evidence
        if fits == [Fit.OVERFLOWS] * SCATTERED + [Fit.FITS] * (SCATTERED + 1):
            return page, entries
        return f"measured anew, {few} pages of {format_bytes(page)} are not all kept, or {entries + 1} are"

    def _in_sets(self, page: int, stair: Stair, entries: int) -> Ask[str]:
        """Why pages may be smaller, in sets; empty if one page more than there are entries is not kept anywhere."""
        grain = min(max(page >> MOST_PLACES, self.last.page if self.last else NARROWEST), page)
        room = min(self.limit // page, max(ELSEWHERE * entries, MOST_PAGES))
        if room <= entries:
            return ""
        rings = self._anywhere(entries + 1, page, grain, room)
        if grain < page:
            rings.append(_halves(entries + 1) * (page // 2 // grain))
        fits = yield from self.at(grain).fit(rings, stair.threshold)
        if any(fit is not Fit.OVERFLOWS for fit in fits):
            return (
                f"{entries + 1} lines {format_bytes(page)} apart are not kept, but {entries + 1} scattered ones are: "
                "pages are smaller, and the entries are in sets"
            )
        return ""

    def _anywhere(self, count: int, page: int, grain: int, room: int) -> list[NDArray[np.int64]]:
        """Rings of so many of `room` pages, each at any multiple of `grain` within its page, as numbers of grains."""
        rings = []
        for number in range(SCATTERED):
            rng = self.bench.rng("scattered", page, number)
            pages = rng.choice(room, size=count, replace=False)
            rings.append(pages * (page // grain) + rng.integers(0, page // grain, size=pages.size))
        return rings


def _halves(count: int) -> NDArray[np.int64]:
    """So many pages in a row, as numbers of half pages: the lower half of the first ones, the upper of the others.

    Were the halves pages, they would fall into twice as many sets, evenly.
    """
    pages = np.arange(count)
    return 2 * pages + (pages >= (count + 1) // 2)


def _none(element: str, search: _Search, bench: Bench) -> tuple[Estimate, ...]:
    reason = f"no access within {format_bytes(search.looked)} is slower for the page it is in"
    estimates = without(Status.NOT_FOUND, element, reason, *ATTRIBUTES)
    return tuple(
        Estimate(element=element, attribute=each.attribute, status=each.status, reason=reason, method=METHOD,
                 low=search.looked if each.attribute == "reach" else None, evidence=tuple(search.evidence))
        for each in estimates
    )  # fmt: skip


def _ambiguous(element: str, reason: str) -> tuple[Estimate, ...]:
    return without(Status.AMBIGUOUS, element, reason, *ATTRIBUTES)


def _found(element: str, level: TlbLevel, last: TlbLevel | None, page_known: bool) -> tuple[Estimate, ...]:
    reach = level.entries * level.page

    def found(attribute: str, value: float, confidence: float, low: float, high: float, *caveats: str) -> Estimate:
        return Estimate(
            element=element, attribute=attribute, status=Status.FOUND, value=value, low=low, high=high,
            confidence=confidence, method=METHOD, evidence=level.evidence, caveats=caveats,
        )  # fmt: skip

    sure = EXACT if page_known and not level.entries > MANY_ENTRIES else BRACKETED
    slack = 2 * (level.entries // MANY_ENTRIES)

    def counted(attribute: str, value: float, unit: int) -> Estimate:
        return found(attribute, value, sure, value - slack * unit, value + slack * unit)

    exact = EXACT if page_known else BRACKETED
    return (
        counted("entries", level.entries, 1),
        found("page_size", level.page, exact, level.page, level.page, "what one entry covers"),
        counted("reach", reach, level.page),
        _penalty(element, level, last),
    )


def _penalty(element: str, level: TlbLevel, last: TlbLevel | None) -> Estimate:
    """What a miss costs beyond one in the level before only."""
    before = (last.costs.own or (last.stair.cycles,)) if last else (0.0,)
    costs, sure = level.costs.own, LATENCY
    if not costs:
        (estimate,) = without(Status.NOT_FOUND, element, "measured anew, no page was slow", "miss_penalty")
        return estimate
    told = ["more than a hit in it, the line in the L2"]
    if not level.costs.in_order:
        told.append("in order no page is slow: it may be what jumps between windows of the page table cost")
        sure = DOUBTFUL
    elif level.costs.at_random and not level.costs.alike:
        other = float(np.median(level.costs.at_random) - np.median(before))
        told.append(f"of pages in order; in random order {other:.1f}: they jump between windows of the page table")
    return Estimate(
        element=element, attribute="miss_penalty", status=Status.FOUND,
        value=float(np.median(costs) - np.median(before)), low=min(costs) - max(before) - PENALTY_SPREAD,
        high=max(costs) - min(before) + PENALTY_SPREAD, confidence=sure, method=METHOD, evidence=level.evidence,
        caveats=tuple(told),
    )  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=tlb_of(element),
        element=element,
        plan=partial(tlb_plan, element),
        emits=ATTRIBUTES,
        needs=(levels_of("l2"), *map(tlb_of, TLBS[max(0, number - 1) : number])),
    )
    for number, element in enumerate(TLBS)
)
