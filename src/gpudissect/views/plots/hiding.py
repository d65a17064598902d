"""Figures of latency hiding: throughput against occupancy with models over it, warps needed, errors of the models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from gpudissect.models import by_key
from gpudissect.models.base import Loop, Machine, peak
from gpudissect.results.machine import CURVES, KINDS, curve_of
from gpudissect.results.model import Series
from gpudissect.results.names import title_of
from gpudissect.views.plots.choose import MOST_GROUPS
from gpudissect.views.plots.figure import Column, Figure, Kind

OVER = (0.0, 8.0, 32.0, 128.0)  # alphas at which models are drawn over what was measured
SHOWN = ("basic", "refined", "queued", "cuda-guide", "hong-kim", "baghsorkhi", "zhang-owens")
PLACES = 32  # occupancies, besides those measured, at which a model is drawn: its corners lie between
MOST_ROWS = 4000


def figures_of_hiding(series: Series, machine: Machine | None) -> list[Figure] | None:
    """The figures of one series of latency hiding; None for any other, or for one whose columns are not as they should.

    `machine` has the parameters of models, None where there are none: then no model is drawn.
    """
    draw = _DRAWN.get(series.name)
    if draw is None or series.element not in KINDS:
        return None
    try:
        with np.errstate(all="ignore"):
            return list(draw(series, machine))
    except (ArithmeticError, LookupError, TypeError, ValueError):  # a stranger's file
        return None


def _throughput(series: Series, machine: Machine | None) -> Iterator[Figure]:
    """One line for each of some alphas, as VV16 figure 4.1; then one figure an alpha, with models, as figure 4.2."""
    alphas = sorted({float(alpha) for alpha in series.columns["alpha"] if alpha is not None})
    curves = {alpha: curve for alpha in alphas if (curve := curve_of(series, alpha))}
    note = "alpha: additions an access; one chain a warp, the fastest of several sizes of blocks"
    shown = {f"alpha {alpha:g}": curves[alpha] for alpha in _some(list(curves))}
    yield _wide(series, "throughput against warps", shown, note)
    if machine is None:
        return
    for alpha in (each for each in OVER if each in curves):
        loop = Loop(alpha=alpha, access=KINDS[series.element])
        top = peak(machine, loop)
        every = {"measured": curves[alpha], **_modelled(machine, loop, curves[alpha])}
        shares = {name: {warps: float(f"{100 * rate / top:.5g}") for warps, rate in curve.items()}
                  for name, curve in every.items()}  # fmt: skip
        note = (
            "percent of the peak; models with the parameters found here, basic and refined: Volkov 2016; queued: "
            "refined, with queues"
        )
        yield _wide(series, f"throughput against warps at alpha {alpha:g}, and by models", shares, note, "%")


def _modelled(machine: Machine, loop: Loop, curve: Mapping[int, float]) -> dict[str, dict[int, float]]:
    most = max(curve)
    warps = sorted({*curve, *range(1, most + 1, max(1, most // PLACES))})
    drawn = {}
    for key in SHOWN:
        try:
            rates = by_key(key).throughput(machine, loop, warps)
        except ValueError:  # no parameters for this one
            continue
        drawn[key] = dict(zip(warps, map(float, rates), strict=True))
    return drawn


def _wide(series: Series, name: str, curves: Mapping[str, Mapping[int, float]], note: str,
          unit: str = "instructions/cycle") -> Figure:  # fmt: skip
    every = sorted({warps for curve in curves.values() for warps in curve})
    columns: dict[str, Column] = {"warps": tuple(every)}
    columns |= {label: tuple(curve.get(warps) for warps in every) for label, curve in curves.items()}
    return Figure(
        title=f"{title_of(series.element)}: {name}", kind=Kind.LINES, columns=columns, x="warps", ys=tuple(curves),
        units=dict.fromkeys(curves, unit), evidence=series.evidence, note=note,
    )  # fmt: skip


def _needed(series: Series, _: Machine | None) -> Iterator[Figure]:
    """VV16 figure 4.6."""
    ys = tuple(name for name in series.columns if name != "alpha")
    note = (
        "alpha: additions an access; the highest point is the cusp (VV16 s4.5); where a measured one is missing, no "
        "number of warps was enough"
    )
    yield _as_is(series, series.name, Kind.DOTS, "alpha", ys, dict.fromkeys(ys, "warps"), note=note)


def _errors(series: Series, _: Machine | None) -> Iterator[Figure]:
    """How many times too large or too small each model is at worst: of the best models, then of the others."""
    columns = series.columns
    off = tuple(_off(low, high) for low, high in zip(columns["low"], columns["high"], strict=True))
    worst: dict[str, float] = {}
    for model, each in zip(columns["model"], off, strict=True):
        worst[str(model)] = max(worst.get(str(model), 1.0), math.inf if each is None else each)
    ranked = sorted(worst, key=lambda model: (worst[model], model))
    for n in range(0, len(ranked), MOST_GROUPS):
        own = [i for i, model in enumerate(columns["model"][:MOST_ROWS]) if str(model) in ranked[n : n + MOST_GROUPS]]
        part: dict[str, Column] = {name: tuple(columns[name][i] for i in own) for name in columns}
        part["times off"] = tuple(off[i] for i in own)
        yield Figure(
            title=f"{title_of(series.element)}: error of models by alpha, {'the others' if n else 'the best'}",
            kind=Kind.LINES, columns=part, x="alpha", ys=("times off",), by="model", evidence=series.evidence,
            powers=True,
            note="at the occupancy where it is worst: estimate over measurement, or measurement over estimate",
        )  # fmt: skip


def _off(low: object, high: object) -> float | None:
    if not (isinstance(low, int | float) and isinstance(high, int | float)) or not (low > 0 and high > 0):
        return None
    found = max(high, 1 / low)
    return float(f"{found:.6g}") if math.isfinite(found) else None


def _worst(series: Series, _: Machine | None) -> Iterator[Figure]:
    columns = series.columns
    off = [_off(low, high) or math.inf for low, high in zip(columns["under"], columns["over"], strict=True)]
    best_first = sorted(range(len(off)), key=lambda i: off[i])[:MOST_ROWS]
    ordered: dict[str, Column] = {"number": tuple(range(1, len(best_first) + 1))}
    ordered |= {name: tuple(columns[name][i] for i in best_first) for name in columns}
    names = "; ".join(f"{n} {name}" for n, name in zip(ordered["number"], ordered["name"], strict=True))
    yield Figure(
        title=f"{title_of(series.element)}: {series.name}, model by model", kind=Kind.DOTS, columns=ordered,
        x="number", ys=("over", "under"), evidence=series.evidence, powers=True,
        note=f"1 is right, above it too much; {names}",
    )  # fmt: skip


def _by_block(series: Series, _: Machine | None) -> Iterator[Figure]:
    yield _as_is(series, series.name, Kind.LINES, "block", ("rate",), series.units, by="rounds",
                 note="rounds: times as many blocks as run at once (VV16 s5.8)")  # fmt: skip


def _as_is(series: Series, name: str, kind: Kind, x: str, ys: tuple[str, ...], units: Mapping[str, str], *,
           by: str | None = None, note: str = "") -> Figure:  # fmt: skip
    columns: dict[str, Column] = {each: column[:MOST_ROWS] for each, column in series.columns.items()}
    if missing := {x, *ys, *([by] if by else [])} - set(columns):
        raise KeyError(*missing)
    return Figure(title=f"{title_of(series.element)}: {name}", kind=kind, columns=columns, x=x, ys=ys, by=by,
                  units=dict(units), evidence=series.evidence, note=note)  # fmt: skip


def _some(alphas: Sequence[float]) -> list[float]:
    """As many of them as lines can be told apart, evenly over their order, the first and the last among them."""
    if len(alphas) <= MOST_GROUPS:
        return list(alphas)
    return [alphas[round(n * (len(alphas) - 1) / (MOST_GROUPS - 1))] for n in range(MOST_GROUPS)]


_DRAWN: Mapping[str, Callable[[Series, Machine | None], Iterator[Figure]]] = {
    CURVES: _throughput,
    "warps needed for 90 % of the peak": _needed,
    "estimate over measurement by alpha": _errors,
    "worst estimate over measurement": _worst,
    "throughput by block size, persistent and oversubscribed": _by_block,
}
