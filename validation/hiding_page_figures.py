"""The figures of a page on latency hiding, from the series of a result file of `gpudissect hide`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from svg import Line, Panel, Points, Region, picture

from gpudissect.models import by_key
from gpudissect.models.base import Loop, Machine, peak
from gpudissect.results.machine import CURVES, KINDS, machine_of
from gpudissect.results.model import Result, Series

NEEDED = "warps needed for 90 % of the peak"
UNDER_LOAD = "latency against throughput"
SINGLE, HISTOGRAM = "single latencies", "latency histogram"
BLOCKS = "throughput by block size, persistent and oversubscribed"
AGAINST_TIME = "occupancy against time"
ERRORS, WORST = "estimate over measurement by alpha", "worst estimate over measurement"
WARPS, ALPHA, IPC = "warps per SM", "alpha", "instructions a cycle of an SM"
FEW = 9  # panels of the kinds that are not the first
FAR = 4.0  # largest over least quotient from which on the axis is logarithmic
NAMES = {
    "ldg_streaming": "streaming loads",
    "ldg_stride2": "loads of stride 2",
    "ldg_random": "loads of random words",
    "rsq": "reciprocal roots",
    "lds": "shared memory",
}


@dataclass(frozen=True)
class Seen:
    """What a result tells of one kind of access: its element, the kind's name and series by name."""

    element: str
    kind: str
    series: Mapping[str, Series]

    @property
    def title(self) -> str:
        return NAMES.get(self.kind, self.kind)


@dataclass(frozen=True)
class Drawn:
    """One figure: the name of its file, what it shows, panels."""

    key: str
    title: str
    panels: tuple[Panel, ...]

    def svg(self, of: str) -> str:
        return picture(f"{of}: {self.title}", self.panels)


def kinds_of(result: Result) -> list[Seen]:
    """The kinds of access that were measured, streaming loads first."""
    units = machine_of(result).units
    found = []
    for element, kind in KINDS.items():
        series = {each.name: each for each in result.series if each.element == element}
        if kind in units and CURVES in series:
            found.append(Seen(element, kind, series))
    return found


def numbers(series: Series, name: str) -> np.ndarray:
    """A column; nan for what is no number."""
    return np.array([np.nan if each is None else float(each) for each in series.columns[name]])


def points_of(series: Series) -> np.ndarray:
    """Alpha, warps, instructions a cycle, cycles of an instruction of a warp: of all points of one chain, by row."""
    table = np.stack([numbers(series, name) for name in ("alpha", "warps", "chains", "rate", "latency")], axis=1)
    one: np.ndarray = table[table[:, 2] == 1][:, [0, 1, 3, 4]]
    return one


def figures(result: Result) -> Iterator[Drawn]:
    """All that the series suffice for."""
    machine, kinds = machine_of(result), kinds_of(result)
    for place, seen in enumerate(kinds):
        yield _throughput(machine, seen, None if place == 0 else FEW)
    yield from _whole("needed", NEEDED, [_needed(machine, each) for each in kinds if NEEDED in each.series])
    yield from _whole("under-load", "mean latency against throughput",
                      [_under_load(machine, each) for each in kinds if UNDER_LOAD in each.series])  # fmt: skip
    yield from _whole("percentiles", "percentiles of single loads' latencies",
                      [_percentiles(each) for each in kinds if SINGLE in each.series])  # fmt: skip
    for seen in kinds:
        if HISTOGRAM in seen.series:
            yield Drawn(f"histogram-{seen.kind}", f"latencies of single {seen.title}", tuple(_histograms(seen)))
    over_time = [panel for each in kinds if AGAINST_TIME in each.series for panel in _occupancy(each)]
    yield from _whole("occupancy", "warps of one SM against time", over_time)
    if kinds and ERRORS in kinds[0].series:
        every = list(dict.fromkeys(map(str, kinds[0].series[ERRORS].columns["model"])))
        panels = [_errors(kinds[0], model, by_key(model).name) for model in every]
        yield from _whole("errors", f"estimate over measurement, {kinds[0].title}", panels)
    yield from _whole("errors-volkov", "estimate over measurement of VV16's models",
                      [_errors(each, model, f"{each.title}, {model}") for each in kinds if ERRORS in each.series
                       for model in ("basic", "refined")])  # fmt: skip
    yield from _whole("time", "where the time of an iteration goes",
                      [_time(machine, each) for each in kinds if each.kind in machine.contention])  # fmt: skip


