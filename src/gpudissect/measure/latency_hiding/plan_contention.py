"""Latency of memory under load: means against throughput, and single loads timed one by one (VV16 s6.4, 6.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import UNTRIED
from gpudissect.measure.latency_hiding.infer_contention import Distribution, Fit, distribution, fit, spreads
from gpudissect.measure.latency_hiding.infer_warps import Lifetimes, attained
from gpudissect.measure.latency_hiding.known import Hiding
from gpudissect.measure.latency_hiding.mixes import KINDS, Grid, Kind, at_full_clock, blocks_of, mix_of, occupancies
from gpudissect.measure.latency_hiding.plan_hiding import loops_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, StopEarly, Study, without
from gpudissect.measure.throughput.rate_estimates import MAX_EXCESS, Bound, format_rate, peak_bandwidth
from gpudissect.series import Series
from gpudissect.trace import Trace
from gpudissect.workload import Mix
from gpudissect.workload.digest import digest

ATTRIBUTES = ("contention_base", "contention_rise", "contention_ceiling")
EVERY = 8  # of the loads of one warp of each SM, one is timed (VV16 s6.6)
SAMPLES = 1 << 20  # of each occupancy, on all SMs together
FEWER = 1 << 17  # in a hurry
LEVELS, FEWER_LEVELS = (0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0), (0.0, 0.5, 1.0)  # of the most warps; 0: one warp
PERCENTS = (0.0, 5.0, 25.0, 50.0, 75.0, 95.0, 100.0)
BINS = 80
LOOSE = 0.10  # root mean square of a fit's relative residuals from which on it is no fit
METHOD = (
    "fit of a + b x / (c - x) to the mean latency of warps at every occupancy (VV16 s6.4, table 6.5); bracket: two "
    "standard errors, by leaving out a tenth of the throughputs at a time; the ceiling is above all that was seen"
)


@dataclass(frozen=True)
class Load:
    """One occupancy: how much is read, and how long single loads take.

    Attributes:
        warps: of an SM.
        throughput: B/s of the whole GPU, as it is where no load is timed by itself.
        single: the single latencies.
        beyond: how many of them were too long to be told apart.

    """

    warps: int
    throughput: float
    single: Distribution
    beyond: int


def contention_of(element: str) -> Key[Fit | None]:
    """Latency under load in accesses a cycle of one SM; None without a good fit."""
    return Key(f"contention.{element}", (Fit, NoneType))


def contention_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Coefficients of latency under load; knowledge: the fit in accesses a cycle of one SM, None without a good one."""
    hiding = known[loops_of(kind.element)]
    if hiding is None:
        reason = "no peak of accesses and additions could be measured"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, *ATTRIBUTES))
    curve = [point for point in hiding.points if point.alpha == 0.0 and point.ilp == 1]
    rates = np.array([point.accesses for point in curve])
    latencies = np.array([point.latency for point in curve])
    clocks = [point.clock_hz for point in curve if point.clock_hz is not None]
    clock = float(np.median(clocks)) if clocks else float(bench.info.facts.get("clock_hz", 0.0))
    scale = hiding.access_bytes * bench.info.sm_count * clock
    bound = peak_bandwidth(bench.info)
    most = bound.rate / scale if isinstance(bound, Bound) and scale > 0 else inf
    free = fit(rates, latencies)
    found = free if free is None or free.c <= most else fit(rates, latencies, most)
    mixes = _sampled(hiding, bench.quick, bench)
    try:
        ran, traces = yield from at_full_clock(mixes)
    except StopEarly:  # the fit needs none of them
        ran, traces = [], []
    loads = [_load(mix, trace, hiding, scale) for mix, trace in zip(ran, traces, strict=True)]
    evidence = tuple(digest(mix) for mix in ran)
    series: tuple[Series, ...] = (_means(kind, rates, latencies, found, scale),)
    if loads:
        series += (_singles(kind, loads, evidence), _histogram(kind, loads, evidence))
    errors = None if free is None else spreads(rates, latencies, free)
    fastest = max(point.accesses for point in hiding.points if point.alpha == 0.0)
    estimates = _estimates(kind, found, errors, scale, fastest, most)
    sound = all(each.status is Status.FOUND for each in estimates)
    return Outcome(estimates, found if sound else None, series)


