"""How many warps an SM needs to come near the rate of an instruction, with one chain each (VV16 table 6.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import WARPS
from gpudissect.measure.instructions.infer_issue import STEP, Needed, needed
from gpudissect.measure.instructions.instructions import KINDS, Kind, in_warps
from gpudissect.measure.instructions.mixes import steps_between, why_no_mix
from gpudissect.measure.instructions.plan_rate import instruction_rate_of, rate_of
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.throughput.bound import said
from gpudissect.workload import Mix
from gpudissect.workload.digest import digest

SHARE = 0.95
"""Of the plateau. VV16 (s6.1) says "within a small threshold" and means more than the 92 % of 24 warps, where it lists
32; it looks at whole warps of each scheduler only, so what it lists may be rounded up."""
NEARLY_ALL = 0.99
"""More than so much is what 32 warps give where VV16 (s6.1) lists them: told beside it. It is not the value, for there
the rate grows little with warps and is known to about as much."""
SHARE_OF_MEMORY = 0.90  # memory saturates slowly (VV16 table 6.3, "at 90% of peak throughput")
CLOSE = 0.03  # of the plateau: rates that come so near to the share decide, and are the medians of several
ANEW = 3  # times that they are measured again
FIRST_ANEW = 16  # repetition: those before belong to the rate


def warps_needed_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """The fewest warps of an SM, with one chain each, that reach a share of the rate."""
    reason = why_no_mix(kind.instruction, bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "warps_needed"))
    rated = known[instruction_rate_of(kind.element)]
    if rated is None or rated.found.value is None or rated.surface.plateau is None:
        reason = "without a plateau nobody knows what has to be reached"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, "warps_needed"))
    surface, share = rated.surface, SHARE if kind.resident else SHARE_OF_MEMORY
    looks = {
        int(warps): [each.rate]
        for warps, chains, each in zip(*surface.columns.values(), surface.first, strict=True) if chains == 1
    }  # fmt: skip
    top = float(np.median([surface.first[i].rate for i in rated.surface.plateau.members]))  # loops and all, as all
    evidence = surface.evidence
    while True:  # what is measured anew may move the answer, and with it what is still to be tried
        typical = {warps: float(np.median(rates)) for warps, rates in looks.items()}
        reached = needed(typical, top, share)
        untried = _untried(reached.warps, looks, bench)
        close = [warps for warps, rates in looks.items()
                 if abs(typical[warps] / top - share) <= CLOSE and len(rates) == 1]  # fmt: skip
        if not untried and not close:
            break
        first = yield from _alone(kind, rated.pattern, untried, range(FIRST_ANEW, FIRST_ANEW + 1), bench)
        again = yield from _alone(kind, rated.pattern, close, range(FIRST_ANEW + 1, FIRST_ANEW + 1 + ANEW), bench)
        for warps, rate in (*first.rates, *again.rates):
            looks.setdefault(warps, []).append(rate)
        evidence += (*first.evidence, *again.evidence)
    return Outcome((_found(kind, share, reached, typical, top, evidence),))


def _untried(warps: int | None, tried: Iterable[int], bench: Bench) -> list[int]:
    """Numbers of warps below what seems to be the answer, down to the next one tried."""
    if warps is None:
        return []
    return steps_between(max((count for count in tried if count < warps), default=0), warps, bench.info)


@dataclass(frozen=True)
class Looks:
    """Numbers of warps and the rate that each gave, and of which workloads."""

    rates: tuple[tuple[int, float], ...]
    evidence: tuple[str, ...]


def _alone(kind: Kind, pattern: Mix, counts: Iterable[int], repetitions: Iterable[int], bench: Bench) -> Ask[Looks]:
    """Rates of so many warps with one chain each, each repetition once."""
    mixes = [(warps, replace(in_warps(pattern, warps, 1, bench.info), repetition=repetition))
             for warps in counts for repetition in repetitions]  # fmt: skip
    traces = yield [mix for _, mix in mixes]
    rates = tuple((warps, rate_of(kind, mix, trace).rate) for (warps, mix), trace in zip(mixes, traces, strict=True))
    return Looks(rates, tuple(digest(mix) for _, mix in mixes))


def _found(
    kind: Kind, share: float, reached: Needed, alone: Mapping[int, float], plateau: float, evidence: tuple[str, ...]
) -> Estimate:  # fmt: skip
    most = max(alone)
    method = f"fewest warps of one chain each whose rate is {share:.0%} of the plateau, loops and all"
    if reached.high is None and reached.best >= share - STEP:
        reason = (f"{reached.nearest} warps with one chain each give {reached.best:.1%} of "
                  f"{said(plateau, 'ops/cycle')}, not to be told from {share:.0%}, and nothing gives more")  # fmt: skip
        return Estimate(element=kind.element, attribute="warps_needed", status=Status.NOT_FOUND, low=reached.low,
                        reason=reason, method=method, evidence=evidence)  # fmt: skip
    if reached.warps is None:
        reason = (f"of up to {most} warps with one chain each {reached.nearest} come nearest, with {reached.best:.0%} "
                  f"of {said(plateau, 'ops/cycle')}: it takes more than one chain a warp")  # fmt: skip
        return Estimate(element=kind.element, attribute="warps_needed", status=Status.NOT_FOUND, low=most,
                        reason=reason, method=method, evidence=evidence)  # fmt: skip
    caveats = (_of_nearly_all(reached.warps, alone, plateau),) if kind.resident else ()
    return Estimate(
        element=kind.element, attribute="warps_needed", status=Status.FOUND, value=reached.warps,
        low=reached.low, high=reached.high if reached.high is not None else most, confidence=WARPS, method=method,
        evidence=evidence, caveats=caveats,
    )  # fmt: skip


def _of_nearly_all(fewest: int, alone: Mapping[int, float], plateau: float) -> str:
    """What it takes for a little more, of the numbers of warps that were tried."""
    whole = needed(alone, plateau, NEARLY_ALL)
    if whole.warps is None:
        return (f"no number of warps with one chain each gives {NEARLY_ALL:.0%} of the plateau, {whole.nearest} "
                f"{whole.best:.1%}")  # fmt: skip
    if whole.warps == fewest:
        return f"these give {NEARLY_ALL:.0%}, too"
    below = max((count for count in alone if count < whole.warps), default=0)
    return f"{NEARLY_ALL:.0%} takes {whole.warps} (of those tried; {below} give {alone.get(below, 0.0) / plateau:.1%})"


EXPERIMENTS = tuple(
    Experiment(
        key=Key(f"warps.{kind.element}"),
        element=kind.element,
        plan=partial(warps_needed_plan, kind),
        emits=("warps_needed",),
        needs=(instruction_rate_of(kind.element),),
    )
    for kind in KINDS
)
