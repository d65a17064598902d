"""Fetch granularity and line size of a cache, and the number of lines it holds at any one time."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.access_patterns import (
    BLOCKS_PER_PROBE,
    ELEMENTS_PER_PROBE,
    MAX_PROBES,
    MIN_FILLED_BLOCKS,
    MIN_LONG_CHAIN_BLOCKS,
    Blocks,
    probed_chain,
    random_probes,
)
from gpudissect.measure.cache.infer_level import Level, SlowerHits, slower_hits
from gpudissect.measure.cache.infer_line import MIN_SHARE_GAP, Hits, hits_more_often, same_line_probability
from gpudissect.measure.cache.infer_residency import Residency, estimate_residency, residency_after_laps
from gpudissect.measure.cache.plan_levels import absent, for_each_cache, level_of, levels_of
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL, EXACT
from gpudissect.measure.plan import Ask, Bench, Key, Known, Outcome, Plan, found, without
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Timing

FIRST_BLOCKS, FIRST_BLOCKS_L2 = 4, 4096
MIN_L2_BYTES = 64 << 10  # of the usual footprints that the L2 holds
MAX_DOUBLINGS = 6  # of the number of blocks, in one batch, where chains need not run alone
SPREAD, MIN_SPREAD = 64, 8  # span of scattered blocks relative to their size
FIRST_PROBES = 300  # to see whether so many blocks still fit
PROBES = 3000  # to compare shares
RESIDENCY_PROBES = 8000  # to count lines to a few per cent
CROWDED_SHARE = 0.55  # of hits; with fewer, so many blocks compete that hardly a set has room left
CROWDED_SHARE_L2 = 0.85  # where a chain takes long; sets of many ways fill sooner
MAX_LINE_DOUBLINGS = 5  # a line is at most 32 times the fetch granularity
MIN_CERTAINTY = 0.95
MIN_CLEAR_AGREEMENT = 0.85  # of the samples of one distance: delays change one or two of sixteen
MIN_ONCE_LEAD = 0.15  # share of hits by which lines touched once must lead those touched twice
DISTANT_WORDS = 4  # from the first touched word of a granule to the second: between them those of other laps
LOST_SHARE = 0.05  # of hits, below which shares cannot be compared
OVERSUBSCRIPTION = 4  # lines visited relative to those that fit, though sets be unequal
METHOD = "whether a second word in scattered blocks costs another line"
AHEAD = "a miss fetches the next lines too: what looks like one line or what fits may be more"
ATTRIBUTES = ("fetch_granularity", "line_size")


@dataclass(frozen=True)
class Lines:
    """Lines of a cache level."""

    line: int  # bytes
    resident: Residency | None  # full lines held at any one time; None if too many to measure
    evidence: tuple[str, ...] = ()
    slower: SlowerHits | None = None  # hits of another level, which are counted as this one's


def lines_of(element: str) -> Key[Lines | None]:
    """Lines of a cache; None if its line size was not found."""
    return Key(f"line.{element}", (Lines, NoneType))


def line_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Fetch granularity and line size of `element`."""
    level = level_of(element, known)
    if level is None:
        return absent(element, known, *ATTRIBUTES)
    if level.behind is not None and level.bounds is None:
        return Outcome(without(Status.NOT_FOUND, element, "hits and misses overlap", *ATTRIBUTES))
    fetch_estimate = _fetch_estimate(level, bench)
    fetch = level.fetch.fetch
    if fetch is None:
        reason = f"the fetch granularity is not known: {level.fetch.reason}"
        return Outcome((fetch_estimate, *without(Status.NOT_FOUND, element, reason, "line_size")))
    prober = _Prober(level, fetch, bench)
    competing = (yield from prober.crowd()) if level.behind is not None else None
    if competing is None:  # no line can be evicted: the fetch granularity is a lower bound
        caveat = "the path is too short to evict single lines: a line may be larger than what one miss fetches"
        fields = BRACKETED, "second word after a cold miss", level.evidence, (caveat,)
        estimate = found(element, "line_size", fetch, fetch, None, *fields)
        return Outcome((fetch_estimate, estimate), Lines(fetch, None, slower=prober.slower))
    touched = prober.touched_words(competing[0])
    line, certainty = yield from _widest_line(prober, touched, *competing)
    outcome = yield from _outcome(prober, fetch_estimate, line, certainty, competing[0])
    has_few_words = fetch < 2 * DISTANT_WORDS * level.path.word
    if not prober.treats_once_differently or has_few_words:
        return outcome
    touched = (0, DISTANT_WORDS * level.path.word)  # in short chains, with more words between them
    single, double = yield from prober.single_and_double(competing[0], touched)
    line, certainty = yield from _widest_line(prober, touched, competing[0], single, double)
    return (yield from _outcome(prober, fetch_estimate, line, certainty, competing[0]))


