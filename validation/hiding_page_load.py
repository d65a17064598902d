"""What a page on latency hiding says of latency under load, of means and of single loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hiding_page_figures import HISTOGRAM, SINGLE, Seen, numbers
from hiding_page_words import capital, figure, listed

from gpudissect.estimate import Status
from gpudissect.results.model import Result, Series
from gpudissect.results.text import clean, quantity
from gpudissect.views.terminal.hiding import of_single_loads


def under_load(result: Result, kinds: Sequence[Seen], shown: dict[str, str]) -> Iterator[str]:
    if "under-load" not in shown:
        return
    told = {(each.element, each.attribute): each for each in result.findings}
    yield from ("", "## Latency under load", "")
    yield "Mean latency of a warp's loads at throughput x, and a + b x / (c - x) (VV16 s6.4, table 6.5)."
    yield ""
    for seen in kinds:
        values = [told.get((seen.element, f"contention_{name}")) for name in ("base", "rise", "ceiling")]
        if any(each is None for each in values):
            continue
        if all(each is not None and each.status is Status.FOUND for each in values):
            a, b, c = (quantity(each.value, each.unit) for each in values if each is not None)
            notes = "; ".join(
                dict.fromkeys(clean(text) for each in values if each is not None for text in each.caveats)
            )
            yield f"- {seen.title}: a = {a}, b = {b}, c = {c}{f' ({notes})' if notes else ''}"
        else:
            reason = next((each.reason for each in values if each is not None and each.reason), "")
            yield f"- {seen.title}: no fit; {clean(reason)}"
    yield from figure(shown, "under-load")


def singles(kinds: Sequence[Seen], shown: dict[str, str]) -> Iterator[str]:
    having = [seen for seen in kinds if SINGLE in seen.series]
    if not having:
        return
    yield from ("", "## Single loads", "")
    yield "One warp of each SM times one load in eight (VV16 s6.6, table 6.6); cycles."
    for seen in having:
        series = seen.series[SINGLE]
        percents = [name for name in series.columns if name[0] == "p"]
        heads = {"p0": "least", "p100": "most"} | {name: f"{name[1:]} %" for name in percents[1:-1]}
        yield from ("", f"{capital(seen.title)}:", "")
        yield "| warps | GB/s | samples | mean | " + " | ".join(heads[name] for name in percents) + " |"
        yield "|---" * (4 + len(percents)) + "|"
        columns = [numbers(series, name) for name in ("warps", "throughput", "samples", "mean", *percents)]
        for warps, rate, samples, mean, *rest in zip(*columns, strict=True):
            cells = [
                f"{warps:g}",
                f"{rate / 1e9:.4g}",
                f"{samples:.0f}",
                f"{mean:.4g}",
                *(f"{each:g}" for each in rest),
            ]
            yield "| " + " | ".join(cells) + " |"
        told = list(of_single_loads(seen.series))
        yield from ("", " ".join(told)) if told else ()
        yield from _doubtful(series)
    yield from figure(shown, "percentiles")
    for seen in having:
        if HISTOGRAM in seen.series:
            yield from figure(shown, f"histogram-{seen.kind}")


def _doubtful(series: Series) -> Iterator[str]:
    """Percentiles that cannot be: of nothing, or where the histogram on the device ends."""
    warps, least = numbers(series, "warps"), numbers(series, "p0")
    if {"p95", "p100"} <= set(series.columns):
        full = warps[numbers(series, "p95") == numbers(series, "p100")]
        if full.size:
            yield ""
            yield (f"**Doubtful** at {listed([f'{n:g}' for n in full])} warps: one load in twenty took the longest "
                   f"time that is told apart, so longer ones are among them, and the mean is too small.")  # fmt: skip
    below = warps[least <= 0]
    if below.size:
        yield ""
        yield (f"**Doubtful** at {listed([f'{n:g}' for n in below])} warps: less than no time; what the clock shows of "
               f"no load was longer than a load.")  # fmt: skip
