"""Sets and ways of a TLB, without assuming equal sets or an index: which pages must go so that the others fit.

All pages but a few stay in the ring, whatever is asked: a TLB in front of the one that is looked at must not come to
hold them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status, Value
from gpudissect.measure.cache.conflict_groups import Unclear
from gpudissect.measure.cache.infer_first_miss import Fit, probe_sizes
from gpudissect.measure.cache.infer_index_function import linear_index
from gpudissect.measure.infer_confidence import BRACKETED, EXACT
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.tlb.plan_entries import TlbLevel, tlb_of
from gpudissect.measure.tlb.translation import Pages, Translations, memory
from gpudissect.simulation.cache.index import canonical, matrix
from gpudissect.vocabulary import TLBS

ATTRIBUTES = ("sets", "ways", "index_function")
GROUPS = 64
MOST_ENTRIES = 256  # of which every set is looked for; of larger ones, one set
AT_ONCE = 8  # pages tried at once
BEYOND = 5  # times the entries: how far pages are tried
MANY = 7
ANY = 16  # pages tried one by one where any group of them will do
EVIDENCE = 256  # workloads named: the last, which decide
METHOD = "pages without which the others fit"
ONE_SET = "one set was looked at, the others are taken to be like it"


@dataclass(frozen=True)
class TlbSets:
    """Sets of a TLB.

    Attributes:
        ways: of each set.
        set_of: the set of each page from 0 on, as far as they were looked at.
        evidence: digests of the workloads behind it.

    """

    ways: tuple[int, ...]
    set_of: tuple[int, ...]
    evidence: tuple[str, ...]


def tlb_sets_of(element: str) -> Key[TlbSets | None]:
    """Sets and ways of a TLB; None if not all were found."""
    return Key(f"sets.{element}", (TlbSets, NoneType))


def tlb_sets_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Sets and ways of a TLB; knowledge: `TlbSets` if all its sets were seen."""
    level = known[tlb_of(element)]
    if level is None:
        return Outcome(without(Status.NOT_FOUND, element, "the level itself was not found", *ATTRIBUTES))
    finder = _Finder(level, bench)
    try:
        if level.entries <= MOST_ENTRIES:
            sets = yield from finder.all_sets()
            return Outcome(_found(element, sets, level), sets)
        ways = yield from finder.one_set(0)
        again = yield from finder.one_set(1)
        if again != ways:
            raise Unclear(f"scattered pages conflict as in a set of {ways} ways, others as in one of {again}")
    except Unclear as unclear:
        return Outcome(without(Status.AMBIGUOUS, element, str(unclear), *ATTRIBUTES))
    return Outcome(_of_one(element, ways, level, tuple(finder.translations.evidence[-EVIDENCE:])))


