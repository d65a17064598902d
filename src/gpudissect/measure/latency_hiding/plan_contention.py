"""Memory under load: latency against throughput, single timed loads, oversubscription (VV16 s5.8, 5.9, 6.4, 6.6)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from types import NoneType
from typing import Any

import numpy as np

from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.infer_confidence import UNTRIED
from gpudissect.measure.instructions.infer_issue import Lifetimes, SmTotals
from gpudissect.measure.latency_hiding.infer_contention import Distribution, Fit, fit_contention, fit_errors
from gpudissect.measure.latency_hiding.infer_loops import LoopData, points_of
from gpudissect.measure.latency_hiding.mixes import (
    KINDS,
    Grid,
    Kind,
    block_sizes,
    mix_of,
    occupancies,
    run_at_full_clock,
)
from gpudissect.measure.latency_hiding.plan_loops import loops_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, StopEarly, Study, found, without
from gpudissect.measure.throughput.rate_estimates import MAX_EXCESS, Bound, format_rate, peak_bandwidth
from gpudissect.trace import Trace
from gpudissect.workload import Mix
from gpudissect.workload.digest import digest

ATTRIBUTES = ("contention_base", "contention_rise", "contention_ceiling")
SAMPLE_INTERVAL = 8  # loads of one warp per SM, of which one is timed (VV16 s6.6)
SAMPLES, QUICK_SAMPLES = 1 << 20, 1 << 17  # at each occupancy, on all SMs together
OCCUPANCIES, QUICK_OCCUPANCIES = (0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0), (0.0, 0.5, 1.0)
"""Share of the maximum number of warps; 0 stands for one warp."""
PERCENTS = (0.0, 5.0, 25.0, 50.0, 75.0, 95.0, 100.0)
BINS = 80
WAVES = 6  # of blocks, where they are oversubscribed
MAX_STEPS = 400  # of occupancy against time
MAX_FIT_ERROR = 0.10  # root mean square of the relative residuals
METHOD = (
    "fit of a + b x / (c - x) to the mean latency of warps at every occupancy (VV16 s6.4, table 6.5); bracket: two "
    "standard errors, from a jackknife over tenths of the throughputs; the ceiling exceeds all observed throughputs"
)


@dataclass(frozen=True)
class Load:
    """The memory at one occupancy."""

    warps: int  # of an SM
    throughput: float  # B/s of the whole GPU without the timing of single loads
    latencies: Distribution  # of single loads
    overflow_count: int  # loads whose latency was too long to be recorded


def contention_of(element: str) -> Key[Fit | None]:
    """Latency under load, throughput in accesses per cycle of one SM; None without a good fit."""
    return Key(f"contention.{element}", (Fit, NoneType))


def contention_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Coefficients of latency under load."""
    loops = known[loops_of(kind.element)]
    if loops is None:
        reason = "no peak of accesses and additions could be measured"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, *ATTRIBUTES))
    points = points_of(loops.points, 0.0)
    rates = np.array([point.accesses for point in points])
    latencies = np.array([point.latency for point in points])
    clocks = [point.clock_hz for point in points if point.clock_hz is not None]
    clock = float(np.median(clocks)) if clocks else float(bench.info.facts.get("clock_hz", 0.0))
    scale = loops.access_bytes * bench.info.sm_count * clock  # B/s of one access per cycle of one SM
    bound = peak_bandwidth(bench.info)
    limit = bound.rate / scale if isinstance(bound, Bound) and scale > 0 else inf
    free = fit_contention(rates, latencies)
    fit = free if free is None or free.c <= limit else fit_contention(rates, latencies, limit)
    errors = None if free is None else fit_errors(rates, latencies, free)
    try:
        mixes, traces = yield from run_at_full_clock(_sampled_mixes(kind, loops, bench))
    except StopEarly:  # the fit needs none of them
        mixes, traces = [], []
    loads = [_load(mix, trace, loops, scale) for mix, trace in zip(mixes, traces, strict=True)]
    evidence = tuple(map(digest, mixes))
    fitted = [float("nan")] * rates.size if fit is None else fit.latency(rates).tolist()
    order = np.argsort(rates)
    columns = {"throughput": (rates * scale).tolist(), "latency": latencies.tolist(), "fitted": fitted}
    series = Series(
        element=kind.element,
        name="latency against throughput",
        columns={name: tuple(values[i] for i in order) for name, values in columns.items()},
        units={"throughput": "B/s", "latency": "cycles", "fitted": "cycles"},
    )
    further = (_single_latencies(kind, loads, evidence), _histogram(kind, loads, evidence)) if loads else ()
    fastest = max(point.accesses for point in loops.points if point.alpha == 0.0)
    estimates = _estimates(kind, fit, errors, scale, fastest, limit)
    valid = all(estimate.status is Status.FOUND for estimate in estimates)
    return Outcome(estimates, fit if valid else None, (series, *further))