def _whole(key: str, title: str, panels: Sequence[Panel]) -> Iterator[Drawn]:
    if panels:
        yield Drawn(key, title, tuple(panels))


def _throughput(machine: Machine, seen: Seen, most: int | None) -> Drawn:
    points = points_of(seen.series[CURVES])
    alphas = sorted(set(points[:, 0]))
    if most is not None and len(alphas) > most:
        alphas = [alphas[round(k)] for k in np.linspace(0, len(alphas) - 1, most)]
    n = np.linspace(0.25, machine.warps, 4 * machine.warps)
    panels = []
    for alpha in alphas:
        own, loop = points[points[:, 0] == alpha], Loop(alpha=alpha, access=seen.kind)
        lines = [Line(f"{key} model", n, by_key(key).throughput(machine, loop, n), look)
                 for key, look in (("basic", "thick"), ("refined", "dashed"))]  # fmt: skip
        name = "additions alone" if alpha == inf else f"alpha = {alpha:g}"
        panels.append(Panel(name, WARPS, IPC, (*lines, Points("measured", own[:, 1], own[:, 2]))))
    return Drawn(f"throughput-{seen.kind}", f"throughput against warps, {seen.title}", tuple(panels))


def _needed(machine: Machine, seen: Seen) -> Panel:
    series = seen.series[NEEDED]
    alphas, measured = numbers(series, "alpha"), numbers(series, "measured")
    lines = [Line(f"{key} model", alphas, numbers(series, key), look)
             for key, look in (("refined", "thick"), ("basic", "dashed")) if key in series.columns]  # fmt: skip
    known = np.isfinite(measured)
    most = Line(f"all {machine.warps} there can be", [alphas.min(), alphas.max()], [machine.warps] * 2, "thin")
    dots = [Points("measured", alphas[known], measured[known])] if known.any() else []
    return Panel(seen.title, ALPHA, WARPS, (*lines, *dots, most), log=True, top=1.2 * machine.warps)


def _under_load(machine: Machine, seen: Seen) -> Panel:
    series = seen.series[UNDER_LOAD]
    gigabytes, latency = numbers(series, "throughput") / 1e9, numbers(series, "latency")
    items: list[Line | Points | Region] = [Points("measured", gigabytes, latency)]
    under = machine.contention.get(seen.kind)
    if under is not None:
        x = np.linspace(0, gigabytes.max(), 120)
        rate = x * 1e9 / (machine.unit(seen.kind).bytes * machine.sms * machine.clock_hz)
        items.insert(0, Line("a + b x / (c - x)", x, np.where(rate < under.ceiling, under.latency(rate), np.nan)))
    return Panel(seen.title, "GB/s", "cycles", items, top=1.1 * float(latency.max()))


def _percentiles(seen: Seen) -> Panel:
    series = seen.series[SINGLE]
    gigabytes = numbers(series, "throughput") / 1e9
    names = [name for name in series.columns if name[0] == "p" and name not in ("p0", "p100")]
    lines = [Line(f"{name[1:]} %", gigabytes, numbers(series, name), "thin" if name == "p50" else "dashed")
             for name in names]  # fmt: skip
    return Panel(seen.title, "GB/s", "cycles", (*lines, Points("mean", gigabytes, numbers(series, "mean"))))


def _histograms(seen: Seen) -> Iterator[Panel]:
    series = seen.series[HISTOGRAM]
    warps, cycles, density = (numbers(series, name) for name in ("warps", "cycles", "density"))
    for n in sorted(set(warps)):
        own = warps == n
        line = Line("share of the loads a cycle", cycles[own], density[own], "thin")
        yield Panel(f"{n:g} warps per SM", "cycles", "density", (line,))


