"""Parts of the pages about one GPU's result: what is remarkable, the summary, and tables of the findings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

from gpudissect.exports import export
from gpudissect.printable import clean
from gpudissect.results.files import load
from gpudissect.results.folded import folded
from gpudissect.results.model import Finding, Result
from gpudissect.results.scope import WARPS_SHARE, warps_share
from gpudissect.results.summary import Level, summarize
from gpudissect.results.text import published_words, words
from gpudissect.results.verdict import Verdict
from gpudissect.views.page.result import result_page as report
from gpudissect.vocabulary import INSTRUCTIONS

RESULTS = Path(__file__).parents[1] / "results"
GPUS = ("h200", "h100")
CACHE_COLUMNS = ("capacity", "line_size", "fetch_granularity", "sets", "ways", "replacement_policy", "hit_latency")
INSTRUCTION_COLUMNS = ("latency", "rate", "warps_needed")
WARPS_HEAD = f"warps for {WARPS_SHARE:.0%} of peak"
DETAILS = {"index_function", "max_miss_rate", "latency_by_sm", "partition_by_sm"}  # long, or of little use in a table
ADDRESS_BIT = re.compile(r"\d+")
NAME = re.compile(r"\[(\w+\.\w+)\]")
DISCOVERIES = Path(__file__).parent / "discoveries.md"
"""Paragraphs with names of findings in brackets; one whose findings have no value is left out."""


@cache
def result_of(gpu: str) -> Result:
    """The result file of a GPU that has a page."""
    return load(RESULTS / f"{gpu}.json")


def files() -> Iterator[tuple[str, str]]:
    """All findings of each GPU as CSV, and its report: path on the site and text."""
    for gpu in GPUS:
        text = export(result_of(gpu), "csv")
        yield f"results/{gpu}.csv", text if isinstance(text, str) else text.decode()
        yield f"results/{gpu}-report.html", report(result_of(gpu))


def conditions(gpu: str) -> str:
    """Where and how the result was measured."""
    result = result_of(gpu)
    clock = result.conditions.clock_hz
    facts = (
        clean(result.device.name),
        f"measured on {result.provenance.time[:10]}" if result.provenance.time else "",
        f"{result.device.sm_count} SMs",
        *(f"{name} {result.environment[key]}" for name, key in (("driver", "driver"), ("CUDA", "cuda_driver"))),
        f"SM clock {clock / 1e6:.0f} MHz" if clock else "",
        f"{result.workloads:,} workloads in {result.seconds:.0f} s",
    )
    text = f"{', '.join(clean(str(fact)) for fact in facts if fact)}."
    links = f"[Report with plots]({gpu}-report.html), [result file]({gpu}.json), [all findings as CSV]({gpu}.csv)"
    return f"{text} {links}."


def summary(gpu: str) -> str:
    """The levels, the TLBs and the warps needed, as tables."""
    short = summarize(result_of(gpu))
    heads = ("level", "size", "line", "sets x ways", "latency", "bandwidth", "published")
    tlbs = [
        (each.name, *map(_text, (each.entries, each.page_size, each.reach, each.miss_penalty))) for each in short.tlbs
    ]
    parts = [table(heads, (_level_cells(each) for each in short.levels))]
    parts += [table(("TLB", "entries", "page", "reach", "a miss adds"), tlbs)] if tlbs else []
    parts += [f"Warps per SM {short.warps_needed}."] if short.warps else []
    parts += [f'"Published" refers to the catalogue entry `{short.reference}`.'] if short.reference else []
    return "\n\n".join(parts)


def _level_cells(level: Level) -> tuple[str, ...]:
    latency = folded(level.latency) if level.latency else ""
    if level.latency and level.latency.value_ns and latency:
        latency += f", {level.latency.value_ns:.0f} ns"
    if level.far_latency:
        latency += f"; far {folded(level.far_latency)}"
    sets, ways = _text(level.sets), _text(level.ways)
    shape = f"{sets} x {ways}" if sets and ways else ""
    bandwidth = _text(level.bandwidth).replace("/cycle", "/cycle/SM")
    return level.name, _text(level.size), _text(level.line), shape, latency, bandwidth, level.agreement


def _text(finding: Finding | None) -> str:
    return folded(finding) if finding is not None else ""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(
        [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    )


def findings(gpu: str) -> str:
    """Caches, instructions, then all other findings with a value; then what has none."""
    result = result_of(gpu)
    known = {element: list(group) for element, group in groupby(result.findings, key=lambda each: each.element)}
    caches = [element for element, group in known.items() if {"line_size"} <= {each.attribute for each in group}]
    instructions = [element for element in known if element in INSTRUCTIONS]
    parts = ["### Caches", _grid(known, caches, CACHE_COLUMNS), "### Instructions"]
    parts += [_grid(known, instructions, INSTRUCTION_COLUMNS), "### Other findings"]
    tabulated = {(element, column) for element in caches for column in CACHE_COLUMNS}
    tabulated |= {(element, column) for element in instructions for column in INSTRUCTION_COLUMNS}
    others = [each for each in result.findings if each.attribute not in DETAILS]
    others = [each for each in others if (each.element, each.attribute) not in tabulated and each.status.has_value]
    rows = []
    for element, group in groupby(others, key=lambda each: each.element):
        values = "; ".join(f"{_label(each)} {folded(each)}" for each in group)
        rows.append((f"`{element}`", values))
    parts += [table(("element", "values"), rows), "### Different from what is published"]
    parts += [table(("finding", "measured", "published", "source"), _differences(result)), "### Without a value"]
    parts.append("\n".join(f"- {line}" for line in _missing(result)))
    return "\n\n".join(parts)


def _grid(known: dict[str, list[Finding]], elements: Sequence[str], columns: Sequence[str]) -> str:
    rows = []
    for element in elements:
        found = {each.attribute: each for each in known[element]}
        cells = (_cell(found.get(column)) for column in columns)
        rows.append((f"`{element}`", *cells))
    heads = [WARPS_HEAD if column == "warps_needed" else words(column) for column in columns]
    return table(("element", *heads), rows)


def _label(finding: Finding) -> str:
    """The attribute in words, with the share of the peak that warps are needed for."""
    needed = finding.attribute == "warps_needed"
    return f"warps for {warps_share(finding.element)} of peak" if needed else words(finding.attribute)


def _cell(finding: Finding | None) -> str:
    return "" if finding is None else folded(finding) or finding.status.value


def _differences(result: Result) -> Iterator[tuple[str, ...]]:
    for each in result.findings:
        known = each.published
        if known is not None and known.verdict is Verdict.DIFFERS:
            text = published_words(known.value, known.low, known.high, known.unit)
            yield (
                f"`{each.element}` {words(each.attribute)}",
                folded(each),
                text.replace(" .. ", "-"),
                clean(known.source),
            )


def _missing(result: Result) -> Iterator[str]:
    """Findings without a value by their reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for each in result.findings:
        if not each.status.has_value:
            by_reason.setdefault((each.element, each.reason), []).append(words(each.attribute))
    for (element, reason), attributes in by_reason.items():
        yield f"`{element}` {', '.join(attributes)}: {clean(reason).replace('*', '')}"


