"""Capacity and miss penalty of instruction caches: loops of straight-line code of growing size (JIA18, JIA19)."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.cache.infer_level import Absence
from gpudissect.measure.icache import infer_levels
from gpudissect.measure.icache.infer_levels import Curve, CurveLevels, Rise, curve_of, lap_overhead
from gpudissect.measure.infer_confidence import DOUBTFUL, UNTRIED
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Path, Sequential, Timing
from gpudissect.workload.chase import CODE_LINE, CODE_UNIT
from gpudissect.workload.digest import digest

ELEMENTS = ("icache_l0", "icache_l1", "icache_l15")
"""From the nearest, as levels are found: papers differ in what they call L1 and L1.5."""
ATTRIBUTES = ("capacity", "miss_penalty")
WARMUP, LAPS = 4, 16
SHORT_LOOPS = (1, 2, 3, 4)  # units: fit into any instruction cache
SIZES_PER_OCTAVE = 8
MAX_LOOP_BYTES = CODE_UNIT  # of the loop around the code, which occupies the cache too
METHOD = "cycles per line of straight-line code against its size (JIA18): where a plateau ends in a rise to another"
ONE_WARP = "measured with one warp; a level whose misses are prefetched in time does not show"
UNCOUNTED = "the rise spans many sizes: that of another level may be part of it, not counted"


@dataclass(frozen=True)
class CodeLevels:
    """Levels of the instruction path, or why there is no such path."""

    levels: CurveLevels
    absence: Absence | None
    evidence: tuple[str, ...]

    def rise(self, element: str) -> Rise | None:
        """The rise at the capacity of that cache, None if it was not found."""
        number = ELEMENTS.index(element)
        return self.levels.rises[number] if number < len(self.levels.rises) else None

    def is_counted(self, element: str) -> bool:
        """Whether no rise before it may hide another level: else its number is not certain."""
        return not any(rise.wide for rise in self.levels.rises[: ELEMENTS.index(element)])


CODE_LEVELS: Key[CodeLevels] = Key("levels.icache", (CodeLevels,))


def code_levels_plan(bench: Bench, known: Known) -> Plan:
    """Levels of instruction caches; no estimates of its own."""
    limit = bench.info.limit(Path.CODE) // CODE_UNIT
    if limit < SHORT_LOOPS[-1]:
        reason = bench.info.unsupported.get(Path.CODE, "this device has no such path")
        return Outcome(knowledge=CodeLevels(CurveLevels((), reason), Absence(reason), ()))
    swept = sweep(limit)
    traces = yield [loop(units) for units in (*SHORT_LOOPS, *swept)]
    short, traces = traces[: len(SHORT_LOOPS)], traces[len(SHORT_LOOPS) :]
    overhead = lap_overhead([units * CODE_UNIT // CODE_LINE for units in SHORT_LOOPS], [each.cycles for each in short])
    curve = _curve(swept, traces, overhead)
    levels = infer_levels.find_levels(curve)
    rises: list[Rise] = []
    measured = {*SHORT_LOOPS, *swept}
    for rise in levels.rises:
        # Every size between one that fits and one that does not: the bracket spans misread ones.
        if between := list(range(rise.fits // CODE_UNIT + 1, rise.overflows // CODE_UNIT)):
            between_traces = yield [loop(units) for units in between]
            rise = infer_levels.narrow_onset(_curve(between, between_traces, overhead), rise)
        rises.append(infer_levels.skip_fixed_penalty(curve, CODE_LINE, rise))
        measured.update(between)
    evidence = tuple(digest(loop(units)) for units in sorted(measured))
    code = CodeLevels(replace(levels, rises=tuple(rises)), None, evidence)
    return Outcome(knowledge=code, series=(_series(swept, traces),))


def _series(swept: list[int], traces: list[Trace]) -> Series:
    """Cycles per line of code against the size of the loop, overhead of the lap included."""
    sizes = [units * CODE_UNIT for units in swept]
    cycles = [float(np.median(trace.cycles)) / (size // CODE_LINE) for size, trace in zip(sizes, traces, strict=True)]
    columns, units = {"footprint": tuple(sizes), "line": tuple(cycles)}, {"footprint": "B", "line": "cycles"}
    evidence = tuple(trace.workload for trace in traces)
    return Series("icache_l0", "cycles of a line against footprint", columns, units, evidence)


def icache_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Capacity and miss penalty of one level, from its `CodeLevels`; knowledge: its rise, None if it was not found."""
    code = known[CODE_LEVELS]
    yield from ()
    if (rise := code.rise(element)) is not None:
        return Outcome((_capacity(element, rise, code), _penalty(element, rise, code)), rise)
    if code.absence is not None:
        return Outcome(without(code.absence.status, element, code.absence.reason, *ATTRIBUTES))
    absent = without(Status.NOT_FOUND, element, code.levels.end, *ATTRIBUTES)
    return Outcome(tuple(replace(each, method=METHOD, evidence=code.evidence) for each in absent))


