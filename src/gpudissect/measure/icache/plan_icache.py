"""Instruction caches: loops of straight-line code of growing size, lap by lap (the method of JIA18 and JIA19)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_level import Absence
from gpudissect.measure.icache.infer_levels import (
    Curve,
    Own,
    Rise,
    Stairs,
    curve,
    onset,
    own_cost,
    past_a_stumble,
    stairs,
)
from gpudissect.measure.infer_confidence import DOUBTFUL, UNTRIED
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.series import Series
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Path, Sequential, Timing
from gpudissect.workload.chase import CODE_LINE, CODE_UNIT
from gpudissect.workload.digest import digest

ELEMENTS = ("icache_l0", "icache_l1", "icache_l15")
"""From the inside out, as levels are found: papers differ in what they call L1 and L1.5."""
ATTRIBUTES = ("capacity", "miss_penalty")
WARMUP = 4
LAPS = 16
SHORT = (1, 2, 3, 4)  # units: loops that fit into any instruction cache
AN_OCTAVE = 8  # sizes of the sweep in a doubling
LOOP = CODE_UNIT  # bytes at most of the loop round the code, which takes room, too
METHOD = "cycles a line of straight-line code against its size (JIA18): where a rest ends in a rise to another"
ONE_WARP = "seen by one warp; a level whose misses are fetched ahead in time does not show"
UNCOUNTED = "the cycles climb over many sizes: the rise from another level may be part of it, not counted"


@dataclass(frozen=True)
class CodeLevels:
    """What was found of the way of instructions: rises from the inside out; or that there is no such path."""

    stairs: Stairs
    absence: Absence | None
    evidence: tuple[str, ...]

    def behind(self, element: str) -> Rise | None:
        """The rise where that element ends, None if it was not found."""
        number = ELEMENTS.index(element)
        return self.stairs.rises[number] if number < len(self.stairs.rises) else None

    def counted(self, element: str) -> bool:
        """Whether no rise within it may hide another level: else its number is not certain."""
        return not any(rise.wide for rise in self.stairs.rises[: ELEMENTS.index(element)])


CODE_LEVELS: Key[CodeLevels] = Key("levels.icache", (CodeLevels,))


def icache_levels_plan(bench: Bench, known: Known) -> Plan:
    """Levels of instruction caches; no estimates of its own."""
    limit = bench.info.limit(Path.CODE) // CODE_UNIT
    if limit < SHORT[-1]:
        reason = bench.info.unsupported.get(Path.CODE, "this device has no such path")
        return Outcome(knowledge=CodeLevels(Stairs((), reason), Absence(reason), ()))
    swept = sweep(limit)
    traces = yield [loop(units) for units in (*SHORT, *swept)]
    own = own_cost([units * CODE_UNIT // CODE_LINE for units in SHORT], [each.cycles for each in traces[: len(SHORT)]])
    whole = _curve(swept, traces[len(SHORT) :], own)
    found = stairs(whole)
    rises: list[Rise] = []
    looked: list[int] = []
    for rise in found.rises:
        between = list(range(rise.fits // CODE_UNIT + 1, rise.overflows // CODE_UNIT))
        narrowed = yield from _narrowed(rise, between, own)
        rises.append(past_a_stumble(whole, CODE_LINE, narrowed))
        looked += between
    evidence = tuple(digest(loop(units)) for units in sorted({*SHORT, *swept, *looked}))
    levels = CodeLevels(Stairs(tuple(rises), found.end, found.fits), None, evidence)
    return Outcome(knowledge=levels, series=(_lap_curve(swept, traces[len(SHORT) :]),))


def _lap_curve(swept: list[int], traces: list[Trace]) -> Series:
    """Cycles of a line of code against the bytes of the loop, what a lap costs by itself included."""
    sizes = [units * CODE_UNIT for units in swept]
    each = [float(np.median(trace.cycles)) / (size // CODE_LINE) for size, trace in zip(sizes, traces, strict=True)]
    columns = {"footprint": tuple(sizes), "line": tuple(each)}
    units = {"footprint": "B", "line": "cycles"}
    return Series("icache_l0", "cycles of a line against footprint", columns, units,
                  tuple(trace.workload for trace in traces))  # fmt: skip


def icache_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Capacity of one level and what a line costs more beyond it. Asks for nothing."""
    levels = known[CODE_LEVELS]
    yield from ()
    rise = levels.behind(element)
    if rise is not None:
        return Outcome((_capacity(element, rise, levels), _penalty(element, rise, levels)), rise)
    if levels.absence is not None:
        return Outcome(without(levels.absence.status, element, levels.absence.reason, *ATTRIBUTES))
    lacking = without(Status.NOT_FOUND, element, levels.stairs.end, *ATTRIBUTES)
    return Outcome(tuple(_with_evidence(each, levels) for each in lacking))


