"""Lines and fetch granularity of a cache: how many lone words it holds, and which of them share a line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import FEW, THINNED, Blocks, probed
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_line import SMALLEST_GAP, Hits, one_line
from gpudissect.measure.cache.infer_residency import Occupancy, occupancy
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, EXACT
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.series import Series
from gpudissect.trace import Trace
from gpudissect.vocabulary import CACHES
from gpudissect.workload import Chase, Timing

FIRST_BLOCKS = 4
FIRST_BLOCKS_SHARED = 4096  # where every ring runs alone
ROUND = 6  # doublings asked for at once where that costs nothing
THINNESS = 64  # room for every scattered block, in blocks
ROOM_NEEDED = 8
FIRST_PROBES = 300  # to see whether so many blocks still fit
PROBES = 3000  # to compare shares
HELD_PROBES = 8000  # to count lines to a few in a hundred
CROWDED = 0.55  # below this share of hits so many blocks compete that hardly a set is left unfilled
CROWDED_ALONE = 0.85  # where a ring takes long; sets of many ways fill sooner
DOUBLINGS = 5  # a line is at most 32 times what one miss fetches
SURE = 0.95
CLEAR = 0.85  # share of votes on what one miss fetches: delays sway one or two of sixteen
METHOD = "whether a second word in scattered blocks costs another line"
ONCE = "of lines touched only once the cache holds more than of lines touched twice"
MORE = 0.15  # share of hits by which the former must be ahead
LOST = 0.05  # share of hits at which nothing can be told any more

Count = Ask[Hits]


@dataclass(frozen=True)
class Lines:
    """What is known of the lines of a level.

    Attributes:
        line: bytes of one.
        held: how many full lines the cache holds at any one time; None if too many to tell.
        evidence: digests of the workloads behind both.

    """

    line: int
    held: Occupancy | None
    evidence: tuple[str, ...] = ()


def lines_of(element: str) -> Key[Lines | None]:
    """Lines of a cache; None if its line size was not found."""
    return Key(f"line.{element}", (Lines, NoneType))


def line_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Fetch granularity and line size of `element`."""
    levels = known[levels_of(element)]
    level = levels.level(element)
    if level is None:
        absence = levels.absent[element]
        return Outcome(without(absence.status, element, absence.reason, "fetch_granularity", "line_size"))
    if level.behind is not None and level.bounds is None:
        reason = "hits and misses scatter too much to be told apart"
        return Outcome(without(Status.NOT_FOUND, element, reason, "fetch_granularity", "line_size"))
    fetch_estimate = _fetch_estimate(level, bench)
    fetch = level.fetch.fetch
    if fetch is None:
        reason = f"the fetch granularity is not known: {level.fetch.reason}"
        return Outcome((fetch_estimate, *without(Status.NOT_FOUND, element, reason, "line_size")))
    prober = _Prober(level, fetch, bench)
    lone = (yield from prober.crowd()) if level.behind is not None else None
    if lone is None:
        return Outcome((fetch_estimate, _line_is_fetch(level, fetch)), Lines(fetch, None))
    count, single, double = lone
    widest = yield from _widest_line(prober, count, single, double)
    if widest.sure < SURE or widest.open_ended:
        reason = "a second word at some distance neither clearly costs another line nor clearly does not"
        if widest.open_ended:
            reason = f"at least {widest.line} B: no second word in a block that large costs another line"
        status = Status.NOT_FOUND if widest.open_ended else Status.AMBIGUOUS
        estimate = Estimate(element=element, attribute="line_size", status=status, reason=reason,
                            low=widest.line if widest.open_ended else fetch, method=METHOD,
                            evidence=tuple(prober.evidence))  # fmt: skip
        return Outcome((fetch_estimate, estimate), Lines(fetch, None), prober.series)  # a granule is as fine as need be
    held = yield from prober.full_lines(widest.line, count)
    estimate = Estimate(
        element=element, attribute="line_size", status=Status.FOUND, value=widest.line, low=widest.line,
        high=widest.line, confidence=min(widest.sure, EXACT), method=METHOD, evidence=tuple(prober.evidence),
        caveats=(ONCE,) if prober.once else (),
    )  # fmt: skip
    return Outcome((fetch_estimate, estimate), Lines(widest.line, held, tuple(prober.evidence)), prober.series)


@dataclass(frozen=True)
class _Widest:
    """The line, how sure it is, and whether it may be wider still."""

    line: int
    sure: float
    open_ended: bool = False


