"""Latency hiding in plain language: how many warps this GPU needs, why, and what models say of it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.models.base import Loop, Machine, peak
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.volkov import Basic
from gpudissect.results.machine import CURVES, KINDS, curve_of, machine_of
from gpudissect.results.model import Result, Series
from gpudissect.units import cycles_to_ns

SHARE = 0.9
SHOWN_ALPHAS = (0.0, 1.0, 8.0, 32.0, 64.0, 128.0, 512.0, math.inf)
MATTERING = (0.0, 32.0, math.inf, 8.0, 128.0, 1.0, 64.0, 512.0)  # those of them first that a narrow terminal shows
SHOWN_WARPS = 12
NEARER = 0.75  # of the fastest load of one warp: what is faster came from nearer by
CELL, MODEL = 11, "   model at alpha 32"
BESIDE = 112  # characters from which on a model and its quotients stand in one line
_ACCESS = {"ldg_streaming": "a load", "ldg_stride2": "a load of stride 2", "ldg_random": "a load of random words",
           "rsq": "a reciprocal root", "lds": "a load from shared memory"}  # fmt: skip
_MANY = {"ldg_streaming": "loads", "ldg_stride2": "loads of stride 2", "ldg_random": "loads of random words",
         "rsq": "reciprocal roots", "lds": "loads from shared memory"}  # fmt: skip


@dataclass(frozen=True)
class Worst:
    """The largest and the least estimate over measurement of a model, and where."""

    name: str
    over: float
    over_alpha: float
    over_warps: float
    under: float
    under_alpha: float
    under_warps: float


def is_answered(result: Result) -> bool:
    """Whether it holds what `lines` needs."""
    return any(each.element in KINDS and each.attribute == "access_rate" and each.status is Status.FOUND
               for each in result.findings)  # fmt: skip


def lines(result: Result, width: int) -> Iterator[str]:
    """The answer, table and all, in lines of so many characters, if they can be so short.

    Raises `UsageError` for a result without latency hiding, or with columns that are none.
    """
    try:
        yield from _lines(result, machine_of(result), width)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise UsageError(f"invalid series of latency hiding in this result: {error}") from None


def _lines(result: Result, machine: Machine, width: int) -> Iterator[str]:
    for element, kind in KINDS.items():
        series = {each.name: each for each in result.series if each.element == element}
        if kind not in machine.units or CURVES not in series:
            continue
        for sentence in answer(machine, kind, series[CURVES]):
            yield from textwrap.wrap(sentence, width) or [""]
        for sentence in of_single_loads(series):
            yield from textwrap.wrap(sentence, width)
        yield from table(series[CURVES], machine, kind, width)
        yield from of_models(series, width)


def answer(machine: Machine, kind: str, series: Series) -> Iterator[str]:
    """What is needed, in sentences."""
    unit, adding = machine.unit(kind), machine.unit("fadd")
    moved = f", {float(machine.bytes_per_second(kind, unit.throughput)) / 1e9:.4g} GB/s" if unit.bytes else ""
    yield ""
    ns = cycles_to_ns(unit.latency, machine.clock_hz)
    yield (f"{_ACCESS[kind].capitalize()} takes {unit.latency:.4g} cycles ({ns:.4g} ns) at best; at most "
           f"{unit.throughput:.3g} a cycle of each SM{moved}. "
           f"An addition takes {adding.latency:.3g} cycles, at most {adding.throughput:.3g} a cycle.")  # fmt: skip
    curves = {alpha: curve for alpha in _alphas(series) if (curve := curve_of(series, alpha))}
    wanted = {alpha: _fewest(_evenly(curve, machine), peak(machine, Loop(alpha=alpha, access=kind)))
              for alpha, curve in curves.items()}  # fmt: skip
    if wanted.get(0.0) is not None:
        yield f"{_hide(wanted[0.0], ' per SM')} the latency of {_ACCESS[kind]} at alpha 0 (90 % of the peak)."
    elif 0.0 in wanted:
        yield f"Not even {max(curves[0.0])} warps per SM hide the latency of {_ACCESS[kind]} at alpha 0."
    short = [alpha for alpha, warps in wanted.items() if warps is None and 0 < alpha < math.inf]
    if short:
        yield _why_not(machine, kind, short, curves)
    elif most := max((warps for warps in wanted.values() if warps is not None), default=None):
        at = next(alpha for alpha, warps in wanted.items() if warps == most)
        yield f"Most are needed at alpha {at:g}: {most}. {_split(machine, kind, at)}"
    if wanted.get(math.inf) is not None:
        yield f"{_hide(wanted[math.inf])} the latency of additions alone (90 % of the peak)."
    if machine.schedulers > 1:
        yield f"All of this of occupancies that give each of {machine.schedulers} schedulers equally many warps."


def _hide(warps: int | None, where: str = "") -> str:
    return f"{warps} warp{where} hides" if warps == 1 else f"{warps} warps{where} hide"


def _some(warps: float) -> str:
    return "1 warp" if round(warps) == 1 else f"{warps:.0f} warps"


def _why_not(machine: Machine, kind: str, short: Sequence[float], curves: Mapping[float, Mapping[int, float]]) -> str:
    at = short[len(short) // 2]
    most = max(curves[at])
    got = max(curves[at].values()) / peak(machine, Loop(alpha=at, access=kind))
    where = f"{at:g}: they" if len(short) == 1 else f"{short[0]:g} to {short[-1]:g}: at alpha {at:g} they"
    return (f"{most} are not enough at alpha {where} reach {got:.0%} of the peak, because "
            f"{_split(machine, kind, at)}")  # fmt: skip


def _split(machine: Machine, kind: str, alpha: float) -> str:
    """Where the warps are, by Little's law (VV16 s4.6)."""
    loop = Loop(alpha=alpha, access=kind)
    top = peak(machine, loop)
    waiting = loop.access_share * top * machine.unit(kind).latency
    adding = loop.arithmetic_share * top * machine.unit("fadd").latency
    extra = ", and more as latency grows under load" if kind in machine.contention else ""
    if not round(waiting):
        return f"{adding:.0f} must add at once."
    others = "1 adds" if round(adding) == 1 else f"{adding:.0f} add"
    return (f"{_some(waiting)} must wait for {_MANY[kind]} while {others}, "
            f"{waiting + adding:.0f} at once{extra}.")  # fmt: skip


