"""The figures of VV16 chapters 4 to 7 redrawn: models as lines, the simulated GPUs as points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import vv16
from hiding_rows import SYNTHETIC, memory_over_arithmetic
from hiding_runs import (
    FERMI,
    G80,
    GPUS,
    GT200,
    IMBALANCED,
    KEPLER,
    MAXWELL,
    SIZES,
    best_bandwidth,
    by_block,
    imbalanced,
    jigsaw,
    l2_size,
    measure,
    persistent_and_not,
    random_bandwidth,
    single_loads,
)
from hiding_sections import COMPARED, PERCENTS, machine_with_curves, random_words
from needed import guide_warps, guide_warps_with_arithmetic, warps_observed

from gpudissect.measure.instructions.infer_issue import Occupancy
from gpudissect.models import by_key
from gpudissect.models.base import Loop
from gpudissect.models.evaluation import ALPHAS, error_range, warps_needed
from gpudissect.views.plots.figure import Figure, Kind, overlay
from gpudissect.views.plots.standalone import sheet

WARPS, ALPHA, ADDS, IPC = "warps per SM", "alpha", "adds per cycle per SM", "IPC per SM"
SHARE = 0.9  # of the peak (VV16 s4.5)
CURVE_ALPHAS = tuple(2 ** (np.arange(-4, 21) / 2))
MIXED_ALPHAS = tuple(2 ** (np.arange(-8, 15) / 2))  # of VV16 figures 4.8, 4.9
POINT_ALPHAS = MIXED_ALPHAS[::2]
MAX_OVERSHOOT = 3  # times the peak, where curves are cut off
YEARS = (2006, 2008, 2010, 2012, 2014)
MAX_RATE = 60.0  # adds, where the singular curves of figure 7.10 are cut off
Points = tuple[Sequence[float], Sequence[float]]


def pictures() -> Iterator[tuple[str, str]]:
    """Key, such as 4-01, and SVG file of every figure."""
    titles: Mapping[str, tuple[str, Iterator[Figure]]] = {
        "4-01": ("arithmetic and memory latency on Maxwell", _loops([(MAXWELL, inf), (MAXWELL, 0)], "basic")),
        "4-02": ("occupancies needed for arithmetic and for memory", _figure_4_2()),
        "4-03": ("stride-2 and random accesses on Maxwell", _accesses(MAXWELL, 0, "ldg_stride2", "ldg_random")),
        "4-04": ("memory over arithmetic throughput", _figure_4_4()),
        "4-05": ("warps needed against alpha, Maxwell, all of the peak", _figure_4_5()),
        "4-06": (
            "warps needed for 90 % of a peak",
            (_needed(gpu, "ldg_streaming", CURVE_ALPHAS, "refined", "basic") for gpu in GPUS),
        ),
        "4-07": ("6 warps, alpha 4, latencies 3 and 12", _figure_4_7()),
        "4-08": ("adds and special functions", _mixed("rsq", GPUS)),
        "4-09": ("adds and shared memory", _mixed("lds", GPUS[2:])),
        "4-10": ("warps needed by the programming guide", _figure_4_10()),
        "4-11": ("times overlap", _chosen("zhang-owens")),
        "4-12": ("times add", _chosen("added")),
        "4-13": ("the basic model", _chosen("basic")),
        "5-02": ("load imbalance, reciprocal roots on Kepler", _figure_5_2()),
        "5-03": ("block sizes, 64 warps of streaming loads on Kepler", _figure_5_3()),
        "5-04": ("shared memory on G80, 20 warps in blocks of 10", _figure_5_4()),
        "5-05": ("streaming loads", map(_streaming, GPUS)),
        "6-01": ("shared memory accesses on Maxwell", _accesses(MAXWELL, 0, "lds")),
        "6-02": ("one chain and two per warp, Fermi", _chains(FERMI)),
        "6-03": ("mean memory latency against throughput", map(_under_load, GPUS)),
        "6-04": (
            "the refined model on Kepler",
            _loops([(KEPLER, alpha) for alpha in (8, 16, 32, 64, 128, 256)], "refined", "basic"),
        ),
        "6-05": ("latencies of single loads on Kepler", _figure_6_5()),
        "6-06": ("random words, by size of the array", map(_random, GPUS)),
        "7-01": ("Hong & Kim on GT200", _loops([(GT200, 32)], "hong-kim", "basic")),
        "7-02": ("Baghsorkhi et al. on G80", _loops([(G80, 0), (G80, 11)], "baghsorkhi", "basic")),
        "7-03": ("Baghsorkhi et al. on G80", _loops([(G80, 32)], "baghsorkhi", "basic")),
        "7-04": ("the input of Zhang & Owens, GT200", _loops([(GT200, inf), (GT200, 0)], "zhang-owens")),
        "7-05": ("Zhang & Owens on GT200", _loops([(GT200, 16)], "zhang-owens", "added", "basic")),
        "7-06": ("Zhang & Owens on newer GPUs", _loops(_NEWER, "zhang-owens", "basic")),
        "7-07": ("Sim et al.", _loops(_NEWER, "sim", "basic")),
        "7-08": ("Huang et al.", _loops([(FERMI, 0), (KEPLER, 32)], "huang-rr", "huang-gto", "basic")),
        "7-09": ("Huang et al. on Maxwell", _loops([(MAXWELL, inf)], "huang-rr", "huang-gto", "basic")),
        "7-10": ("Huang et al. with the bandwidth term", _figure_7_10()),
        "7-11": (
            "errors against alpha",
            _errors([(G80, "baghsorkhi"), (GT200, "zhang-owens"), (FERMI, "sim")], "basic", "refined"),
        ),
        "7-12": (
            "errors of the basic and the refined model",
            _errors([(KEPLER, "basic"), (MAXWELL, "basic")], "refined"),
        ),
        "7-13": (
            "errors of Huang et al.",
            _errors([(gpu, "huang-rr") for gpu in GPUS[2:]], "huang-gto", "basic"),
        ),
        "7-14": (
            "prior models have no cusp",
            (
                _needed(gpu, "ldg_streaming", CURVE_ALPHAS, key)
                for gpu, key in ((G80, "baghsorkhi"), (GT200, "zhang-owens"), (FERMI, "sim"))
            ),
        ),
    }
    for key, (title, figures) in titles.items():
        yield key, unmeasured(sheet(f"VV16 figure {int(key[0])}.{int(key[2:])}: {title}", list(figures)))


def unmeasured(svg: str) -> str:
    """The figure. Raises `ValueError` if it contains the word measured: all its points are simulated."""
    if "measure" in svg.lower():
        raise ValueError("a figure of simulated GPUs contains the word measured: label the points as simulated")
    return svg


_NEWER = [(FERMI, 32.0), (KEPLER, 32.0), (MAXWELL, 64.0)]


def panel(
    title: str, x: str, y: str, curves: Mapping[str, Points], dots: Mapping[str, Points], **options: Any
) -> Figure:
    """Models as `curves`, simulated runs as `dots`."""
    kinds = dict.fromkeys(curves, Kind.CURVES) | dict.fromkeys(dots, Kind.DOTS)
    return overlay(title, (x, ""), (y, ""), {**curves, **dots}, kinds=kinds, **options)


def _loop_panel(
    gpu: str, loop: Loop, *models: str, title: str = "", curves: Mapping[str, Points] | None = None
) -> Figure:
    """Throughput against occupancy: adds per cycle of an SM, accesses where there are no adds."""
    machine = machine_with_curves(gpu)
    n = np.linspace(0.25, machine.warps, 2 * machine.warps)
    lines = {by_key(key).name: (n, _adds(loop, by_key(key).throughput(machine, loop, n))) for key in models}
    top = MAX_OVERSHOOT * 1.15 * float(_adds(loop, by_key("basic").throughput(machine, loop, machine.warps)))
    measurement = measure(gpu, loop)
    dots = {} if measurement is None else {"simulated": (measurement.warps, _adds(loop, measurement.rate))}
    alpha = "infinite" if loop.alpha == inf else f"{loop.alpha:g}"
    title = title or f"{vv16.generation(gpu)}, alpha = {alpha}"
    return panel(title, WARPS, ADDS if loop.alpha else IPC, {**(curves or {}), **lines}, dots, y_max=top)


def _adds(loop: Loop, rate: object) -> np.ndarray:
    """As VV16 plots it: adds of threads, or loads where there are no adds."""
    return loop.operations(rate) if loop.alpha else np.asarray(rate, float)


def _loops(cases: Sequence[tuple[str, float]], *models: str) -> Iterator[Figure]:
    return (_loop_panel(gpu, Loop(alpha=alpha), *models) for gpu, alpha in cases)


def _chosen(model: str) -> Iterator[Figure]:
    """At the alpha of VV16 table 4.3."""
    return _loops([(gpu, vv16.value(gpu, "table_4_3", "alpha")) for gpu in GPUS], model)


def _accesses(gpu: str, alpha: float, *kinds: str) -> Iterator[Figure]:
    for kind in kinds:
        yield _loop_panel(gpu, Loop(alpha=alpha, access=kind), "basic", title=f"{vv16.generation(gpu)}, {kind}")


def _chains(gpu: str) -> Iterator[Figure]:
    for chains in (1, 2):
        yield _loop_panel(gpu, Loop(alpha=0, ilp=chains), "refined", title=f"{vv16.generation(gpu)}, {chains} chains")


def _needed(gpu: str, access: str, alphas: Sequence[float], *models: str) -> Figure:
    """Warps needed for 90 % of the peak against alpha (VV16 figures 4.6, 4.8, 4.9, 7.14)."""
    machine = vv16.machine(gpu)
    curves: dict[str, Points] = {}
    for model in map(by_key, models):
        found = [warps_needed(model, machine, Loop(alpha=alpha, access=access), SHARE) for alpha in alphas]
        curves[model.name] = alphas, [np.nan if each is None else each for each in found]
    points = {}
    for alpha in ALPHAS if access.startswith("ldg") else POINT_ALPHAS:
        measurement = measure(gpu, Loop(alpha=alpha, access=access))
        observed = None if measurement is None else warps_observed(machine, measurement, SHARE)
        if measurement is not None and observed is not None:
            points[measurement.loop.alpha] = observed
    dots = {"simulated": (list(points), list(points.values()))}
    options = {"log_x": True, "y_max": 2.0 * machine.warps}
    return panel(vv16.generation(gpu), ALPHA, WARPS, curves, dots if points else {}, **options)


def _mixed(access: str, gpus: Sequence[str]) -> Iterator[Figure]:
    yield from (_needed(gpu, access, MIXED_ALPHAS, "basic") for gpu in gpus)
    yield from _accesses(MAXWELL, 2, access)


def _errors(cases: Sequence[tuple[str, str]], *others: str) -> Iterator[Figure]:
    """Smallest and largest estimate over simulated throughput against alpha (VV16 figures 7.11 to 7.13)."""
    for gpu, first in cases:
        machine = machine_with_curves(gpu)
        measurements = [each for alpha in ALPHAS if (each := measure(gpu, Loop(alpha=alpha))) is not None]
        alphas = [each.loop.alpha for each in measurements]
        curves: dict[str, Points] = {}
        for model in map(by_key, (first, *others)):
            ranges = [error_range(model, machine, each) for each in measurements]
            curves[f"{model.name}, max"] = alphas, [high.value for _, high in ranges]
            curves[f"{model.name}, min"] = alphas, [low.value for low, _ in ranges]
        yield panel(machine.name, ALPHA, "estimate / simulated throughput", curves, {}, log_x=True)


def _figure_4_2() -> Iterator[Figure]:
    curves, dots = {}, {}
    cases = (
        ("arithmetic", "add", "basic", Loop(alpha=inf), 1.0),
        ("memory, 90 %", "stream", "refined", Loop(alpha=0), SHARE),
    )
    for name, column, model, loop, share in cases:
        found = [warps_needed(by_key(model), vv16.machine(gpu), loop, share) or np.nan for gpu in GPUS]
        curves[f"{name}, by the {model} model"] = YEARS, found
        printed = [vv16.value(g, "table_6_3", column) * vv16.machine(g).schedulers for g in GPUS]
        dots[f"{name} (table 6.3)"] = YEARS, printed
    yield panel("G80, GT200, Fermi, Kepler, Maxwell", "year", WARPS, curves, dots)


def _figure_4_4() -> Iterator[Figure]:
    dots = {"the five GPUs": (YEARS, memory_over_arithmetic())}
    yield panel("pin bandwidth", "year", "B per core and cycle", {}, dots, log_y=True)


def _figure_4_5() -> Iterator[Figure]:
    machine, alphas = vv16.machine(MAXWELL), 2 ** (np.arange(-8, 41) / 4)
    found = [warps_needed(by_key("basic"), machine, Loop(alpha=alpha)) or np.nan for alpha in alphas]
    yield panel("Maxwell", ALPHA, WARPS, {"basic model": (alphas, found)}, {}, log_x=True)


def _figure_4_7() -> Iterator[Figure]:
    """One instruction per cycle, the oldest ready warp first: which warp issues when, once it is steady."""
    free, step = [0] * 6, [0] * 6
    issued: dict[str, list[tuple[int, int]]] = {"arithmetic": [], "memory": []}
    for cycle in range(100):
        ready = [warp for warp in range(6) if free[warp] <= cycle]
        if ready:
            warp = min(ready, key=lambda each: (free[each], each))
            is_arithmetic = step[warp] % 5 < 4
            if cycle >= 60:
                issued["arithmetic" if is_arithmetic else "memory"].append((cycle - 60, warp))
            free[warp] = cycle + (3 if is_arithmetic else 12)
            step[warp] += 1
    sustained = len(issued["arithmetic"]) == 32
    title = f"peak arithmetic throughput is {'' if sustained else 'not '}sustained"
    dots: dict[str, Points] = {name: tuple(zip(*points, strict=True)) for name, points in issued.items()}  # type: ignore[misc]
    yield panel(title, "cycle", "warp", {}, dots)


def _figure_4_10() -> Iterator[Figure]:
    for gpu in GPUS:
        machine, loop = vv16.machine(gpu), Loop(alpha=vv16.value(gpu, "table_4_3", "alpha"))
        top = float(_adds(loop, by_key("basic").throughput(machine, loop, 512)))
        guides = {
            "programming guide": guide_warps(machine, loop),
            "with arithmetic latency": guide_warps_with_arithmetic(machine, loop),
        }
        yield _loop_panel(gpu, loop, curves={name: ([warps, warps], [0, top]) for name, warps in guides.items()})


def _steps(title: str, run: Occupancy) -> Figure:
    """Warps of one SM against time, as a line of steps."""
    points = np.repeat(run.cycles, 2)[1:], np.repeat(run.warps, 2)[:-1]
    return panel(title, "cycles", WARPS, {"warps of one SM": points}, {})


def _figure_5_2() -> Iterator[Figure]:
    rates = jigsaw()
    dots = {"one block, from 34 warps on two": (list(rates), list(rates.values()))}
    yield panel("throughput", WARPS, IPC, {}, dots)
    yield _steps(f"{IMBALANCED} warps in one block", imbalanced().warps)


def _figure_5_3() -> Iterator[Figure]:
    runs = by_block()
    rates = {"simulated": (list(runs), [run.rate for run in runs.values()])}
    yield panel("throughput", "warps per block", IPC, {}, rates)
    yield from (_steps(f"blocks of {n} warps", runs[n].warps) for n in (min(runs), max(runs)))


def _figure_5_4() -> Iterator[Figure]:
    for name, run in zip(("persistent", "oversubscribed"), persistent_and_not(), strict=True):
        yield _steps(name, run.warps)


def _streaming(gpu: str) -> Figure:
    machine, measurement = vv16.machine(gpu), measure(gpu, Loop(alpha=0))
    assert measurement is not None
    gbs = machine.bytes_per_second("ldg_streaming", measurement.rate) / 1e9
    peaks = {
        "peak, printed": vv16.value(gpu, "table_6_4", "peak_gbs"),
        "peak, simulated, any chains": best_bandwidth(gpu),
    }
    curves = {name: ([0, machine.warps], [peak, peak]) for name, peak in peaks.items()}
    return panel(machine.name, WARPS, "GB/s", curves, {"simulated, one chain": (measurement.warps, gbs)})


def _under_load(gpu: str) -> Figure:
    machine, measurement = vv16.machine(gpu), measure(gpu, Loop(alpha=0))
    assert measurement is not None
    contention = machine.contention["ldg_streaming"]
    rate = np.linspace(0, 0.985 * contention.ceiling, 80)
    gbs = machine.bytes_per_second("ldg_streaming", rate) / 1e9
    x = machine.bytes_per_second("ldg_streaming", measurement.rate) / 1e9
    curves = {"a + b x / (c - x)": (gbs, contention.latency(rate))}
    dots = {"simulated": (x, measurement.warps / measurement.rate)}
    return panel(machine.name, "GB/s", "latency, cycles", curves, dots, y_max=3 * contention.base)


def _figure_6_5() -> Iterator[Figure]:
    table, loads = vv16.tables()["table_6_6"], single_loads()
    curves: dict[str, Points] = {
        f"{table['percentiles'][k]}, printed": (table["gbs"], [row[k] for row in table["latency"]]) for k in range(1, 6)
    }
    ours = [(each.gbs, each.latencies.percentiles(PERCENTS)[k]) for each in loads for k in COMPARED]
    x, y = zip(*ours, strict=True)
    yield panel("percentiles", "GB/s", "latency, cycles", curves, {"5th, 50th, 95th, simulated": (x, y)})
    for each in (loads[0], loads[4], loads[6]):
        title = f"{each.gbs:.3g} GB/s, {each.warps} warps"
        yield panel(title, "cycles", "density", {"share of the loads per cycle": each.latencies.density(60)}, {})


def _random(gpu: str) -> Figure:
    sizes = [size / 2**20 for size in SIZES]
    rates, known = random_bandwidth(gpu), random_words(gpu)
    curves: dict[str, Points] = {"table 6.1": ([sizes[0], sizes[-1]], [known, known])}
    if l2_size(gpu) >= SIZES[0]:
        curves["its L2"] = [l2_size(gpu) / 2**20] * 2, [0, np.nanmax(rates)]
    return panel(vv16.generation(gpu), "MiB", "GB/s", curves, {"simulated": (sizes, rates)}, log_x=True)


def _figure_7_10() -> Iterator[Figure]:
    fermi = measure(FERMI, Loop(alpha=32))
    assert fermi is not None
    cases = (
        ("synthetic, alpha = 16", SYNTHETIC, Loop(alpha=16), 32, {}),
        (
            "Fermi, alpha = 32",
            vv16.machine(FERMI),
            Loop(alpha=32),
            48,
            {"simulated": (fermi.warps, fermi.loop.operations(fermi.rate))},
        ),
    )
    for title, machine, loop, warps, dots in cases:
        n = np.linspace(1, warps, 200)
        singular = {}
        for model in map(by_key, ("huang-rr-bandwidth", "huang-gto-bandwidth")):
            rate = loop.operations(model.throughput(machine, loop, n))
            singular[model.name] = n, np.where(np.abs(rate) > MAX_RATE, np.nan, rate)
        yield panel(title, WARPS, ADDS, {}, {**singular, **dots})
