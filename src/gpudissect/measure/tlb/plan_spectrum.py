"""The latency spectrum of global memory, P1 to P6, from one chain of non-uniform steps (MC16 s5.2; MC14 table 3).

| pattern | cache | first TLB | second TLB | page-table window |
|---|---|---|---|---|
| P1 | hit | hit | | |
| P2 | hit | miss | hit | |
| P3 | hit | miss | miss | |
| P4 | miss | hit | | |
| P5 | miss | miss | miss | the same |
| P6 | miss | miss | miss | another |

The cache is the nearest one of the path. The chain is built from what was found of the TLBs, so that each pattern must
arise; what does not show is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_latency import latency_found
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.cache.plan_line import lines_of
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import Latency, lap_latency, middle, middle_half, timing_overhead
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.tlb.infer_spectrum import FirstTouches, Hits, Pattern, by_home, of_first_touches, of_hits
from gpudissect.measure.tlb.plan_entries import TlbLevel, tlb_of
from gpudissect.measure.tlb.spectrum_chain import (
    ROLES,
    Shape,
    SpectrumRing,
    first_touches,
    pairs_of_pages,
    spectrum_ring,
)
from gpudissect.measure.tlb.translation import memory
from gpudissect.trace import Trace
from gpudissect.units import MIB, format_bytes
from gpudissect.workload import Chase, Path, Shuffled, Timing
from gpudissect.workload.digest import digest

PATTERNS = ("p1", "p2", "p3", "p4", "p5", "p6")
METHOD = "medians over one chain of non-uniform steps (MC16 s5.2), less what timing one access adds"
MIXED = "lines of near and of far memory are mixed, the same in P4 to P6: the bracket holds the middle half of them"
LINE = 128  # bytes between lines that the L2 must keep: no line of it is longer
L2_LINES = 1 << 14  # lines that any L2 keeps
LINKS = 4  # of one line: so often it is visited
FULL = 0.75  # of the cache's lines may be visited in turn
BEYOND, AT_LEAST = 2.0, 1.1  # pages that wear out a TLB, in its entries
IN_TURN = 4  # pages that the first TLB does not keep, in its entries
NO_PAGES = 64  # visited where no TLB was found
LARGE_PAGE = 2 * MIB  # memory of a chase begins at one, whatever a TLB's entry covers
FRESH = 0.1  # share of all pages that is kept for first touches ...
FEWEST_FRESH = 96  # ... and how many at least
RING, LAPS = 256, 41  # links of the ring that tells what timing one access adds, and its laps


def spectrum_plan(path: Path, bench: Bench, known: Known) -> Plan:
    """P1 to P6 on `path`, cycles without the timer's own cost."""
    element = f"spectrum_{path}"
    levels = known[levels_of("l2")]
    if not bench.info.limit(path):
        reason = bench.info.unsupported.get(path, "this device has no such path")
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, *PATTERNS))
    level, room, step = _cache(path, known)
    if level is None:
        absence = levels.absent["l2"]
        return Outcome(without(absence.status, element, absence.reason, *PATTERNS))
    if (level.fetch.fetch or path.word * LINKS) < path.word * LINKS:
        reason = f"one miss brings fewer than {LINKS} links"
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, *PATTERNS))
    first = known[tlb_of("tlb_l1")]
    second = known[tlb_of("tlb_l2")] if first else None
    shape = chain_shape(memory(bench), first, second, room, step)
    if shape is None:
        reason = f"{format_bytes(memory(bench))} hold too few pages"
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, *PATTERNS))
    pairs = pairs_of_pages(shape, bench.rng(element, "pairs"))
    rings = [spectrum_ring(shape, pairs, role, path.word, bench.rng(element, turn)) for turn, role in enumerate(ROLES)]
    chases = [
        Chase(path=path, order=ring.order, timing=Timing.EACH, picks=ring.picks, warmup=0, flush=True, alone=True)
        for ring in rings
    ]
    resident = Shuffled(RING, path.word, bench.seed_for(element, "resident"))
    laps = Chase(path=path, order=resident, timing=Timing.LAP, warmup=2, laps=LAPS, alone=True)
    single = replace(laps, timing=Timing.EACH, laps=5)
    *traces, by_lap, one_by_one = yield [*chases, laps, single]
    overhead = timing_overhead(one_by_one.cycles, lap_latency(by_lap.cycles, RING))
    stairs = (first.stair if first else None, second.stair if second else None)
    l2 = levels.level("l2")
    mixed = l2 is not None and l2.homes is not None
    touches = first_touches(shape, pairs, rings, traces)
    patterns = (
        *of_hits(_hits(rings, traces, shape, second), *stairs, overhead),
        *of_first_touches(touches, *stairs, middle_half if mixed else middle, overhead),
    )
    said = dict(zip(PATTERNS[3:], _of_homes(touches, overhead), strict=True)) if mixed else {}
    evidence = tuple(digest(chase) for chase in (*chases, laps, single))
    return Outcome(
        tuple(
            _estimate(element, attribute, pattern, evidence, said.get(attribute, ()))
            for attribute, pattern in zip(PATTERNS, patterns, strict=True)
        )
    )