class _Finder:
    """Asks about pages next to one another, as far apart as an entry covers."""

    def __init__(self, level: TlbLevel, bench: Bench) -> None:
        self.level, self.bench = level, bench
        self.translations = Translations(level.page, bench)
        self.reach = memory(bench) // level.page

    def all_sets(self) -> Ask[TlbSets]:
        """Add a page to those that just fit, and see which set it overflows; or keep it, if it does not."""
        resident = list(range(self.level.entries))
        set_of: dict[int, int] = {}
        sets: list[frozenset[int]] = []
        page, end = self.level.entries, min(self.reach, (1 + BEYOND) * self.level.entries + AT_ONCE)
        while len(set_of) < page and page < end:
            tried = range(page, min(page + AT_ONCE, end))
            fits = yield from self._fit([np.array([*resident, each]) for each in tried])
            page += fits.index(True) if True in fits else len(fits)
            known = yield from self._of_known(resident, range(tried.start, page), sets)
            for over, number in known.items():
                if number is not None:
                    set_of[over] = number
                    continue
                members = yield from self._needed(np.array([*resident, over]))
                own = frozenset(members) - {over}
                if not own:
                    raise Unclear(f"page {over} alone does not fit")
                if own not in sets:
                    sets.append(own)
                set_of.update(dict.fromkeys(members, sets.index(own)))
            if True in fits:
                resident.append(page)
                page += 1  # it lies in a set that is not full yet: those that are stay as they are
        if len(set_of) < page or sum(map(len, sets)) != len(resident):
            raise Unclear(f"of {page} pages {page - len(set_of)} could not be given to a set")
        ways = tuple(len(each) for each in sets)
        evidence = tuple(self.translations.evidence[-EVIDENCE:])
        return TlbSets(ways, tuple(set_of[each] for each in range(page)), evidence)

    def _of_known(self, resident: list[int], pages: range, sets: list[frozenset[int]]) -> Ask[dict[int, int | None]]:
        """Which of the sets known so far each page overflows: the only one that has room for it once a page goes."""
        rings = [np.array([*(each for each in resident if each != min(own)), page]) for page in pages for own in sets]
        fits = np.array((yield from self._fit(rings)) if rings else [], dtype=bool).reshape(len(pages), len(sets))
        return {page: int(np.argmax(row)) if row.sum() == 1 else None for page, row in zip(pages, fits, strict=True)}

    def one_set(self, turn: int) -> Ask[int]:
        """Ways of the first set that overflows as pages scattered over memory become more."""
        pages = self.bench.rng("pages of a set", self.level.page, turn).permutation(self.reach)
        low, high = 0, pages.size
        if (yield from self._fit([pages])) == [True]:
            raise Unclear(f"all {pages.size} pages of memory fit")
        while sizes := probe_sizes(low, high, 1, MANY):
            fits = yield from self._fit([pages[:size] for size in sizes])
            high = min([high, *(size for size, fit in zip(sizes, fits, strict=True) if not fit)])
            low = max([low, *(size for size, fit in zip(sizes, fits, strict=True) if fit and size < high)])
        return len((yield from self._needed(pages[:high]))) - 1

    def _needed(self, pages: Pages) -> Ask[list[int]]:
        """The pages without any one of which the others fit: by groups, then one by one."""
        parts = np.array_split(self.bench.rng("groups of pages", pages.size).permutation(pages), GROUPS)
        parts = [part for part in parts if part.size]
        fits = yield from self._fit([np.setdiff1d(pages, part) for part in parts])
        held = [int(page) for part, fit in zip(parts, fits, strict=True) if fit for page in part]
        if not held:
            raise Unclear(f"{pages.size} pages do not fit whichever of them go")
        if len(held) == sum(fits):
            return sorted(held)
        if all(fits) and (yield from self._one_set(pages)):
            return sorted(pages.tolist())
        if all(fits):
            raise Unclear(
                f"{pages.size} pages do not fit, but do without any {len(parts)}th of them: that is no set (a buffer "
                "behind it may hide the first conflicts)"
            )
        fits = yield from self._fit([np.setdiff1d(pages, [page]) for page in held])
        return sorted(page for page, fit in zip(held, fits, strict=True) if fit)

    def _one_set(self, pages: Pages) -> Ask[bool]:
        """Whether any page will do: then they are the lines of one set, however large."""
        some = self.bench.rng("any page", pages.size).choice(pages, size=min(ANY, pages.size), replace=False)
        return all((yield from self._fit([np.setdiff1d(pages, [page]) for page in some])))

    def _fit(self, rings: list[Pages]) -> Ask[list[bool]]:
        fits = yield from self.translations.fit(rings, self.level.stair.threshold)
        if Fit.UNDECIDED in fits:
            raise Unclear("whether some pages fit together could not be told")
        return [fit is Fit.FITS for fit in fits]


def _found(element: str, sets: TlbSets, level: TlbLevel) -> tuple[Estimate, ...]:
    ways = tuple(sorted(sets.ways, reverse=True))
    value: Value = ways if len(set(ways)) > 1 else ways[0]
    total = sum(ways)

    def found(attribute: str, what: Value, *caveats: str) -> Estimate:
        number = what if isinstance(what, int | float) else None
        return Estimate(element=element, attribute=attribute, status=Status.FOUND, value=what, low=number, high=number,
                        confidence=EXACT, method=METHOD, evidence=sets.evidence, caveats=caveats)  # fmt: skip

    own = found("sets", len(ways)), found("ways", value), found("index_function", _index(sets, level.page))
    if total == level.entries:
        return own
    # pages in a row overflow one set before the others are full
    caveat = f"the ways of all sets; only {level.entries} pages in a row fit"
    return (*own, found("entries", total, caveat), found("reach", total * level.page, caveat))


def _index(sets: TlbSets, page: int) -> str:
    """The map in words: one set, address bits, a remainder, or the table of the pages that were looked at."""
    count, table = len(sets.ways), sets.set_of
    if count == 1:
        return "one set"
    linear = linear_index(np.array(table), page)
    if linear is not None and 1 << len(matrix(linear)) == count:
        return canonical(linear, page, count)
    # what is left are remainders that are no power of two, and tables
    if len(set(table[:count])) == count and all(table[i] == table[i - count] for i in range(count, len(table))):
        return f"page mod {count}"
    return "not a remainder, table " + " ".join(map(str, table))


def _of_one(element: str, ways: int, level: TlbLevel, evidence: tuple[str, ...]) -> tuple[Estimate, ...]:
    count, rest = divmod(level.entries, ways)
    if rest:
        reason = f"a set of {ways} ways, of which {level.entries} entries are no whole number"
        return without(Status.AMBIGUOUS, element, reason, *ATTRIBUTES)
    found = tuple(
        Estimate(element=element, attribute=attribute, status=Status.FOUND, value=value, low=value, high=value,
                 confidence=BRACKETED, method=METHOD, evidence=evidence, caveats=(ONE_SET,))
        for attribute, value in (("sets", count), ("ways", ways))
    )  # fmt: skip
    reason = f"{level.entries} entries are too many to look at every set (up to {MOST_ENTRIES})"
    return (*found, *without(Status.NOT_FOUND, element, reason, "index_function"))


EXPERIMENTS = tuple(
    Experiment(
        key=tlb_sets_of(element),
        element=element,
        plan=partial(tlb_sets_plan, element),
        emits=ATTRIBUTES,
        needs=(tlb_of(element),),
    )
    for element in TLBS
)
