"""Lines and fetch granularity of a cache: how many lone words it holds, and which of them share a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Ask, Bench, Known, Outcome, Plan, without
from gpudissect.experiments.rings import THINNED, Blocks, probed
from gpudissect.inference.confidence import BRACKETED, EXACT
from gpudissect.inference.level import Level, Levels
from gpudissect.inference.line import Hits, one_line
from gpudissect.inference.occupancy import Occupancy, occupancy
from gpudissect.trace import Trace
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
METHOD = "whether a second word in scattered blocks costs another line"
HALF_A_LINE = "a line of which only a single granule was fetched takes half the room of a line with more"

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


def line_plan(element: str, needs: str, bench: Bench, known: Known) -> Plan:
    """Fetch granularity and line size of `element`."""
    levels: Levels = known[needs]
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
        return Outcome((fetch_estimate, estimate), Lines(fetch, None))  # a granule is as fine as need be
    held = yield from _full_lines(prober, widest.line, count)
    estimate = Estimate(
        element=element, attribute="line_size", status=Status.FOUND, value=widest.line, low=widest.line,
        high=widest.line, confidence=min(widest.sure, EXACT), method=METHOD, evidence=tuple(prober.evidence),
        caveats=(HALF_A_LINE,) if widest.halves else (),
    )  # fmt: skip
    return Outcome((fetch_estimate, estimate), Lines(widest.line, held, tuple(prober.evidence)))


@dataclass(frozen=True)
class _Widest:
    """The line, how sure it is, whether one granule alone takes less room, and whether the line may be wider still."""

    line: int
    sure: float
    halves: bool
    open_ended: bool = False


def _widest_line(prober: _Prober, count: int, single: Hits, double: Hits) -> Ask[_Widest]:
    """How wide blocks may be until a second granule in them costs another line.

    A pair of granules either costs no more than one of them: then the line is as wide as pairs can be drawn apart
    without that changing. Or it costs twice as much: then either they lie in two lines, or a line of a single
    granule takes half the room (seen on Hopper's L1), and pairs of pairs tell which.
    """
    fetch, sure = prober.fetch, 1.0
    offsets: tuple[int, ...] = (0,)
    line, halves = fetch, False
    for width in (2 * fetch << i for i in range(DOUBLINGS)):
        drawn_apart = (*offsets, *(width // 2 + offset for offset in offsets))
        pairs = yield from prober.ask(Blocks(count, width, drawn_apart, prober.span(count, width)), PROBES)
        together = one_line(pairs, single, double)
        sure = min(sure, max(together, 1 - together))
        if together >= 0.5:
            line, halves = width, len(offsets) > 1
        elif width == 2 * fetch:  # two lines, or two halves of one: from here on in pairs, half as many
            offsets, double, count = (0, fetch), pairs, count // 2
            single = yield from prober.ask(Blocks(count, width, offsets, prober.span(count, width)), PROBES)
        else:
            return _Widest(line, sure, halves)
    return _Widest(line, sure, halves, open_ended=True)


def _full_lines(prober: _Prober, line: int, count: int) -> Ask[Occupancy | None]:
    """Full lines held, every granule visited: of lone words more may fit, where data is kept by granule."""
    if prober.level.parts is not None:
        return None  # what is held near is not all that is held
    members = tuple(range(0, line, prober.fetch))
    blocks = Blocks(2 * count, line, members, prober.span(2 * count, line))
    full = yield from prober.ask(blocks, HELD_PROBES)
    return occupancy(full.hits, full.probes, 2 * count, THINNED)


class _Prober:
    """Asks what share of scattered blocks is resident."""

    def __init__(self, level: Level, fetch: int, bench: Bench) -> None:
        self.level, self.fetch, self.bench = level, fetch, bench
        self.evidence: list[str] = []

    def span(self, count: int, size: int) -> int:
        """Bytes over which to scatter so many blocks."""
        return min(self.bench.info.limit(self.level.path), count * size * THINNESS)

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
                    return (yield from self._well(each, before, hits))
                before = hits
            count = 2 * counts[-1]

    def _well(self, count: int, half: Hits, whole: Hits) -> Ask[tuple[int, Hits, Hits]]:
        """Both numbers counted with enough probes."""
        single = half if half.probes >= PROBES else (yield from self.ask(self._lone(count // 2), PROBES))
        double = whole if whole.probes >= PROBES else (yield from self.ask(self._lone(count), PROBES))
        return count // 2, single, double

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
    return Estimate(
        element=level.element, attribute="fetch_granularity", status=Status.FOUND, value=granularity.fetch,
        low=granularity.fetch, high=granularity.fetch, confidence=min(EXACT, granularity.agreement),
        method="second word after a cold miss, behind it and before it", evidence=level.evidence, caveats=caveats,
    )  # fmt: skip


def _line_is_fetch(level: Level, fetch: int) -> Estimate:
    """Where nothing can be evicted, a line is at least what one miss brings along."""
    return Estimate(
        element=level.element, attribute="line_size", status=Status.FOUND, value=fetch, low=fetch,
        confidence=BRACKETED, method="second word after a cold miss", evidence=level.evidence,
        caveats=("the path is too short to evict single lines: a line could be larger than what one miss fetches",),
    )  # fmt: skip
