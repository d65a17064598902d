"""How far models of latency hiding are off what was measured, with parameters of the same device (VV16 s7.9)."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from functools import partial

import numpy as np

from gpudissect.catalogue.capabilities import schedulers
from gpudissect.device_info import DeviceInfo
from gpudissect.measure.instructions.instructions import max_warps
from gpudissect.measure.latency_hiding.infer_contention import Fit
from gpudissect.measure.latency_hiding.infer_hiding import Point
from gpudissect.measure.latency_hiding.known import Hiding
from gpudissect.measure.latency_hiding.known import needed as measured
from gpudissect.measure.latency_hiding.mixes import KINDS, Kind
from gpudissect.measure.latency_hiding.plan_contention import contention_of
from gpudissect.measure.latency_hiding.plan_hiding import loops_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Study
from gpudissect.models import ALL
from gpudissect.models.base import Contention, Curve, Loop, Machine, Model, Unit
from gpudissect.models.evaluation import Evaluation, Measurement, evaluate, warps_needed
from gpudissect.series import Series
from gpudissect.trace import Trace
from gpudissect.workload import Workload

SHARE = 0.90
ARITHMETIC = "fadd"


def models_plan(kind: Kind, bench: Bench, known: Known) -> Generator[Sequence[Workload], list[Trace], Outcome]:
    """Nothing is measured. Knowledge: the machine, None without parameters; series: the error of every model."""
    hiding = known[loops_of(kind.element)]
    if hiding is None:
        return Outcome()
    yield from ()
    machine = machine_of(hiding, known[contention_of(kind.element)] if kind.of_memory else None, bench.info)
    every = [_measured(hiding, alpha) for alpha in hiding.alphas if 1 <= alpha < math.inf]
    judged = {model: judged for model in ALL if (judged := _judge(model, machine, every)) is not None}
    return Outcome(knowledge=machine, series=(_errors(kind, judged), _worst(kind, judged), _needed(hiding, machine)))


def machine_of(hiding: Hiding, contention: Fit | None, info: DeviceInfo) -> Machine:
    """The parameters of models, as measured."""
    kind = hiding.kind
    clocks = [point.clock_hz for point in hiding.points if point.clock_hz is not None]
    clock = float(np.median(clocks)) if clocks else float(info.facts.get("clock_hz", 1e9))
    followed = None if kind.of_memory else hiding.followed_latency
    access = Unit(
        resource="memory" if kind.of_memory else kind.name, latency=hiding.access_latency,
        throughput=hiding.accesses.rate, latency_to_core=followed, bytes=float(hiding.access_bytes),
    )  # fmt: skip
    adding = Unit(resource="cores", latency=hiding.arithmetic_latency, throughput=hiding.arithmetic.rate)
    terms = {} if contention is None else {kind.name: Contention(contention.a, ((contention.b, contention.c),))}
    return Machine(
        name=info.name, sms=info.sm_count, clock_hz=clock, schedulers=schedulers(info.facts), warps=max_warps(info),
        issue=hiding.issue.rate, units={ARITHMETIC: adding, kind.name: access}, contention=terms,
        curves={kind.name: _curve(hiding.curve(0.0)), ARITHMETIC: _curve(hiding.curve(math.inf))},
    )  # fmt: skip


def _curve(points: dict[int, Point]) -> Curve:
    return Curve(tuple(float(warps) for warps in points), tuple(point.rate for point in points.values()))


def _measured(hiding: Hiding, alpha: float) -> Measurement:
    points = [point for point in hiding.points if point.alpha == alpha and point.ilp == 1]
    warps, rates = np.array([point.warps for point in points], float), np.array([point.rate for point in points])
    return Measurement(Loop(alpha=alpha, access=hiding.kind.name), warps, rates)


def _judge(model: Model, machine: Machine, every: Sequence[Measurement]) -> Evaluation | None:
    """None for a model that this machine has no parameters for."""
    try:
        return evaluate(model, machine, every)
    except ValueError:
        return None


def _errors(kind: Kind, judged: dict[Model, Evaluation]) -> Series:
    """Least and largest quotient of estimate and measurement, by alpha (VV16 figures 7.11 to 7.13)."""
    rows = [(model.key, each.low.alpha, each.low.value, each.low.warps, each.high.value, each.high.warps)
            for model, found in judged.items() for each in found.errors]  # fmt: skip
    names = ("model", "alpha", "low", "low_warps", "high", "high_warps")
    columns = {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}
    return Series(element=kind.element, name="estimate over measurement by alpha", columns=columns)


def _worst(kind: Kind, judged: dict[Model, Evaluation]) -> Series:
    rows = [(model.key, model.name, found.under.value, found.under.alpha, found.under.warps, found.over.value,
             found.over.alpha, found.over.warps) for model, found in judged.items()]  # fmt: skip
    names = ("model", "name", "under", "under_alpha", "under_warps", "over", "over_alpha", "over_warps")
    columns = {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}
    return Series(element=kind.element, name="worst estimate over measurement", columns=columns)


def _needed(hiding: Hiding, machine: Machine) -> Series:
    """Warps for 90 % of the peak, measured and by the models of VV16 (figure 4.6); nan: more than there are."""
    alphas = [alpha for alpha in hiding.alphas if 0 < alpha < math.inf]
    seen = [measured(hiding, alpha, SHARE).warps for alpha in alphas]
    columns: dict[str, tuple[float, ...]] = {
        "alpha": tuple(alphas), "measured": tuple(math.nan if each is None else float(each) for each in seen)
    }  # fmt: skip
    for model in ALL[:2]:
        found = [warps_needed(model, machine, Loop(alpha=alpha, access=hiding.kind.name), SHARE) for alpha in alphas]
        columns[model.key] = tuple(math.nan if each is None else each for each in found)
    return Series(element=hiding.kind.element, name="warps needed for 90 % of the peak", columns=columns)


EXPERIMENTS = tuple(
    Experiment(
        key=Key(f"models.{kind.element}"),
        element=kind.element,
        plan=partial(models_plan, kind),
        needs=(loops_of(kind.element), *([contention_of(kind.element)] if kind.of_memory else [])),
        quick=True,
        after_interrupt=True,
        study=Study.HIDE,
    )
    for kind in KINDS
)
