"""Sets and ways of a TLB, without assuming equal sets or an index: the pages without which the others fit.

All other pages stay in the chain, so that a TLB in front of the one measured cannot come to hold them.
"""

from dataclasses import dataclass
from functools import partial
from math import exp, lgamma, log
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_structure import linear_index
from gpudissect.measure.infer_confidence import CONFLICTED, DOUBTFUL, EXACT
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.tlb.infer_miss_penalty import TlbLevel, count_misses
from gpudissect.measure.tlb.page_accesses import LAPS, PageAccesses, Pages, Undecided, memory_limit
from gpudissect.measure.tlb.plan_entries_and_page_size import MAX_EXACT_ENTRIES, held_pages, tlb_of
from gpudissect.simulation.cache.index import canonical, matrix
from gpudissect.vocabulary import TLBS

ATTRIBUTES = ("sets", "ways", "index_function")
GROUPS = 64
MAX_ENTRIES = 256  # of which every set is found; of more, one set
BATCH = 8  # pages tried at once
MAX_PAGE_RATIO = 5  # last page tried, in entries
SAMPLE = 16  # pages tried one by one where any group of them will do
MAX_CANDIDATES = 128  # pages tried one by one; of more, a sample first
MAX_NEEDED_SHARE, NEEDED_MARGIN = 0.8, 0.4
"""Share of the sample that is needed from which no single set explains the conflict: so much more than one set would
have, or nearly all. On H200s it was 15 of 16 and more, where one set would have a quarter; trying all took 4 s."""
MAX_EVIDENCE = 256  # workloads named: the last, which decide
MAX_OVERFLOW_PAGES = 8  # pages beyond those that fit, over which misses per lap are counted
MIN_PROBABILITY = 1e-4  # that scattered pages fit, or the TLB before held some of them: then chance decides
METHOD = "group tests: pages without which the others fit"
CONSECUTIVE_METHOD = "consecutive pages that fit"
ONE_SET = "one set was measured, the others are assumed to be like it"


@dataclass(frozen=True)
class TlbSets:
    """Sets of a TLB."""

    ways: tuple[int, ...]  # of each set
    set_of: tuple[int, ...]  # the set of each page from 0, as far as measured
    evidence: tuple[str, ...]  # digests of the workloads
    overflow: tuple[int, ...] = ()  # misses per lap with 1, 2, ... pages too many in order, where ways differ


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
        if level.entries <= MAX_ENTRIES:
            sets = yield from search.all_sets()
            return Outcome(_estimates(element, sets, level), sets)
        first = yield from search.conflict(0)
        second = yield from search.conflict(1)  # before pages are tried one by one, which takes longest
        ways = yield from search.ways(first)
        again = yield from search.ways(second)
    except Undecided as undecided:
        unknown = without(Status.AMBIGUOUS, element, str(undecided), *ATTRIBUTES)
        return Outcome((*unknown, *_doubtful(element, level)))
    if again != ways:
        reason = f"scattered pages conflict as in a set of {ways} ways, others as in one of {again}"
        return Outcome(without(Status.AMBIGUOUS, element, reason, *ATTRIBUTES))
    return Outcome(_estimates_of_one(element, ways, level, search.evidence))


@dataclass(frozen=True)
class _Conflict:
    """Pages that do not fit together. Without one of the `candidates` the others fit: each if `is_exact`, or some."""

    pages: Pages
    candidates: list[int]
    is_exact: bool


