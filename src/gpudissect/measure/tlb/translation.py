"""Asks what translations cost: rings of one line a page, against words of two lines in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_first_miss import Control, Fit, decide
from gpudissect.measure.plan import Ask, Bench
from gpudissect.measure.tlb.infer_translation import Penalties, counted
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Explicit, Path, Timing

Pages = NDArray[np.int64]
PATH = Path.GLOBAL_L2
WITHIN = 1 << 20  # bytes of a page, or of what lies between two, over which lines are spread
PLACE = 32  # bytes between places for a line: wider ones leave sets of the L2 empty, and it conflicts sooner
GRAIN = 512  # of several in a page, so that no two are in one line of the L2
VISITS = PLACE // PATH.word  # of a page in one lap: its words stay within what one miss brings in
FIRST = 2  # pages of the chase that settles which SM asks
MOST = 512  # lines whose own latency one chase tells
LEFT_ALONE = 64 << 20  # bytes of memory at most: a device may round up what it is asked for
BASE_LAPS = 9
TYPICAL, SPREADS = 0.9, 2.0  # quantile of the differences between two rings, and how many of them are noise
WARMUP = 2
LAPS = 5
TOP_UPS = 6


class Translations:
    """Pages `spacing` bytes apart, each with one line of its own at a place of its own.

    All that is measured of them is measured anew for each `repetition`.
    """

    def __init__(self, spacing: int, bench: Bench, repetition: int = 0) -> None:
        self.spacing, self.bench, self.repetition = spacing, bench, repetition
        self.evidence: list[str] = []
        self._alone: dict[int, float] = {}  # cycles of each page's line when its translation is surely there
        self._residuals: list[NDArray[np.float64]] = []
        self._differences: list[float] = []
        self._asked = 0
        self._sm: int | None = None

    def penalties(self, rings: Sequence[Pages], laps: int = LAPS) -> Ask[list[Penalties]]:
        """Cycles of every access beyond its line alone, for rings over these pages in random order."""
        yield from self._measure_alone(np.unique(np.concatenate(list(rings))))
        orders = [self._shuffled(pages) for pages in rings]
        traces = yield [self._chase(order, laps) for order in orders]
        self.evidence += [trace.workload for trace in traces]
        return [
            trace.cycles.reshape(laps, order.size) - np.array([self._alone[page] for page in order.tolist()])
            for trace, order in zip(traces, orders, strict=True)
        ]

    def visits(self, sequences: Sequence[Pages], laps: int, repetition: int = 0) -> Ask[list[Penalties]]:
        """Cycles of every access beyond its line alone; a page that comes again in a lap is asked for another word."""
        yield from self._measure_alone(np.unique(np.concatenate(list(sequences))))
        rings = [self._chase_over(self._offsets(pages) + PATH.word * _again(pages), laps) for pages in sequences]
        traces = yield [replace(ring, repetition=self.repetition + repetition) for ring in rings]
        self.evidence += [trace.workload for trace in traces]
        return [
            trace.cycles.reshape(laps, pages.size) - np.array([self._alone[page] for page in pages.tolist()])
            for trace, pages in zip(traces, sequences, strict=True)
        ]

    def fit(self, rings: Sequence[Pages], threshold: float) -> Ask[list[Fit]]:
        """Whether the translations of these pages are all kept; what costs `threshold` cycles more was not."""
        counts: dict[int, NDArray[np.int64]] = {}
        fits = [Fit.UNDECIDED] * len(rings)
        for turn in range(TOP_UPS):
            still = [i for i, fit in enumerate(fits) if fit is Fit.UNDECIDED]
            if not still:
                break
            told = yield from self.penalties([rings[i] for i in still], LAPS << turn)
            control = self._control(threshold)
            for i, penalties in zip(still, told, strict=True):
                own = counted(penalties, threshold)
                counts[i] = np.vstack([counts[i], own]) if i in counts else own
                fits[i] = decide(counts[i], control)
        return fits

    def packed(self, count: int, pages: int) -> Ask[Penalties]:
        """So many lines within so many pages: what they cost beyond a few alone is not for their translation."""
        rng = self.bench.rng("packed", self.spacing, count)
        places = min(self.spacing, WITHIN) // GRAIN
        chosen = rng.choice(pages * places, size=min(count, pages * places), replace=False)
        within = rng.integers(0, GRAIN // PLACE, chosen.size) * PLACE
        offsets = np.sort(chosen // places * self.spacing + chosen % places * GRAIN + within)
        (whole,) = yield [self._chase_over(offsets, LAPS)]
        (again,) = yield from self._revisited([offsets])
        return np.asarray(whole.cycles.reshape(LAPS, -1) - np.median(again, axis=0))

    def misread(self, threshold: float) -> float:
        """Share of accesses whose translation is there that take that much longer than usual."""
        control = self._control(threshold)
        return control.misses / control.accesses

    def _control(self, threshold: float) -> Control:
        residuals = np.concatenate(self._residuals)
        self._residuals = [residuals]
        return Control(int(np.sum(residuals >= threshold)), residuals.size)

    @property
    def noise(self) -> float:
        """Cycles by which a line may look slower for no reason: between two looks at it with its translation there."""
        return SPREADS * float(np.quantile(np.abs(self._differences), TYPICAL)) if self._differences else 0.0

    def _measure_alone(self, pages: Pages) -> Ask[None]:
        new = np.array([page for page in pages.tolist() if page not in self._alone], dtype=np.int64)
        if not new.size:
            return
        if self._sm is None:
            # A line is nearer to one SM than to another: from now on the same SM asks. And it moves when memory grows:
            # so the first chase reaches as far as any.
            farthest = memory(self.bench) // self.spacing - 1
            (trace,) = yield [self._chase(np.unique([*new[:FIRST], farthest]), LAPS)]
            self._sm = trace.context.sm
        rng = self.bench.rng("alone", self.spacing, len(self._alone))
        orders = [np.concatenate([rng.permutation(part) for part in np.array_split(new, -(-new.size // MOST))])
                  for _ in range(2)]  # fmt: skip
        seen = yield from self._revisited([self._offsets(order) for order in orders])
        first, second = (cycles[:, np.argsort(order)] for cycles, order in zip(seen, orders, strict=True))
        usual = np.median(first, axis=0), np.median(second, axis=0)
        self._alone |= dict(zip(np.sort(new).tolist(), ((usual[0] + usual[1]) / 2).tolist(), strict=True))
        self._differences += (usual[0] - usual[1]).tolist()
        # Each against the other ring: what a ring does to a line is part of what may be misread.
        self._residuals += [(first - usual[1]).ravel(), (second - usual[0]).ravel()]

    def _revisited(self, rings: Sequence[Pages]) -> Ask[list[NDArray[np.int64]]]:
        """Cycles of words of lines at these offsets right after another, (times, lines): no translation was lost.

        Two lines take turns, word after word; the first visit of each brings in what it needs and is left out.
        """
        parts = [part for offsets in rings for part in np.array_split(offsets, -(-offsets.size // MOST))]
        orders = [_in_turns(part) for part in parts]
        traces = yield [self._chase_over(order, BASE_LAPS) for order, _ in orders]
        told = iter(_by_line(trace, line) for trace, (_, line) in zip(traces, orders, strict=True))
        return [np.concatenate([next(told) for _ in range(-(-offsets.size // MOST))], axis=1) for offsets in rings]

    def _shuffled(self, pages: Pages) -> Pages:
        self._asked += 1
        return self.bench.rng("pages", self.spacing, self._asked).permutation(pages)

    def _chase(self, pages: Pages, laps: int) -> Chase:
        return self._chase_over(self._offsets(pages), laps)

    def _offsets(self, pages: Pages) -> NDArray[np.int64]:
        return pages * self.spacing + self._place(pages)

    def _chase_over(self, offsets: NDArray[np.int64], laps: int) -> Chase:
        return Chase(path=PATH, order=Explicit(offsets), timing=Timing.EACH, warmup=WARMUP, laps=laps, alone=True,
                     sm=self._sm, repetition=self.repetition)  # fmt: skip

    def _place(self, pages: Pages) -> NDArray[np.int64]:
        """Where in its page a line lies: as if drawn, or many of them would fall into few sets of the cache."""
        places = min(self.spacing, WITHIN) // PLACE
        return _scattered(pages) * places // 2**32 * PLACE


def memory(bench: Bench) -> int:
    """Bytes over which pages may lie: all there is but a little."""
    limit = bench.info.limit(PATH)
    return limit - min(LEFT_ALONE, limit // 32)


def _scattered(pages: Pages) -> Pages:
    """Numbers in [0, 2^32) that look drawn: Murmur3's finalizer (Appleby 2011)."""
    mixed = (pages + 1).astype(np.uint32)
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return (mixed ^ (mixed >> np.uint32(16))).astype(np.int64)