def _occupancy(seen: Seen) -> Iterator[Panel]:
    series = seen.series[AGAINST_TIME]
    rounds, cycles, warps = (numbers(series, name) for name in ("rounds", "cycles", "warps"))
    for n in sorted(set(rounds)):
        own = rounds == n
        how = "persistent" if n == 1 else f"{n:g} times as many blocks"
        yield Panel(f"{seen.title}, {how}", "cycles", WARPS, (stairs("warps", cycles[own], warps[own]),))


def stairs(label: str, at: Sequence[float] | np.ndarray, level: Sequence[float] | np.ndarray) -> Line:
    """A line that keeps its level until the next place."""
    return Line(label, np.repeat(at, 2)[1:], np.repeat(level, 2)[:-1], "thin")


def _errors(seen: Seen, model: str, title: str) -> Panel:
    series = seen.series[ERRORS]
    own = np.array([each == model for each in series.columns["model"]])
    alphas, low, high = (numbers(series, name)[own] for name in ("alpha", "low", "high"))
    one = Line("exact", [alphas.min(), alphas.max()], [1, 1], "thin")
    region = Region("least to largest over the occupancies", alphas, low, high)
    return Panel(title, ALPHA, "estimate / measured", (region, one), log=True,
                 log_y=bool(high.max() > FAR * low.min()))  # fmt: skip


@dataclass(frozen=True)
class Iteration:
    """Cycles of one access and its additions in one warp, by part.

    Attributes:
        warps: of an SM, shape (points,).
        access: unloaded; the same number at every occupancy.
        load: more of it, by the fit, at the rate that was measured.
        adding: alpha additions, back to back.
        bound: what the peak allows at least, shape (points,).
        measured: all of it.

    """

    warps: np.ndarray
    access: float
    load: np.ndarray
    adding: float
    bound: np.ndarray
    measured: np.ndarray

    @property
    def rest(self) -> np.ndarray:
        """What neither latency explains."""
        found: np.ndarray = self.measured - self.access - self.load - self.adding
        return found


def iteration(machine: Machine, seen: Seen, alpha: float) -> Iteration:
    """Where the time goes, at the occupancies that give each scheduler equally many warps."""
    points = points_of(seen.series[CURVES])
    own = points[(points[:, 0] == alpha) & (points[:, 1] % machine.schedulers == 0)]
    warps = np.unique(own[:, 1])
    rate = np.array([own[own[:, 1] == n, 2].max() for n in warps])
    under = machine.contention[seen.kind]
    x = np.minimum(rate / (alpha + 1), 0.999 * under.ceiling)
    return Iteration(warps, under.base, under.latency(x) - under.base, alpha * machine.unit("fadd").latency,
                     warps * (alpha + 1) / peak(machine, Loop(alpha=alpha, access=seen.kind)),
                     warps * (alpha + 1) / rate)  # fmt: skip


def worst_alpha(seen: Seen, model: str) -> tuple[float, float, float]:
    """The largest quotient of a model, with alpha and warps of it."""
    series = seen.series[WORST]
    row = series.columns["model"].index(model)
    over, alpha, warps = (float(series.columns[name][row] or 1) for name in ("over", "over_alpha", "over_warps"))
    return over, alpha, warps


def _time(machine: Machine, seen: Seen) -> Panel:
    alpha = worst_alpha(seen, "refined")[1] if WORST in seen.series else 64.0
    found = iteration(machine, seen, alpha)
    flat = np.ones_like(found.warps)
    waiting = found.access * flat
    items = (
        Line("the access, alone", found.warps, waiting, "thin"),
        Line("and its wait under load", found.warps, waiting + found.load, "dashed"),
        Line("and the additions", found.warps, waiting + found.load + found.adding),
        Line("the peak allows no less", found.warps, found.bound, "thin"),
        Points("measured", found.warps, found.measured),
    )
    return Panel(f"{seen.title}, alpha = {alpha:g}", WARPS, "cycles of an iteration", items)