def _sampled(hiding: Hiding, quick: bool, bench: Bench) -> list[Mix]:
    """Loads alone at several occupancies, so often that enough of them are timed."""
    every = occupancies(Grid(()), bench.info)
    wanted = [max(1, round(level * every[-1])) for level in (FEWER_LEVELS if quick else LEVELS)]
    nearest = [min(every, key=lambda warps, want=want: abs(warps - want)) for want in wanted]  # type: ignore[misc]
    enough = -(-EVERY * (FEWER if quick else SAMPLES) // bench.info.sm_count)
    plain = [mix_of(hiding.kind, 0.0, warps, blocks_of(warps, bench.info)[-1], bench, hiding.paces, width=hiding.width)
             for warps in dict.fromkeys(nearest)]  # fmt: skip
    return [replace(mix, iterations=-(-enough // 128) * 128, sampled=EVERY) for mix in plain]


def _load(mix: Mix, trace: Trace, hiding: Hiding, scale: float) -> Load:
    """Of an occupancy that ran among the others its throughput there: the warp that times its loads ends last of all.

    So by this run's own times too little would be counted (`attained`), by those of each warp too much (`steady`).
    """
    usual = hiding.curve(0.0).get(mix.warps)
    rate = usual.accesses if usual else attained(Lifetimes(trace.begin, trace.end, trace.sm), mix.loads)
    return Load(mix.warps, rate * scale, distribution(trace.latency, trace.count, float(trace.overhead[0])),
                trace.overflow_count)  # fmt: skip


def _estimates(
    kind: Kind, found: Fit | None, errors: tuple[float, float, float] | None, scale: float, fastest: float, most: float,
) -> tuple[Estimate, ...]:  # fmt: skip
    """`scale`: B/s of one access a cycle of one SM; `fastest`, `most`: of these, seen and what the memory can give."""
    if found is None:
        reason = "latency does not rise towards a ceiling of throughput: too few warps to saturate the memory"
        return without(Status.NOT_FOUND, kind.element, reason, *ATTRIBUTES)
    if found.error > LOOSE:
        reason = f"a + b x / (c - x) misses the mean latencies by {found.error:.0%}"
        return without(Status.AMBIGUOUS, kind.element, reason, *ATTRIBUTES)
    if errors is None:
        reason = "without some of the occupancies latency does not rise towards a ceiling: nothing is known of it"
        return without(Status.AMBIGUOUS, kind.element, reason, *ATTRIBUTES)
    if (beyond := fastest / found.c - 1) > MAX_EXCESS:
        reason = f"{beyond:.1%} more was read than the ceiling of the fit: several chains a warp go beyond it"
        return without(Status.AMBIGUOUS, kind.element, reason, *ATTRIBUTES)
    caveats = (f"latencies are {found.error:.1%} off the fit, at most {found.worst:.0%}",)
    base, rise = (
        Estimate(element=kind.element, attribute=attribute, status=Status.FOUND, value=value,
                 low=max(0.0, value - error), high=value + error, confidence=UNTRIED, method=METHOD, caveats=caveats)
        for attribute, value, error in zip(ATTRIBUTES[:2], (found.a, found.b), errors[:2], strict=True)
    )  # fmt: skip
    return base, rise, _ceiling(kind, (found.c, errors[2], fastest, most), scale, caveats)


def _ceiling(
    kind: Kind, rates: tuple[float, float, float, float], scale: float, caveats: tuple[str, ...]
) -> Estimate:  # fmt: skip
    """In B/s: it is never reached, so above all that was seen, and no higher than what the memory can give."""
    value, error, fastest, most = (rate * scale for rate in rates)
    low, high = max(value - error, fastest), value + error
    if high > most:
        caveats = (*caveats, f"the fit alone would let it be {format_rate(high, 'B/s')}: more than the memory can give")
        high = most
    return Estimate(element=kind.element, attribute=ATTRIBUTES[2], status=Status.FOUND, value=value,
                    low=min(low, value), high=high, confidence=UNTRIED, method=METHOD, caveats=caveats)  # fmt: skip


def _means(kind: Kind, rates: np.ndarray, latencies: np.ndarray, found: Fit | None, scale: float) -> Series:
    fitted = [float("nan")] * rates.size if found is None else found.latency(rates).tolist()
    order = np.argsort(rates)
    return Series(
        element=kind.element, name="latency against throughput",
        columns={"throughput": tuple((rates[order] * scale).tolist()), "latency": tuple(latencies[order].tolist()),
                 "fitted": tuple(fitted[i] for i in order)},
        units={"throughput": "B/s", "latency": "cycles", "fitted": "cycles"},
    )  # fmt: skip


def _singles(kind: Kind, loads: Sequence[Load], evidence: tuple[str, ...]) -> Series:
    """Percentiles, as VV16 table 6.6."""
    quantiles = [load.single.percentiles(PERCENTS) for load in loads]
    columns: dict[str, tuple[float, ...]] = {
        "warps": tuple(float(load.warps) for load in loads),
        "throughput": tuple(load.throughput for load in loads),
        "samples": tuple(float(load.single.samples) for load in loads),
        "mean": tuple(load.single.mean for load in loads),
        "beyond": tuple(float(load.beyond) for load in loads),
    }
    names = [f"p{percent:g}" for percent in PERCENTS]
    columns |= {name: tuple(each[i] for each in quantiles) for i, name in enumerate(names)}
    units = {"throughput": "B/s"} | dict.fromkeys(["mean", *names], "cycles")
    return Series(element=kind.element, name="single latencies", columns=columns, units=units, evidence=evidence)


def _histogram(kind: Kind, loads: Sequence[Load], evidence: tuple[str, ...]) -> Series:
    """Densities, as VV16 figure 6.5."""
    rows = [(load.warps, at, share) for load in loads for at, share in zip(*load.single.density(BINS), strict=True)]
    columns = {name: tuple(float(row[i]) for row in rows) for i, name in enumerate(("warps", "cycles", "density"))}
    return Series(element=kind.element, name="latency histogram", columns=columns,
                  units={"cycles": "cycles", "density": "1/cycle"}, evidence=evidence)  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=contention_of(kind.element),
        element=kind.element,
        plan=partial(contention_plan, kind),
        emits=ATTRIBUTES,
        needs=(loops_of(kind.element),),
        quick=True,
        after_interrupt=True,
        study=Study.HIDE,
    )
    for kind in KINDS
    if kind.of_memory
)