def loop(units: int) -> Chase:
    """Laps of a loop over that many units of code; alone, for SMs share the outer levels."""
    order = Sequential(units * CODE_UNIT // CODE_LINE, CODE_LINE)
    return Chase(path=Path.CODE, order=order, timing=Timing.LAP, warmup=WARMUP, laps=LAPS, alone=True)


def sweep(limit: int) -> list[int]:
    """Sizes in units, from the largest short loop to `limit`, a small factor apart or one unit."""
    exponents = range(1 + SIZES_PER_OCTAVE * limit.bit_length())
    sizes = {round(SHORT_LOOPS[-1] * 2 ** (exponent / SIZES_PER_OCTAVE)) for exponent in exponents}
    return [*sorted(size for size in sizes if size < limit), limit]


def _curve(units: list[int], traces: list[Trace], overhead: tuple[float, float]) -> Curve:
    return curve_of([each * CODE_UNIT for each in units], CODE_LINE, [trace.cycles for trace in traces], overhead)


def _capacity(element: str, rise: Rise, code: CodeLevels) -> Estimate:
    size = format_bytes(rise.overflows)
    caveats = [f"{size} of code and a loop of up to {format_bytes(MAX_LOOP_BYTES)} around it do not fit"]
    if not (counted := code.is_counted(element)):
        caveats.append(UNCOUNTED)
    if rise.penalty_from:
        caveats.append(
            f"from {format_bytes(rise.penalty_from)} a lap of any size takes about {rise.fixed_penalty:.0f} cycles "
            "longer: too few for every line that would miss"
        )
    bracket = max(0, rise.fits - rise.slack), rise.overflows + MAX_LOOP_BYTES
    confidence, caveats = UNTRIED if counted else DOUBTFUL, [*caveats, ONE_WARP]
    return found(element, "capacity", rise.fits, *bracket, confidence, METHOD, code.evidence, tuple(caveats))


def _penalty(element: str, rise: Rise, code: CodeLevels) -> Estimate:
    before, after = rise.before, rise.after
    caveats = [
        f"per {CODE_LINE} B of sequential code, {before.cycles:.1f} cycles within this level and {after.cycles:.1f} "
        "beyond: a throughput, not a latency"
    ]
    if not (certain := code.is_counted(element) and not rise.wide):
        caveats.append(UNCOUNTED)
    settling = after.high - after.cycles  # a plateau that has risen so far may rise as far again
    bracket = after.low - before.high, after.high + settling - before.low
    confidence = UNTRIED if certain else DOUBTFUL
    return found(element, "miss_penalty", rise.step, *bracket, confidence, METHOD, code.evidence, tuple(caveats))


EXPERIMENTS = (  # none is quick: the kernel that is all code takes seconds to compile
    Experiment(CODE_LEVELS, code_levels_plan, element=ELEMENTS[0]),
    *(Experiment(Key(f"capacity.{name}"), partial(icache_plan, name), ATTRIBUTES, (CODE_LEVELS,)) for name in ELEMENTS),
)
