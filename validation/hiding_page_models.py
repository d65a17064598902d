"""What a page on latency hiding says of models: how far each is off, where, and why the refined one is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from hiding_page_figures import CURVES, WORST, Iteration, Seen, iteration, kinds_of, numbers, points_of, worst_alpha
from hiding_page_queue import samples
from hiding_page_words import capital, figure, listed

from gpudissect.models import by_key
from gpudissect.models.base import Loop, Machine, peak
from gpudissect.models.evaluation import evaluate
from gpudissect.models.volkov import Refined
from gpudissect.results.machine import machine_of
from gpudissect.results.model import Result
from gpudissect.units import WARP_SIZE

OWN = ("basic", "refined", "queued")  # models of VV16 itself, and that with queues; what it evaluates are prior ones
EXPECTED = {"basic": 1.30, "refined": 1.12}  # most that they overestimate by, after VV16 ch 7
SAFELY = 0.01  # relative; most that a model is over differs by as much from one run to the next
LOWER = 0.005  # relative: a peak that is lower by so much was seen lower
NOTICED = 0.02  # of the time of an iteration
KNEE = 0.2  # how near the bounds of latency and throughput are at a knee


def models(
    results: Sequence[Result], machine: Machine, kinds: Sequence[Seen], shown: dict[str, str]
) -> Iterator[str]:  # fmt: skip
    having = [seen for seen in kinds if WORST in seen.series and seen.series[WORST].columns.get("model")]
    if not having:
        return
    yield from ("", "## Models", "")
    yield "Estimate over measurement, worst over alpha 1 to 512 in steps of sqrt 2 and over the occupancies that give"
    yield "each scheduler equally many warps, the best sample of each (VV16 s7.9). Above 1 the estimate is too fast."
    yield "Models have the parameters measured here, and no others."
    for seen in having:
        series = seen.series[WORST]
        yield from ("", f"{capital(seen.title)}. {worst_prior(seen)} {_expected(results, machine, seen)}", "")
        yield "| model | most over | at alpha, warps | most under | at alpha, warps |"
        yield "|---|---|---|---|---|"
        names = ("over", "over_alpha", "over_warps", "under", "under_alpha", "under_warps")
        table = np.stack([numbers(series, name) for name in names], axis=1)
        labels = [str(each) for each in series.columns["name"]]
        for row in np.argsort(np.maximum(table[:, 0], 1 / table[:, 3])):
            over, alpha, warps, under, low_alpha, low_warps = table[row]
            yield (f"| {labels[row]} | {over:.3g} | {alpha:g}, {warps:g} | {under:.3g} | {low_alpha:g}, "
                   f"{low_warps:g} |")  # fmt: skip
    yield from figure(shown, "errors")
    yield from figure(shown, "errors-volkov")


def worst_prior(seen: Seen) -> str:
    """Which prior model is farthest too fast, and which too slow."""
    series = seen.series[WORST]
    keys, names = series.columns["model"], series.columns["name"]
    prior = [row for row, key in enumerate(keys) if key not in OWN]
    over, under = numbers(series, "over"), numbers(series, "under")
    fast, slow = max(prior, key=lambda row: over[row]), min(prior, key=lambda row: under[row])

    def at(row: int, side: str) -> str:
        alpha, warps = (numbers(series, f"{side}_{what}")[row] for what in ("alpha", "warps"))
        return f"at alpha {alpha:g} with {warps:g} warps"

    equal = [str(names[row]) for row in prior if over[row] > 0.999 * over[fast]]
    text = f"Of the prior models {listed(equal)} promise{'s' if len(equal) == 1 else ''} most too much, " \
           f"{over[fast]:.3g} times what is measured {at(fast, 'over')}"  # fmt: skip
    if under[slow] < 1:
        text += f"; {names[slow]} most too little, {under[slow]:.2g} times {at(slow, 'under')}"
    off = max(1 / under[slow], over[fast])
    worst = names[slow] if off > over[fast] else names[fast]
    return text + f". The worst of all is {worst}, wrong by a factor of {off:.3g}."


def _expected(results: Sequence[Result], machine: Machine, seen: Seen) -> str:
    """What VV16's own models are off by; of memory with latency under load, also whether that was to be expected.

    The worst of all runs decides, and what the first would be worst if it had seen as high a peak of additions.
    """
    others = [own for result in results[1:] for own in kinds_of(result)
              if own.element == seen.element and WORST in own.series]  # fmt: skip
    peaks = [machine_of(result).unit("fadd").throughput for result in results]
    higher = max(range(len(peaks)), key=peaks.__getitem__)
    lower = peaks[higher] > (1 + LOWER) * peaks[0]
    parts, again = [], []
    for key, most in EXPECTED.items():
        runs = [worst_alpha(own, key) for own in (seen, *others)]
        values = [over for over, _, _ in runs]
        over, alpha, warps = max(runs)
        each = f"; by run {', '.join(f'{value:.3f}' for value in values)}" if others else ""
        text = f"the {key} model overestimates by at most {over:.3f} (alpha {alpha:g}, {warps:g} warps{each})"
        if lower:
            values.append(_with_peaks_of(machine, machine_of(results[higher]), seen, key))
            again.append(f"{values[-1]:.3f} of the {key} model")
        if seen.kind in machine.contention:
            text += f", {_verdict(values, most)}"
        parts.append(text)
    told = capital("; ".join(parts)) + "."
    if again:
        told += (f" The first run saw a lower peak of additions, {peaks[0] * WARP_SIZE:.1f} ops/cycle where another "
                 f"saw {peaks[higher] * WARP_SIZE:.1f}; with that its own samples give {listed(again)}.")  # fmt: skip
    return told


def _with_peaks_of(machine: Machine, other: Machine, seen: Seen, key: str) -> float:
    """The worst over-estimate, if additions and schedulers are as fast as another run saw them."""
    units = dict(machine.units) | {"fadd": replace(machine.unit("fadd"), throughput=other.unit("fadd").throughput)}
    faster = replace(machine, units=units, issue=max(machine.issue, other.issue))
    return float(evaluate(by_key(key), faster, samples(seen)).over.value)


def _verdict(values: Sequence[float], most: float) -> str:
    """Of the worst over-estimates of several runs, beside what is expected."""
    if max(values) <= (1 - SAFELY) * most:
        return f"within the {most:.2f} that VV16's GPUs let expect"
    if min(values) > most or max(values) > (1 + SAFELY) * most:
        return f"**above** the {most:.2f} that VV16's GPUs let expect"
    return f"at the {most:.2f} that VV16's GPUs let expect, not safely within it"


def why_refined(machine: Machine, kinds: Sequence[Seen], shown: dict[str, str]) -> Iterator[str]:
    having = [seen for seen in kinds if WORST in seen.series and seen.kind in machine.contention]
    if not having:
        return
    yield from ("", "## Where the refined model is off, and why", "")
    yield "Of the time that one access and its additions take in a warp, the refined model knows three parts: the"
    yield "access alone (a), its wait for other loads (b x / (c - x) at the rate measured), and the additions back to"
    yield "back. What is left is neither: a warp that could go on waits for its turn at the schedulers or at the"
    yield "adders."
    for seen in having:
        over, alpha, warps = worst_alpha(seen, "refined")
        found = iteration(machine, seen, alpha)
        k = int(np.argmin(np.abs(found.warps - warps)))
        total, loop = found.measured[k], Loop(alpha=alpha, access=seen.kind)
        rate = found.warps[k] * (alpha + 1) / total
        share = rate / peak(machine, loop)
        bound = float(Refined().latency_bound(machine, loop, found.warps[k])) / peak(machine, loop)
        yield ""
        yield (f"{capital(seen.title)}, worst at alpha {alpha:g} with {warps:g} warps ({over:.3f}): of {total:.0f} "
               f"cycles of an iteration {found.access:.0f} are the access alone, {found.load[k]:.0f} its wait under "
               f"load, {found.adding:.0f} the additions; {found.rest[k]:.0f} ({found.rest[k] / total:.0%}) are "
               f"neither; the peak alone asks for {found.bound[k]:.0f}. {_since(machine, found, alpha)} "
               f"{_cause(machine, loop, rate, share, bound)}")  # fmt: skip
        alone = _alone(seen, int(found.warps[k]))
        if alone is not None:
            yield (f"Additions alone reach {alone:.0%} of their peak with as many warps, so it is not the adders by "
                   f"themselves." if alone > share else
                   f"Additions alone reach only {alone:.0%} of their peak with as many warps.")  # fmt: skip
    yield from figure(shown, "time")


def _since(machine: Machine, found: Iteration, alpha: float) -> str:
    """From how many warps on there is time that no part explains, and how busy schedulers are there."""
    over = np.flatnonzero(found.rest > NOTICED * found.measured)
    if not over.size or over[0] == 0:
        return ""
    k = int(over[0])
    busy = found.warps[k] * (alpha + 1) / found.measured[k] / machine.issue
    return (f"Up to {found.warps[k - 1]:g} warps the parts explain all but {NOTICED:.0%}; with {found.warps[k]:g}, "
            f"where {busy:.0%} of the issue slots are taken, they no longer do.")  # fmt: skip


def _cause(machine: Machine, loop: Loop, rate: float, share: float, bound: float) -> str:
    """What the rest is, by where the bounds are."""
    text = f"There {share:.0%} of the peak is attained"
    busy = rate / machine.issue
    if abs(bound - 1) <= KNEE:
        return (f"{text}, and the two bounds of the model meet (latency allows {bound:.2f} times the peak): at this "
                f"knee it takes the smaller of the two as if neither disturbed the other, but {busy:.0%} of the issue "
                f"slots are taken. The cause is that warps queue there, see below.")  # fmt: skip
    if bound > 1:
        return f"{text}, though latency allows {bound:.2f} times the peak, more than enough."
    return f"{text}, and latency binds ({bound:.2f} of the peak): what was fitted is too short for so few warps."


def _alone(seen: Seen, warps: int) -> float | None:
    """Share of the peak of additions alone, at so many warps."""
    points = points_of(seen.series[CURVES])
    adds = points[np.isinf(points[:, 0])]
    own = adds[adds[:, 1] == warps, 2]
    return float(own.max() / adds[:, 2].max()) if own.size else None
