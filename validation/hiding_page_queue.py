"""What a page on latency hiding says of the corner where the refined model is off: warps queue, and what that costs.

The queues are foretold by `gpudissect.models.volkov.Queued`, which has no parameter that the refined model lacks; held
against the same measurements, against those of `hiding_corner.py` if there are any, and against the simulated SM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from hiding_page_figures import CURVES, WARPS, WORST, Drawn, Seen, points_of, worst_alpha
from hiding_page_words import capital, listed
from svg import Line, Panel, Points

from gpudissect.measure.latency_hiding.infer_warps import Lifetimes, attained
from gpudissect.models import by_key
from gpudissect.models.base import Loop, Machine, peak
from gpudissect.models.evaluation import Measurement, best_samples, evaluate
from gpudissect.models.volkov import visit_rate
from gpudissect.simulation.sm.description import Bandwidth, MemorySystem, Pipe, Processor, SharedMemory
from gpudissect.simulation.sm.engine import Cost, Job, Queue, run

REFINED, QUEUED = by_key("refined"), by_key("queued")
LEAST, MOST = 1.0, 512.0  # alphas that models are judged by (VV16 s7.9)
SHOWN = 8  # occupancies of a table
PLACES = {"all": "all SMs", "one": "one SM, the others idle", "l1": "loads that hit in the L1"}
SERVICES = ((0.001, 0.5), (5.0, 1.0), (5.0, 10.0))  # cycles of a service and variability, for the simulated SM
ITERATIONS = 400
FOLLOWS = 0.03  # relative: rates that are as near to one another are alike
ALIKE = 0.8  # share of a loss from which on another is no smaller


def samples(seen: Seen) -> list[Measurement]:
    """All that models are judged by."""
    points = points_of(seen.series[CURVES])
    alphas = [alpha for alpha in sorted(set(points[:, 0])) if LEAST <= alpha <= MOST]
    return [Measurement(Loop(alpha=float(alpha), access=seen.kind), *points[points[:, 0] == alpha][:, 1:3].T)
            for alpha in alphas]  # fmt: skip


def _at(machine: Machine, seen: Seen, alpha: float) -> Measurement:
    (found,) = [each for each in samples(seen) if each.loop.alpha == alpha]
    return best_samples(found, machine.schedulers)


def figures(machine: Machine, kinds: Sequence[Seen]) -> Iterator[Drawn]:
    """Measured and foretold, at the alpha at which the refined model is farthest off."""
    panels = []
    for seen in kinds:
        if WORST not in seen.series or not samples(seen):
            continue
        best = _at(machine, seen, worst_alpha(seen, "refined")[1])
        n = np.arange(machine.schedulers, machine.warps + 1, machine.schedulers, dtype=float)
        lines = [Line(label, n, model.throughput(machine, best.loop, n), look) for model, label, look in
                 ((REFINED, "refined model", "dashed"), (QUEUED, "with queues", "thick"))]  # fmt: skip
        title = f"{seen.title}, alpha = {best.loop.alpha:g}"
        panels.append(Panel(title, WARPS, "instructions a cycle of an SM",
                            (*lines, Points("measured", best.warps, best.rate))))  # fmt: skip
    if panels:
        yield Drawn("queues", "where warps queue", tuple(panels))


def queues(machine: Machine, kinds: Sequence[Seen], shown: Mapping[str, str], corner: Path | None) -> Iterator[str]:
    """The section. `corner`: what `hiding_corner.py` measured."""
    having = [seen for seen in kinds if WORST in seen.series and samples(seen)]
    if not having:
        return
    yield from ("", "### Warps queue for the adders: foretold without a parameter", "")
    yield "VV16's bounds take the smaller of two, as if a warp that comes back from memory could always go on at once."
    yield "But the warps of a scheduler come back at random: now more of them are adding than it can serve, and each"
    yield "waits for its turn; now fewer, and issue slots are lost for good. What that costs is known in closed form:"
    yield "it is the machine repairman, a closed network of two stations (Scherr 1967), whose throughput depends on"
    yield "mean times alone (Baskett, Chandy, Muntz and Palacios 1975). `gpudissect.models.volkov` is the refined model"
    yield "with this in place of the smaller of the two, and no other parameter."
    yield from ("", "| kind | refined, most over | at alpha, warps | with queues, there | with queues, most over "
                "| at alpha, warps | most under |", "|---|---|---|---|---|---|---|")  # fmt: skip
    for seen in having:
        yield _row(machine, seen)
    for seen in having[:1]:
        yield from _by_warps(machine, seen)
    yield from ("", shown["queues"]) if "queues" in shown else ()
    if corner is not None:
        yield from _apart(machine, having[0], json.loads(corner.read_text()), corner.name)
    if any(seen.kind in machine.contention for seen in having):
        yield from _simulated(machine, having[0])


def _row(machine: Machine, seen: Seen) -> str:
    every = samples(seen)
    refined, queued = evaluate(REFINED, machine, every), evaluate(QUEUED, machine, every)
    alpha, warps = refined.over.alpha, refined.over.warps
    best = _at(machine, seen, alpha)
    there = float(QUEUED.throughput(machine, best.loop, warps)) / float(best.rate[best.warps == warps][0])
    over, under = queued.over, queued.under
    return (f"| {seen.title} | {refined.over.value:.3f} | {alpha:g}, {warps:g} | {there:.3f} | {over.value:.3f} | "
            f"{over.alpha:g}, {over.warps:g} | {under.value:.3f} |")  # fmt: skip


def _by_warps(machine: Machine, seen: Seen) -> Iterator[str]:
    best = _at(machine, seen, worst_alpha(seen, "refined")[1])
    loop, top = best.loop, peak(machine, best.loop)
    near = np.flatnonzero(best.warps >= 0.4 * worst_alpha(seen, "refined")[2])
    rows = near[np.unique(np.linspace(0, near.size - 1, SHOWN).round().astype(int))]
    yield from ("", f"{capital(seen.title)} at alpha {loop.alpha:g}, share of the peak:", "")
    yield "| warps | " + " | ".join(f"{best.warps[i]:g}" for i in rows) + " |"
    yield "|---" * (rows.size + 1) + "|"
    for label, rates in (("measured", best.rate), ("refined", REFINED.throughput(machine, loop, best.warps)),
                         ("with queues", QUEUED.throughput(machine, loop, best.warps))):  # fmt: skip
        yield f"| {label} | " + " | ".join(f"{rates[i] / top:.3f}" for i in rows) + " |"
    full = best.rate[-1] / top
    alone = points_of(seen.series[CURVES])
    adds = alone[np.isinf(alone[:, 0]) & (alone[:, 1] == best.warps[-1]), 2]
    if full < 1 - FOLLOWS / 2 and adds.size:
        yield ""
        yield (f"Queues have no part in what is missing where warps are many: with {best.warps[-1]:g} of them "
               f"{1 - full:.1%} of the peak are lost, {max(0.0, 1 - adds.max() / top):.1%} with additions alone. The "
               f"rest, {top * (loop.alpha + 1) * (1 / best.rate[-1] - 1 / adds.max()):.1f} issue slots of a scheduler "
               f"for each load, is not explained here but for the loop's own instructions, 3 or 4 a turn.")  # fmt: skip


def _apart(machine: Machine, seen: Seen, told: Mapping[str, Any], name: str) -> Iterator[str]:
    """What is left of the loss where there is no load on memory, or no memory at all; who goes first."""
    yield from ("", "### The same apart from all else", "")
    yield f"Measured by `validation/hiding_corner.py` in a run of its own ([data]({name})), instructions a cycle of one"
    yield "SM. For each the time of a load follows from the fewest warps; *bounds* is the smaller of the two bounds"
    yield "over what was measured, *queues* the same with queues, both with the peak that additions alone have there."
    rates: dict[tuple[str, int], dict[int, float]] = {}
    for each in told["rates"]:
        rates.setdefault((each["where"], each["alpha"]), {})[each["warps"]] = each["rate"]
    adds = {alpha: own for (where, alpha), own in rates.items() if where == "adds"}
    top = float(np.median([rate for own in adds.values() for rate in own.values()]))
    yield from ("", "| | alpha | load, cycles | warps | measured | bounds | queues | most warps |",
                "|---|---|---|---|---|---|---|---|")  # fmt: skip
    lost: dict[str, float] = {}
    for (where, alpha), own in rates.items():
        if where in PLACES:
            row, bounds, _ = _apart_row(machine, PLACES[where], alpha, own, top)
            lost[where] = max(bounds - 1, lost.get(where, 0.0))
            yield row
    yield from _otherwise(machine, seen, rates, top)
    yield ""
    if lost.get("one", 0.0) > ALIKE * lost.get("all", inf):
        yield "- One SM alone loses about as much as all together: it is not that others load the memory."
    if lost.get("l1", 0.0) > ALIKE * lost.get("all", inf):
        yield "- Loads that hit in the L1, always after the same time, lose no less: it is not the memory at all."
    many = {each["warps"]: each["rate"] for each in told["rates"] if each["where"] == "rounds"}
    if many and (few := rates.get(("all", told["rates"][0]["alpha"]), {})):
        by = [f"{rate:.3f} in place of {few[warps]:.3f} with {warps} warps" for warps, rate in many.items()]
        more = [f"{rate / few[warps] - 1:+.1%}" for warps, rate in many.items()]
        yield (f"- In four times as many rounds of blocks as elsewhere it is {listed(by)} ({listed(more)}): "
               + ("how runs begin and end is no part of it." if max(rate / few[warps] for warps, rate in many.items())
                  <= 1 else "by so much at most how runs begin and end is part of it."))  # fmt: skip
    loaded, alone = _unequal(machine, told, False), _unequal(machine, told, True)
    if loaded is not None and loaded < FOLLOWS / 2:
        beside = "" if alone is None else f" (of additions alone, {alone:.1%})"
        yield (f"- Where there are loads, all warps of blocks with one for each scheduler take equally long, within "
               f"{loaded:.1%}{beside}: it is not that schedulers have unequal work.")  # fmt: skip
    medians = {alpha: float(np.median(list(own.values()))) for alpha, own in sorted(adds.items())}
    if medians and max(medians.values()) < (1 + FOLLOWS / 2) * min(medians.values()):
        lengths = [f"{rate:.3f} with {alpha}" for alpha, rate in medians.items()]
        yield (f"- Additions alone reach {listed(lengths)} instructions in the body: it is not how instructions are "
               f"fetched.")  # fmt: skip
    yield from _who_first(told)


def _otherwise(
    machine: Machine, seen: Seen, rates: Mapping[tuple[str, int], Mapping[int, float]], top: float
) -> Iterator[str]:  # fmt: skip
    """Where this run and the one that the page is of measured the same mix, and not the same rate."""
    measured = {each.loop.alpha: each for each in samples(seen)}
    for (where, alpha), own in rates.items():
        if where != "all" or alpha not in measured:
            continue
        best = best_samples(measured[alpha], machine.schedulers)
        there = {int(warps): float(rate) for warps, rate in zip(best.warps, best.rate, strict=True) if warps in own}
        apart = {warps: own[warps] / rate - 1 for warps, rate in there.items()}
        if not apart or max(map(abs, apart.values())) <= FOLLOWS:
            continue
        shown = sorted({min(there), _apart_row(machine, where, alpha, own, top)[2]} & set(there))
        rows = [f"{own[warps]:.3f} in place of {there[warps]:.3f} with {warps} warps" for warps in shown]
        cycles = [min(there) * (alpha + 1) / each[min(there)] - alpha * machine.unit("fadd").latency
                  for each in (own, there)]  # fmt: skip
        yield ""
        yield (f"All SMs at alpha {alpha:g} are the mix of the table above, in another run, and it was another rate: "
               f"{listed(rows)}; with the fewest warps a load took {cycles[0]:.0f} cycles in place of {cycles[1]:.0f}. "
               f"Why is not known, so only quotients within a row compare.")  # fmt: skip


def _unequal(machine: Machine, told: Mapping[str, Any], alone: bool) -> float | None:
    """By how much warps of a block took more or less than their mean, of additions alone or of all else."""
    apart = [abs(share - 1) for each in told["ends"] if (each["what"] == "additions alone") is alone
             for share in each.get("places", ()) if len(each["places"]) == machine.schedulers]  # fmt: skip
    return max(apart, default=None)


def _apart_row(
    machine: Machine, where: str, alpha: int, own: Mapping[int, float], top: float
) -> tuple[str, float, int]:  # fmt: skip
    """A row of the table; the bounds over what was measured where that is worst, and with how many warps."""
    fewest = min(own)
    adding = alpha * machine.unit("fadd").latency
    waiting = fewest * (alpha + 1) / own[fewest] - adding

    def ratios(warps: int) -> tuple[float, float]:
        bound = min(top, warps * (alpha + 1) / (waiting + adding))
        each = top / machine.schedulers / (alpha + 1) * adding
        turns = visit_rate(np.array([warps // machine.schedulers]), adding, each, np.array([waiting]), np.array([inf]))
        return bound / own[warps], machine.schedulers * (alpha + 1) * float(turns[0]) / own[warps]

    worst = max((warps for warps in own if warps % machine.schedulers == 0), key=lambda warps: ratios(warps)[0])
    bounds, queued = ratios(worst)
    row = (f"| {where} | {alpha} | {waiting:.0f} | {worst} | {own[worst]:.3f} | {bounds:.3f} | {queued:.3f} | "
           f"{max(own)}: {own[max(own)]:.3f} |")  # fmt: skip
    return row, bounds, worst


def _who_first(told: Mapping[str, Any]) -> Iterator[str]:
    """In which order blocks of one SM end that began together."""
    yield from (
        "",
        "Blocks of one SM that begin together, when each ends (share of the longest, oldest block first):",
        "",
    )
    for each in told["ends"]:
        yield f"- {each['what']}, {each['warps']} warps: " + ", ".join(f"{share:.2f}" for share in each["shares"])
    alone = told["ends"][0]["shares"]
    if alone[0] < 0.5 * max(alone):
        yield ""
        yield "So its schedulers prefer the oldest block that can go on: with additions alone those that began first"
        yield "take all they can use, the others wait until they have ended. Under such a rule the youngest warps bear"
        yield "the waiting, and end last; what all of them attain together hardly depends on it."
        yield '(`scheduling = "oldest"` in a GPU file makes blocks of the simulated GPU end alike; but rates of'
        yield "instructions, measured on it as on the real one, are then up to 8 % too low: the files of Hopper do not"
        yield "say it.)"


def _simulated(machine: Machine, seen: Seen) -> Iterator[str]:
    """The same loop on the simulated SM, which was told of no such loss; latencies that vary more and less."""
    alpha = round(worst_alpha(seen, "refined")[1])
    base, adding = machine.contention[seen.kind].base, round(machine.unit("fadd").latency)
    warps = [n * machine.schedulers for n in range(4, machine.warps // machine.schedulers + 1, 2)]
    yield from ("", "### The same on the simulated SM", "")
    yield f"Alpha {alpha}, loads of {base:.0f} cycles, {machine.schedulers} schedulers that take turns, additions of"
    yield f"{adding} cycles, every cycle simulated. *bounds*, *queues*: as above, most over all occupancies, with the"
    yield "mean latency that the loads then had."
    yield from (
        "",
        "| latency, standard deviation | bounds, most over | at warps | queues, there |",
        "|---|---|---|---|",
    )
    for service, variability in SERVICES:
        rows = []
        for n in warps:
            rate, mean, spread = _simulate(machine.schedulers, n, alpha, base, adding, service, variability)
            most = float(machine.schedulers)
            bound = min(most, n * (alpha + 1) / (mean + alpha * adding))
            turns = visit_rate(np.array([n // machine.schedulers]), alpha * adding, adding * alpha / (alpha + 1),
                           np.array([mean]), np.array([inf]))  # fmt: skip
            rows.append((bound / rate, n, most * (alpha + 1) * float(turns[0]) / rate, spread))
        over, n, queued, spread = max(rows)
        yield f"| {spread:.0f} cycles | {over:.3f} | {n} | {queued:.3f} |"
    yield ""
    yield "Nobody told the simulation of such a loss, and it has it. If latency does not vary at all, warps stay in"
    yield "step as they began, and bunch: the loss is then larger than of random arrivals, and at other occupancies."


def _simulate(
    schedulers: int, warps: int, alpha: int, latency: float, adding: int, service: float, variability: float
) -> tuple[float, float, float]:  # fmt: skip
    """Instructions a cycle, and mean and standard deviation of a load's latency, cycles."""
    processor = Processor(sms=1, clock_hz=1e9, schedulers=schedulers, warps=warps, operations={}, shared=SharedMemory(),
                          memory=MemorySystem(latency=1.0), dram=Bandwidth(1.0, 1.0, 1.0))  # fmt: skip
    load = Cost(Pipe.MEMORY, 1.0, latency, queue=Queue("memory", service, variability))
    add = Cost(Pipe.CORE, 1.0, adding, core=True)
    done = run(processor, Job((load, *[add] * alpha), warps, 1, ITERATIONS, sampled=1), seed=1)
    seen = Lifetimes(done.begin, done.end, np.zeros(done.begin.size, np.int64))
    cycles = np.arange(done.samples.size)
    mean = float(np.average(cycles, weights=done.samples))
    spread = float(np.sqrt(np.average((cycles - mean) ** 2, weights=done.samples)))
    return attained(seen, ITERATIONS * (alpha + 1)), mean, spread
