"""Size of the windows of the page table, and the cost of changing one (MC16 s5.2, P6).

Pages that no TLB holds are visited in rising and in falling order, at growing distances until several changes of window
appear. Then all pages around the first and the last change are visited, which gives the exact number of pages. Two
controls in random order confirm it: one window after the other, and alternating between two.
"""

from dataclasses import dataclass, field, replace
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.infer_confidence import BRACKETED, LATENCY
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.tlb import infer_page_window
from gpudissect.measure.tlb.infer_miss_penalty import Penalties, TlbLevel
from gpudissect.measure.tlb.infer_page_window import Boundaries, Edge, find_boundaries, window_range
from gpudissect.measure.tlb.page_accesses import LAPS, PageAccesses, Pages, Undecided, memory_limit
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.units import format_bytes, format_bytes_rounded
from gpudissect.vocabulary import TLBS

ELEMENT = "page_table"
ATTRIBUTES = ("window", "switch_penalty")
SERIES = "added cycles against offset, in rising and in falling order"
METHOD = "pages that miss every TLB, visited in rising and in falling order (MC16 s5.2, P6)"
CHAIN_RATIO, MIN_CHAIN_RATIO = 3.0, 1.25  # pages of a chain per entry of the largest TLB
MIN_CHAIN_PAGES, MAX_CHAIN_PAGES = 64, 4096
MAX_L2_LINE = 256  # bytes
MAX_L2_SHARE = 0.5  # of the lines of the L2, which a chain may occupy unless it needs more pages
MIN_CHANGES = 3  # of window; with fewer, the distance between pages is doubled
MIN_WINDOW_PAGES = 4  # visited per window in the controls
REPETITION = 16  # number of the chases, so that none equals one of another experiment
MAX_ATTEMPTS = 4  # at a scan, each with twice the laps of the one before
NO_TLB = "no TLB was found, so no access is known to walk the page table"


@dataclass(frozen=True)
class _Scan:
    """Visited pages in rising order, one of every `step`, and the changes of window between them."""

    step: int
    pages: Pages
    changes: Boundaries
    penalties: tuple[Penalties, Penalties]  # in rising and in falling order, pages rising in both

    @property
    def edges(self) -> list[Edge]:
        """Numbers of the pages before and after each change."""
        return [(int(self.pages[at - 1]), int(self.pages[at])) for at in self.changes.positions]


def window_plan(bench: Bench, known: Known) -> Plan:
    """Size of a window in bytes, and the cycles that a change of window adds to a page walk."""
    levels = [level for tlb in TLBS if (level := known[tlb_of(tlb)]) is not None]
    l2 = known[levels_of("l2")].level("l2")
    if not levels or l2 is None:
        return Outcome(without(Status.NOT_FOUND, ELEMENT, NO_TLB, *ATTRIBUTES))
    search = _Search(bench, levels, int(l2.hit.largest / MAX_L2_LINE * MAX_L2_SHARE))
    if search.total < MIN_CHAIN_RATIO * search.entries:
        memory = format_bytes_rounded(memory_limit(bench))
        reason = f"{memory} of memory hold too few pages to miss every TLB"
        return Outcome(without(Status.NOT_SUPPORTED, ELEMENT, reason, *ATTRIBUTES))
    try:
        estimates = yield from search.estimates()
    except Undecided as undecided:
        estimates = search.without(Status.AMBIGUOUS, str(undecided))
    return Outcome(estimates, series=search.series())


