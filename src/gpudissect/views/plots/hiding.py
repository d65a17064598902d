"""Figures of latency hiding: throughput against occupancy with models over it, warps needed, errors of the models."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gpudissect.models import by_key
from gpudissect.models.base import Loop, Machine, peak
from gpudissect.results.machine import CURVES, KINDS, curve_of
from gpudissect.results.model import Series
from gpudissect.results.text import title_of
from gpudissect.views.plots.figure import MAX_GROUPS, Column, Figure, Kind

MODEL_ALPHAS = (0.0, 8.0, 32.0, 128.0)  # at which models are plotted over the measurement
MODELS = ("basic", "refined", "queued", "cuda-guide", "hong-kim", "baghsorkhi", "zhang-owens")
MAP_NAME = "throughput by warps and additions per access"
MAX_TICKS = 12  # of an axis of the map
MODEL_POINTS = 32  # occupancies, besides the measured ones, at which a model is plotted
MAX_ROWS = 4000


def figures_of_hiding(series: Series, machine: Machine | None) -> list[Figure] | None:
    """Figures of a series of latency hiding; None for any other series and for one with unexpected columns.

    `machine` has the parameters of the models; without it no model is plotted.
    """
    draw = _FIGURES.get(series.name)
    if draw is None or series.element not in KINDS:
        return None
    try:
        with np.errstate(all="ignore"):
            return list(draw(series, machine))
    except (ArithmeticError, LookupError, TypeError, ValueError):  # the file may come from anywhere
        return None


def _figure(series: Series, name: str, kind: Kind, x: str, ys: tuple[str, ...], **options: Any) -> Figure:
    """A figure of columns of the series, unless `options` has others. Raises `KeyError` for a missing column."""
    columns = options.pop("columns", None) or {name: column[:MAX_ROWS] for name, column in series.columns.items()}
    if missing := {x, *ys, options.get("by") or x} - set(columns):
        raise KeyError(*missing)
    title = f"{title_of(series.element)}: {name}"
    return Figure(title=title, kind=kind, columns=columns, x=x, ys=ys, evidence=series.evidence, **options)


def _throughput(series: Series, machine: Machine | None) -> Iterator[Figure]:
    """A map, a line for each of some alphas (VV16 figure 4.1), and for some a figure with models (figure 4.2)."""
    alphas = sorted({float(alpha) for alpha in series.columns["alpha"] if alpha is not None})
    curves = {alpha: curve for alpha in alphas if (curve := curve_of(series, alpha))}
    yield _throughput_map(series, machine, curves)
    places = np.linspace(0, len(curves) - 1, min(len(curves), MAX_GROUPS)).round().astype(int)
    lines = {
        "alpha ∞" if math.isinf(alpha) else f"alpha {alpha:g}": curves[alpha]
        for alpha in np.array(list(curves))[places]
    }
    note = "alpha: additions per access, ∞: additions alone; one chain per warp, the fastest of several block sizes"
    yield _occupancy_figure(series, "throughput against warps", lines, "instructions/cycle", note)
    for alpha in (each for each in MODEL_ALPHAS if machine is not None and each in curves):
        assert machine is not None
        loop = Loop(alpha=alpha, access=KINDS[series.element])
        top = peak(machine, loop)
        lines = {
            name: {warps: float(f"{100 * rate / top:.5g}") for warps, rate in curve.items()}
            for name, curve in {"measured": curves[alpha], **_predicted(machine, loop, curves[alpha])}.items()
        }
        note = "percent of the peak; models with the parameters found here: basic and refined: Volkov 2016; queued: "
        note += "refined, with queues"
        yield _occupancy_figure(series, f"throughput against warps at alpha {alpha:g}, and by models", lines, "%", note)


def _throughput_map(series: Series, machine: Machine | None, curves: Mapping[float, Mapping[int, float]]) -> Figure:
    """Throughput in percent of the peak, warps by additions per access; both in steps, for both are logarithmic."""
    warps = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    kind = KINDS[series.element]
    tops = {
        alpha: peak(machine, Loop(alpha=alpha, access=kind)) if machine is not None else max(curve.values())
        for alpha, curve in curves.items()
    }
    cells = [(alpha, count) for alpha in curves for count in warps]
    columns: dict[str, Column] = {
        "additions per access": tuple(list(curves).index(alpha) for alpha, _ in cells),
        "warps per SM": tuple(warps.index(count) for _, count in cells),
        "alpha": tuple(alpha if math.isfinite(alpha) else None for alpha, _ in cells),
        "warps": tuple(count for _, count in cells),
        "of the peak": tuple(round(min(100.0, 100 * curves[alpha][count] / tops[alpha]), 1) for alpha, count in cells),
    }
    x, y = list(columns)[:2]
    x_step, y_step = (max(1, -(-len(each) // MAX_TICKS)) for each in (curves, warps))
    x_ticks = {n: "∞" if math.isinf(alpha) else f"{alpha:g}" for n, alpha in enumerate(curves) if n % x_step == 0}
    y_ticks = {n: f"{count}" for n, count in enumerate(warps) if (len(warps) - 1 - n) % y_step == 0}
    options = {"columns": columns, "units": {"of the peak": "%"}, "x_ticks": x_ticks, "y_ticks": y_ticks}
    return _figure(series, MAP_NAME, Kind.MAP, x, (y,), colour="of the peak", **options)


def _predicted(machine: Machine, loop: Loop, curve: Mapping[int, float]) -> dict[str, dict[int, float]]:
    max_warps = max(curve)
    warps = sorted({*curve, *range(1, max_warps + 1, max(1, max_warps // MODEL_POINTS))})
    predicted = {}
    for key in MODELS:
        try:
            model = by_key(key)
            rates = model.throughput(machine, loop, warps)
        except ValueError:  # the machine lacks parameters of this model
            continue
        predicted[model.name] = dict(zip(warps, map(float, rates), strict=True))
    return predicted


def _occupancy_figure(
    series: Series, name: str, curves: Mapping[str, Mapping[int, float]], unit: str, note: str
) -> Figure:
    warps = sorted({warps for curve in curves.values() for warps in curve})
    columns: dict[str, Column] = {"warps": tuple(warps)}
    columns |= {label: tuple(map(curve.get, warps)) for label, curve in curves.items()}
    units = dict.fromkeys(curves, unit)
    return _figure(series, name, Kind.LINES, "warps", tuple(curves), columns=columns, units=units, note=note)


def _warps_needed(series: Series, _: Machine | None) -> Iterator[Figure]:
    """VV16 figure 4.6."""
    ys = tuple(name for name in series.columns if name != "alpha")
    note = "alpha: additions per access; the maximum is the cusp (VV16 s4.5); no measured point where no number of "
    note += "warps was enough"
    yield _figure(series, series.name, Kind.DOTS, "alpha", ys, units=dict.fromkeys(ys, "warps"), note=note)


def _model_errors(series: Series, _: Machine | None) -> Iterator[Figure]:
    """How many times too large or too small each model is at worst: the best models, then the others."""
    columns = series.columns
    errors = [_error(low, high) for low, high in zip(columns["low"], columns["high"], strict=True)]
    worst: dict[str, float] = {}
    for model, error in zip(map(str, columns["model"]), errors, strict=True):
        worst[model] = max(worst.get(model, 1.0), math.inf if error is None else error)
    ranked = sorted(worst, key=lambda model: (worst[model], model))
    for n in range(0, len(ranked), MAX_GROUPS):
        models = ranked[n : n + MAX_GROUPS]
        rows = [row for row, model in enumerate(columns["model"][:MAX_ROWS]) if str(model) in models]
        part: dict[str, Column] = {name: tuple(column[row] for row in rows) for name, column in columns.items()}
        part["times off"] = tuple(errors[row] for row in rows)
        name = f"error of models by alpha, {'the others' if n else 'the best'}"
        note = "at the occupancy where it is worst: estimate over measurement, or measurement over estimate"
        yield _figure(
            series, name, Kind.LINES, "alpha", ("times off",), columns=part, by="model", log_y=True, note=note
        )


def _error(low: object, high: object) -> float | None:
    """The larger of estimate over measurement and its inverse, of the range of quotients."""
    if not (isinstance(low, int | float) and isinstance(high, int | float)) or not (low > 0 and high > 0):
        return None
    error = max(high, 1 / low)
    return float(f"{error:.6g}") if math.isfinite(error) else None


def _worst_errors(series: Series, _: Machine | None) -> Iterator[Figure]:
    columns = series.columns
    errors = [_error(low, high) or math.inf for low, high in zip(columns["under"], columns["over"], strict=True)]
    ranked = sorted(range(len(errors)), key=errors.__getitem__)[:MAX_ROWS]
    ordered: dict[str, Column] = {"number": tuple(range(1, len(ranked) + 1))}
    ordered |= {name: tuple(column[row] for row in ranked) for name, column in columns.items()}
    names = "; ".join(f"{n} {name}" for n, name in enumerate(ordered["name"], 1))
    note = f"1: exact, above 1: overestimate; {names}"
    name = f"{series.name}, model by model"
    yield _figure(series, name, Kind.DOTS, "number", ("over", "under"), columns=ordered, log_y=True, note=note)


def _block_sizes(series: Series, _: Machine | None) -> Iterator[Figure]:
    note = "waves: number of waves of blocks (VV16 s5.8)"
    yield _figure(series, series.name, Kind.LINES, "block", ("rate",), units=series.units, by="waves", note=note)


_FIGURES: Mapping[str, Callable[[Series, Machine | None], Iterator[Figure]]] = {
    CURVES: _throughput,
    "warps needed for 90 % of the peak": _warps_needed,
    "estimate over measurement by alpha": _model_errors,
    "worst estimate over measurement": _worst_errors,
    "throughput by block size, persistent and oversubscribed": _block_sizes,
}
