"""Does a hit in a cache need a translation? (MC16 s5.2 finding 2: not in the L1 of Maxwell.)

A chain visits more pages than the first TLB holds, with fewer lines than the cache holds, each page twice in a row. In
some pages the two accesses are to different lines: the second one always finds its translation. Another chain swaps the
two lines. The same chains past the cache show which pages miss the TLB.
"""

from dataclasses import dataclass, replace
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import absent, level_of, levels_of
from gpudissect.measure.cache.plan_line import lines_of
from gpudissect.measure.infer_confidence import BRACKETED
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.tlb.infer_translation import MIN_LINES, Roles, infer_translation
from gpudissect.measure.tlb.page_accesses import PATH
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.trace import Array, Trace
from gpudissect.units import format_bytes_rounded
from gpudissect.vocabulary import TRANSLATED
from gpudissect.workload import Chase, Explicit, Timing

ATTRIBUTE = "translated"
METHOD = "hits in pages that the first TLB evicted, compared with hits in the page of the previous access (MC16 s5.2)"
MAX_FILL = 0.75  # of the lines of the cache, which may be visited
PAGE_RATIO, MIN_PAGE_RATIO = 2.0, 1.25  # pages per entry of the TLB
MAX_PAIRS = 96  # pages with two lines
WARMUP, LAPS = 4, 9
NO_TLB = "no TLB was found, so translated accesses cannot be distinguished from others"
UNKNOWN = "hits cannot be separated from misses, or the capacity or the line size is unknown"


@dataclass(frozen=True)
class Pairs:
    """A chain of two accesses in a row to each page, in some pages to two different lines.

    Attributes:
        offsets: bytes, one lap.
        pairs: positions of the first and the second line of each pair, shape (pairs, 2).

    """

    offsets: Array
    pairs: Array

    def exchanged(self) -> "Pairs":
        """The chain with the two lines of each pair swapped."""
        offsets = self.offsets.copy()
        offsets[self.pairs] = self.offsets[self.pairs[:, ::-1]]
        return replace(self, offsets=offsets)


def translation_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Whether every access to `element` is translated, or only its misses."""
    level, tlb = level_of(element, known), known[tlb_of("tlb_l1")]
    lines, capacity = known[lines_of(element)], known[capacity_of(element)]
    if level is None:
        return absent(element, known, ATTRIBUTE)
    if tlb is None:
        return Outcome(without(Status.NOT_FOUND, element, NO_TLB, ATTRIBUTE))
    if level.bounds is None or lines is None or capacity is None:
        return Outcome(without(Status.NOT_FOUND, element, UNKNOWN, ATTRIBUTE))
    room = int(MAX_FILL * capacity / lines.line)
    limit = min(bench.info.limit(level.path), bench.info.limit(PATH))
    pages = min(int(PAGE_RATIO * tlb.entries) + 1, limit // tlb.page_size, room - MIN_LINES)
    if pages < MIN_PAGE_RATIO * tlb.entries:
        sizes = f"{room} of {capacity / lines.line:.0f} lines, within {format_bytes_rounded(limit)} of memory,"
        reason = f"{sizes} are too few to displace the {tlb.entries} entries of the TLB and still hit"
        return Outcome(without(Status.AMBIGUOUS, element, reason, ATTRIBUTE))
    count = min(MAX_PAIRS, pages, room - pages)
    rng = bench.rng("translation", element)
    pairs = paired_chain(pages, count, lines.line, tlb.page_size, max(level.path.word, PATH.word), rng)
    cached, control, evidence = yield from _roles(level, pairs)
    result = infer_translation(cached, control, level.bounds.hit_max, tlb.miss.threshold)
    if result.accesses is None:
        fields = {"method": METHOD, "evidence": evidence}
        return Outcome(without(Status.AMBIGUOUS, element, result.reason, ATTRIBUTE, **fields))
    estimate = found(element, ATTRIBUTE, result.accesses, None, None, BRACKETED, METHOD, evidence)
    return Outcome((estimate,))


def paired_chain(pages: int, pairs: int, line: int, page_size: int, word: int, rng: np.random.Generator) -> Pairs:
    """A chain over `pages` pages in random order, each accessed twice in a row; `pairs` of them have two lines.

    The others have one line, whose next word is the second access: some TLB policies protect pages accessed twice.
    """
    slots = np.arange(pages + pairs) * line % (page_size // line * line)  # spread over the sets of the cache
    order = rng.permutation(pages)  # of pages; those below `pairs` have two lines
    first = order * page_size + slots[rng.permutation(pages)[order]]
    second = first + word
    paired = np.flatnonzero(order < pairs)
    second[paired] = order[paired] * page_size + slots[pages + order[paired]]
    return Pairs(np.stack([first, second], axis=1).ravel(), np.stack([2 * paired, 2 * paired + 1], axis=1))


def _roles(level: Level, pairs: Pairs) -> Ask[tuple[Roles, Roles, tuple[str, ...]]]:
    """Lines in both roles through the cache and past it, all on one SM, and the evidence."""
    picks = np.sort(pairs.pairs.ravel())
    each = partial(Chase, timing=Timing.EACH, warmup=WARMUP, laps=LAPS, picks=tuple(picks.tolist()), alone=True)
    orders = [Explicit(chain.offsets) for chain in (pairs, pairs.exchanged())]
    (first,) = yield [each(path=level.path, order=orders[0])]
    on_sm = partial(each, sm=first.context.sm)
    chases = [(level.path, orders[1]), (PATH, orders[0]), (PATH, orders[1])]
    traces = [first, *(yield [on_sm(path=path, order=order) for path, order in chases])]
    at = np.searchsorted(picks, pairs.pairs)
    cached, control = (_lines_by_role(traces[i], traces[i + 1], at) for i in (0, 2))
    return cached, control, tuple(trace.workload for trace in traces)


def _lines_by_role(trace: Trace, exchanged: Trace, at: Array) -> Roles:
    """Median cycles of each line as first and as second of its pair, from a chain and the exchanged one."""
    one, other = (np.median(each.cycles.reshape(LAPS, -1), axis=0)[at] for each in (trace, exchanged))
    return Roles(np.concatenate([one[:, 0], other[:, 0]]), np.concatenate([other[:, 1], one[:, 1]]))


EXPERIMENTS = tuple(
    Experiment(
        Key(f"translation.{element}", (NoneType,)),
        partial(translation_plan, element),
        (ATTRIBUTE,),
        (levels_of(element), lines_of(element), capacity_of(element), tlb_of("tlb_l1")),
    )
    for element in TRANSLATED
)
