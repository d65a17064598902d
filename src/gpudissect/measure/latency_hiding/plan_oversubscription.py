"""Occupancy against time: blocks that stay to the end, or many more than fit, of several sizes (VV16 s5.8, 5.9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpudissect.measure.latency_hiding.infer_warps import Lifetimes, attained, imbalance, mean_latency, occupancy
from gpudissect.measure.latency_hiding.mixes import KINDS, Grid, Kind, at_full_clock, blocks_of, mix_of, occupancies
from gpudissect.measure.latency_hiding.plan_hiding import loops_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, Study
from gpudissect.series import Series
from gpudissect.trace import Trace
from gpudissect.workload import Mix
from gpudissect.workload.digest import digest

ROUNDS = 6  # times as many blocks as run at once
STEPS = 400  # of occupancy against time that are kept, at most


@dataclass(frozen=True)
class Run:
    """One mix: how it was started, and what came of it."""

    mix: Mix
    seen: Lifetimes

    @property
    def rate(self) -> float:
        """Instructions a cycle of one SM."""
        return attained(self.seen, self.mix.instructions)


def oversubscription_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """No estimates: series of throughput by size of blocks, and of occupancy against time."""
    hiding = known[loops_of(kind.element)]
    if hiding is None:
        return Outcome()
    warps = occupancies(Grid(()), bench.info)[-1]
    mixes = []
    for block in blocks_of(warps, bench.info):
        many = mix_of(kind, 0.0, warps, block, bench, hiding.paces, width=hiding.width)
        mixes += [replace(many, iterations=ROUNDS * many.iterations), replace(many, waves=ROUNDS)]
    ran, traces = yield from at_full_clock(mixes)
    runs = [Run(mix, _lifetimes(trace)) for mix, trace in zip(ran, traces, strict=True)]
    evidence = tuple(digest(mix) for mix in ran)
    return Outcome(knowledge=runs, series=(_by_block(kind, runs, evidence), _by_time(kind, runs[:2], evidence[:2])))


def _lifetimes(trace: Trace) -> Lifetimes:
    return Lifetimes(trace.begin, trace.end, trace.sm)


def _by_block(kind: Kind, runs: list[Run], evidence: tuple[str, ...]) -> Series:
    first = [occupancy(run.seen, int(run.seen.sm.min())) for run in runs]
    columns: dict[str, Sequence[float]] = {
        "block": [run.mix.block_size for run in runs],
        "rounds": [run.mix.waves for run in runs],
        "rate": [run.rate for run in runs],
        "occupancy": [each.mean for each in first],
        "short": [each.below(0.9 * each.most) for each in first],
        "imbalance": [imbalance(run.seen) for run in runs],
        "latency": [mean_latency(run.seen) / (run.mix.instructions / run.mix.ilp) for run in runs],
    }
    return Series(
        element=kind.element, name="throughput by block size, persistent and oversubscribed",
        columns={name: tuple(float(value) for value in column) for name, column in columns.items()},
        units={"block": "threads", "rate": "instructions/cycle", "latency": "cycles"}, evidence=evidence,
    )  # fmt: skip


def _by_time(kind: Kind, runs: list[Run], evidence: tuple[str, ...]) -> Series:
    rounds, at, warps = [], [], []
    for run in runs:
        seen = occupancy(run.seen, int(run.seen.sm.min()))
        kept = np.unique(np.linspace(0, seen.at.size - 1, STEPS).round().astype(int))
        rounds += [float(run.mix.waves)] * kept.size
        at += seen.at[kept].astype(float).tolist()
        warps += seen.warps[kept].astype(float).tolist()
    columns = {"rounds": tuple(rounds), "cycles": tuple(at), "warps": tuple(warps)}
    return Series(element=kind.element, name="occupancy against time", columns=columns, units={"cycles": "cycles"},
                  evidence=evidence)  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=Key(f"oversubscription.{kind.element}"),
        element=kind.element,
        plan=partial(oversubscription_plan, kind),
        needs=(loops_of(kind.element),),
        quick=True,
        study=Study.HIDE,
    )
    for kind in KINDS
    if kind.of_memory
)