def _again(pages: Pages) -> NDArray[np.int64]:
    """How often each page came before in a sequence."""
    order = np.argsort(pages, kind="stable")
    ordered = pages[order]
    first = np.searchsorted(ordered, ordered)
    again = np.empty_like(pages)
    again[order] = np.arange(pages.size) - first
    return again


def _in_turns(offsets: Pages) -> tuple[Pages, Pages]:
    """Words of each two lines in turns, and which line each is of."""
    line = np.arange(offsets.size)
    pair = line // 2
    order = np.lexsort((np.tile(line, VISITS), np.repeat(np.arange(VISITS), line.size), np.tile(pair, VISITS)))
    words = (offsets[None, :] + PATH.word * np.arange(VISITS)[:, None]).ravel()
    return words[order], np.tile(line, VISITS)[order]


def _by_line(trace: Trace, line: Pages) -> NDArray[np.int64]:
    """Cycles of all but the first visit of each line in a lap, (times, lines)."""
    cycles = trace.cycles.reshape(BASE_LAPS, line.size)[:, np.argsort(line, kind="stable")]
    visits = cycles.reshape(BASE_LAPS, -1, VISITS)[:, :, 1:]
    return np.asarray(visits.transpose(0, 2, 1).reshape(-1, visits.shape[1]))