def table(series: Series, machine: Machine, kind: str, width: int) -> Iterator[str]:
    """Throughput in percent of the peak, warps down, as many alphas across as there is room for."""
    there = [alpha for alpha in SHOWN_ALPHAS if curve_of(series, alpha)]
    room = max(1, (width - len("warps") - len(MODEL)) // CELL)
    alphas = sorted(sorted(there, key=MATTERING.index)[:room])
    curves = {alpha: curve_of(series, alpha) for alpha in alphas}
    every = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    step = max(1, -(-len(every) // SHOWN_WARPS))
    shown = sorted({every[0], *every[::-1][::step]})
    yield ""
    yield from textwrap.wrap(f"throughput of {kind} and fadd, percent of the peak; alpha: fadd per {kind}", width)
    yield "warps" + "".join(f"{f'alpha {alpha:g}':>{CELL}}" for alpha in alphas) + MODEL
    model = Basic()
    loop = Loop(alpha=32.0, access=kind)
    tops = {alpha: peak(machine, Loop(alpha=alpha, access=kind)) for alpha in alphas}
    for warps in shown:
        shares = "".join(f"{curves[alpha][warps] / tops[alpha]:>{CELL}.0%}" for alpha in alphas)
        said = float(model.throughput(machine, loop, warps)) / peak(machine, loop)
        yield f"{warps:>5}{shares}{said:>{len(MODEL)}.0%}"
    bound = {alpha: warps_needed(model, machine, Loop(alpha=alpha, access=kind)) for alpha in alphas}
    said_of = ", ".join(f"{warps:.0f} at alpha {alpha:g}" for alpha, warps in bound.items() if warps is not None)
    yield from textwrap.wrap(f"warps for the whole peak by the basic model: {said_of}", width)


def of_models(series: Mapping[str, Series], width: int) -> Iterator[str]:
    """The worst quotients of every model, best model first."""
    found = series.get("worst estimate over measurement")
    if found is None or not found.columns.get("model"):
        return
    names = ("name", "over", "over_alpha", "over_warps", "under", "under_alpha", "under_warps")
    rows = [Worst(str(row[0]), *(float(each or 1) for each in row[1:]))
            for row in zip(*(found.columns[name] for name in names), strict=True)]  # fmt: skip
    yield ""
    yield from textwrap.wrap("models with these parameters: worst estimate over measurement, alpha 1 to 512", width)
    for row in sorted(rows, key=lambda row: max(row.over, 1 / row.under)):
        quotients = (f"{row.over:6.2f} at alpha {row.over_alpha:g}, {row.over_warps:g} warps;  "
                     f"{row.under:5.2f} at alpha {row.under_alpha:g}, {row.under_warps:g} warps")  # fmt: skip
        if width >= BESIDE:
            yield f"{row.name:<55} {quotients}"
        else:
            yield from (row.name, f"  {quotients}")


def _alphas(series: Series) -> list[float]:
    return sorted({float(alpha) for alpha in series.columns["alpha"] if alpha is not None})


def _evenly(curve: Mapping[int, float], machine: Machine) -> dict[int, float]:
    """Of occupancies those that give each scheduler equally many warps: else all wait for one that has more."""
    even = {warps: rate for warps, rate in curve.items() if warps % machine.schedulers == 0}
    return even or dict(curve)


def of_single_loads(series: Mapping[str, Series]) -> Iterator[str]:
    """What single loads tell that means do not: some never came to memory, some were too long to be told apart."""
    found = series.get("single latencies")
    if found is None or not found.columns.get("p0"):
        return
    column = {name: [float(each or 0) for each in values] for name, values in found.columns.items()}
    alone, loaded = column["p0"][0], min(column["p0"])
    if loaded < NEARER * alone:
        warps = column["warps"][column["p0"].index(loaded)]
        yield (f"Single loads: the fastest with {warps:.0f} warps took {loaded:.0f} cycles; one warp alone had none "
               f"below {alone:.0f}: some hit in the L2, though no warp reads anything twice.")  # fmt: skip
    overflows = column.get("overflow_count", [])
    for warps, overflow, samples in zip(column["warps"], overflows, column["samples"], strict=False):
        if overflow:
            yield f"With {warps:.0f} warps {overflow / samples:.1%} of them took longer than can be told."


def _fewest(curve: Mapping[int, float], top: float) -> int | None:
    """The fewest warps from which on 90 % of the peak is reached at some occupancy."""
    return next((warps for warps, rate in curve.items() if rate >= SHARE * top * (1 - 1e-9)), None)