@dataclass
class _Search:
    """Search for changes of the window among pages of one TLB entry each."""

    bench: Bench
    levels: list[TlbLevel]
    max_lines: int  # of a chain that the L2 keeps
    penalties: list[float] = field(default_factory=list)  # cycles a change adds, by scan that shows some
    shown: _Scan | None = None  # the last one with a change
    accesses: PageAccesses = field(init=False)
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.accesses, self.rng = PageAccesses(self.page, self.bench, REPETITION), self.bench.rng(ELEMENT)

    @property
    def page(self) -> int:
        """Bytes between pages: each page needs its own entry in every TLB."""
        return max(level.page_size for level in self.levels)

    @property
    def entries(self) -> int:
        """Entries of the largest TLB."""
        return max(level.entries for level in self.levels)

    @property
    def total(self) -> int:
        """Pages in memory."""
        return memory_limit(self.bench) // self.page

    def estimates(self) -> Ask[tuple[Estimate, ...]]:
        """The estimates of `ATTRIBUTES`. Raises `Undecided`."""
        scan = yield from self.coarse()
        edges = scan.edges
        span = format_bytes_rounded(int(scan.pages[-1]) * self.page)
        if not edges:
            reason = f"pages in order over {span} take as long in both directions: no change of a window"
            return self.without(Status.NOT_FOUND, reason)
        if len(edges) == 1:
            low = float(max(edges[0][0] + 1, int(scan.pages[-1]) + 1 - edges[0][1]) * self.page)
            reason = f"only one change of the window within {span}"
            return self.without(Status.AMBIGUOUS, reason, low)
        pages, start = yield from self.fine(scan)
        size = pages * self.page
        within, between = yield from self.controls(pages, start, scan.pages.size)
        if not infer_page_window.confirms_windows(within, between, scan.changes.penalty):
            raise Undecided(f"pages in random order contradict windows of {format_bytes(size)}")
        origin = METHOD, tuple(self.accesses.evidence)
        added, low, high = infer_page_window.switch_penalty(within, between, self.penalties)
        return (
            found(ELEMENT, "window", size, size, size, BRACKETED, *origin),
            found(ELEMENT, "switch_penalty", added, low, high, LATENCY, *origin, ("in addition to a page walk",)),
        )

    def without(self, status: Status, reason: str, low: float | None = None) -> tuple[Estimate, ...]:
        """Estimates without a value; `low` is a lower bound of the size."""
        fields = {"method": METHOD, "evidence": tuple(self.accesses.evidence)}
        window, penalty = without(status, ELEMENT, reason, *ATTRIBUTES, **fields)
        return replace(window, low=low), penalty

    def series(self) -> tuple[Series, ...]:
        """Penalties of the pages of the last scan that shows a change, in both orders."""
        if self.shown is None:
            return ()
        rising, falling = (np.median(each, axis=0).tolist() for each in self.shown.penalties)
        columns = {"offset": tuple((self.shown.pages * self.page).tolist()), "rising": rising, "falling": falling}
        columns = {name: tuple(map(float, values)) for name, values in columns.items()}
        units = {"offset": "B", "rising": "cycles", "falling": "cycles"}
        return (Series(ELEMENT, SERIES, columns, units, tuple(self.accesses.evidence)),)

    def coarse(self) -> Ask[_Scan]:
        """The scan of pages as close as `MIN_CHANGES` allow, or else of all memory. Raises `Undecided`."""
        least = max(2 * self.entries, MIN_CHAIN_PAGES)
        count = max(least, min(int(CHAIN_RATIO * self.entries), self.max_lines))
        step = 1
        while True:
            is_last = 2 * step * count > self.total
            if is_last:
                step = max(1, self.total // max(count, min(self.max_lines, MAX_CHAIN_PAGES)))
            try:
                scan = yield from self.scan(step, self.spread(step, self.total // step if is_last else count))
            except Undecided:  # of so few pages, a random TLB or a large set of a TLB keeps some
                if is_last or 2 * count > self.max_lines:
                    raise
                count *= 2
                continue
            if is_last or len(scan.edges) >= MIN_CHANGES:
                return scan
            step *= 2

    def spread(self, step: int, count: int) -> Pages:
        """One random page of every `step`: pages a power of two apart would share few sets of a TLB."""
        return step * np.arange(count) + self.rng.integers(0, step, size=count)

    def fine(self, scan: _Scan) -> Ask[tuple[int, int]]:
        """Pages per window and the first page of one, from all pages around two changes. Raises `Undecided`."""
        reason, last = "", int(scan.pages[-1]) + 1
        near = [np.arange(max(0, low - 1), high + 1) for low, high in (scan.edges[0], scan.edges[-1])]
        for step in (scan.step, scan.step, *(max(1, scan.step >> halvings) for halvings in (1, 2))):
            pages = np.unique(np.concatenate([self.spread(step, -(-last // step)), *near]))
            pages = pages[pages < self.total]
            edges = (yield from self.scan(step, pages)).edges
            sizes = window_range(edges, int(pages[0]), int(pages[-1])) if len(edges) > 1 else None
            if sizes is not None and sizes[0] == sizes[1]:
                return sizes[0], edges[0][1] % sizes[0]
            reason = f"{len(edges)} changes of the window within {last} pages are not equally far apart"
        raise Undecided(reason)

    def scan(self, step: int, pages: Pages) -> Ask[_Scan]:
        """Visit pages in rising and in falling order until all changes are clear in all laps. Raises `Undecided`."""
        before_last = self.levels[-2].miss.cycles if len(self.levels) > 1 else 0.0
        rising, falling = np.empty((2, 0, pages.size))
        for attempt in range(MAX_ATTEMPTS):
            upwards, downwards = yield from self.accesses.visits([pages, pages[::-1]], LAPS << attempt)
            rising, falling = np.vstack([rising, upwards]), np.vstack([falling, downwards[:, ::-1]])
            noise = self.accesses.noise
            walks = infer_page_window.walking_pages(rising, falling, before_last, noise)
            if walks is None:
                continue
            changes = find_boundaries(rising[:, walks], falling[:, walks], noise)
            if changes is not None:
                scan = _Scan(step, pages[walks], changes, (rising[:, walks], falling[:, walks]))
                if changes.positions:
                    self.penalties.append(changes.penalty)
                    self.shown = scan
                return scan
        raise Undecided("pages in order are slow for reasons other than windows, or do not miss every TLB")

    def controls(self, size: int, start: int, min_pages: int) -> Ask[tuple[Penalties, Penalties]]:
        """Penalties of the same pages in random order, within windows of `size` pages and alternating between two.

        The windows begin at page `start`. `min_pages` pages are known to miss every TLB, detected or not. Raises
        `Undecided` if memory holds fewer than two windows, or a window fewer than `MIN_WINDOW_PAGES`.
        """
        starts = np.arange(start, self.total - size + 1, size)
        starts = starts[: starts.size // 2 * 2]
        if not starts.size or size < MIN_WINDOW_PAGES:
            raise Undecided(f"windows of {size} pages cannot be confirmed: too few or too small")
        wanted = max(int(CHAIN_RATIO * self.entries), min_pages)
        count = min(size, max(MIN_WINDOW_PAGES, -(-wanted // starts.size)))
        windows = [start + self.rng.permutation(size)[:count] for start in starts]
        pairs = zip(windows[::2], windows[1::2], strict=True)
        alternating = np.concatenate([np.stack(pair, axis=1).ravel() for pair in pairs])
        in_windows = np.concatenate(windows)
        traces = yield from self.accesses.visits([in_windows, alternating], LAPS * 3)
        later = np.flatnonzero(np.arange(in_windows.size) % count)
        place = np.argsort(alternating)[np.searchsorted(np.sort(alternating), in_windows[later])]
        return traces[0][:, later], traces[1][:, place]


EXPERIMENTS = (
    Experiment(Key(f"window.{ELEMENT}", (NoneType,)), window_plan, ATTRIBUTES, (levels_of("l2"), *map(tlb_of, TLBS))),
)