def _outcome(prober: _Prober, fetch_estimate: Estimate, line: int, certainty: float | None, count: int) -> Ask[Outcome]:
    """The outcome for the widest line found."""
    level, element, fetch = prober.level, prober.level.element, prober.fetch
    if certainty is None or certainty < MIN_CERTAINTY:
        status, low = Status.AMBIGUOUS, fetch
        reason = "a second word at some distance neither clearly costs another line nor clearly does not"
        if certainty is None:
            status, low = Status.NOT_FOUND, line
            reason = f"at least {line} B: no second word in a block that large costs another line"
        estimates = without(status, element, reason, "line_size", low=low, method=METHOD, evidence=prober.evidence)
        return Outcome((fetch_estimate, *estimates), Lines(fetch, None, slower=prober.slower), prober.series)
    resident = yield from prober.full_lines(line, count)
    caveats = ("the cache holds more of lines touched once than of lines touched twice",) if prober.once else ()
    confidence = min(certainty, EXACT)
    if level.fetch.ahead is not None:  # with lines of its own choice, pairs and footprints hold more than is requested
        confidence, caveats = DOUBTFUL, (*caveats, AHEAD)
    estimate = found(element, "line_size", line, line, line, confidence, METHOD, prober.evidence, caveats)
    return Outcome((fetch_estimate, estimate), Lines(line, resident, prober.evidence, prober.slower), prober.series)


