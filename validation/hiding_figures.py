"""The figures of VV16 chapters 4, 6 and 7, drawn anew: models as lines, and what was measured as points where it is.

Those of single runs (chapter 5, figures 6.5 and 6.6) are in `hiding_chapters`.

An `Experiment` stands for the measurement: given a catalogue name and a loop it returns throughput against occupancy,
or None. Without one the figures have the models' lines only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from hiding_rows import SYNTHETIC, memory_over_arithmetic
from svg import Line, Panel, Points, Region, picture

from gpudissect.models import by_key, one_latency, published
from gpudissect.models.base import Curve, Loop, Machine, Model
from gpudissect.models.evaluation import ALPHAS, Measurement, best_samples, error_range, warps_needed, warps_observed

Experiment = Callable[[str, Loop], Measurement | None]
GPUS = published.gpus()
G80, GT200, FERMI, KEPLER, MAXWELL = GPUS
WARPS, ALPHA, ADDS, IPC = "warps per SM", "alpha", "adds per cycle per SM", "IPC per SM"
SHARE = 0.9  # of the peak (VV16 s4.5)
FINE = tuple(2 ** (np.arange(-8, 41) / 4))  # alphas of curves
MIXED = tuple(2 ** (np.arange(-16, 29) / 4))  # of VV16 figures 4.8, 4.9


@dataclass(frozen=True)
class Figure:
    """One figure: `key` is its file's name, `panels` what `svg.picture` draws."""

    key: str
    title: str
    panels: tuple[Panel, ...]

    @property
    def svg(self) -> str:
        return picture(f"VV16 {self.title}", self.panels)


def nothing(gpu: str, loop: Loop) -> Measurement | None:
    """The experiment that measured nothing."""
    return None


def against_occupancy(
    title: str, gpu: str, loop: Loop, models: Sequence[tuple[Model, str]], experiment: Experiment
) -> Panel:
    """Throughput against occupancy: measured points (the best of each occupancy as dots) and models, with their looks.

    Adds a cycle of one SM; without arithmetic, accesses a cycle.
    """
    machine = fed(gpu, experiment)
    n = np.linspace(0.25, machine.warps, 4 * machine.warps)
    items: list[Line | Points | Region] = [
        Line(model.name, n, shown(loop, model.throughput(machine, loop, n)), look) for model, look in models
    ]
    measured = experiment(gpu, loop)
    top = 1.15 * max(shown(loop, by_key("basic").throughput(machine, loop, machine.warps)), 1e-9)
    if measured is not None:
        best = best_samples(measured)
        if best.warps.size < measured.warps.size:
            items.append(Points("measured", measured.warps, shown(loop, measured.rate), "ring"))
        items.append(Points("measured, best", best.warps, shown(loop, best.rate)))
        top = max(top, 1.1 * float(np.max(shown(loop, best.rate))))
    fits = max(float(np.max(item.y)) for item in items if not isinstance(item, Region)) < 3 * top
    return Panel(title, WARPS, ADDS if loop.alpha else IPC, items, top=None if fits else 3 * top)


def shown(loop: Loop, rate: object) -> np.ndarray:
    """As VV16 plots it: adds of single threads, or loads where there are no adds."""
    return loop.operations(rate) if loop.alpha else np.asarray(rate, float)


def needed_warps(
    title: str, gpu: str, access: str, alphas: Sequence[float], models: Sequence[tuple[Model, str]],
    experiment: Experiment,
) -> Panel:  # fmt: skip
    """Warps needed for 90 % of the peak against alpha (VV16 figures 4.6, 4.8, 4.9, 7.14)."""
    machine = published.machine(gpu)
    items: list[Line | Points | Region] = []
    for model, look in models:
        found = [warps_needed(model, machine, Loop(alpha=alpha, access=access), SHARE) for alpha in alphas]
        items.append(Line(model.name, alphas, [np.nan if each is None else each for each in found], look))
    points = []
    for alpha in ALPHAS if access.startswith("ldg") else alphas:
        measured = experiment(gpu, Loop(alpha=alpha, access=access))
        seen = None if measured is None else warps_observed(machine, measured, SHARE)
        points += [] if measured is None or seen is None else [(measured.loop.alpha, seen)]
    if points:
        items.append(Points("measured", *zip(*dict.fromkeys(points), strict=True)))
    known = [y for item in items if not isinstance(item, Region) for y in item.y if np.isfinite(y)]
    return Panel(title, ALPHA, WARPS, items, log=True, top=min(1.1 * max(known), 2 * machine.warps))