class _SetSearch:
    """Finds conflicting pages among consecutive ones."""

    def __init__(self, level: TlbLevel, bench: Bench) -> None:
        self.level, self.bench = level, bench
        self.accesses = PageAccesses(level.page_size, bench)
        self.pages = memory_limit(bench) // level.page_size

    @property
    def evidence(self) -> tuple[str, ...]:
        return tuple(self.accesses.evidence[-MAX_EVIDENCE:])

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
                conflict = yield from self._narrowed(np.array([*resident, extra]))
                members = yield from self._needed(conflict)
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

    def conflict(self, attempt: int) -> Ask[_Conflict]:
        """The first set to overflow as more and more pages scattered over memory are added."""
        pages = self.bench.rng("pages of a set", self.level.page_size, attempt).permutation(self.pages)
        if (yield from self._fit([pages])) == [True]:
            raise Undecided(f"all {pages.size} pages of memory fit")
        fitting = yield from self.accesses.max_resident(pages, self.level.miss.threshold, 0)
        return (yield from self._narrowed(pages[: fitting + 1]))

    def ways(self, conflict: _Conflict) -> Ask[int]:
        """Ways of the set that overflows."""
        needed = yield from self._needed(conflict)
        if not (ways := len(needed) - 1):
            raise Undecided(f"the pages fit only without page {needed[0]}, and no other page conflicts with it")
        fitting = conflict.pages.size - 1
        if probability_to_fit(fitting, max(1, self.level.entries // ways), ways) < MIN_PROBABILITY:
            raise Undecided(f"{fitting} scattered pages fit, which sets of {ways} ways would not hold")
        return ways

    def _narrowed(self, pages: Pages) -> Ask[_Conflict]:
        """Narrow down, by groups, the pages without which the others fit; test a sample of them one by one."""
        groups = np.array_split(self.bench.rng("groups of pages", pages.size).permutation(pages), GROUPS)
        groups = [group for group in groups if group.size]
        fits = yield from self._fit([np.setdiff1d(pages, group) for group in groups])
        candidates = [int(page) for group, fit in zip(groups, fits, strict=True) if fit for page in group]
        if not candidates:
            raise Undecided(f"{pages.size} pages do not fit whichever group of them is left out")
        if len(candidates) == sum(fits):
            return _Conflict(pages, candidates, is_exact=True)
        if all(fits) or len(candidates) > MAX_CANDIDATES:
            size = min(SAMPLE, len(candidates))
            sample = self.bench.rng("any page", pages.size).choice(candidates, size=size, replace=False)
            needed = yield from self._fit([np.setdiff1d(pages, [page]) for page in sample])
            if all(fits) and all(needed):
                return _Conflict(pages, pages.tolist(), is_exact=True)  # all are in one set
            if all(fits) or np.mean(needed) > max_needed_share(sum(fits), len(groups), len(candidates)):
                what = f"any 1/{len(groups)}" if all(fits) else f"each of {sum(needed)} of {size} sampled pages"
                raise Undecided(
                    f"removing {what} of {pages.size} pages makes them fit, so no single set explains the conflict "
                    "(the next level may hide the first conflicts)"
                )
        return _Conflict(pages, candidates, is_exact=False)

    def _needed(self, conflict: _Conflict) -> Ask[list[int]]:
        """The pages without which the others fit, tested one by one."""
        pages, candidates = conflict.pages, conflict.candidates
        if conflict.is_exact:
            return sorted(candidates)
        fits = yield from self._fit([np.setdiff1d(pages, [page]) for page in candidates])
        if True not in fits:
            raise Undecided(f"{pages.size} pages do not fit whichever one of them is left out")
        return sorted(page for page, fit in zip(candidates, fits, strict=True) if fit)

    def _fit(self, chains: list[Pages]) -> Ask[list[bool]]:
        return (yield from self.accesses.stay_resident(chains, self.level.miss.threshold))


def max_needed_share(hit: int, groups: int, candidates: int) -> float:
    """Share of the `candidates`, in the `hit` of so many random groups that fit, of which one set may need a page each.

    A set of n pages has one in `groups` * (1 - (1 - 1 / `groups`)^n) groups, on average.
    """
    of_set = log(1 - hit / groups) / log(1 - 1 / groups)
    return min(MAX_NEEDED_SHARE, of_set / candidates + NEEDED_MARGIN)


def probability_to_fit(pages: int, sets: int, ways: int) -> float:
    """Probability that no set gets more random pages than it has ways; pages of a set are taken as Poisson."""
    mean = pages / sets
    return float(sum(exp(k * log(mean) - lgamma(k + 1) - mean) for k in range(ways + 1)) ** sets) if pages else 1.0


def _estimates(element: str, sets: TlbSets, level: TlbLevel) -> tuple[Estimate, ...]:
    ways, count, total = tuple(sorted(sets.ways, reverse=True)), len(sets.ways), sum(sets.ways)
    held = held_pages(level)
    origin, reach = (CONFLICTED if held else EXACT, METHOD, sets.evidence), total * level.page_size
    equal = ways[0] if len(set(ways)) == 1 else None
    overflow = (*held, *_overflow_caveat(sets, level.entries))
    estimates = (
        found(element, "sets", count, count, count, *origin, overflow),
        found(element, "ways", equal or ways, equal, equal, *origin, overflow),
        found(element, "index_function", _index(sets, level.page_size), None, None, *origin),
    )
    if total == level.entries:
        return estimates
    # Consecutive pages overflow one set before the others are full.
    caveats = (f"the ways of all sets; only {level.entries} consecutive pages fit",)
    entries = found(element, "entries", total, total, total, *origin, caveats)
    return (*estimates, entries, found(element, "reach", reach, reach, reach, *origin, caveats))


def _doubtful(element: str, level: TlbLevel) -> tuple[Estimate, ...]:
    """What was found without the sets: they may be unequal, or the pages be others."""
    caveat = "its sets could not be separated: if they are unequal, it holds more than consecutive pages show"
    values = {"entries": level.entries, "page_size": level.page_size, "reach": level.entries * level.page_size}
    fields = DOUBTFUL, CONSECUTIVE_METHOD, level.evidence, (caveat,)

    def estimate(attribute: str, value: int) -> Estimate:
        end = value if level.entries <= MAX_EXACT_ENTRIES or attribute == "page_size" else None
        return found(element, attribute, value, end, end, *fields)

    return tuple(estimate(*each) for each in values.items())


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


def _index(sets: TlbSets, page: int) -> str:
    """The index: one set, address bits, a remainder, or the table of the pages measured."""
    count, table = len(sets.ways), sets.set_of
    if count == 1:
        return "one set"
    linear = linear_index(np.array(table), page)
    if linear is not None and 1 << len(matrix(linear)) == count:
        return canonical(linear, page, count)
    # what is left are remainders of divisors that are no power of two, and tables
    if len(set(table[:count])) == count and all(table[i] == table[i - count] for i in range(count, len(table))):
        return f"page mod {count}"
    return "not a remainder, table " + " ".join(map(str, table))


def _estimates_of_one(element: str, ways: int, level: TlbLevel, evidence: tuple[str, ...]) -> tuple[Estimate, ...]:
    count, rest = divmod(level.entries, ways)
    if rest:
        reason = f"{level.entries} entries are no multiple of the {ways} ways of the set measured"
        return without(Status.AMBIGUOUS, element, reason, *ATTRIBUTES)
    origin = METHOD, evidence, (ONE_SET,)
    reason = f"every set is measured only up to {MAX_ENTRIES} entries, not with {level.entries}"
    return (
        found(element, "sets", count, count, count, CONFLICTED, *origin),
        found(element, "ways", ways, ways, ways, DOUBTFUL, *origin),
        *without(Status.NOT_FOUND, element, reason, "index_function"),
    )


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
