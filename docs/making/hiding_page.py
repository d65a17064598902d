"""The page of results of `gpudissect hide` on one GPU, in Markdown, and its pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from gpudissect.estimate import Status
from gpudissect.models import by_key
from gpudissect.models.base import Loop, Machine, peak
from gpudissect.models.evaluation import Measurement, best_samples, evaluate
from gpudissect.models.volkov import visit_rate
from gpudissect.printable import clean
from gpudissect.results.files import load
from gpudissect.results.folded import folded
from gpudissect.results.machine import CURVES, KINDS, machine_of
from gpudissect.results.model import Finding, Result, Series
from gpudissect.results.text import quantity
from gpudissect.views.plots.element import figures_of_element
from gpudissect.views.plots.figure import Figure, Kind, overlay
from gpudissect.views.plots.standalone import sheet
from gpudissect.views.terminal.hiding import lines

RESULTS = Path(__file__).parents[1] / "results"
PAGES: Mapping[str, tuple[str, ...]] = {
    "h200-latency-hiding": ("h200-latency-hiding", "h200-kinds-latency-hiding"),
    "h200-kinds-latency-hiding": ("h200-kinds-latency-hiding",),
}
"""Names of the result files of each page: the page is about the first, the others are compared with it."""
TABLES = ("single latencies", "throughput by block size, persistent and oversubscribed")
MODEL_ERRORS = "worst estimate over measurement"
CORNER_PLACES = {"all": "all SMs", "one": "one SM, the others idle", "l1": "loads that hit in the L1"}
MIN_ALPHA, MAX_ALPHA = 1.0, 512.0  # at which models are evaluated (VV16 s7.9)
TEXT_WIDTH = 110
RATE = ("throughput", "instructions/cycle")
REFINED, QUEUED = by_key("refined"), by_key("queued")
HEAD_TEXT = """
alpha: additions between two accesses. Rates are instructions per cycle of one SM, latencies cycles of the SM clock.
[How it is measured](../attributes/hiding.md). All series, with warps needed and errors at each alpha, are in the result
file."""
QUEUE_TEXT = """
## Warps queue for the adders

VV16 takes the smaller of two bounds, as if a warp whose load has returned could always continue at once. But warps
return at random: sometimes more of them add than the scheduler can serve, sometimes fewer, and issue slots are lost.
This is the machine repairman model, a closed network of two stations (Scherr 1967). Its throughput depends on mean
times alone (Baskett, Chandy, Muntz and Palacios 1975). The model `queued` is the refined model with this network
instead of the smaller bound, and has no further parameter. Ratio of estimate to measurement:
"""
CORNER_TEXT = """
### The loss in isolation