def loop(units: int) -> Chase:
    """Laps of a loop over so many units of code. Alone: beyond some level SMs share what holds their instructions."""
    order = Sequential(units * CODE_UNIT // CODE_LINE, CODE_LINE)
    return Chase(path=Path.CODE, order=order, timing=Timing.LAP, warmup=WARMUP, laps=LAPS, alone=True)


def sweep(limit: int) -> list[int]:
    """Sizes in units, from the largest short loop up to `limit`, a small factor apart or one unit."""
    sizes = {round(SHORT[-1] * 2 ** (i / AN_OCTAVE)) for i in range(1 + AN_OCTAVE * limit.bit_length())}
    return [*sorted(size for size in sizes if size < limit), limit]


def _curve(units: list[int], traces: list[Trace], own: Own) -> Curve:
    return curve([each * CODE_UNIT for each in units], CODE_LINE, [trace.cycles for trace in traces], own)


def _narrowed(rise: Rise, between: list[int], own: Own) -> Ask[Rise]:
    """Every size between one that fits and one that does not: where one was misread, the bracket shows it."""
    if not between:
        return rise
    traces = yield [loop(units) for units in between]
    return onset(_curve(between, traces, own), rise)


def _capacity(element: str, rise: Rise, levels: CodeLevels) -> Estimate:
    caveats = [f"{format_bytes(rise.overflows)} of code and a loop of up to {format_bytes(LOOP)} round it do not fit"]
    if not levels.counted(element):
        caveats.append(UNCOUNTED)
    if rise.stumbles:
        caveats.append(
            f"from {format_bytes(rise.stumbles)} on a lap takes about {rise.stumble:.0f} cycles longer, however long "
            "it is: too few for every line that would be missing"
        )
    return Estimate(
        element=element, attribute="capacity", status=Status.FOUND, value=rise.fits,
        low=max(0, rise.fits - rise.slack), high=rise.overflows + LOOP,
        confidence=UNTRIED if levels.counted(element) else DOUBTFUL, method=METHOD, evidence=levels.evidence,
        caveats=(*caveats, ONE_WARP),
    )  # fmt: skip


def _penalty(element: str, rise: Rise, levels: CodeLevels) -> Estimate:
    before, after = rise.before, rise.after
    caveats = [
        f"of {CODE_LINE} B of code run through in order, {before.cycles:.1f} cycles within this level and "
        f"{after.cycles:.1f} beyond: a throughput, not a latency"
    ]
    sure = levels.counted(element) and not rise.wide
    if not sure:
        caveats.append(UNCOUNTED)
    settling = after.high - after.cycles  # a rest that has risen so far may rise as far again
    return Estimate(
        element=element, attribute="miss_penalty", status=Status.FOUND, value=rise.step,
        low=after.low - before.high, high=after.high + settling - before.low,
        confidence=UNTRIED if sure else DOUBTFUL, method=METHOD, evidence=levels.evidence, caveats=tuple(caveats),
    )  # fmt: skip


def _with_evidence(estimate: Estimate, levels: CodeLevels) -> Estimate:
    return replace(estimate, method=METHOD, evidence=levels.evidence)


EXPERIMENTS = (  # none is quick: the kernel that is all code takes seconds to compile
    Experiment(key=CODE_LEVELS, element=ELEMENTS[0], plan=icache_levels_plan),
    *(
        Experiment(
            key=Key(f"capacity.{element}"),
            element=element,
            plan=partial(icache_plan, element),
            emits=ATTRIBUTES,
            needs=(CODE_LEVELS,),
        )
        for element in ELEMENTS
    ),
)