def _widest_line(
    prober: _Prober, touched: tuple[int, ...], count: int, single: Hits, double: Hits
) -> Ask[tuple[int, float | None]]:
    """The line size and its probability; None if it may be larger still.

    Blocks are widened until a second granule in them costs another line. A pair of granules either costs no more than
    one of them: then the line is as wide as the pair can be apart without a change. Or it costs twice as much. Where
    every granule is touched twice, that is two lines. Otherwise it may also be how the cache treats a line touched
    twice, and pairs of pairs decide. `touched` are the words of a granule that are touched.
    """
    fetch, certainty = prober.fetch, 1.0
    offsets, line = touched, fetch
    for width in (2 * fetch << i for i in range(MAX_LINE_DOUBLINGS)):
        words = (*offsets, *(width // 2 + offset for offset in offsets))
        pairs = yield from prober.probe(count, width, words, PROBES)
        prober.compared.append((width // 2, (pairs, single, double)))
        is_first_of_once = width == 2 * fetch and len(touched) == 1
        if is_first_of_once and hits_more_often(pairs, double) and hits_more_often(single, pairs):
            prober.treats_once_differently = True
        one_line = same_line_probability(pairs, single, double)
        certainty = min(certainty, max(one_line, 1 - one_line))
        if one_line >= 0.5:
            line = width
            if one_line > MIN_CERTAINTY and pairs.share > single.share:
                single = pairs  # a line touched twice may be protected: wider pairs are touched as often
        elif is_first_of_once:  # from here on in pairs, half as many
            offsets, double, count, before = (0, fetch), pairs, count // 2, single
            single = yield from prober.probe(count, width, offsets, PROBES)
            prober.treats_once_differently |= hits_more_often(single, before)
        else:
            return line, certainty
    return line, None


def recount_lines(level: Level, line: int, count: int, bench: Bench) -> Ask[Lines]:
    """The lines that `level` holds at any one time, measured again where they are about `count`."""
    prober = _Prober(level, level.fetch.fetch or line, bench)
    resident = yield from prober.full_lines(line, count)
    return Lines(line, resident, prober.evidence, prober.slower)


class _Prober:
    """Measures what share of scattered blocks is resident.

    `once` is set if lines touched only once are held in greater number; `treats_once_differently` if it seems so from
    pairs: they hit less often than one granule and more often than two, or half of them more often than one; `slower`
    are those of another level; `compared` are hits of pairs of granules by their distance, with those of half of them
    and of twice as many blocks.
    """

    def __init__(self, level: Level, fetch: int, bench: Bench) -> None:
        self.level, self.fetch, self.bench = level, fetch, bench
        self.limit = bench.info.limit(level.path)
        self.evidence: tuple[str, ...] = ()
        self.fixed_span: int | None = None
        self.once = self.treats_once_differently = False
        self.slower: SlowerHits | None = None
        self.compared: list[tuple[int, tuple[Hits, Hits, Hits]]] = []

    @property
    def series(self) -> tuple[Series, ...]:
        """Hits of pairs by the distance between their words, and those of what they are compared with."""
        if not self.compared:
            return ()
        columns: dict[str, tuple[float | str, ...]] = {"distance": tuple(distance for distance, _ in self.compared)}
        names = ("pairs", "if one line", "if two lines")
        for i, name in enumerate(names):
            columns[name] = tuple(round(100 * hits[i].share, 2) for _, hits in self.compared)
        units = {"distance": "B"} | dict.fromkeys(names, "%")
        return (Series(self.level.element, "hits against distance of a second access", columns, units),)

    def _blocks(self, count: int, size: int, words: tuple[int, ...]) -> Blocks:
        """Blocks over the same span within one comparison, for translations add latency."""
        return Blocks(count, size, words, self.fixed_span or min(self.limit, count * size * SPREAD))

    def crowd(self) -> Ask[tuple[int, Hits, Hits] | None]:
        """Double the single words until they no longer all fit: (half of their number, its hits, hits of all)."""
        alone = self.level.alone
        count, threshold = (FIRST_BLOCKS_L2, CROWDED_SHARE_L2) if alone else (FIRST_BLOCKS, CROWDED_SHARE)
        if self.level.hit.largest < MIN_L2_BYTES:
            count = min(count, self.level.hit.largest // self.fetch // 2)
        previous: Hits | None = None
        while True:
            counts = [count << i for i in range(1 if alone else MAX_DOUBLINGS)]
            counts = [count for count in counts if count * self.fetch * MIN_SPREAD <= self.limit]
            if not counts:
                return None
            single_words = [self._blocks(count, self.fetch, (0,)) for count in counts]
            for count, hits in zip(counts, (yield from self._probe_all(single_words, FIRST_PROBES)), strict=True):
                if hits.share < threshold and previous is not None:
                    self.fixed_span = self._blocks(count, self.fetch, (0,)).span
                    single, double = yield from self.single_and_double(count // 2, self.touched_words(count // 2))
                    if single.share - double.share >= MIN_SHARE_GAP:
                        self.once = previous.share - single.share > MIN_ONCE_LEAD
                        return count // 2, single, double
                    self.fixed_span = None  # no competition: they were slow for another reason
                if hits.share < LOST_SHARE:
                    return None
                previous = hits
            count = 2 * counts[-1]

    def single_and_double(self, count: int, words: tuple[int, ...]) -> Ask[tuple[Hits, Hits]]:
        """Hits of so many blocks, one granule each, and of twice as many, the same words touched in each."""
        single = yield from self.probe(count, self.fetch, words, PROBES)
        return single, (yield from self.probe(2 * count, self.fetch, words, PROBES))

    def touched_words(self, count: int) -> tuple[int, ...]:
        """Words of a granule that are touched: two, for some caches treat what is touched once differently.

        In short chains there are too few words for that.
        """
        word = self.level.path.word
        return (0, 2 * word) if count >= MIN_LONG_CHAIN_BLOCKS and self.fetch >= 4 * word else (0,)

    def full_lines(self, line: int, count: int) -> Ask[Residency | None]:
        """Resident lines, every granule touched: of single words more may fit, where data is stored by granule."""
        if self.level.far_partition is not None:
            return None  # the near partition holds only a part
        words = tuple(range(0, line, self.fetch)) if line > self.fetch else self.touched_words(count)
        visited = OVERSUBSCRIPTION * count
        hits = yield from self.probe(visited, line, words, RESIDENCY_PROBES)
        if self._is_filled(visited):
            return residency_after_laps(hits.hits, hits.probes, visited, min(MAX_PROBES, visited // BLOCKS_PER_PROBE))
        return estimate_residency(hits.hits, hits.probes, visited, ELEMENTS_PER_PROBE)

    def probe(self, count: int, size: int, words: tuple[int, ...], probes: int) -> Ask[Hits]:
        """Hits of at least so many probes of blocks."""
        return (yield from self._probe_all([self._blocks(count, size, words)], probes))[0]

    def _probe_all(self, all_blocks: list[Blocks], probes: int) -> Ask[list[Hits]]:
        batches = [self._chases(blocks, probes) for blocks in all_blocks]
        traces = iter((yield [chase for batch in batches for chase in batch]))
        return [self._count_hits([next(traces) for _ in batch]) for batch in batches]

    def _is_filled(self, count: int) -> bool:
        """Whether many threads visit so many blocks before they are probed."""
        return self.level.alone and count >= MIN_FILLED_BLOCKS

    def _chases(self, blocks: Blocks, probes: int) -> list[Chase]:
        path, alone = self.level.path, self.level.alone
        shape = (blocks.count, blocks.size, len(blocks.words), blocks.span)
        chases: list[Chase] = []
        missing = probes
        while missing > 0:
            rng = self.bench.rng("scattered", self.level.element, *shape, probes, missing)
            if self._is_filled(blocks.count):
                chases.append(random_probes(path, blocks, rng))
                missing -= chases[-1].order.count
                continue
            chain = probed_chain(blocks, self.fetch, path.word, rng)
            order, picks, warmup = chain.order, chain.picks, chain.warmup
            chases.append(Chase(path=path, order=order, timing=Timing.EACH, picks=picks, warmup=warmup, alone=alone))
            missing -= len(picks)
        return chases

    def _count_hits(self, traces: list[Trace]) -> Hits:
        self.evidence += tuple(trace.workload for trace in traces)
        cycles = np.concatenate([trace.cycles for trace in traces])
        self.slower = slower_hits(self.level, cycles) or self.slower
        hits, misses = self.level.split(cycles)
        return Hits(hits, hits + misses)


def _fetch_estimate(level: Level, bench: Bench) -> Estimate:
    fetch, ahead = level.fetch.fetch, level.fetch.ahead
    if fetch is None:
        reason, evidence = level.fetch.reason, level.evidence
        return without(Status.NOT_FOUND, level.element, reason, "fetch_granularity", evidence=evidence)[0]
    caveats: tuple[str, ...] = () if ahead is None else (f"sequential accesses find {ahead} B: data is prefetched",)
    limit = bench.info.facts.get("l2_fetch_limit")
    if level.element == "l2" and limit is not None:
        caveats += (f"the driver limits it to {limit} B (setting cudaLimitMaxL2FetchGranularity)",)
    confidence = EXACT if level.fetch.agreement >= MIN_CLEAR_AGREEMENT else CONFLICTED
    method = "second word after a cold miss, at higher and lower addresses"
    return found(level.element, "fetch_granularity", fetch, fetch, fetch, confidence, method, level.evidence, caveats)


EXPERIMENTS = for_each_cache(lines_of, line_plan, levels_of, emits=ATTRIBUTES, quick=True)