def discoveries(gpu: str) -> str:
    """What is remarkable about the GPU, each in a sentence or two, from its result alone."""
    result = result_of(gpu)
    values = {f"{each.element}.{each.attribute}": folded(each) for each in result.findings if folded(each)}
    values |= dict(_derived(result))
    paragraphs = DISCOVERIES.read_text(encoding="utf-8").split("\n\n")
    texts = [" ".join(text.split()) for text in paragraphs if set(NAME.findall(text)) <= set(values)]
    return "\n".join(f"- {NAME.sub(lambda match: values[match[1]], text)}" for text in texts)


def _derived(result: Result) -> Iterator[tuple[str, str]]:
    """Words of `DISCOVERIES` that follow from several findings."""
    found = {(each.element, each.attribute): each for each in result.findings}
    functions = [found.get((element, "index_function")) for element in ("l1", "texture")]
    texts = [str(each.value) for each in functions if each is not None and each.value is not None]
    if len(texts) == 2 and texts[0] != texts[1] and all(text.startswith("xor ") for text in texts):
        rows = [set(map(int, ADDRESS_BIT.findall(row))) for row in texts[0].split()[1:]]
        bits = set().union(*rows)
        yield "hash.rows", str(len(rows))
        yield "hash.inputs", f"{min(map(len, rows))} to {max(map(len, rows))}"
        yield "hash.bits", f"{min(bits)} to {max(bits)}"
    policy, paths = found.get(("l1", "replacement_policy")), result.prediction.paths if result.prediction else ()
    through_l1 = [each for each in paths if each.path in ("global", "readonly", "texture")]
    is_predicted = len(through_l1) == 3 and all(each.agreement == 1 for each in through_l1)
    if policy is not None and policy.value == "last-two-hits" and is_predicted:
        yield "l1.predicted", f"{sum(each.accesses for each in through_l1):,}"
    read, peak = found.get(("dram", "read_bandwidth")), found.get(("dram", "peak_bandwidth"))
    if read and peak and isinstance(read.value, float) and isinstance(peak.value, int | float):
        yield "dram.read_share", f"{read.value / peak.value:.0%}"
    one_sm, gpu = found.get(("mma_f16", "rate")), found.get(("mma_f16", "gpu_rate"))
    if one_sm and gpu and isinstance(one_sm.value, float) and isinstance(gpu.value, float):
        clock = result.conditions.clock_hz or 0.0
        yield "mma.share", f"{gpu.value / (one_sm.value * result.device.sm_count * clock):.0%}"
    second = found.get(("tlb_l2", "reach"))
    if second is not None and not second.status.has_value:
        yield "tlb_l2.missing", clean(second.reason)
    texture = found.get(("texture", "hit_latency"))
    if texture and texture.published and texture.published.verdict is Verdict.DIFFERS:
        known = texture.published
        text = published_words(known.value, known.low, known.high, known.unit)
        yield "texture.published", text.replace(" .. ", "-")