def _sampled_mixes(kind: Kind, loops: LoopData, bench: Bench) -> list[Mix]:
    """Loads alone at several occupancies, with enough iterations for the samples."""
    shares, samples = (QUICK_OCCUPANCIES, QUICK_SAMPLES) if bench.quick else (OCCUPANCIES, SAMPLES)
    possible = occupancies(Grid(()), bench.info)
    requested = [max(1, round(share * possible[-1])) for share in shares]
    warps = dict.fromkeys(min(possible, key=lambda n, near=near: abs(n - near)) for near in requested)  # type: ignore[misc]
    loads = -(-SAMPLE_INTERVAL * samples // bench.info.sm_count)
    mixes = (mix_of(kind, 0.0, count, bench.info, loops.pace, loops.width) for count in warps)
    return [replace(mix, iterations=-(-loads // 128) * 128, sampled=SAMPLE_INTERVAL) for mix in mixes]


def _load(mix: Mix, trace: Trace, loops: LoopData, scale: float) -> Load:
    """The single latencies of a mix, and the throughput of the mix of the same occupancy without timed loads.

    The warp that times its loads ends last: by the spans of this run throughput would be too low, by the durations of
    its warps too high.
    """
    untimed = loops.curve(0.0).get(mix.warps)
    rate = untimed.accesses if untimed else SmTotals.of(trace).attained_rate(mix.loads)
    latencies = Distribution(trace.latency.astype(np.float64) - float(trace.overhead[0]), trace.count)
    return Load(mix.warps, rate * scale, latencies, trace.overflow_count)


def _estimates(
    kind: Kind, fit: Fit | None, errors: tuple[float, float, float] | None, scale: float, fastest: float, limit: float
) -> tuple[Estimate, ...]:
    """`scale`: B/s of one access per cycle of one SM; `fastest`, `limit`: accesses, observed and of the memory."""
    if fit is None:
        reason = "latency does not rise towards a ceiling of throughput: too few warps to saturate the memory"
        return without(Status.NOT_FOUND, kind.element, reason, *ATTRIBUTES)
    reason = ""
    if fit.error > MAX_FIT_ERROR:
        reason = f"a + b x / (c - x) misses the mean latencies by {fit.error:.0%}"
    elif errors is None:
        reason = "without some of the occupancies latency does not rise towards a ceiling, which is therefore unknown"
    elif (excess := fastest / fit.c - 1) > MAX_EXCESS:
        reason = f"several chains per warp read {excess:.1%} more than the ceiling of the fit"
    if reason or errors is None:
        return without(Status.AMBIGUOUS, kind.element, reason, *ATTRIBUTES)
    caveats: tuple[str, ...] = (f"latencies are {fit.error:.1%} off the fit, at most {fit.worst:.0%}",)
    base, rise = (
        found(kind.element, name, value, max(0.0, value - error), value + error, UNTRIED, METHOD, (), caveats)
        for name, value, error in zip(ATTRIBUTES[:2], (fit.a, fit.b), errors[:2], strict=True)
    )
    # The ceiling is never reached, so it exceeds all observed throughputs, and not what the memory can give.
    ceiling, error, largest, limit = (rate * scale for rate in (fit.c, errors[2], fastest, limit))
    low, high = min(max(ceiling - error, largest), ceiling), ceiling + error
    if high > limit:
        caveats = (*caveats, f"the fit alone allows up to {format_rate(high, 'B/s')}: more than the memory can give")
    high = min(high, limit)
    return base, rise, found(kind.element, ATTRIBUTES[2], ceiling, low, high, UNTRIED, METHOD, (), caveats)


def _single_latencies(kind: Kind, loads: Sequence[Load], evidence: tuple[str, ...]) -> Series:
    """Percentiles, as in VV16 table 6.6."""
    percentiles = zip(*(load.latencies.percentiles(PERCENTS) for load in loads), strict=True)
    by_percent = {f"p{percent:g}": values for percent, values in zip(PERCENTS, percentiles, strict=True)}
    columns: dict[str, tuple[float, ...]] = {
        "warps": tuple(float(load.warps) for load in loads),
        "throughput": tuple(load.throughput for load in loads),
        "samples": tuple(float(load.latencies.samples) for load in loads),
        "mean": tuple(load.latencies.mean for load in loads),
        "overflow_count": tuple(float(load.overflow_count) for load in loads),
    }
    units = {"throughput": "B/s"} | dict.fromkeys(["mean", *by_percent], "cycles")
    return Series(kind.element, "single latencies", columns | by_percent, units, evidence)


def _histogram(kind: Kind, loads: Sequence[Load], evidence: tuple[str, ...]) -> Series:
    """Densities, as in VV16 figure 6.5."""
    rows = [(load.warps, *row) for load in loads for row in zip(*load.latencies.density(BINS), strict=True)]
    units = {"cycles": "cycles", "density": "1/cycle"}
    return _table(kind, "latency histogram", ("warps", "cycles", "density"), rows, units, evidence)


def oversubscription_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Persistent blocks against many waves of blocks, in all block sizes; no estimates."""
    loops = known[loops_of(kind.element)]
    if loops is None:
        return Outcome()
    warps = occupancies(Grid(()), bench.info)[-1]
    planned = []
    for block in block_sizes(warps, bench.info):
        mix = mix_of(kind, 0.0, warps, bench.info, loops.pace, loops.width, block=block)
        mix = replace(mix, per_sm=False)  # occupancy against time needs every warp
        planned += [replace(mix, iterations=WAVES * mix.iterations), replace(mix, waves=WAVES)]
    mixes, traces = yield from run_at_full_clock(planned)
    totals = [SmTotals.of(trace) for trace in traces]
    occupancy = [Lifetimes.of(trace).occupancy(int(trace.sm.min())) for trace in traces]
    pairs, evidence = list(zip(mixes, totals, strict=True)), tuple(map(digest, mixes))
    columns: dict[str, Iterable[float]] = {
        "block": (mix.block_size for mix in mixes),
        "waves": (mix.waves for mix in mixes),
        "rate": (each.attained_rate(mix.instructions) for mix, each in pairs),
        "occupancy": (each.mean for each in occupancy),
        "below_90_percent": (each.share_below(0.9 * each.max) for each in occupancy),
        "imbalance": (each.imbalance for each in totals),
        "latency": (each.mean_duration / (mix.instructions / mix.ilp) for mix, each in pairs),
    }
    by_block = Series(
        element=kind.element,
        name="throughput by block size, persistent and oversubscribed",
        columns={name: tuple(map(float, column)) for name, column in columns.items()},
        units={"block": "threads", "rate": "instructions/cycle", "latency": "cycles"},
        evidence=evidence,
    )
    rows: list[tuple[float, ...]] = []
    for mix, each in zip(mixes[:2], occupancy[:2], strict=True):
        steps = np.unique(np.linspace(0, each.cycles.size - 1, MAX_STEPS).round().astype(int))
        rows += [(mix.waves, each.cycles[step], each.warps[step]) for step in steps]
    names, units = ("waves", "cycles", "warps"), {"cycles": "cycles"}
    return Outcome(series=(by_block, _table(kind, "occupancy against time", names, rows, units, evidence[:2])))


def _table(
    kind: Kind,
    name: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[float]],
    units: Mapping[str, str],
    evidence: tuple[str, ...],
) -> Series:
    by_name = {column: tuple(float(row[i]) for row in rows) for i, column in enumerate(columns)}
    return Series(kind.element, name, by_name, units, evidence)


def _experiment(kind: Kind, key: Key[Any], plan: Callable[..., Plan], *attributes: str) -> Experiment:
    """An experiment after the loops of this kind; one with estimates also runs after an interrupt."""
    needs, has_estimates = (loops_of(kind.element),), bool(attributes)
    plan = partial(plan, kind)
    return Experiment(key, plan, attributes, needs, quick=True, after_interrupt=has_estimates, study=Study.HIDE)


_MEMORY_KINDS = [kind for kind in KINDS if kind.of_memory]
EXPERIMENTS = (
    *(_experiment(kind, contention_of(kind.element), contention_plan, *ATTRIBUTES) for kind in _MEMORY_KINDS),
    *(_experiment(kind, Key(f"oversubscription.{kind.element}"), oversubscription_plan) for kind in _MEMORY_KINDS),
)
