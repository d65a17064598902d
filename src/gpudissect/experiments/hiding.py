"""Latency hiding: throughput against occupancy and arithmetic intensity, and what of it models need (VV16 ch 4-6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Ask, Bench, Known, Outcome, Plan, without
from gpudissect.experiments.hiding_mixes import (
    FULL_CLOCK,
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
from gpudissect.experiments.mixes import why_no_mix
from gpudissect.inference.confidence import BANDWIDTH, RATE, TIMED
from gpudissect.inference.hiding import Cusp, Point, Reached, best, cusp, reached, unloaded
from gpudissect.inference.warps import (
    Lifetimes,
    attained,
    between_rounds,
    imbalance,
    mean_latency,
    overall,
    steady,
    unsteadiness,
)
from gpudissect.series import Series
from gpudissect.trace import Trace
from gpudissect.workload import Instruction, Mix
from gpudissect.workload.digest import digest
from gpudissect.workload.mix import WARP

ATTRIBUTES = (
    "access_latency", "access_rate", "read_bandwidth", "access_bytes", "arithmetic_latency", "arithmetic_rate",
    "issue_rate", "warps_for_90", "warps_for_95", "arithmetic_warps", "cusp_alpha", "cusp_warps", "load_imbalance",
)  # fmt: skip
ILPS = (2, 4)
SHARES = (0.90, 0.95)
ARITHMETIC_SHARE = 0.98  # of the peak, for additions alone: they do not saturate gradually
UNSTEADY = 0.01  # by which throughput may be left open, for warps end at different times
WIDE = 0.90  # of the throughput with 8 bytes a lane: if 4 bring more, they are enough to fill the memory
LATENCY_ERROR, RATE_ERROR = 0.01, 0.01  # relative, at least
METHOD = "chains of loads, each address by the load before, {} additions between; every warp timed (VV16 s5.1, 5.5)"


@dataclass(frozen=True)
class Hiding:
    """What latency hiding is about on this device, for those who model it.

    Attributes:
        kind: what stands between additions.
        points: every mix that was run.
        access_bytes: that one access of a warp reads; 0 for what stays in the SM.
        access_latency, arithmetic_latency: cycles, unloaded.
        followed_latency: of an access whose result an addition needs, cycles.
        access_peak, arithmetic_peak, issue_peak: instructions a cycle of one SM.
        width: bytes of a lane's operand.
        paces: for further mixes of this kind.

    """

    kind: Kind
    points: tuple[Point, ...]
    access_bytes: int
    access_latency: float
    followed_latency: float
    arithmetic_latency: float
    access_peak: float
    arithmetic_peak: float
    issue_peak: float
    width: int
    paces: Paces

    def curve(self, alpha: float) -> dict[int, Point]:
        """The best point at each occupancy."""
        return best(point for point in self.points if point.alpha == alpha)

    def peak(self, alpha: float) -> float:
        """Instructions a cycle of one SM that no number of warps exceeds (VV16 s4.1)."""
        bounds = [self.issue_peak]
        if alpha < math.inf:
            bounds.append(self.access_peak * (alpha + 1))
        if alpha > 0:
            share = 1.0 if math.isinf(alpha) else alpha / (alpha + 1)
            bounds.append(self.arithmetic_peak / share)
        return min(bounds)

    @property
    def alphas(self) -> list[float]:
        """Of the points, rising."""
        return sorted({point.alpha for point in self.points})


def hiding_plan(kind: Kind, grid: Grid, bench: Bench, known: Known) -> Plan:
    """Latencies, peaks, warps needed, the cusp; knowledge: a `Hiding`, None where nothing can be measured."""
    for instruction in (kind.instruction, Instruction.FADD):
        reason = why_no_mix(instruction, bench)
        if reason is not None:
            return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, *_attributes(kind)))
    width, paces, first = yield from _paces(kind, bench)
    mixes = [each for each in _mixes(kind, grid, width, paces, bench) if digest(each) not in first]
    ran, traces = yield from _steadily(mixes)
    pairs = [*first.values(), *zip(ran, traces, strict=True)]
    pairs = [(mix, trace) for mix, trace in pairs if mix.width == width or not _accesses(mix)]
    points = tuple(point_of(mix, trace) for mix, trace in pairs)
    hiding = _hiding(kind, points, width, paces)
    slow = slow_ones([trace for _, trace in pairs])
    caveats = (f"{slow} mixes ran below {FULL_CLOCK:.0%} of the full clock",) if slow else ()
    clocks = sorted(trace.context.clock_hz for _, trace in pairs if trace.context.clock_hz is not None)
    clock = clocks[len(clocks) // 2] if clocks else None
    return Outcome(_estimates(hiding, bench, clock, caveats), hiding, (_series(hiding),))


def _attributes(kind: Kind) -> tuple[str, ...]:
    return tuple(each for each in ATTRIBUTES if kind.of_memory or each not in ("read_bandwidth", "access_bytes"))


def _steadily(mixes: Sequence[Mix]) -> Ask[tuple[list[Mix], list[Trace]]]:
    """Run mixes; those whose warps take unequal times, again with blocks that take the places of others (VV16 s5.9)."""
    ran, traces = yield from at_full_clock(mixes)
    uneven = [n for n, (mix, trace) in enumerate(zip(ran, traces, strict=True))
              if mix.rounds == 1 and unsteadiness(_lifetimes(trace)) > UNSTEADY]  # fmt: skip
    if uneven:
        anew = [replace(ran[n], rounds=ROUNDS, repetition=0) for n in uneven]
        again = yield from at_full_clock(anew)
        for n, mix, trace in zip(uneven, *again, strict=True):
            ran[n], traces[n] = mix, trace
    return ran, traces


def _lifetimes(trace: Trace) -> Lifetimes:
    return Lifetimes(trace.begin, trace.end, trace.sm)


def _rate(mix: Mix, seen: Lifetimes) -> float:
    """Instructions a cycle of one SM."""
    if mix.rounds == 1:
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
        latency=taken if mix.rounds == 1 else mix.warps * mix.ilp / rate, imbalance=imbalance(seen),
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


def _hiding(kind: Kind, points: tuple[Point, ...], width: int, paces: Paces) -> Hiding:
    accesses = [point for point in points if point.alpha == 0.0]
    adds = [point for point in points if math.isinf(point.alpha)]
    latency, adding = unloaded(accesses), unloaded(adds)
    ones = [point.latency * 2 - adding for point in points if point.alpha == 1.0 and point.warps == 1]
    return Hiding(
        kind=kind, points=points, width=width, paces=paces,
        access_bytes=WARP * width * kind.stride if kind.of_memory else 0,
        access_latency=latency, arithmetic_latency=adding,
        followed_latency=min([*ones, latency]) if not kind.of_memory else latency,
        access_peak=max(point.rate for point in accesses),
        arithmetic_peak=max(point.rate for point in adds if point.ilp == 1),
        issue_peak=max(point.rate for point in points if point.ilp == 1),
    )  # fmt: skip


def needed(hiding: Hiding, alpha: float, share: float) -> Reached:
    """The fewest warps with one chain each that reach `share` of the peak at one alpha."""
    return reached(hiding.curve(alpha), hiding.peak(alpha), share)


def cusp_of(hiding: Hiding) -> Cusp | None:
    """At 90 % of the peaks, as VV16 figure 4.6 has it."""
    return cusp({alpha: needed(hiding, alpha, SHARES[0]).warps for alpha in hiding.alphas})


def _evidence(hiding: Hiding, *alphas: float) -> tuple[str, ...]:
    """Digests of the mixes of some alphas; of all without any."""
    return tuple(dict.fromkeys(point.source for point in hiding.points if point.alpha in (alphas or hiding.alphas)))


def _estimates(
    hiding: Hiding, bench: Bench, clock: float | None, caveats: tuple[str, ...]
) -> tuple[Estimate, ...]:  # fmt: skip
    element = hiding.kind.element

    def found(
        attribute: str, value: float, error: float, confidence: float, method: str, least: float = 0.0
    ) -> Estimate:
        evidence = _evidence(hiding, *(() if attribute == "issue_rate" else (math.inf,)
                                       if attribute.startswith("arithmetic") else (0.0,)))  # fmt: skip
        return Estimate(
            element=element, attribute=attribute, status=Status.FOUND, value=value,
            low=max(least, value * (1 - error)),
            high=value * (1 + error), confidence=confidence, method=method, evidence=evidence, caveats=caveats,
        )  # fmt: skip

    estimates = [
        found("access_latency", hiding.access_latency, LATENCY_ERROR, TIMED,
              "smallest mean latency of a warp at any occupancy (VV16 table 6.2)"),
        found("access_rate", WARP * hiding.access_peak, RATE_ERROR, RATE,
              "fastest at any occupancy with 1, 2 and 4 chains a warp (VV16 s6.3)"),
        found("arithmetic_latency", hiding.arithmetic_latency, LATENCY_ERROR, TIMED,
              "additions alone, smallest mean latency of a warp (VV16 table 6.2)"),
        found("arithmetic_rate", WARP * hiding.arithmetic_peak, RATE_ERROR, RATE,
              "additions alone, fastest at any occupancy (VV16 table 6.1)"),
        found("issue_rate", WARP * hiding.issue_peak, RATE_ERROR, RATE,
              "fastest mix of all, one chain a warp: schedulers start at least so many"),
        found("load_imbalance", max(p.imbalance for p in hiding.curve(0.0).values()), RATE_ERROR, RATE,
              "accesses alone: the longest time of an SM over the mean one, worst occupancy (VV16 s5.5)", least=1.0),
    ]  # fmt: skip
    if hiding.kind.of_memory:
        hertz = clock if clock is not None else bench.info.facts.get("clock_hz")
        if isinstance(hertz, int | float):
            whole = hiding.access_peak * hiding.access_bytes * bench.info.sm_count * hertz
            how = "fastest at any occupancy with 1, 2 and 4 chains a warp (VV16 table 6.4)"
            estimates.append(found("read_bandwidth", whole, RATE_ERROR, BANDWIDTH, how))
        estimates.append(found("access_bytes", float(hiding.access_bytes), 0.0, RATE,
                               f"{hiding.width} bytes a lane: with fewer, memory is not filled" if hiding.width > 4
                               else "4 bytes a lane fill the memory"))  # fmt: skip
    estimates += _warps(hiding, bench, caveats)
    estimates += _cusp(hiding, bench, caveats)
    return tuple(estimates)


def _fewest_left(measured: Iterable[int], warps: int, bench: Bench) -> int:
    """The fewest warps that may do as well as `warps`: an SM can be given them, and fewer that were run fall short."""
    short = max((each for each in measured if each < warps), default=0)
    return min((each for each in reachable(bench.info) if short < each <= warps), default=warps)


def _warps(hiding: Hiding, bench: Bench, caveats: tuple[str, ...]) -> list[Estimate]:
    rows = [("warps_for_90", 0.0, SHARES[0]), ("warps_for_95", 0.0, SHARES[1]),
            ("arithmetic_warps", math.inf, ARITHMETIC_SHARE)]  # fmt: skip
    found = []
    for attribute, alpha, share in rows:
        curve, peak, evidence = hiding.curve(alpha), hiding.peak(alpha), _evidence(hiding, alpha)
        at, most = needed(hiding, alpha, share), max(curve)
        if at.warps is None:
            got = max(point.rate for point in curve.values()) / peak
            reason = f"up to {most} warps of one chain each reach {got:.0%} of the peak, not {share:.0%}"
            found.append(Estimate(element=hiding.kind.element, attribute=attribute, status=Status.NOT_FOUND, low=most,
                                  reason=reason, evidence=evidence))  # fmt: skip
            continue
        found.append(Estimate(
            element=hiding.kind.element, attribute=attribute, status=Status.FOUND, value=at.warps,
            low=_fewest_left(curve, at.low or at.warps, bench), high=at.high or most, confidence=RATE,
            method=f"fewest warps of an SM at {share:.0%} of the peak", evidence=evidence, caveats=caveats,
        ))  # fmt: skip
    return found


def _cusp(hiding: Hiding, bench: Bench, caveats: tuple[str, ...]) -> Sequence[Estimate]:
    element, at = hiding.kind.element, cusp_of(hiding)
    if at is None:
        reason = "warps needed for 90 % of the peak do not rise and then fall with arithmetic intensity"
        return without(Status.NOT_FOUND, element, reason, "cusp_alpha", "cusp_warps")
    evidence = _evidence(hiding, *(alpha for alpha in hiding.alphas if at.low <= alpha <= at.high))
    where = Estimate(
        element=element, attribute="cusp_alpha", status=Status.FOUND, value=at.alpha, low=at.low, high=at.high,
        confidence=RATE, method="additions an access at which 90 % of the peak needs most warps (VV16 s4.5)",
        evidence=evidence, caveats=caveats,
    )  # fmt: skip
    measured = sorted({point.warps for point in hiding.points if at.low <= point.alpha <= at.high and point.ilp == 1})
    if at.warps is None:
        most = measured[-1]
        reason = f"not even {most} warps reach 90 % of the peak there"
        return where, Estimate(element=element, attribute="cusp_warps", status=Status.NOT_FOUND, low=most,
                               reason=reason, evidence=evidence)  # fmt: skip
    return where, Estimate(
        element=element, attribute="cusp_warps", status=Status.FOUND, value=at.warps,
        low=_fewest_left(measured, at.warps, bench), high=at.warps,
        confidence=RATE, method="warps of an SM that it takes there", evidence=evidence, caveats=caveats,
    )  # fmt: skip


def _series(hiding: Hiding) -> Series:
    ordered = sorted(hiding.points, key=lambda point: (point.alpha, point.ilp, point.warps, point.block))
    return Series(
        element=hiding.kind.element,
        name="throughput against warps and alpha",
        columns={
            "alpha": tuple("inf" if math.isinf(point.alpha) else point.alpha for point in ordered),
            "warps": tuple(float(point.warps) for point in ordered),
            "chains": tuple(float(point.ilp) for point in ordered),
            "block": tuple(float(point.block) for point in ordered),
            "overall": tuple(point.overall for point in ordered),
            "latency": tuple(point.latency for point in ordered),
            "imbalance": tuple(point.imbalance for point in ordered),
            "rate": tuple(point.rate for point in ordered),
        },
        units={"block": "threads", "rate": "instructions/cycle", "overall": "instructions/cycle", "latency": "cycles"},
        evidence=_evidence(hiding),
    )
