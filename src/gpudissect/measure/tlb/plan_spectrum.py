"""The latency spectrum of global memory, P1 to P6, from one chain of non-uniform steps (MC16 s5.2; MC14 table 3).

| pattern | cache | first TLB | second TLB | page-table window |
|---|---|---|---|---|
| P1 | hit | hit | | |
| P2 | hit | miss | hit | |
| P3 | hit | miss | miss | |
| P4 | miss | hit | | |
| P5 | miss | miss | miss | the same |
| P6 | miss | miss | miss | another |

The cache is the nearest one of the path. The chain is built from the TLBs as found, so that every pattern must occur.
It visits every word once, a line again through its next word, in this order:

1. Lines within a few pages, then again: whether the cache keeps so many.
2. As many lines, one per page, on more pages than the second TLB holds if the cache has room. Then in blocks of more
   pages than the first TLB holds and fewer than the second: each line again (both TLBs lost its page), immediately
   again (its translation hits), then each line of the block again (the first TLB lost its page).
3. A new line in each of more pages than the second TLB holds: writing the chain has visited its pages too.
4. First touches in pages not visited before, in pairs: one page far from the previous one, the next one near. Each is
   followed by the first touch of another line in the same page.

Four chains, with pages and lines of the pairs exchanged, touch every line in every role.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure import infer_latency
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_latency import latency_estimate
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.cache.plan_line import lines_of
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import Latency, lap_latency, timing_overhead
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.tlb import infer_spectrum
from gpudissect.measure.tlb.infer_miss_penalty import TlbLevel
from gpudissect.measure.tlb.infer_spectrum import FirstTouches, Hits, Pattern
from gpudissect.measure.tlb.page_accesses import memory_limit
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.trace import Array
from gpudissect.units import MIB, format_bytes_rounded
from gpudissect.workload import Chase, Explicit, Path, Shuffled, Timing
from gpudissect.workload.digest import digest

PATTERNS = ("p1", "p2", "p3", "p4", "p5", "p6")
METHOD = "medians over one chain of non-uniform steps (MC16 s5.2), less the overhead of timing one access"
MIXED = "lines of the near and of the far partition, the same in P4 to P6: the bracket holds their middle half"
LINE = 128  # bytes between lines that the L2 must keep: no line of it is longer
L2_LINES = 1 << 14  # that any L2 holds
VISITS = 4  # of a line
MAX_FILL = 0.75  # of the cache's lines that may be visited
FLUSH_RATIO, MIN_FLUSH_RATIO = 2.0, 1.1  # pages that replace all entries of a TLB, in entries
BLOCK_RATIO = 4  # pages that the first TLB does not hold, in entries
PAGES_WITHOUT_TLB = 64
LARGE_PAGE = 2 * MIB  # memory of a chase begins at one, whatever a TLB entry covers
FRESH_SHARE, MIN_FRESH_PAGES = 0.1, 96  # of all pages, kept for first touches
OVERHEAD_LINKS, OVERHEAD_LAPS = 256, 41  # of the chain that gives the overhead of timing one access
LINE_GRAIN = 256  # bytes between positions of a line that is visited once
NEAR = 32 * MIB  # distance of near pages (s1 in MC16 s5.2)
MAX_SAMPLES = 512  # hits reported
MAX_PAIRS = 200
ROLES = tuple(product((0, 1), (0, 1)))
"""The page of every pair that is visited first, far from the previous access, and the line of a page."""
Cycles = dict[str, Array]
"""Cycles, or positions in the chain, of each kind of access; arrays of equal length for kinds compared line by line."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the chain."""

    spacing: int  # bytes between pages, so that both TLBs need an entry for each
    covered: int  # bytes from the start of a page that one entry of either TLB covers
    step: int  # bytes between lines that the cache must keep, so that they spread evenly over its sets
    block: int  # pages of a block
    resident: int  # lines that the cache must keep, one per page
    flush: int  # pages that replace all entries of both TLBs
    pages: int  # of memory

    @property
    def packed_pages(self) -> int:
        """Pages, at the start of memory, of the packed lines."""
        return -(-self.resident * self.step // self.spacing)

    @property
    def half(self) -> int:
        """Bytes of a page in which one of its lines lies, the other in as many behind."""
        return self.covered // 2 // LINE_GRAIN * LINE_GRAIN


def spectrum_plan(path: Path, bench: Bench, known: Known) -> Plan:
    """P1 to P6 on `path`, cycles without the overhead of timing."""
    element = f"spectrum_{path}"
    absent = partial(without, Status.NOT_SUPPORTED, element)
    if not bench.info.limit(path):
        return Outcome(absent(bench.info.unsupported.get(path, "this device has no such path"), *PATTERNS))
    level, room, step = _cache(path, known)
    if level is None:
        absence = known[levels_of("l2")].absent["l2"]
        return Outcome(without(absence.status, element, absence.reason, *PATTERNS))
    if (level.fetch.fetch or path.word * VISITS) < path.word * VISITS:
        return Outcome(absent(f"one miss fetches fewer than {VISITS} words", *PATTERNS))
    first = known[tlb_of("tlb_l1")]
    second = known[tlb_of("tlb_l2")] if first else None
    shape = _shape(memory_limit(bench), first, second, room, step)
    if shape is None:
        return Outcome(absent(f"{format_bytes_rounded(memory_limit(bench))} hold too few pages", *PATTERNS))
    pages, lines = _page_pairs(shape, bench.rng(element, "pairs"))
    chains = [_chain(shape, lines, role, path.word, bench.rng(element, i)) for i, role in enumerate(ROLES)]
    picks = [np.unique(np.concatenate(list(positions.values()))) for _, positions in chains]
    alone = partial(Chase, path=path, alone=True)
    each = partial(alone, timing=Timing.EACH, warmup=0, flush=True)
    orders = [Explicit(offsets) for offsets, _ in chains]
    chases = [each(order=order, picks=tuple(at.tolist())) for order, at in zip(orders, picks, strict=True)]
    resident = Shuffled(OVERHEAD_LINKS, path.word, bench.seed_for(element, "resident"))
    laps = alone(order=resident, timing=Timing.LAP, warmup=2, laps=OVERHEAD_LAPS)
    single = replace(laps, timing=Timing.EACH, laps=5)
    *traces, lap_trace, single_trace = yield [*chases, laps, single]
    overhead = timing_overhead(single_trace.cycles, lap_latency(lap_trace.cycles, OVERHEAD_LINKS))
    penalties = (first.miss if first else None, second.miss if second else None)
    cycles = [
        {kind: trace.cycles[np.searchsorted(reported, at)] for kind, at in positions.items()}
        for (_, positions), reported, trace in zip(chains, picks, traces, strict=True)
    ]
    pooled = {kind: np.concatenate([each[kind] for each in cycles]) for kind in cycles[0]}
    walks = pooled["both_missed"] if second and shape.resident >= MIN_FLUSH_RATIO * second.entries else None
    hits = Hits(pooled["translated"], pooled["first_missed"], walks, pooled["packed"], pooled["packed_translated"])
    touches = _first_touches(pages, shape.spacing, cycles)
    l2 = known[levels_of("l2")].level("l2")
    mixed = l2 is not None and l2.home_partition is not None
    summary = infer_latency.median_with_quartiles if mixed else infer_latency.median_with_ranks
    of_hits = infer_spectrum.classify_hits(hits, *penalties, overhead)
    patterns = (*of_hits, *infer_spectrum.classify_first_touches(touches, *penalties, summary, overhead))
    caveats = dict(zip(PATTERNS[3:], _partition_caveats(touches, overhead), strict=True)) if mixed else {}
    evidence = tuple(digest(chase) for chase in (*chases, laps, single))
    named = zip(PATTERNS, patterns, strict=True)
    return Outcome(tuple(_estimate(element, name, found, evidence, caveats.get(name, ())) for name, found in named))


def _partition_caveats(touches: FirstTouches, overhead: Latency) -> list[tuple[str, ...]]:
    """Caveats of P4, P5 and P6 where memory has a near and a far partition."""
    cycles = infer_spectrum.latency_by_partition(touches, overhead)
    if cycles is None:
        return [(MIXED,)] * 3
    medians = "cycles: the value is the median of both together"
    return [(MIXED, f"near lines {near:.0f}, far lines {far:.0f} {medians}") for near, far in cycles]


def _cache(path: Path, known: Known) -> tuple[Level | None, int, int]:
    """The nearest cache of a path, how many lines it surely holds, and bytes between them."""
    level = known[levels_of("l1")].level("l1") if path is Path.GLOBAL else None
    if level is None:
        return known[levels_of("l2")].level("l2"), L2_LINES, LINE
    lines, capacity = known[lines_of("l1")], known[capacity_of("l1")]
    line = lines.line if lines else LINE
    return level, int((capacity or level.hit.largest) / line * MAX_FILL), line


def _shape(limit: int, first: TlbLevel | None, second: TlbLevel | None, room: int, step: int) -> Shape | None:
    """Sizes of the chain in `limit` bytes, for `room` lines `step` bytes apart; None if memory is too small."""
    page_sizes = [level.page_size for level in (first, second) if level]
    spacing, covered = max(page_sizes, default=LARGE_PAGE), min([*page_sizes, LARGE_PAGE])
    entries = first.entries if first else 0
    block = target = BLOCK_RATIO * entries if first else PAGES_WITHOUT_TLB
    if second is not None:
        block = min(block, (entries + second.entries) // 2)
        target = int(FLUSH_RATIO * second.entries)
    pages = limit // spacing
    fresh = max(MIN_FRESH_PAGES, int(FRESH_SHARE * pages))
    packed = -(-min(target, room) * step // spacing)
    flush = min(target, pages - fresh - packed)
    if flush < (MIN_FLUSH_RATIO * second.entries if second else block):
        return None
    resident = min(flush, room)
    if second is not None and resident < MIN_FLUSH_RATIO * second.entries:
        resident = min(resident, BLOCK_RATIO * block)  # no more than misses of the first TLB need
    if resident <= entries:
        return None
    return Shape(spacing, covered, step, min(block, resident), resident, flush, pages)


def _page_pairs(shape: Shape, rng: np.random.Generator) -> tuple[Array, Array]:
    """Pairs of near pages for first touches, (pairs, 2), and offsets of two lines in each, (pairs, 2, 2)."""
    fresh = range(shape.packed_pages + shape.flush, shape.pages)
    near = max(1, min(NEAR // shape.spacing, len(fresh) // 4))
    starts = np.arange(fresh.start, fresh.stop - 2 * near + 1, 2 * near)
    one = (starts[:, None] + np.arange(near)).ravel()
    pages = rng.permutation(np.stack([one, one + near], axis=1))[:MAX_PAIRS]
    lines = _positions((*pages.shape, 2), shape.half, rng) + np.array([0, shape.half])
    return pages, pages[..., None] * shape.spacing + lines


def _chain(
    shape: Shape, lines: Array, role: tuple[int, int], word: int, rng: np.random.Generator
) -> tuple[Array, Cycles]:
    """Offsets of the chain in links of `word` bytes, and the positions of each kind of access."""
    parts: list[Array] = []
    length = 0

    def visit(offsets: Array) -> Array:
        """Append these visits, row by row; their positions in the same shape."""
        nonlocal length
        parts.append(offsets.ravel())
        length += offsets.size
        return np.arange(length - offsets.size, length).reshape(offsets.shape)

    sampled = np.sort(rng.permutation(shape.resident)[:MAX_SAMPLES])
    slots = rng.permutation(shape.resident) * shape.step
    visit(slots)
    packed = visit(np.stack([slots + word, slots + 2 * word], axis=1))[sampled]
    spread = (shape.packed_pages + np.arange(shape.resident)) * shape.spacing + slots % shape.half
    splits = np.array_split(np.arange(shape.resident), max(1, round(shape.resident / shape.block)))
    blocks = [rng.permutation(split) for split in splits]
    visit(spread[np.concatenate(blocks)])
    hits = np.empty((3, shape.resident), dtype=np.int64)
    for block in blocks:
        hits[:2, block] = visit(np.stack([spread[block] + word, spread[block] + 2 * word], axis=1)).T
        hits[2, block] = visit(spread[block] + 3 * word)
    flush = shape.packed_pages + rng.permutation(shape.flush)
    visit(flush * shape.spacing + shape.half + _positions(flush.shape, shape.half, rng))
    page, line = role
    fresh = visit(lines[:, [page, 1 - page]][..., [line, 1 - line]])
    positions = dict(zip(("both_missed", "translated", "first_missed"), hits[:, sampled], strict=True))
    positions |= {"packed": packed[:, 0], "packed_translated": packed[:, 1]}
    positions |= {"far": fresh[:, 0, 0], "near": fresh[:, 1, 0], "fresh_translated": fresh[:, 0, 1]}
    return np.concatenate(parts), positions


def _positions(shape: tuple[int, ...], room: int, rng: np.random.Generator) -> Array:
    """Random positions of lines within `room` bytes of their pages."""
    return rng.integers(0, room // LINE_GRAIN, size=shape) * LINE_GRAIN


def _first_touches(pages: Array, spacing: int, cycles: Sequence[Cycles]) -> FirstTouches:
    """First touches line by line, from chains of all `ROLES`."""
    far, near, translated, distances = (np.empty((len(pages), 2, 2), dtype=np.int64) for _ in range(4))
    for (page, line), each in zip(ROLES, cycles, strict=True):
        far[:, page, line], near[:, 1 - page, line] = each["far"], each["near"]
        translated[:, page, 1 - line] = each["fresh_translated"]
        distances[1:, page, line] = np.abs(pages[1:, page] - pages[:-1, 1 - page]) * spacing
    # The first pair has no pair before it.
    return FirstTouches(translated[1:].ravel(), near[1:].ravel(), far[1:].ravel(), distances[1:].ravel())


def _estimate(
    element: str, attribute: str, pattern: Pattern, evidence: tuple[str, ...], caveats: tuple[str, ...]
) -> Estimate:
    latency = pattern.latency
    if latency is not None and pattern.status is Status.FOUND:
        found = latency_estimate(element, attribute, latency, METHOD, evidence, TIMED)
        return replace(found, caveats=(*pattern.caveats, *caveats))
    low, high = (latency.low, latency.high) if latency else (None, None)
    estimate = partial(Estimate, element=element, attribute=attribute, method=METHOD, evidence=evidence)
    return estimate(status=pattern.status, reason=pattern.reason, low=low, high=high, caveats=pattern.caveats)


_NEEDS = (levels_of("l2"), tlb_of("tlb_l1"), tlb_of("tlb_l2"))
_NEEDS_OF_L1 = (levels_of("l1"), lines_of("l1"), capacity_of("l1"))
EXPERIMENTS = tuple(
    Experiment(Key(f"spectrum.{path}"), partial(spectrum_plan, path), PATTERNS, element=f"spectrum_{path}", needs=needs)
    for path, needs in ((Path.GLOBAL, (*_NEEDS, *_NEEDS_OF_L1)), (Path.GLOBAL_L2, _NEEDS))
)
