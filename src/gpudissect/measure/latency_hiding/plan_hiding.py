"""Latency hiding: throughput against occupancy and arithmetic intensity, and what of it models need (VV16 ch 4-6)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from types import NoneType

from gpudissect.catalogue.capabilities import schedulers
from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Status
from gpudissect.measure.instructions.instructions import why_unsupported
from gpudissect.measure.latency_hiding.bounds import access_bound, starts
from gpudissect.measure.latency_hiding.findings import estimates_of, misread, series_of
from gpudissect.measure.latency_hiding.infer_hiding import Level, Point, level, unloaded
from gpudissect.measure.latency_hiding.infer_warps import (
    Lifetimes,
    attained,
    between_rounds,
    imbalance,
    mean_latency,
    overall,
    steady,
    unsteadiness,
)
from gpudissect.measure.latency_hiding.known import Hiding
from gpudissect.measure.latency_hiding.mixes import (
    FULL,
    FULL_CLOCK,
    KINDS,
    QUICK,
    ROUNDS,
    Grid,
    Kind,
    Paces,
    at_full_clock,
    blocks_of,
    mix_of,
    occupancies,
    reachable,
    slow_ones,
)
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, StopEarly, Study, without
from gpudissect.measure.throughput.rate_estimates import Bound, Unbounded
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix
from gpudissect.workload.digest import digest

ATTRIBUTES = (
    "access_latency", "access_rate", "read_bandwidth", "access_bytes", "arithmetic_latency", "arithmetic_rate",
    "issue_rate", "warps_for_90", "warps_for_95", "arithmetic_warps", "cusp_alpha", "cusp_warps", "load_imbalance",
)  # fmt: skip
ILPS = (2, 4)
PART = 200  # mixes that are run at once, and lost if that is broken off
UNSTEADY = 0.01  # by which throughput may be left open, for warps end at different times
WIDE = 0.90  # of the throughput with 8 bytes a lane: if 4 bring more, they are enough to fill the memory
METHOD = "chains of loads, each address by the load before, {} additions between; every warp timed (VV16 s5.1, 5.5)"


def loops_of(element: str) -> Key[Hiding | None]:
    """Latency hiding of an access, as measured; None where no peak could be measured."""
    return Key(f"loops.{element}", (Hiding, NoneType))


def hiding_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Latencies, peaks, warps needed, the cusp; knowledge: a `Hiding`, None where no peak could be measured.

    The quick grid is run first. Broken off behind it, it gives what it has.
    """
    for instruction in (kind.instruction, Instruction.FADD):
        reason = why_unsupported(instruction, bench.info)
        if reason is not None:
            return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, *_attributes(kind)))
    grid = QUICK if bench.quick else FULL
    width, paces, first = yield from _paces(kind, bench)
    mixes = [each for each in _mixes(kind, grid, width, paces, bench) if digest(each) not in first]
    coarse = set(_mixes(kind, QUICK, width, paces, bench))
    answers: dict[Mix, tuple[Mix, Trace]] = {}
    try:
        for part in _parts(mixes, coarse):
            seen = [trace.context.clock_hz for _, trace in (*first.values(), *answers.values())]
            ran, traces = yield from _steadily(part, max((clock for clock in seen if clock is not None), default=0.0))
            answers.update(zip(part, zip(ran, traces, strict=True), strict=True))
    except StopEarly:
        if not answers:
            raise
    pairs = [*first.values(), *(answers[mix] for mix in mixes if mix in answers)]
    pairs = [(mix, trace) for mix, trace in pairs if mix.width == width or not _accesses(mix)]
    if len(answers) < len(mixes):  # of what did not come to all warps nobody knows how many are enough
        most = max(mix.warps for mix in mixes)
        whole = {mix.body for mix, _ in pairs if mix.warps == most}
        pairs = [(mix, trace) for mix, trace in pairs if mix.body in whole]
    points = tuple(point_of(mix, trace) for mix, trace in pairs)
    hiding = _hiding(kind, points, width, paces, bench.info)
    slow = slow_ones([trace for _, trace in pairs])
    caveats = (f"{slow} mixes ran below {FULL_CLOCK:.0%} of the full clock",) if slow else ()
    if len(answers) < len(mixes):
        caveats = (*caveats, f"only {len(answers)} of {len(mixes)} mixes were run")
    clocks = sorted(trace.context.clock_hz for _, trace in pairs if trace.context.clock_hz is not None)
    clock = clocks[len(clocks) // 2] if clocks else None
    sound = None if misread(hiding.accesses, hiding.arithmetic, hiding.issue) else hiding
    return Outcome(estimates_of(hiding, bench, clock, caveats), sound, (series_of(hiding),))


def _attributes(kind: Kind) -> tuple[str, ...]:
    return tuple(each for each in ATTRIBUTES if kind.of_memory or each not in ("read_bandwidth", "access_bytes"))


def _parts(mixes: Sequence[Mix], coarse: Set[Mix]) -> Iterator[list[Mix]]:
    """Mixes as they are run: the coarse ones first, so that whoever breaks it off has an answer for all occupancies.

    Parts are large, as a device compiles all that one needs at once.
    """
    rest = [mix for mix in mixes if mix not in coarse]
    yield from filter(
        None, ([mix for mix in mixes if mix in coarse], *(rest[at : at + PART] for at in range(0, len(rest), PART)))
    )


def _steadily(mixes: Sequence[Mix], fastest: float = 0.0) -> Ask[tuple[list[Mix], list[Trace]]]:
    """Run mixes; those whose warps take unequal times, again with blocks that take the places of others (VV16 s5.9).

    `fastest`: the fastest clock seen before, Hz.
    """
    ran, traces = yield from at_full_clock(mixes, fastest)
    uneven = [n for n, (mix, trace) in enumerate(zip(ran, traces, strict=True))
              if mix.waves == 1 and unsteadiness(_lifetimes(trace)) > UNSTEADY]  # fmt: skip
    if uneven:
        anew = [replace(ran[n], waves=ROUNDS, repetition=0) for n in uneven]
        again = yield from at_full_clock(anew, fastest)
        for n, mix, trace in zip(uneven, *again, strict=True):
            ran[n], traces[n] = mix, trace
    return ran, traces


def _lifetimes(trace: Trace) -> Lifetimes:
    return Lifetimes(trace.begin, trace.end, trace.sm)


def _rate(mix: Mix, seen: Lifetimes) -> float:
    """Instructions a cycle of one SM."""
    if mix.waves == 1:
        return steady(seen, mix.instructions)
    return between_rounds(seen, mix.instructions) or attained(seen, mix.instructions)


def point_of(mix: Mix, trace: Trace) -> Point:
    """A mix as a point. Its mean latency is that of warps; of those of unequal pace it follows by Little's law."""
    seen = _lifetimes(trace)
    rate = _rate(mix, seen)
    taken = mean_latency(seen) / (mix.instructions / mix.ilp)
    adds = sum(step.count for step in mix.body if step.instruction is Instruction.FADD)
    accesses = sum(step.count for step in mix.body) - adds
    return Point(
        alpha=adds / accesses if accesses else math.inf, warps=mix.warps, block=mix.block_size, ilp=mix.ilp,
        rate=rate, overall=overall(seen, mix.instructions),
        latency=taken if mix.waves == 1 else mix.warps * mix.ilp / rate, imbalance=imbalance(seen),
        clock_hz=trace.context.clock_hz, source=digest(mix),
    )  # fmt: skip


def _accesses(mix: Mix) -> bool:
    return any(step.instruction is not Instruction.FADD for step in mix.body)


def _paces(kind: Kind, bench: Bench) -> Ask[tuple[int, Paces, dict[str, tuple[Mix, Trace]]]]:
    """One warp alone, and all there can be: how fast things go, and whether 4 bytes a lane fill the memory.

    Gives the width, the paces, and what was run, by digest.
    """
    most = reachable(bench.info)[-1]
    widths = (4, 8) if kind.of_memory and kind.access is not kind.access.RANDOM else (4,)
    rough = Paces()
    mixes = [mix_of(kind, 0.0, warps, blocks_of(warps, bench.info)[-1], bench, rough, width=width)
             for width in widths for warps in (1, most)]  # fmt: skip
    mixes += [mix_of(kind, math.inf, warps, blocks_of(warps, bench.info)[-1], bench, rough) for warps in (1, most)]
    ran, traces = yield from _steadily(mixes)
    points = [point_of(mix, trace) for mix, trace in zip(ran, traces, strict=True)]
    narrow, wide = points[:2], points[2 : 2 * len(widths)]
    moved = [4 * narrow[1].rate, *(8 * each.rate for each in wide[1:])]
    chosen = 0 if moved[0] >= WIDE * moved[-1] else len(widths) - 1
    alone, full = points[2 * chosen : 2 * chosen + 2]
    adding, many = points[-2:]
    paces = Paces(alone.latency, max(full.rate, alone.rate), adding.latency, max(many.rate, adding.rate))
    seen = {digest(mix): (mix, trace) for mix, trace in zip(ran, traces, strict=True)}
    return widths[chosen], paces, seen


def _mixes(kind: Kind, grid: Grid, width: int, paces: Paces, bench: Bench) -> list[Mix]:
    """All mixes, by warps: links are laid anew when their number changes."""
    info = bench.info
    shared = occupancies(grid, info)
    mixes = []
    for warps in sorted({*shared, *(reachable(info) if grid.every else ())}):
        sizes = blocks_of(warps, info)
        for alpha in grid.alphas if warps in shared else (0.0, math.inf):
            both = grid.every and (alpha == 0.0 or math.isinf(alpha))
            for block in dict.fromkeys((sizes[-1], sizes[0]) if both else sizes[-1:]):
                mixes.append(mix_of(kind, alpha, warps, block, bench, paces, width=width))
    top = shared[-1]
    few = [warps for warps in shared if top // 4 <= warps <= max(1, top // 2)][-1:] + shared[:1]
    mixes += [mix_of(kind, 0.0, warps, blocks_of(warps, info)[-1], bench, paces, width=width, ilp=ilp)
              for ilp in ILPS for warps in few]  # fmt: skip
    return list(dict.fromkeys(mixes))


def _hiding(kind: Kind, points: tuple[Point, ...], width: int, paces: Paces, info: DeviceInfo) -> Hiding:
    alone = [point for point in points if point.alpha == 0.0]
    adds = [point for point in points if math.isinf(point.alpha)]
    latency, adding = unloaded(alone), unloaded(adds)
    ones = [point.latency * 2 - adding for point in points if point.alpha == 1.0 and point.warps == 1]
    moved = WARP_SIZE * width * kind.stride if kind.of_memory else 0
    return Hiding(
        kind=kind, points=points, width=width, paces=paces, access_bytes=moved,
        access_latency=latency, arithmetic_latency=adding,
        followed_latency=min([*ones, latency]) if not kind.of_memory else latency,
        accesses=_level(alone, info, access_bound(kind, moved, info)),
        arithmetic=_level([point for point in adds if point.ilp == 1], info, starts(info)),
        issue=_level([point for point in points if point.ilp == 1], info, starts(info)),
    )  # fmt: skip


def _level(points: Sequence[Point], info: DeviceInfo, bound: Bound | Unbounded) -> Level:
    if isinstance(bound, Unbounded):
        return level(points, schedulers(info.facts))
    return level(points, schedulers(info.facts), bound.rate, bound.what)


EXPERIMENTS = tuple(
    Experiment(
        key=loops_of(kind.element),
        element=kind.element,
        plan=partial(hiding_plan, kind),
        emits=ATTRIBUTES,
        quick=True,
        study=Study.HIDE,
    )
    for kind in KINDS
)
