"""Access times of pages: chains with one line per page, relative to the same lines with a translation that hits."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_residency import Control, Fit, decide, narrowed, probe_sizes
from gpudissect.measure.plan import Ask, Bench, StopEarly
from gpudissect.measure.tlb.infer_miss_penalty import Penalties, count_misses
from gpudissect.trace import OTHER_PROCESSES, Trace
from gpudissect.workload import Chase, Explicit, Path, Timing

Pages = NDArray[np.int64]
PATH = Path.GLOBAL_L2
LINE_RANGE = 1 << 20  # bytes of a page, or between two pages, over which lines are spread
LINE_GRAIN = 32  # bytes between positions of a line: coarser positions leave sets of the L2 empty and conflict sooner
PACKED_GRAIN = 512  # bytes between lines of one page, so that no two share a line of the L2
VISITS = LINE_GRAIN // PATH.word  # of a page per lap: its words stay within what one miss fetches
PROBE_PAGES = 2  # of the chase that fixes the SM
MAX_BASE_LINES = 512  # lines per chase that measures lines without misses
MAX_RESERVED_BYTES = 64 << 20  # of memory left unused: a device may round allocations up
BASE_LAPS = 9
PLACEMENT_STRIDE = 1 << 24  # pages, more than there are: placements have different hashes
NOISE_QUANTILE, NOISE_FACTOR = 0.9, 2.0  # of the differences between two measurements of the same lines
WARMUP = 2
DISTURBED_WARMUP, DISTURBED_ACCESSES = 256, 1 << 16  # laps, accesses at most, beside other processes: evict their pages
LAPS = 5
MAX_ATTEMPTS = 6  # at a decision, each with twice the laps
SCATTERED_CHAINS = 3
PROBES = 7  # sizes tried at once between one that fits and one that does not
UNDECIDED = "it could not be decided whether some pages stay resident together"


class Undecided(Exception):
    """What pages do allows no decision; the message is the reason of an ambiguous estimate."""


class _NewBase(NamedTuple):
    """Pages whose lines are to be measured without misses, in two random orders, and the offsets of their lines."""

    orders: Sequence[Pages]
    chains: Sequence[Pages]


class PageAccesses:
    """Accesses to pages `spacing` bytes apart, each with one line; another `placement` chooses other lines.

    A new `repetition` measures everything again.
    """

    def __init__(self, spacing: int, bench: Bench, repetition: int = 0, placement: int = 0) -> None:
        self.spacing, self.bench, self.repetition, self.placement = spacing, bench, repetition, placement
        self.evidence: list[str] = []
        self.resident: list[Penalties] = []  # of chains that fit
        self._base_cycles: dict[int, float] = {}  # of each page's line when its translation hits
        self._residuals: list[NDArray[np.float64]] = []
        self._differences: list[float] = []
        self._shuffles = count(1)
        self._sm: int | None = None
        self.address: int | None = None  # of page 0, once anything was measured; None if the device does not state it
        self._is_disturbed = False

    def penalties(self, chains: Sequence[Pages], laps: int = LAPS) -> Ask[list[Penalties]]:
        """Penalties of chains over these pages in random order."""
        orders = [self.bench.rng("pages", self.spacing, next(self._shuffles)).permutation(pages) for pages in chains]
        return (yield from self._run(orders, [self.offsets(order) for order in orders], laps))

    def visits(self, sequences: Sequence[Pages], laps: int, repetition: int = 0) -> Ask[list[Penalties]]:
        """Penalties of these pages in this order; each further visit of a page in a lap reads its next word."""
        offsets = [self.offsets(pages) + PATH.word * _earlier_visits(pages) for pages in sequences]
        return (yield from self._run(sequences, offsets, laps, repetition))

    def misses(
        self, sequences: Sequence[Pages], laps: int, threshold: float, repetition: int = 0
    ) -> Ask[list[NDArray[np.int8]]]:
        """Which visits are slower by `threshold` cycles: 1 for these, else 0, shape (laps x visits,) each."""
        penalties = yield from self.visits(sequences, laps, repetition)
        return [(each >= threshold).astype(np.int8).ravel() for each in penalties]

    def to_other_lines(self) -> "PageAccesses":
        """Accesses to other lines of the same pages."""
        return PageAccesses(self.spacing, self.bench, self.repetition, self.placement + 1)

    def _run(
        self, orders: Sequence[Pages], offsets: Sequence[Pages], laps: int, repetition: int = 0
    ) -> Ask[list[Penalties]]:
        new = yield from self._new_base(set().union(*(order.tolist() for order in orders)))
        base_chases = [] if new is None else self._alternating_chases(new.chains)
        traces = yield [*base_chases, *(self._chase(each, laps, repetition) for each in offsets)]
        if new is not None:
            self._add_base(new, _cycles_by_line(new.chains, traces[: len(base_chases)]))
        traces = traces[len(base_chases) :]
        self.evidence += [trace.workload for trace in traces]
        return [
            trace.cycles.reshape(laps, order.size) - np.array([*map(self._base_cycles.__getitem__, order.tolist())])
            for trace, order in zip(traces, orders, strict=True)
        ]

    def fit(self, chains: Sequence[Pages], threshold: float) -> Ask[list[Fit]]:
        """Whether all translations of each chain stay resident; penalties from `threshold` cycles are misses."""
        counts: dict[int, NDArray[np.int64]] = {}
        fits = [Fit.UNDECIDED] * len(chains)
        for attempt in range(MAX_ATTEMPTS):
            undecided = [i for i, fit in enumerate(fits) if fit is Fit.UNDECIDED]
            if not undecided:
                break
            measured = yield from self.penalties([chains[i] for i in undecided], LAPS << attempt)
            control = self._control(threshold)
            for i, penalties in zip(undecided, measured, strict=True):
                laps = count_misses(penalties, threshold)
                counts[i] = np.vstack([counts[i], laps]) if i in counts else laps
                fits[i] = decide(counts[i], control)
                if fits[i] is Fit.FITS:
                    self.resident.append(penalties)
        return fits

    def stay_resident(self, chains: Sequence[Pages], threshold: float) -> Ask[list[bool]]:
        """The same, where every chain must be decided: if need be, on other lines. Raises `Undecided`."""
        fits = yield from self.fit(chains, threshold)
        undecided = [i for i, fit in enumerate(fits) if fit is Fit.UNDECIDED]
        if undecided:
            others = self.to_other_lines()
            with suppress(StopEarly):  # earlier recordings have no other lines
                again = yield from others.fit([chains[i] for i in undecided], threshold)
                self.evidence += others.evidence
                for i, fit in zip(undecided, again, strict=True):
                    fits[i] = fit
        if Fit.UNDECIDED in fits:
            raise Undecided(UNDECIDED)
        return [fit is Fit.FITS for fit in fits]

    def max_resident(self, pages: Pages, threshold: float, low: int) -> Ask[int]:
        """How many of the first `pages` stay resident: at least `low`, but not all. Raises `Undecided`."""
        high = pages.size
        while sizes := probe_sizes(low, high, 1, PROBES):
            fits = yield from self.stay_resident([pages[:size] for size in sizes], threshold)
            low, high = narrowed(low, high, dict(zip(sizes, fits, strict=True)))
        return low

    def packed(self, count: int, pages: int) -> Ask[Penalties]:
        """Penalties of `count` lines within so few pages that translations hit: conflicts of lines remain."""
        rng = self.bench.rng("packed", self.spacing, count)
        places = min(self.spacing, LINE_RANGE) // PACKED_GRAIN
        chosen = rng.choice(pages * places, size=min(count, pages * places), replace=False)
        within = rng.integers(0, PACKED_GRAIN // LINE_GRAIN, chosen.size) * LINE_GRAIN
        offsets = np.sort(chosen // places * self.spacing + chosen % places * PACKED_GRAIN + within)
        trace, *others = yield [self._chase(offsets, LAPS), *self._alternating_chases([offsets])]
        (base,) = _cycles_by_line([offsets], others)
        return np.asarray(trace.cycles.reshape(LAPS, -1) - np.median(base, axis=0))

    def in_both_orders(self, pages: Pages) -> Ask[tuple[Penalties, Penalties]]:
        """Penalties of pages in order, and in random order."""
        (at_random,) = yield from self.penalties([pages])
        (in_order,) = yield from self.visits([pages], LAPS)
        return in_order, at_random

    def scattered(self, count: int, page: int, room: int) -> list[Pages]:
        """Chains of `count` of `room` pages of `page` bytes, lines anywhere in their pages, in units of `spacing`."""
        chains = []
        for number in range(SCATTERED_CHAINS):
            rng = self.bench.rng("scattered", page, number)
            pages = rng.choice(room, size=count, replace=False)
            chains.append(pages * (page // self.spacing) + rng.integers(0, page // self.spacing, size=pages.size))
        return chains

    def misread_share(self, threshold: float) -> float:
        """Share of accesses with a hitting translation that are slower than usual by `threshold` cycles."""
        control = self._control(threshold)
        return control.misses / control.accesses

    def _control(self, threshold: float) -> Control:
        residuals = np.concatenate(self._residuals)
        self._residuals = [residuals]
        return Control(int(np.sum(residuals >= threshold)), residuals.size)

    @property
    def noise(self) -> float:
        """Cycles by which the same line may differ between two measurements with hitting translations."""
        if not self._differences:
            return 0.0
        return NOISE_FACTOR * float(np.quantile(np.abs(self._differences), NOISE_QUANTILE))

    def _new_base(self, pages: set[int]) -> Ask[_NewBase | None]:
        """Chains over the lines of pages that were not measured without misses yet; None if all were."""
        new = np.array(sorted(pages - self._base_cycles.keys()), dtype=np.int64)
        if not new.size:
            return None
        if self._sm is None:
            # The distance of a line depends on the SM, so all chases run on the same one. Lines move when memory
            # grows, so the first chase reaches as far as any.
            last = memory_limit(self.bench) // self.spacing - 1
            (trace,) = yield [self._chase(self.offsets(np.unique([*new[:PROBE_PAGES], last])), LAPS)]
            self._sm, self._is_disturbed = trace.context.sm, OTHER_PROCESSES in trace.context.notes
            self.address = trace.context.address
        rng = self.bench.rng("alone", self.spacing, len(self._base_cycles))
        parts = np.array_split(new, -(-new.size // MAX_BASE_LINES))
        orders = [np.concatenate([rng.permutation(part) for part in parts]) for _ in range(2)]
        return _NewBase(orders, [self.offsets(order) for order in orders])

    def _add_base(self, new: _NewBase, runs: Sequence[NDArray[np.int64]]) -> None:
        """Take in the cycles, shape (visits, lines), of the two chains."""
        first, second = (cycles[:, np.argsort(order)] for cycles, order in zip(runs, new.orders, strict=True))
        medians = np.median(first, axis=0), np.median(second, axis=0)
        means = (medians[0] + medians[1]) / 2
        self._base_cycles |= dict(zip(np.sort(new.orders[0]).tolist(), means.tolist(), strict=True))
        self._differences += (medians[0] - medians[1]).tolist()
        # Relative to the other run: what a chain does to a line is part of what may be misread.
        self._residuals += [(first - medians[1]).ravel(), (second - medians[0]).ravel()]

    def _alternating_chases(self, chains: Sequence[Pages]) -> list[Chase]:
        """Chases in which two lines of a chain alternate, word by word: no misses."""
        return [self._chase(_alternating(part)[0], BASE_LAPS) for offsets in chains for part in _parts(offsets)]

    def virtual_page_numbers(self, pages: Pages, address: int) -> Pages:
        """Virtual addresses of pages in units of their size, if that of page 0 is `address`."""
        return (address + self.offsets(pages)) // self.spacing

    def offsets(self, pages: Pages) -> NDArray[np.int64]:
        """Bytes of each page's line, at a pseudo-random position: else lines share few sets of the cache."""
        places = min(self.spacing, LINE_RANGE) // LINE_GRAIN
        return pages * self.spacing + _hashed(pages + self.placement * PLACEMENT_STRIDE) * places // 2**32 * LINE_GRAIN

    def _chase(self, offsets: NDArray[np.int64], laps: int, repetition: int = 0) -> Chase:
        order, repetition = Explicit(offsets), self.repetition + repetition
        warmup = max(WARMUP, min(DISTURBED_WARMUP, DISTURBED_ACCESSES // order.count)) if self._is_disturbed else WARMUP
        chase = partial(Chase, path=PATH, order=order, timing=Timing.EACH, warmup=warmup, laps=laps, alone=True)
        return chase(sm=self._sm, repetition=repetition)


def halves(count: int) -> Pages:
    """Consecutive pages in units of half pages: the lower half of the first ones, the upper half of the others.

    If the halves were pages, they would be spread evenly over twice as many sets.
    """
    pages = np.arange(count)
    return 2 * pages + (pages >= (count + 1) // 2)


def random_visits(pages: int, rng: np.random.Generator) -> Pages:
    """Every page once in random order, then all of them several times in random order: `VISITS` visits of each."""
    return np.concatenate([rng.permutation(pages), rng.permutation(np.repeat(np.arange(pages), VISITS - 1))])


def memory_limit(bench: Bench) -> int:
    """Bytes over which pages may lie: the path's memory except a reserve."""
    limit = bench.info.limit(PATH)
    return limit - min(MAX_RESERVED_BYTES, limit // 32)


def _hashed(pages: Pages) -> Pages:
    """Pseudo-random numbers in [0, 2^32): Murmur3's finalizer (Appleby 2011)."""
    mixed = (pages + 1).astype(np.uint32)
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return (mixed ^ (mixed >> np.uint32(16))).astype(np.int64)


def _earlier_visits(pages: Pages) -> NDArray[np.int64]:
    """For each element of a sequence the number of equal elements before it."""
    order = np.argsort(pages, kind="stable")
    ordered = pages[order]
    earlier = np.empty_like(pages)
    earlier[order] = np.arange(pages.size) - np.searchsorted(ordered, ordered)
    return earlier


def _alternating(offsets: Pages) -> tuple[Pages, Pages]:
    """Offsets of the words of each two lines, alternating, and the line of each."""
    line = np.tile(np.arange(offsets.size), VISITS)
    visit = np.repeat(np.arange(VISITS), offsets.size)
    order = np.lexsort((line, visit, line // 2))
    return (np.tile(offsets, VISITS) + PATH.word * visit)[order], line[order]


def _parts(offsets: Pages) -> list[Pages]:
    """The parts of a chain whose lines are measured together."""
    return np.array_split(offsets, -(-offsets.size // MAX_BASE_LINES))


def _cycles_by_line(chains: Sequence[Pages], traces: Sequence[Trace]) -> list[NDArray[np.int64]]:
    """Cycles of all but the first visits in `_alternating_chases` of these chains, each of shape (visits, lines)."""
    remaining = iter(traces)
    return [
        np.concatenate([_later_visits(next(remaining), _alternating(part)[1]) for part in _parts(offsets)], axis=1)
        for offsets in chains
    ]


def _later_visits(trace: Trace, line: Pages) -> NDArray[np.int64]:
    """Cycles of all but the first visit of each line in a lap, (visits, lines)."""
    cycles = trace.cycles.reshape(BASE_LAPS, line.size)[:, np.argsort(line, kind="stable")]
    visits = cycles.reshape(BASE_LAPS, -1, VISITS)[:, :, 1:]
    return np.asarray(visits.transpose(0, 2, 1).reshape(-1, visits.shape[1]))