def _widest_line(prober: _Prober, count: int, single: Hits, double: Hits) -> Ask[_Widest]:
    """How wide blocks may be until a second granule in them costs another line.

    A pair of granules either costs no more than one of them: then the line is as wide as pairs can be drawn apart
    without that changing. Or it costs twice as much. Where every granule is touched twice, that is two lines. Where
    there are too few words for that, it may also be what the cache makes of a line touched twice, and pairs of pairs
    tell.
    """
    fetch, sure = prober.fetch, 1.0
    twice = prober.touches(count)
    offsets, line = twice, fetch
    for width in (2 * fetch << i for i in range(DOUBLINGS)):
        drawn_apart = (*offsets, *(width // 2 + offset for offset in offsets))
        pairs = yield from prober.ask(Blocks(count, width, drawn_apart, prober.span(count, width)), PROBES)
        prober.compare(width // 2, pairs, single, double)
        together = one_line(pairs, single, double)
        sure = min(sure, max(together, 1 - together))
        if together >= 0.5:
            line = width
        elif width == 2 * fetch and len(twice) == 1:  # from here on in pairs, half as many
            offsets, double, count = (0, fetch), pairs, count // 2
            single = yield from prober.ask(Blocks(count, width, offsets, prober.span(count, width)), PROBES)
        else:
            return _Widest(line, sure)
    return _Widest(line, sure, open_ended=True)


def recounted(level: Level, line: int, count: int, bench: Bench) -> Ask[Lines]:
    """The lines that `level` holds at any one time, counted anew where they are about `count`."""
    prober = _Prober(level, level.fetch.fetch or line, bench)
    held = yield from prober.full_lines(line, count)
    return Lines(line, held, tuple(prober.evidence))


class _Prober:
    """Asks what share of scattered blocks is resident."""

    def __init__(self, level: Level, fetch: int, bench: Bench) -> None:
        self.level, self.fetch, self.bench = level, fetch, bench
        self.evidence: list[str] = []
        self.room: int | None = None
        self.once = False  # whether lines touched only once are held in greater number
        self.compared: list[tuple[int, tuple[Hits, Hits, Hits]]] = []

    def compare(self, distance: int, pairs: Hits, single: Hits, double: Hits) -> None:
        """Note what pairs of granules so far apart gave, beside half of them and twice as many blocks."""
        self.compared.append((distance, (pairs, single, double)))

    @property
    def series(self) -> tuple[Series, ...]:
        """Hits of pairs by the distance between their words, and those of what they are compared with."""
        if not self.compared:
            return ()
        columns: dict[str, tuple[float | str, ...]] = {"distance": tuple(each for each, _ in self.compared)}
        names = ("pairs", "if one line", "if two lines")
        for number, name in enumerate(names):
            columns[name] = tuple(round(100 * seen[number].share, 2) for _, seen in self.compared)
        units = {"distance": "B"} | dict.fromkeys(names, "%")
        return (Series(self.level.element, "hits against distance of a second access", columns, units),)

    def span(self, count: int, size: int) -> int:
        """Bytes over which to scatter so many blocks; in one comparison the same, for translations cost something."""
        return self.room or min(self.bench.info.limit(self.level.path), count * size * THINNESS)

    def crowd(self) -> Ask[tuple[int, Hits, Hits] | None]:
        """Double the lone words until they no longer all fit: (half of that number, its hits, hits of that number)."""
        alone = self.level.alone
        count = FIRST_BLOCKS_SHARED if alone else FIRST_BLOCKS
        before: Hits | None = None
        while True:
            counts = [count << i for i in range(1 if alone else ROUND)]
            if counts[-1] * self.fetch * ROOM_NEEDED > self.bench.info.limit(self.level.path):
                counts = [c for c in counts if c * self.fetch * ROOM_NEEDED <= self.bench.info.limit(self.level.path)]
            if not counts:
                return None
            for each, hits in zip(counts, (yield from self._ask_all(counts, FIRST_PROBES)), strict=True):
                if hits.share < (CROWDED_ALONE if alone else CROWDED) and before is not None:
                    self.room = self.span(each, self.fetch)
                    single, double = yield from self._compared(each // 2)
                    if single.share - double.share >= SMALLEST_GAP:
                        self.once = before.share - single.share > MORE
                        return each // 2, single, double
                    self.room = None  # no crowd: they were slow for another reason
                if hits.share < LOST:
                    return None
                before = hits
            count = 2 * counts[-1]

    def _compared(self, count: int) -> Ask[tuple[Hits, Hits]]:
        """Hits of so many blocks, one granule each, and of twice as many, touched alike and over the same span."""
        one, two = (Blocks(each, self.fetch, self.touches(count), self.span(each, self.fetch))
                    for each in (count, 2 * count))  # fmt: skip
        single = yield from self.ask(one, PROBES)
        double = yield from self.ask(two, PROBES)
        return single, double

    def touches(self, count: int) -> tuple[int, ...]:
        """Words of a granule that are touched: two, for caches treat what is touched only once in ways of their own.

        In short rings there are too few words for that.
        """
        word = self.level.path.word
        return (0, 2 * word) if count >= FEW and self.fetch >= 4 * word else (0,)

    def full_lines(self, line: int, count: int) -> Ask[Occupancy | None]:
        """Lines held, every granule visited: of lone words more may fit, where data is kept by granule."""
        if self.level.parts is not None:
            return None  # what is held near is not all that is held
        members = tuple(range(0, line, self.fetch)) if line > self.fetch else self.touches(count)
        many = 4 * count  # well above what fits, though sets be unequal, or random ones leave sets unfilled
        full = yield from self.ask(Blocks(many, line, members, self.span(many, line)), HELD_PROBES)
        return occupancy(full.hits, full.probes, many, THINNED)

    def _lone(self, count: int) -> Blocks:
        return Blocks(count, self.fetch, (0,), self.span(count, self.fetch))

    def _ask_all(self, counts: list[int], probes: int) -> Ask[list[Hits]]:
        batches = [self._chases(self._lone(count), probes) for count in counts]
        traces = iter((yield [chase for batch in batches for chase in batch]))
        return [self._hits([next(traces) for _ in batch]) for batch in batches]

    def ask(self, blocks: Blocks, probes: int) -> Count:
        """Hits of at least so many probes."""
        chases = self._chases(blocks, probes)
        traces = yield chases
        return self._hits(traces)

    def _chases(self, blocks: Blocks, probes: int) -> list[Chase]:
        chases: list[Chase] = []
        wanted = probes
        while wanted > 0:
            shape = (blocks.count, blocks.size, len(blocks.members), blocks.span)
            rng = self.bench.rng("scattered", self.level.element, *shape, probes, wanted)
            ring = probed(blocks, self.fetch, self.level.path.word, rng)
            chases.append(
                Chase(path=self.level.path, order=ring.order, timing=Timing.EACH, picks=ring.picks,
                      warmup=ring.warmup, alone=self.level.alone)
            )  # fmt: skip
            wanted -= len(ring.picks)
        return chases

    def _hits(self, traces: list[Trace]) -> Hits:
        self.evidence += [trace.workload for trace in traces]
        hits, misses = self.level.split(np.concatenate([trace.cycles for trace in traces]))
        return Hits(hits, hits + misses)


def _fetch_estimate(level: Level, bench: Bench) -> Estimate:
    granularity = level.fetch
    if granularity.fetch is None:
        return Estimate(element=level.element, attribute="fetch_granularity", status=Status.NOT_FOUND,
                        reason=granularity.reason, evidence=level.evidence)  # fmt: skip
    caveats = () if granularity.ahead is None else (f"reading on, {granularity.ahead} B are there: fetched ahead",)
    limit = bench.info.facts.get("l2_fetch_limit")
    if level.element == "l2" and limit is not None:
        caveats = (*caveats, f"the driver limits it to {limit} B (cudaLimitMaxL2FetchGranularity), a setting")
    confidence = EXACT if granularity.agreement >= CLEAR else CONFLICTED
    return Estimate(
        element=level.element, attribute="fetch_granularity", status=Status.FOUND, value=granularity.fetch,
        low=granularity.fetch, high=granularity.fetch, confidence=confidence,
        method="second word after a cold miss, behind it and before it", evidence=level.evidence, caveats=caveats,
    )  # fmt: skip


def _line_is_fetch(level: Level, fetch: int) -> Estimate:
    """Where nothing can be evicted, a line is at least what one miss brings along."""
    return Estimate(
        element=level.element, attribute="line_size", status=Status.FOUND, value=fetch, low=fetch,
        confidence=BRACKETED, method="second word after a cold miss", evidence=level.evidence,
        caveats=("the path is too short to evict single lines: a line could be larger than what one miss fetches",),
    )  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=lines_of(element),
        element=element,
        plan=partial(line_plan, element),
        emits=("fetch_granularity", "line_size"),
        needs=(levels_of(element),),
        quick=True,
    )
    for element in CACHES
)