def _of_homes(touches: FirstTouches, overhead: Latency) -> list[tuple[str, ...]]:
    """What to say of P4, P5 and P6 where memory is near and far."""
    homes = by_home(touches, overhead)
    if homes is None:
        return [(MIXED,)] * 3
    return [(MIXED, f"near lines {near:.0f} cycles, far ones {far:.0f}: the value is the median of both together")
            for near, far in homes]  # fmt: skip


def _cache(path: Path, known: Known) -> tuple[Level | None, int, int]:
    """The nearest cache of a path, how many lines it surely keeps, and bytes from one of them to the next."""
    l2 = known[levels_of("l2")]
    if path is not Path.GLOBAL:
        return l2.level("l2"), L2_LINES, LINE
    near = known[levels_of("l1")]
    level = near.level("l1")
    if level is None:
        return l2.level("l2"), L2_LINES, LINE
    lines = known[lines_of("l1")]
    capacity = known[capacity_of("l1")]
    line = lines.line if lines else LINE
    return level, int((capacity or level.hit.largest) / line * FULL), line


def chain_shape(limit: int, first: TlbLevel | None, second: TlbLevel | None, room: int, step: int) -> Shape | None:
    """Sizes of the chain.

    Args:
        limit: bytes of memory.
        first, second: what was found of the TLBs.
        room: lines that the cache keeps when they are visited in turn.
        step: bytes between them.

    Gives None where memory has no room for it.

    """
    covered = [level.page for level in (first, second) if level]
    spacing, together = max(covered, default=LARGE_PAGE), min([*covered, LARGE_PAGE])
    entries = first.entries if first else 0
    block = IN_TURN * entries if first else NO_PAGES
    wanted = block
    if second is not None:
        block = min(block, (entries + second.entries) // 2)
        wanted = int(BEYOND * second.entries)
    pages = limit // spacing
    kept = max(FEWEST_FRESH, int(FRESH * pages))
    packed = -(-min(wanted, room) * step // spacing)
    worn = min(wanted, pages - kept - packed)
    if worn < (AT_LEAST * second.entries if second else block):
        return None
    resident = min(worn, room)
    if second is not None and resident < AT_LEAST * second.entries:
        resident = min(resident, IN_TURN * block)  # no more than what misses the first TLB takes
    return Shape(spacing, together, step, min(block, resident), resident, worn, pages) if resident > entries else None


def _hits(rings: Sequence[SpectrumRing], traces: Sequence[Trace], shape: Shape, second: TlbLevel | None) -> Hits:
    walked = second is not None and shape.resident >= AT_LEAST * second.entries

    def pooled(kind: str) -> NDArray[np.int64]:
        return np.concatenate([ring.cycles(trace, kind) for ring, trace in zip(rings, traces, strict=True)])

    return Hits(
        pooled("at_hand"), pooled("first_missed"), pooled("both_missed") if walked else None, pooled("packed"),
        pooled("packed_at_hand"),
    )  # fmt: skip


def _estimate(
    element: str, attribute: str, pattern: Pattern, evidence: tuple[str, ...], caveats: tuple[str, ...]
) -> Estimate:
    latency = pattern.latency
    if latency is not None and pattern.status is Status.FOUND:
        found = latency_found(element, attribute, latency, METHOD, evidence, TIMED)
        return replace(found, caveats=(*pattern.caveats, *caveats))
    return Estimate(
        element=element, attribute=attribute, status=pattern.status, reason=pattern.reason, method=METHOD,
        evidence=evidence, low=latency.low if latency else None, high=latency.high if latency else None,
        caveats=pattern.caveats,
    )  # fmt: skip


_NEEDS = (levels_of("l2"), tlb_of("tlb_l1"), tlb_of("tlb_l2"))
EXPERIMENTS = tuple(
    Experiment(
        key=Key(f"spectrum.{path}"),
        element=f"spectrum_{path}",
        plan=partial(spectrum_plan, path),
        emits=PATTERNS,
        needs=(*_NEEDS, *needs),
    )
    for path, needs in (
        (Path.GLOBAL, (levels_of("l1"), lines_of("l1"), capacity_of("l1"))),
        (Path.GLOBAL_L2, ()),
    )
)