def errors(gpu: str, model: Model, experiment: Experiment) -> Panel | None:
    """The range of quotients against alpha (VV16 figures 7.11 to 7.13); None without measurements."""
    machine = fed(gpu, experiment)
    measured = [each for alpha in ALPHAS if (each := experiment(gpu, Loop(alpha=alpha))) is not None]
    if not measured:
        return None
    found = [error_range(model, machine, each) for each in measured]
    region = Region(model.name, [each.loop.alpha for each in measured], [each.low.value for each in found],
                    [each.high.value for each in found])  # fmt: skip
    one = Line("exact", [ALPHAS[0], ALPHAS[-1]], [1, 1], "thin")
    return Panel(machine.name, ALPHA, "estimate / measured", (region, one), log=True)


def fed(gpu: str, experiment: Experiment) -> Machine:
    """The machine with measured curves of adds and of loads alone, which Zhang & Owens ask for (VV16 s7.3)."""
    machine, curves = published.machine(gpu), {}
    for kind, alpha in (("fadd", inf), ("ldg_streaming", 0.0)):
        measured = experiment(gpu, Loop(alpha=alpha))
        if measured is not None:
            best = best_samples(measured)
            curves[kind] = Curve(tuple(best.warps), tuple(best.rate))
    return replace(machine, curves=curves)


def _models(*keys: str) -> list[tuple[Model, str]]:
    looks = ("thick", "thin", "dashed")
    return [(by_key(key), looks[i]) for i, key in enumerate(keys)]


def _chosen(gpu: str) -> Loop:
    return Loop(alpha=published.value(gpu, "table_4_3", "alpha"))


def _title(gpu: str, loop: Loop) -> str:
    alpha = "infinite" if loop.alpha == inf else f"{loop.alpha:g}"
    chains = f", {loop.ilp} chains" if loop.ilp > 1 else ""
    return f"{published.generation(gpu)}, alpha = {alpha}{chains}"


def _at(experiment: Experiment, cases: Sequence[tuple[str, float | Loop]], *keys: str) -> tuple[Panel, ...]:
    panels = []
    for gpu, loop in cases:
        run = loop if isinstance(loop, Loop) else Loop(alpha=loop)
        panels.append(against_occupancy(_title(gpu, run), gpu, run, _models(*keys), experiment))
    return tuple(panels)


def figures(experiment: Experiment = nothing) -> Iterator[Figure]:
    """All of them, in the order of the chapters."""
    yield from _chapter_4(experiment)
    yield from _prior_approaches(experiment)
    yield from _chapter_6(experiment)
    yield from _chapter_7(experiment)
    yield from _summary(experiment)


def _chapter_4(experiment: Experiment) -> Iterator[Figure]:
    yield Figure("4-01", "figure 4.1: arithmetic and memory latency on Maxwell",
                 _at(experiment, [(MAXWELL, inf), (MAXWELL, 0)], "basic"))  # fmt: skip
    years = (2006, 2008, 2010, 2012, 2014)
    columns = (("arithmetic", "add", "dot"), ("memory, 90 %", "stream", "ring"))
    printed = [Points(f"{label} (table 6.3)", years,
                      [published.value(g, "table_6_3", column) * published.value(g, "table_2_6", "schedulers")
                       for g in GPUS], look) for label, column, look in columns]  # fmt: skip
    lines = [
        Line(f"{label}, by the {model} model", years,
             [warps_needed(by_key(model), published.machine(g), Loop(alpha=alpha), share) for g in GPUS], look)
        for label, model, alpha, share, look in (("arithmetic", "basic", inf, 1.0, "thick"),
                                                 ("memory", "refined", 0, SHARE, "dashed"))
    ]  # fmt: skip
    yield Figure("4-02", "figure 4.2: occupancies needed for arithmetic and for memory",
                 (Panel("G80, GT200, Fermi, Kepler, Maxwell", "year", WARPS, (*lines, *printed)),))  # fmt: skip
    patterns = [(MAXWELL, Loop(alpha=0, access=access)) for access in ("ldg_stride2", "ldg_random")]
    yield Figure("4-03", "figure 4.3: stride-2 and random accesses on Maxwell", _at(experiment, patterns, "basic"))
    ratio = Points("the five GPUs", years, memory_over_arithmetic())
    yield Figure("4-04", "figure 4.4: memory over arithmetic throughput",
                 (Panel("pin bandwidth", "year", "B per core and cycle", (ratio,), log_y=True),))  # fmt: skip
    yield Figure("4-05", "figure 4.5: warps needed against alpha, Maxwell, all of the peak", (_cusp(),))
    yield Figure("4-06", "figure 4.6: warps needed for 90 % of a peak",
                 tuple(needed_warps(published.generation(gpu), gpu, "ldg_streaming", FINE,
                                    [(by_key("refined"), "thick"), (by_key("basic"), "dashed")], experiment)
                       for gpu in GPUS))  # fmt: skip
    yield Figure("4-07", "figure 4.7: 6 warps, alpha 4, latencies 3 and 12", (_execution(),))
    for key, access, what, gpus in (("4-08", "rsq", "special functions", GPUS),
                                    ("4-09", "lds", "shared memory", GPUS[2:])):  # fmt: skip
        panels = [needed_warps(published.generation(gpu), gpu, access, MIXED, _models("basic"), experiment)
                  for gpu in gpus]  # fmt: skip
        panels += _at(experiment, [(MAXWELL, Loop(alpha=2, access=access))], "basic")
        yield Figure(key, f"figure {key[0]}.{int(key[2:])}: adds and {what}", tuple(panels))


