"""How several runs of latency hiding on the same GPU agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from hiding_page_figures import CURVES, WORST, Seen, kinds_of, points_of, worst_alpha
from hiding_page_models import OWN

from gpudissect.estimate import Status
from gpudissect.results.model import Result
from gpudissect.results.text import quantity


def agreement(results: Sequence[Result]) -> Iterator[str]:
    if len(results) < 2:
        return
    yield from ("", f"## How {len(results)} runs agree", "")
    yield "*spread*: largest less smallest, over the smallest."
    yield from ("", "| kind | attribute | runs | spread |", "|---|---|---|---|")
    told = [{(each.element, each.attribute): each for each in result.findings} for result in results]
    for seen in kinds_of(results[0]):
        for first in results[0].findings:
            own = [known.get((first.element, first.attribute)) for known in told]
            if first.element != seen.element or all(each is None or each.status is not Status.FOUND for each in own):
                continue
            cells = ["" if each is None else quantity(each.value, each.unit) or each.status.value.replace("_", " ")
                     for each in own]  # fmt: skip
            values = [each.value for each in own if each is not None and isinstance(each.value, int | float)]
            spread = f"{max(values) / min(values) - 1:.1%}" if len(values) == len(own) and min(values) > 0 else ""
            yield f"| {seen.title} | {first.attribute} | {', '.join(cells)} | {spread} |"
        curves = [{each.element: each for each in kinds_of(result)}.get(seen.element) for result in results]
        near = _points_agree([each for each in curves if each is not None])
        yield from ([f"| {seen.title} | throughput, every point | {near} |"] if near else [])
    yield from _models_agree(results)


def _points_agree(runs: Sequence[Seen]) -> str:
    """How far throughputs of the same alpha and warps are apart: median and most."""
    best: list[dict[tuple[float, float], float]] = []
    for seen in runs:
        own: dict[tuple[float, float], float] = {}
        for alpha, warps, rate, _ in points_of(seen.series[CURVES]):
            own[alpha, warps] = max(own.get((alpha, warps), 0.0), rate)
        best.append(own)
    shared = set.intersection(*(set(each) for each in best)) if len(best) > 1 else set()
    if not shared:
        return ""
    apart = {at: max(each[at] for each in best) / min(each[at] for each in best) - 1 for at in sorted(shared)}
    worst = max(apart, key=lambda at: apart[at])
    return (f"median {float(np.median(list(apart.values()))):.1%} apart, most at alpha {worst[0]:g} with "
            f"{worst[1]:g} warps | {apart[worst]:.1%}")  # fmt: skip


def _models_agree(results: Sequence[Result]) -> Iterator[str]:
    """The worst over-estimates of VV16's models, run by run."""
    for seen in kinds_of(results[0]):
        runs = [{each.element: each for each in kinds_of(result)}.get(seen.element) for result in results]
        if any(each is None or WORST not in each.series for each in runs):
            continue
        for key in OWN:
            if any(each is None or key not in each.series[WORST].columns["model"] for each in runs):
                continue  # a result that is older than the model
            found = [worst_alpha(each, key)[0] for each in runs if each is not None]
            told = ", ".join(f"{each:.3f}" for each in found)
            yield f"| {seen.title} | most that the {key} model is over | {told} | {max(found) / min(found) - 1:.1%} |"
