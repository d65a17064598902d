"""Errors of models of latency hiding, given parameters measured on the same device (VV16 s7.9)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gpudissect.catalogue.compute_capability import schedulers
from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Series
from gpudissect.measure.instructions.instructions import max_warps
from gpudissect.measure.latency_hiding.infer_contention import Fit
from gpudissect.measure.latency_hiding.infer_loops import LoopData, points_of
from gpudissect.measure.latency_hiding.mixes import KINDS, Kind
from gpudissect.measure.latency_hiding.plan_contention import contention_of
from gpudissect.measure.latency_hiding.plan_loops import loops_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, Study
from gpudissect.models import ALL
from gpudissect.models.base import Contention, Curve, Loop, Machine, Model, Unit
from gpudissect.models.evaluation import Evaluation, Measurement, Quotient, evaluate, warps_needed

SHARE = 0.90
ARITHMETIC = "fadd"


def models_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Measures nothing; gives the error of every model as series."""
    loops = known[loops_of(kind.element)]
    if loops is None:
        return Outcome()
    yield from ()
    machine = machine_of(kind, loops, known[contention_of(kind.element)] if kind.of_memory else None, bench.info)
    measurements = [_measurement(kind, loops, alpha) for alpha in loops.alphas if 1 <= alpha < math.inf]
    evaluations = dict(_evaluations(machine, measurements))
    series = (_errors(kind, evaluations), _worst_errors(kind, evaluations), _warps_needed(kind, loops, machine))
    return Outcome(knowledge=machine, series=series)


def machine_of(kind: Kind, loops: LoopData, contention: Fit | None, info: DeviceInfo) -> Machine:
    """The parameters of models, as measured."""
    clocks = [point.clock_hz for point in loops.points if point.clock_hz is not None]
    access = Unit(
        resource="memory" if kind.of_memory else kind.name,
        latency=loops.access_latency,
        throughput=loops.accesses.rate,
        latency_to_core=None if kind.of_memory else loops.dependent_latency,
        bytes=float(loops.access_bytes),
    )
    arithmetic = Unit(resource="cores", latency=loops.arithmetic_latency, throughput=loops.arithmetic.rate)
    return Machine(
        name=info.name,
        sms=info.sm_count,
        clock_hz=float(np.median(clocks)) if clocks else float(info.facts.get("clock_hz", 1e9)),
        schedulers=schedulers(info.facts),
        warps=max_warps(info),
        issue=loops.issue.rate,
        units={ARITHMETIC: arithmetic, kind.name: access},
        contention={kind.name: Contention(contention.a, ((contention.b, contention.c),))} if contention else {},
        curves={kind.name: _curve(loops, 0.0), ARITHMETIC: _curve(loops, math.inf)},
    )


def _measurement(kind: Kind, loops: LoopData, alpha: float) -> Measurement:
    points = points_of(loops.points, alpha)
    warps, rates = np.array([point.warps for point in points], float), np.array([point.rate for point in points])
    return Measurement(Loop(alpha=alpha, access=kind.name), warps, rates)


def _curve(loops: LoopData, alpha: float) -> Curve:
    points = loops.curve(alpha)
    return Curve(tuple(map(float, points)), tuple(point.rate for point in points.values()))


def _evaluations(machine: Machine, measurements: Sequence[Measurement]) -> Iterable[tuple[Model, Evaluation]]:
    """Of the models that this machine has the parameters for."""
    for model in ALL:
        try:
            yield model, evaluate(model, machine, measurements)
        except ValueError:
            continue


def _where(quotient: Quotient) -> tuple[float, float, float]:
    return quotient.value, quotient.alpha, quotient.warps


def _errors(kind: Kind, evaluations: Mapping[Model, Evaluation]) -> Series:
    """The smallest and the largest quotient of estimate and measurement, by alpha (VV16 figures 7.11 to 7.13)."""
    rows = [
        (model.key, low.alpha, low.value, low.warps, high.value, high.warps)
        for model, evaluation in evaluations.items()
        for low, high in evaluation.errors
    ]
    names = ("model", "alpha", "low", "low_warps", "high", "high_warps")
    return Series(kind.element, "estimate over measurement by alpha", _columns(names, rows))


def _worst_errors(kind: Kind, evaluations: Mapping[Model, Evaluation]) -> Series:
    rows = [(model.key, model.name, *_where(found.under), *_where(found.over)) for model, found in evaluations.items()]
    names = ("model", "name", "under", "under_alpha", "under_warps", "over", "over_alpha", "over_warps")
    return Series(kind.element, "worst estimate over measurement", _columns(names, rows))


def _columns(names: Sequence[str], rows: Sequence[Sequence[float | str]]) -> dict[str, tuple[float | str, ...]]:
    return {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}


def _warps_needed(kind: Kind, loops: LoopData, machine: Machine) -> Series:
    """Warps for 90 % of the peak, measured and by the models of VV16 (figure 4.6); nan: more than there are."""
    alphas = tuple(alpha for alpha in loops.alphas if 0 < alpha < math.inf)
    needed: dict[str, list[float | None]] = {"measured": [loops.warps_needed(alpha, SHARE).warps for alpha in alphas]}
    for model in ALL[:2]:
        loop = partial(Loop, access=kind.name)
        needed[model.key] = [warps_needed(model, machine, loop(alpha=alpha), SHARE) for alpha in alphas]
    columns = {name: tuple(math.nan if n is None else float(n) for n in column) for name, column in needed.items()}
    return Series(kind.element, "warps needed for 90 % of the peak", {"alpha": alphas} | columns)


def _experiment(kind: Kind) -> Experiment:
    needs: tuple[Key[Any], ...] = (loops_of(kind.element),)
    needs += (contention_of(kind.element),) if kind.of_memory else ()
    key, plan = Key[Any](f"models.{kind.element}"), partial(models_plan, kind)
    return Experiment(key, plan, needs=needs, quick=True, after_interrupt=True, study=Study.HIDE)


EXPERIMENTS = tuple(map(_experiment, KINDS))