def _cusp() -> Panel:
    machine = published.machine(MAXWELL)
    alphas = 2 ** (np.arange(-16, 81) / 8)
    line = Line("basic model", alphas, [warps_needed(by_key("basic"), machine, Loop(alpha=a)) for a in alphas])
    return Panel("Maxwell", ALPHA, WARPS, (line,), log=True)


def _execution() -> Panel:
    """One instruction a cycle, the oldest ready warp first: which instruction each warp issues when."""
    free, step = [0] * 6, [0] * 6
    issued: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for cycle in range(100):
        ready = [warp for warp in range(6) if free[warp] <= cycle]
        if ready:
            warp = min(ready, key=lambda w: (free[w], w))
            arithmetic = step[warp] % 5 < 4
            issued[arithmetic].append((cycle, warp))
            free[warp] = cycle + (3 if arithmetic else 12)
            step[warp] += 1
    late = {kind: [(cycle - 60, warp) for cycle, warp in each if cycle >= 60] for kind, each in issued.items()}
    return Panel("peak arithmetic throughput is sustained" if len(late[True]) == 32 else "it is not", "cycle", "warp",
                 (Points("arithmetic", *zip(*late[True], strict=True)),
                  Points("memory", *zip(*late[False], strict=True), "ring")), top=6)  # fmt: skip


def _prior_approaches(experiment: Experiment) -> Iterator[Figure]:
    panels = []
    for gpu in GPUS:
        machine, loop = published.machine(gpu), _chosen(gpu)
        panel = against_occupancy(_title(gpu, loop), gpu, loop, [], experiment) if experiment(gpu, loop) else None
        top = float(shown(loop, by_key("basic").throughput(machine, loop, 512)))
        marks = [Line(label, [at, at], [0, top], look) for label, at, look in (
            ("programming guide", one_latency.guide_warps(machine, loop), "thick"),
            ("with arithmetic latency", one_latency.guide_warps_with_arithmetic(machine, loop), "thin"))]  # fmt: skip
        seen = panel.items if panel else [Line("basic model", *_curve(machine, loop), "dashed")]
        panels.append(Panel(_title(gpu, loop), WARPS, ADDS, (*marks, *seen)))
    yield Figure("4-10", "figure 4.10: warps needed by the programming guide", tuple(panels))
    cases = [(gpu, _chosen(gpu)) for gpu in GPUS]
    yield Figure("4-11", "figure 4.11: times overlap", _at(experiment, cases, "zhang-owens"))
    yield Figure("4-12", "figure 4.12: times add", _at(experiment, cases, "added"))
    yield Figure("4-13", "figure 4.13: the basic model", _at(experiment, cases, "basic"))


def _curve(machine: Machine, loop: Loop) -> tuple[np.ndarray, np.ndarray]:
    n = np.linspace(0.25, machine.warps, 4 * machine.warps)
    return n, shown(loop, by_key("basic").throughput(machine, loop, n))


def _chapter_6(experiment: Experiment) -> Iterator[Figure]:
    yield Figure("6-01", "figure 6.1: shared memory accesses on Maxwell",
                 _at(experiment, [(MAXWELL, Loop(alpha=0, access="lds"))], "basic"))  # fmt: skip
    yield Figure("6-02", "figure 6.2: one chain and two of a warp, Fermi",
                 _at(experiment, [(FERMI, Loop(alpha=0, ilp=chains)) for chains in (1, 2)], "refined"))  # fmt: skip
    panels = []
    for gpu in GPUS:
        machine = published.machine(gpu)
        under_load = machine.contention["ldg_streaming"]
        rate = np.linspace(0, 0.985 * under_load.ceiling, 80)
        gigabytes = machine.bytes_per_second("ldg_streaming", rate) / 1e9
        items: list[Line | Points | Region] = [
            Line("a + b x / (c - x)", gigabytes, _cut(under_load.latency(rate), 3 * under_load.base))
        ]
        measured = experiment(gpu, Loop(alpha=0))
        if measured is not None:
            x = machine.bytes_per_second("ldg_streaming", measured.rate) / 1e9
            items.append(Points("measured", x, measured.warps / measured.rate))
        panels.append(Panel(machine.name, "GB/s", "cycles", items, top=3 * under_load.base))
    yield Figure("6-03", "figure 6.3: mean memory latency against throughput", tuple(panels))
    cases = [(KEPLER, alpha) for alpha in (8, 16, 32, 64, 128, 256)]
    yield Figure("6-04", "figure 6.4: the refined model on Kepler", _at(experiment, cases, "refined", "basic"))


