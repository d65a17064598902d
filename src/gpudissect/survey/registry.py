"""Every experiment there is, and what each needs."""

from __future__ import annotations

from functools import partial

from gpudissect.experiments.base import Experiment
from gpudissect.experiments.capacity import capacity_plan
from gpudissect.experiments.comparison import comparison_plan
from gpudissect.experiments.l2 import l2_plan
from gpudissect.experiments.latency import dram_plan, latency_plan, shared_plan
from gpudissect.experiments.levels import path_plan
from gpudissect.experiments.line import line_plan
from gpudissect.experiments.timer import timer_plan
from gpudissect.workload import Path

CACHES = {
    "l1": "levels.global",
    "readonly": "levels.readonly",
    "texture": "levels.texture",
    "constant_l1": "levels.constant",
    "constant_l15": "levels.constant",
    "l2": "levels.l2",
}
PATHS = {
    Path.GLOBAL: ("l1",),
    Path.READONLY: ("readonly",),
    Path.TEXTURE: ("texture",),
    Path.CONSTANT: ("constant_l1", "constant_l15"),
}
ELEMENTS = ("timer", *CACHES, "shared", "dram")


def _build() -> dict[str, Experiment]:
    every = [
        Experiment("timer", "timer", ("overhead",), (), timer_plan),
        Experiment("levels.l2", "l2", (), (), l2_plan),
        Experiment("latency.shared", "shared", ("capacity", "hit_latency"), (), shared_plan),
        Experiment("latency.dram", "dram", ("capacity", "hit_latency", "far_latency"), ("capacity.l2",), dram_plan),
    ]
    for path, elements in PATHS.items():
        every.append(Experiment(f"levels.{path}", elements[0], (), ("levels.l2",), partial(path_plan, path, elements)))
    for element, levels in CACHES.items():
        line = partial(line_plan, element, levels)
        every.append(Experiment(f"line.{element}", element, ("fetch_granularity", "line_size"), (levels,), line))
        capacity = partial(capacity_plan, element, levels)
        every.append(Experiment(f"capacity.{element}", element, ("capacity",), (levels, f"line.{element}"), capacity))
        latency = partial(latency_plan, element, levels)
        every.append(Experiment(f"latency.{element}", element, ("hit_latency", "miss_penalty"), (levels,), latency))
    return {experiment.name: experiment for experiment in every}


def _comparisons() -> dict[str, Experiment]:
    plans = {}
    for element, levels in CACHES.items():
        needs = (levels, f"line.{element}", f"capacity.{element}")
        name = f"comparison.{element}"
        plans[name] = Experiment(name, element, (), needs, partial(comparison_plan, element, levels))
    return plans


EXPERIMENTS = _build()
"""By name. What an experiment needs may stand after it; the survey orders them."""

COMPARISONS = _comparisons()
"""The older methods, run only when asked for."""
