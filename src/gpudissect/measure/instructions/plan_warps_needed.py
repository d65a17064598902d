"""How many warps an SM needs to come near the rate of an instruction, with one chain each (VV16 table 6.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import WARPS
from gpudissect.measure.instructions.infer_issue import SHARE_ERROR, WarpsNeeded, warps_needed
from gpudissect.measure.instructions.instructions import KINDS, Kind, block_size_of, in_warps, why_unsupported
from gpudissect.measure.instructions.plan_rate import instruction_rate_of, rate_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.throughput.rate_estimates import format_rate
from gpudissect.workload.digest import digest

SHARE = 0.95
"""Of the plateau. VV16 (s6.1) says "within a small threshold" and means more than the 92 % of 24 warps, where it lists
32; it considers whole warps per scheduler only, so that its numbers may be rounded up."""
NEARLY_ALL = 0.99
"""Share that 32 warps exceed where VV16 (s6.1) lists them, reported as a caveat. It is not the value: near it the rate
grows little with warps, by about its own error."""
MEMORY_SHARE = 0.90  # memory saturates slowly (VV16 table 6.3, "at 90% of peak throughput")
CLOSE = 0.03  # of the plateau: rates this close to the share are decisive, and are medians of several
REPETITIONS = 3  # of decisive rates
FIRST_REPETITION = 16  # smaller numbers belong to the rate


def warps_needed_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """The minimum number of warps of an SM, with one chain each, that reach a share of the rate."""
    reason = why_unsupported(kind.instruction, bench.info)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "warps_needed"))
    rate = known[instruction_rate_of(kind.element)]
    best = None if rate is None else rate.surface.plateau
    if rate is None or rate.estimate.value is None or best is None:
        reason = "the rate has no plateau of which a share could be reached"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, "warps_needed"))
    surface, share = rate.surface, SHARE if kind.resident else MEMORY_SHARE
    columns = zip(surface.columns["warps"], surface.columns["chains"], surface.first, strict=True)
    samples = {int(warps): [first.rate] for warps, chains, first in columns if chains == 1}
    # Rates with one chain include the cost of loops, and so does this plateau.
    plateau = float(np.median([surface.first[i].rate for i in best.members]))
    evidence = surface.evidence
    while True:  # further samples may change the answer, and with it what is still to be measured
        rates = {warps: float(np.median(sampled)) for warps, sampled in samples.items()}
        needed = warps_needed(rates, plateau, share)
        runs = [(warps, FIRST_REPETITION) for warps in _unmeasured(needed.warps, samples, bench)]
        close = [n for n, sampled in samples.items() if abs(rates[n] / plateau - share) <= CLOSE and len(sampled) == 1]
        runs += [(warps, FIRST_REPETITION + 1 + n) for warps in close for n in range(REPETITIONS)]
        if not runs:
            break
        mixes = [replace(in_warps(rate.pattern, warps, 1, bench.info), repetition=n) for warps, n in runs]
        traces = yield mixes
        for (warps, _), mix, trace in zip(runs, mixes, traces, strict=True):
            samples.setdefault(warps, []).append(rate_of(kind, mix, trace).rate)
        evidence += tuple(map(digest, mixes))
    return Outcome((_estimate(kind, share, needed, rates, plateau, evidence),))


def _unmeasured(warps: int | None, measured: Iterable[int], bench: Bench) -> list[int]:
    """Possible numbers of warps between the present answer and the next smaller one measured."""
    if warps is None:
        return []
    below = max((count for count in measured if count < warps), default=0)
    return [count for count in range(below + 1, warps) if block_size_of(count, bench.info)]


def _estimate(
    kind: Kind, share: float, needed: WarpsNeeded, rates: Mapping[int, float], plateau: float, evidence: tuple[str, ...]
) -> Estimate:
    element, peak, largest = kind.element, format_rate(plateau, "ops/cycle"), max(rates)
    method = f"minimum number of warps of one chain each at {share:.0%} of the plateau, cost of loops included"
    indistinguishable = needed.high is None and needed.best >= share - SHARE_ERROR
    if needed.warps is not None and not indistinguishable:
        high = needed.high if needed.high is not None else largest
        caveats = (_nearly_all(needed.warps, rates, plateau),) if kind.resident else ()
        return found(element, "warps_needed", needed.warps, needed.low, high, WARPS, method, evidence, caveats)
    reason = f"{needed.nearest} warps of one chain each reach {needed.best:.1%} of {peak}, "
    if indistinguishable:
        reason += f"indistinguishable from the {share:.0%} target, and no number reaches more"
    else:
        reason += f"and no number up to {largest} more: it takes more than one chain a warp"
    (estimate,) = without(Status.NOT_FOUND, element, reason, "warps_needed")
    return replace(estimate, low=needed.low if indistinguishable else largest, method=method, evidence=evidence)


def _nearly_all(warps: int, rates: Mapping[int, float], plateau: float) -> str:
    """How many of the measured warps reach `NEARLY_ALL`."""
    needed = warps_needed(rates, plateau, NEARLY_ALL)
    if needed.warps is None:
        return f"no number of warps of one chain reaches {NEARLY_ALL:.0%}, {needed.nearest} reach {needed.best:.1%}"
    if needed.warps == warps:
        return f"they reach {NEARLY_ALL:.0%}, too"
    below = max((count for count in rates if count < needed.warps), default=0)
    share = rates.get(below, 0.0) / plateau
    return f"{NEARLY_ALL:.0%} takes {needed.warps} (of those measured; {below} reach {share:.1%})"


EXPERIMENTS = tuple(
    Experiment(
        Key(f"warps.{kind.element}"),
        partial(warps_needed_plan, kind),
        ("warps_needed",),
        needs=(instruction_rate_of(kind.element),),
    )
    for kind in KINDS
)