def _chapter_7(experiment: Experiment) -> Iterator[Figure]:
    def pairs(cases: Sequence[tuple[str, float]], *keys: str) -> tuple[Panel, ...]:
        return tuple(panel for case in cases
                     for panel in (*_at(experiment, [case], *keys), *_at(experiment, [case], "basic")))  # fmt: skip

    yield Figure("7-01", "figure 7.1: Hong & Kim on GT200", pairs([(GT200, 32)], "hong-kim"))
    yield Figure("7-02", "figure 7.2: Baghsorkhi et al. on G80", pairs([(G80, 0), (G80, 11)], "baghsorkhi"))
    yield Figure("7-03", "figure 7.3: Baghsorkhi et al. on G80", pairs([(G80, 32)], "baghsorkhi"))
    yield Figure("7-04", "figure 7.4: what Zhang & Owens take for input, GT200",
                 _at(experiment, [(GT200, inf), (GT200, 0)], "zhang-owens"))  # fmt: skip
    yield Figure("7-05", "figure 7.5: Zhang & Owens on GT200", pairs([(GT200, 16)], "zhang-owens", "added"))
    newer = [(FERMI, 32.0), (KEPLER, 32.0), (MAXWELL, 64.0)]
    yield Figure("7-06", "figure 7.6: Zhang & Owens on newer GPUs", pairs(newer, "zhang-owens"))
    yield Figure("7-07", "figure 7.7: Sim et al.", pairs(newer, "sim"))
    yield Figure("7-08", "figure 7.8: Huang et al.", pairs([(FERMI, 0), (KEPLER, 32)], "huang-rr", "huang-gto"))
    yield Figure("7-09", "figure 7.9: Huang et al. on Maxwell",
                 pairs([(MAXWELL, inf)], "huang-rr", "huang-gto"))  # fmt: skip
    synthetic, loop = SYNTHETIC, Loop(alpha=16)
    n = np.linspace(1, 32, 249)
    lines = [Line(model.name, n, _cut(loop.operations(model.throughput(synthetic, loop, n)), 40), look)
             for model, look in _models("huang-rr-bandwidth", "huang-gto-bandwidth")]  # fmt: skip
    fermi = published.machine(FERMI)
    loop, n = Loop(alpha=32), np.linspace(1, 48, 377)
    right: list[Line | Points | Region] = [
        Line(model.name, n, _cut(loop.operations(model.throughput(fermi, loop, n)), 60), look)
        for model, look in _models("huang-rr-bandwidth", "huang-gto-bandwidth")
    ]
    measured = experiment(FERMI, loop)
    if measured is not None:
        right.append(Points("measured", measured.warps, loop.operations(measured.rate)))
    yield Figure("7-10", "figure 7.10: Huang et al. with the bandwidth term",
                 (Panel("synthetic, alpha = 16", WARPS, ADDS, lines),
                  Panel("Fermi, alpha = 32", WARPS, ADDS, right)))  # fmt: skip


def _cut(values: np.ndarray, most: float) -> np.ndarray:
    """Without what lies beyond: the curves are singular."""
    return np.where(np.abs(values) > most, np.nan, values)


def _summary(experiment: Experiment) -> Iterator[Figure]:
    eleven = [(G80, "baghsorkhi"), (G80, "basic"), (G80, "refined"), (GT200, "zhang-owens"), (GT200, "basic"),
              (GT200, "refined"), (FERMI, "sim"), (FERMI, "basic"), (FERMI, "refined")]  # fmt: skip
    twelve = [(gpu, key) for gpu in (KEPLER, MAXWELL) for key in ("basic", "refined")]
    thirteen = [(gpu, key) for gpu in (FERMI, KEPLER, MAXWELL) for key in ("huang-rr", "huang-gto", "basic")]
    for key, title, cases in (
        ("7-11", "figure 7.11: errors against alpha", eleven),
        ("7-12", "figure 7.12: errors of the basic and the refined model", twelve),
        ("7-13", "figure 7.13: errors of Huang et al.", thirteen),
    ):
        panels = [panel for gpu, model in cases if (panel := errors(gpu, by_key(model), experiment)) is not None]
        if panels:
            yield Figure(key, title, tuple(panels))
    yield Figure("7-14", "figure 7.14: prior models have no cusp",
                 tuple(needed_warps(published.generation(gpu), gpu, "ldg_streaming", FINE, _models(key), experiment)
                       for gpu, key in ((G80, "baghsorkhi"), (GT200, "zhang-owens"), (FERMI, "sim"))))  # fmt: skip
