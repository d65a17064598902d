"""Which SMs share the second TLB.

One SM, the tested one, loads pages until its TLB has evicted the test pages. Every SM then loads test pages of its own,
after pages that evict them from its first TLB. Finally the tested SM times all test pages: those that hit were loaded
by an SM that shares its TLB.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import NoneType

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.infer_confidence import UNTRIED
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.tlb.infer_miss_penalty import TlbLevel
from gpudissect.measure.tlb.infer_sharing import Flags, Visits, loaded_for, miss_penalty, number_tlbs
from gpudissect.measure.tlb.page_accesses import LINE_GRAIN, PATH, PageAccesses, Pages, memory_limit
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.measure.tlb.plan_sets import tlb_sets_of
from gpudissect.trace import Trace
from gpudissect.units import format_bytes_rounded
from gpudissect.workload import Chase, Explicit, PriorAccesses, Timing

FIRST_TLB, TLB, ATTRIBUTE = "tlb_l1", "tlb_l2", "tlb_by_sm"
PAGES, FEWER_PAGES = 4, 2  # that each SM loads; where memory is short
MIN_ENTRIES = 8
UNLOADED_PAGES = 16  # that no SM loads
MAX_SHARE = 0.5  # of the entries, for pages of one test
MIN_EVICTING, MAX_EVICTING = 1.05, 2.0  # pages loaded to evict others, in entries
EVICTING_THREADS, EVICTING_LAPS = 1024, 3
FIRST_EVICTING = 2  # pages loaded to evict others from a first TLB, in its entries
LAST_WORD = 3  # of each granule, which no other chain uses
LAPS = 3
MAX_TESTED = 8  # SMs tested in one batch
METHOD = "hits in pages that another SM has loaded"


def sharing_plan(bench: Bench, known: Known) -> Plan:
    """The number of the second TLB that each SM uses."""
    first, level, sets = known[tlb_of(FIRST_TLB)], known[tlb_of(TLB)], known[tlb_sets_of(TLB)]
    if first is None or level is None:
        return Outcome(without(Status.NOT_FOUND, TLB, "the level itself was not found", ATTRIBUTE))
    entries = max(level.entries, sum(sets.ways) if sets is not None else 0)
    if entries < MIN_ENTRIES:
        return Outcome(without(Status.NOT_FOUND, TLB, f"{entries} entries are too few for a test", ATTRIBUTE))
    test = _SharingTests(first, level, entries, bench)
    if test.evicting.size < MIN_EVICTING * entries:
        memory = f"{test.room} pages, {format_bytes_rounded(memory_limit(bench))} of memory,"
        reason = f"{memory} are too few to evict all {entries} entries and test every SM"
        return Outcome(without(Status.NOT_FOUND, TLB, reason, ATTRIBUTE))
    sms, shared_with, penalties = bench.info.sm_count, dict[int, Flags](), list[float]()
    unknown, count = np.arange(sms), 1
    while unknown.size:
        places = np.linspace(0, unknown.size, min(count, unknown.size), endpoint=False).astype(np.int64)
        tested = unknown[places].tolist()
        for sm, (penalty, flags) in zip(tested, (yield from test.run(tested)), strict=True):
            if penalty is None:
                reason = f"on SM {sm}, pages that should have been evicted are not slower than others"
                return Outcome(without(Status.AMBIGUOUS, TLB, reason, ATTRIBUTE, evidence=tuple(test.evidence)))
            penalties.append(penalty)
            shared_with[sm] = flags
        others = ~np.logical_or.reduce([*shared_with.values()])
        others[[*shared_with]] = False
        unknown, count = np.flatnonzero(others), min(2 * count, MAX_TESTED)
    evidence, numbers = tuple(test.evidence), number_tlbs(shared_with, sms)
    if numbers is None:
        reason = "groups of SMs contradict each other"
        return Outcome(without(Status.AMBIGUOUS, TLB, reason, ATTRIBUTE, method=METHOD, evidence=evidence))
    sizes = sorted(set(np.bincount(numbers).tolist()))
    caveats = (
        f"number of TLBs: {max(numbers) + 1}; SMs of each: {' or '.join(map(str, sizes))}",
        f"a miss adds {min(penalties):.0f} to {max(penalties):.0f} cycles (medians by SM, {len(penalties)} tested)",
    )
    value = tuple(map(float, numbers))
    return Outcome((found(TLB, ATTRIBUTE, value, None, None, UNTRIED, METHOD, evidence, caveats),))


@dataclass(frozen=True)
class _Test:
    """One SM loads all test pages, after each of some SMs has loaded its own."""

    tested: int
    loading: range
    order: Pages  # all test pages, in the order of the test: those that no other SM loads are numbered first


class _SharingTests:
    """Tests of single SMs, with the pages that evict those of a test."""

    def __init__(self, first: TlbLevel, level: TlbLevel, entries: int, bench: Bench) -> None:
        self._first, self.sms, self.rng = first, bench.info.sm_count, bench.rng("sharing", TLB)
        self._accesses = PageAccesses(level.page_size, bench)
        self.room = memory_limit(bench) // level.page_size
        most = max(2, min(int(MAX_SHARE * entries), entries - FIRST_EVICTING * first.entries))  # test pages
        self._unloaded = min(UNLOADED_PAGES, most // 2)
        self._expected = level.miss.cycles - first.miss.cycles
        for pages in (PAGES, FEWER_PAGES):
            at_once = min(self.sms, (most - self._unloaded) // pages, level.page_size // LINE_GRAIN)
            at_once = max(1, at_once)
            self._pages = pages
            used = self._unloaded + at_once * pages
            self.evicting: Pages = np.arange(used, min(self.room, used + int(MAX_EVICTING * entries)))
            if self.evicting.size >= MIN_EVICTING * entries:
                break
        self._parts = [range(start, min(start + at_once, self.sms)) for start in range(0, self.sms, at_once)]
        self._evicting = Explicit(self._accesses.offsets(self.evicting))
        self._own = [Explicit(self._own_words(number)) for number in range(at_once)]
        self.evidence: list[str] = []

    def run(self, tested: Iterable[int]) -> Ask[list[tuple[float | None, Flags]]]:
        """For each of these SMs, the penalty of a miss if it shows, and which SMs use the same TLB."""
        tests = [self._test(sm, part) for sm in tested for part in self._parts]
        traces = yield [self._chase(test) for test in tests]
        self.evidence += [trace.workload for trace in traces]
        visits = [self._visits(test.order, trace) for test, trace in zip(tests, traces, strict=True)]
        count = len(self._parts)
        return [self._conclude(visits[start : start + count]) for start in range(0, len(visits), count)]

    def _own_words(self, number: int) -> Pages:
        """Offsets of words that an SM loads: those behind the timed ones of its pages, after words of other pages.

        The latter evict its pages from its first TLB, which holds them if this SM wrote the chains.
        """
        others = self.evicting[-FIRST_EVICTING * self._first.entries :]  # which the second TLB holds
        evicting = others * self._accesses.spacing + number * LINE_GRAIN + LAST_WORD * PATH.word
        pages = self._unloaded + number * self._pages + np.arange(self._pages)
        return np.concatenate([evicting, self._accesses.offsets(pages) + PATH.word])

    def _test(self, tested: int, loading: range) -> _Test:
        """The next test of an SM."""
        return _Test(tested, loading, self.rng.permutation(self._unloaded + len(loading) * self._pages))

    def _chase(self, test: _Test) -> Chase:
        """The loads of the SM that is tested, timed, after those of other SMs."""
        timed, threads = Explicit(self._accesses.offsets(test.order)), min(EVICTING_THREADS, self._evicting.count)
        before = [
            PriorAccesses(path=PATH, order=timed),  # so that later ones hit in the L2
            PriorAccesses(path=PATH, order=self._evicting, laps=EVICTING_LAPS, threads=threads),
            *(
                PriorAccesses(path=PATH, order=own, sm=(sm - test.tested) % self.sms)
                for sm, own in zip(test.loading, self._own, strict=False)
            ),
        ]
        return Chase(
            path=PATH,
            order=timed,
            timing=Timing.EACH,
            warmup=0,
            laps=LAPS,
            alone=True,
            sm=test.tested,
            before=tuple(before),
        )

    def _visits(self, order: Pages, trace: Trace) -> Visits:
        """Extra cycles of the first accesses."""
        cycles = trace.cycles.reshape(LAPS, order.size).astype(np.float64)
        extra = np.empty(order.size)
        extra[order] = cycles[0] - cycles[1:].min(axis=0)
        return Visits(extra[self._unloaded :].reshape(-1, self._pages), extra[: self._unloaded])

    def _conclude(self, parts: Sequence[Visits]) -> tuple[float | None, Flags]:
        """The penalty of a miss, None if it does not show, and which SMs use the TLB, from tests of the same SM.

        Unloaded pages may need a page walk, while the next TLB still holds pages that other SMs loaded.
        """
        visits = Visits(*(np.concatenate([getattr(each, name) for each in parts]) for name in ("loaded", "unloaded")))
        penalty = miss_penalty(visits)
        return penalty, loaded_for(visits, min(penalty or 0.0, self._expected))


EXPERIMENTS = (
    Experiment(
        Key(f"sharing.{TLB}", (NoneType,)),
        sharing_plan,
        (ATTRIBUTE,),
        (tlb_of(FIRST_TLB), tlb_of(TLB), tlb_sets_of(TLB)),
    ),
)