Measured by `validation/hiding_corner.py` in a separate run ([data]({name})), in instructions per cycle of one SM. The
time of a load follows from the smallest number of warps. *bounds* is the ratio of the smaller bound to the measurement
where it is largest; *queues* is the same with queues. Both use the peak of additions alone.
"""


@dataclass(frozen=True)
class Accesses:
    """One kind of access in a result: its element, its key in models, and its series by name."""

    machine: Machine
    element: str
    key: str
    series: Mapping[str, Series]

    @cached_property
    def measurements(self) -> list[Measurement]:
        """Throughput of one chain per warp against warps, at every alpha at which models are evaluated."""
        columns = self.series[CURVES].columns
        names = ("alpha", "warps", "chains", "rate")
        rows = np.array([[np.nan if value is None else float(value) for value in columns[name]] for name in names]).T
        rows = rows[(rows[:, 2] == 1) & (rows[:, 0] >= MIN_ALPHA) & (rows[:, 0] <= MAX_ALPHA)]
        return [
            Measurement(Loop(alpha=float(alpha), access=self.key), *rows[rows[:, 0] == alpha][:, [1, 3]].T)
            for alpha in np.unique(rows[:, 0])
        ]

    @cached_property
    def worst(self) -> Measurement:
        """The best samples at the alpha where the refined model overestimates most."""
        alpha = evaluate(REFINED, self.machine, self.measurements).over.alpha
        (measurement,) = [each for each in self.measurements if each.loop.alpha == alpha]
        return best_samples(measurement, self.machine.schedulers)


def accesses_of(result: Result) -> list[Accesses]:
    """The kinds of access that a result has."""
    machine = machine_of(result)
    found = []
    for element, key in KINDS.items():
        series = {each.name: each for each in result.series if each.element == element}
        if key in machine.units and CURVES in series:
            found.append(Accesses(machine, element, key, series))
    return found


def results_of(page: str) -> list[Result]:
    """The results of a page of `PAGES`."""
    return [load(RESULTS / f"{name}.json") for name in PAGES[page]]


def pictures(result: Result) -> Iterator[tuple[str, str]]:
    """Element and SVG file of each kind of access: series with models, an iteration, queues."""
    for each in accesses_of(result):
        figures = figures_of_element(result, each.element)
        if each.key in each.machine.contention and each.measurements:
            figures.append(_iteration(each))
        if each.measurements:
            figures.append(_queues(each))
        yield each.element, sheet(f"Latency hiding: {each.key}", figures)


def _iteration(accesses: Accesses) -> Figure:
    """Where the time of an iteration goes, at the alpha where the refined model is worst."""
    machine, best = accesses.machine, accesses.worst
    warps, instructions = best.warps, best.loop.alpha + 1
    contention = machine.contention[accesses.key]
    loaded = contention.latency(np.minimum(best.rate / instructions, 0.999 * contention.ceiling))
    additions = best.loop.alpha * machine.unit("fadd").latency
    curves = {
        "access alone": np.full(warps.size, contention.base),
        "and its wait under load": loaded,
        "and the additions": loaded + additions,
        "minimum by the peak": warps * instructions / peak(machine, best.loop),
        "measured": warps * instructions / best.rate,
    }
    groups = {name: (warps, cycles) for name, cycles in curves.items()}
    title = f"Time of an iteration at alpha {best.loop.alpha:g}"
    kinds = {"measured": Kind.DOTS}
    return overlay(title, ("warps per SM", ""), ("time", "cycles"), groups, kinds=kinds, kind=Kind.CURVES)


def _queues(accesses: Accesses) -> Figure:
    """Models with and without queues, at the alpha where the refined model is worst."""
    machine, best = accesses.machine, accesses.worst
    warps = np.arange(machine.schedulers, machine.warps + 1, machine.schedulers, dtype=float)
    groups = {
        name: (warps, model.throughput(machine, best.loop, warps))
        for name, model in (("refined model", REFINED), ("with queues", QUEUED))
    }
    groups["measured"] = (best.warps, best.rate)
    title = f"Warps queue: throughput at alpha {best.loop.alpha:g}"
    return overlay(title, ("warps per SM", ""), RATE, groups, kinds={"measured": Kind.DOTS}, kind=Kind.CURVES)


def markdown(name: str, results: Sequence[Result], corner: Path | None = None) -> str:
    """The page; `corner` is what `validation/hiding_corner.py` measured."""
    first = results[0]
    accesses = accesses_of(first)
    parts = [
        *_head(first, name, len(results)),
        *("", "```text", *_answers(first), "```"),
        *_parameters(first, accesses),
        *_model_errors(accesses),
    ]
    for each in accesses:
        parts += ["", f"## {each.key}", "", f"<!-- made: picture {name}/{each.element} -->"]
        for series in (each.series[title] for title in TABLES if title in each.series):
            parts += ["", f"{series.name[0].upper()}{series.name[1:]}:", "", *_series_table(series)]
    parts += [*_queue_table(accesses)]
    if corner is not None:
        parts += _corner(accesses[0].machine, json.loads(corner.read_text(encoding="utf-8")), corner.name)
    if len(results) > 1:
        parts += _agreement(results)
    return "\n".join(parts) + "\n"


def _head(result: Result, name: str, runs: int) -> Iterator[str]:
    device, conditions, options = result.device, result.conditions, result.options
    stated = [f"{device.sm_count} SMs"]
    for label, value in (
        ("compute capability", device.facts.get("compute_capability")),
        ("driver", result.environment.get("driver")),
        ("CUDA", result.environment.get("cuda_driver")),
    ):
        stated += [f"{label} {clean(str(value))}"] if value else []
    kinds = "all kinds of access" if len(accesses_of(result)) > 1 else "consecutive loads"
    yield f"# {clean(device.name)}: latency hiding of {kinds}, {device.origin.value}"
    yield ""
    command = f"`gpudissect hide{' --quick' if options.quick else ''}`"
    yield f"{clean(device.name)} ({', '.join(stated)}), {command}: {result.workloads} mixes in {result.seconds:.0f} s, "
    yield f"{f'the first of {runs} runs' if runs > 1 else 'one run'} ([result file]({name}.json))."
    if conditions.clock_hz:
        yield f"SM clock: {conditions.clock_hz / 1e6:.0f} MHz."
    for failure in result.failures:
        yield f"**{clean(failure.experiment)} failed: {clean(failure.reason)}.**"
    yield HEAD_TEXT


def _parameters(result: Result, accesses: Sequence[Accesses]) -> Iterator[str]:
    known = {(each.element, each.attribute): each for each in result.findings}
    yield from ("", "## Parameters", "", f"| | {' | '.join(each.key for each in accesses)} |")
    yield "|---" * (len(accesses) + 1) + "|"
    for attribute in dict.fromkeys(each.attribute for each in result.findings):
        cells = [_cell(known.get((each.element, attribute))) for each in accesses]
        yield f"| {attribute} | {' | '.join(cells)} |"
    notes: dict[tuple[str, str], list[str]] = {}
    for each in result.findings:
        for text in filter(None, (*each.caveats, each.reason)):
            notes.setdefault((each.element, clean(text)), []).append(each.attribute)
    yield from ("", *(f"- {element} {', '.join(about)}: {text}" for (element, text), about in notes.items()))


def _answers(result: Result) -> Iterator[str]:
    """What the terminal prints, without the model errors, which have a table."""
    is_error = False
    for line in lines(result, TEXT_WIDTH):
        is_error = line.startswith("model error") or (is_error and bool(line.strip()))
        if not is_error:
            yield line


def _model_errors(accesses: Sequence[Accesses]) -> Iterator[str]:
    """Smallest and largest ratio of estimate to measurement, by model and kind of access."""
    errors: dict[str, dict[str, str]] = {}
    for each in accesses:
        if (series := each.series.get(MODEL_ERRORS)) is not None:
            columns = (series.columns[name] for name in ("name", "under", "over"))
            for name, under, over in zip(*columns, strict=True):
                errors.setdefault(clean(str(name)), {})[each.key] = f"{under:.3g} to {over:.3g}"
    keys = [each.key for each in accesses]
    yield from ("", "## Errors of models", "", "Smallest and largest ratio of estimate to measurement, alpha 1 to 512.")
    yield from ("", f"| model | {' | '.join(keys)} |", "|---" * (len(keys) + 1) + "|")
    yield from (f"| {name} | {' | '.join(known.get(key, '') for key in keys)} |" for name, known in errors.items())


def _cell(finding: Finding | None) -> str:
    if finding is None:
        return ""
    if finding.status is not Status.FOUND:
        return finding.status.value
    return folded(finding)


def _series_table(series: Series) -> Iterator[str]:
    units = [f"{name} ({series.units[name]})" if series.units.get(name) else name for name in series.columns]
    yield f"| {' | '.join(units)} |"
    yield "|---" * len(units) + "|"
    for row in zip(*series.columns.values(), strict=True):
        cells = ("" if each is None else f"{each:.4g}" if isinstance(each, int | float) else each for each in row)
        yield f"| {' | '.join(cells)} |"


def _queue_table(accesses: Sequence[Accesses]) -> Iterator[str]:
    """How far the refined model is off, and how far with queues, which add no parameter."""
    yield QUEUE_TEXT
    yield from (
        "| kind | refined, max | at alpha, warps | queued, there | queued, max | at alpha, warps | queued, min |",
    )
    yield "|---" * 7 + "|"
    for each in accesses:
        if each.measurements:
            refined, queued = (evaluate(model, each.machine, each.measurements) for model in (REFINED, QUEUED))
            over, best = refined.over, each.worst
            there = float(
                QUEUED.throughput(each.machine, best.loop, over.warps) / best.rate[best.warps == over.warps][0]
            )
            yield (
                f"| {each.key} | {over.value:.3f} | {over.alpha:g}, {over.warps:g} | {there:.3f} | "
                f"{queued.over.value:.3f} | {queued.over.alpha:g}, {queued.over.warps:g} | {queued.under.value:.3f} |"
            )


def _corner(machine: Machine, corner: Mapping[str, Any], name: str) -> Iterator[str]:
    """The same loss without load on memory, and without memory; the order in which blocks end."""
    yield CORNER_TEXT.format(name=name)
    yield from ("| | alpha | load, cycles | warps | measured | bounds | queues |", "|---" * 7 + "|")
    rates: dict[tuple[str, int], dict[int, float]] = {}
    for each in corner["rates"]:
        rates.setdefault((each["where"], each["alpha"]), {})[each["warps"]] = each["rate"]
    top = float(np.median([rate for (where, _), own in rates.items() if where == "adds" for rate in own.values()]))
    for (where, alpha), own in rates.items():
        if where in CORNER_PLACES:
            yield _corner_row(machine, CORNER_PLACES[where], alpha, own, top)
    yield ""
    yield "Blocks of one SM that begin together: when each ends, as share of the longest time, oldest block first:"
    yield ""
    for each in corner["ends"]:
        yield f"- {each['what']}, {each['warps']} warps: {', '.join(f'{share:.2f}' for share in each['shares'])}"


def _corner_row(machine: Machine, place: str, alpha: int, rates: Mapping[int, float], top: float) -> str:
    adding, fewest = alpha * machine.unit("fadd").latency, min(rates)
    load_cycles = fewest * (alpha + 1) / rates[fewest] - adding

    def estimates(warps: int) -> tuple[float, float]:
        bound = min(top, warps * (alpha + 1) / (load_cycles + adding))
        servers = top / machine.schedulers / (alpha + 1) * adding
        per_scheduler, wait = np.array([warps // machine.schedulers]), np.array([load_cycles])
        visits = float(visit_rate(per_scheduler, adding, servers, wait, np.array([inf]))[0])
        return bound / rates[warps], machine.schedulers * (alpha + 1) * visits / rates[warps]

    worst = max((warps for warps in rates if warps % machine.schedulers == 0), key=lambda warps: estimates(warps)[0])
    bounds, queues = estimates(worst)
    return f"| {place} | {alpha} | {load_cycles:.0f} | {worst} | {rates[worst]:.3f} | {bounds:.3f} | {queues:.3f} |"


def _agreement(results: Sequence[Result]) -> Iterator[str]:
    """Parameters and worst errors of the models, run by run."""
    yield from (
        "",
        f"## Agreement of {len(results)} runs",
        "",
        "| element | attribute | runs | spread |",
        "|---" * 4 + "|",
    )
    known = [{(each.element, each.attribute): each for each in result.findings} for result in results]
    for finding in results[0].findings:
        runs = [each.get((finding.element, finding.attribute)) for each in known]
        values = [float(each.value) for each in runs if each is not None and isinstance(each.value, int | float)]
        if len(values) == len(runs):
            cells = ", ".join(quantity(value, finding.unit) for value in values)
            yield f"| {finding.element} | {finding.attribute} | {cells} | {_spread(values)} |"
    for first in accesses_of(results[0]):
        every = [each for result in results for each in accesses_of(result) if each.element == first.element]
        for model in (by_key("basic"), REFINED, QUEUED):
            if len(every) == len(results) and all(each.measurements for each in every):
                over = [evaluate(model, each.machine, each.measurements).over.value for each in every]
                cells = ", ".join(f"{value:.3f}" for value in over)
                yield f"| {first.element} | largest overestimate, {model.key} | {cells} | {_spread(over)} |"


def _spread(values: Sequence[float]) -> str:
    return f"{max(values) / min(values) - 1:.1%}" if min(values) > 0 else ""
