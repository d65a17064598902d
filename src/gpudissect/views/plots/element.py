"""Every figure of one element: of its findings (sets, lists, the spectrum), then of its series."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpudissect.errors import UsageError
from gpudissect.models.base import Machine
from gpudissect.results.machine import KINDS, machine_of
from gpudissect.results.model import Finding, Result, Series
from gpudissect.results.text import title_of, words
from gpudissect.views.plots.choose import figure_of
from gpudissect.views.plots.figure import Column, Figure, Kind
from gpudissect.views.plots.hiding import figures_of_hiding
from gpudissect.vocabulary import LIST_INDEX

MAX_LIST_LENGTH = 2048
MAP_COLUMNS, MAP_ROWS = 64, 16  # lines of memory in the set map
MAX_ADDRESS_BIT = 63
MAX_FUNCTION_LENGTH = 2000  # characters of an index function
SPECTRUM = ("p1", "p2", "p3", "p4", "p5", "p6")
SHOWN_ATTRIBUTES = {
    "misses against footprint": ("capacity",),
    "latency against footprint": ("miss_penalty",),
    "hits against distance of a second access": ("line_size",),
    "latency against throughput": ("contention_base", "contention_rise", "contention_ceiling"),
}
"""Attributes that a series of an experiment shows, by its name, though the finding may rest on other evidence."""


def figures_of_element(result: Result, element: str) -> list[Figure]:
    """The figures of one element of a result; none for an element without findings and series."""
    findings = [each for each in result.findings if each.element == element]
    series = [each for each in result.series if each.element == element]
    return figures_together(findings, series, known_machine(result))


def figures_together(
    findings: Sequence[Finding], series: Sequence[Series] = (), machine: Machine | None = None
) -> list[Figure]:
    """The figures of findings about one element and of series; `machine` is for models of latency hiding."""
    figures = [set_map(findings), _spectrum(findings), *_lists(findings)]
    figures += [figure for each in series for figure in figures_of_series(each, machine)]
    return [figure for figure in figures if figure is not None]


def figures_of_series(series: Series, machine: Machine | None = None) -> list[Figure]:
    """Those known for its name, otherwise the one that fits its columns; none where there is nothing to plot."""
    figures = figures_of_hiding(series, machine)
    if figures is None:
        figure = figure_of(series)
        figures = [figure] if figure is not None else []
    shows = tuple((series.element, each) for each in series.shows or SHOWN_ATTRIBUTES.get(series.name, ()))
    return [replace(figure, shows=shows) for figure in figures]


def known_machine(result: Result) -> Machine | None:
    """Parameters for models of latency hiding; None if the result has none, or impossible ones."""
    if not any(each.element in KINDS for each in result.series):
        return None
    try:
        return machine_of(result)
    except UsageError:
        return None


def set_map(findings: Sequence[Finding]) -> Figure | None:
    """The set of every line of memory; None without an index function over several sets and a line or page size."""
    by_name = {finding.attribute: finding for finding in findings}
    found = by_name.get("index_function")
    unit = next((by_name[name] for name in ("line_size", "page_size") if name in by_name), None)
    if found is None or unit is None or not isinstance(found.value, str) or not isinstance(unit.value, int):
        return None
    set_of = index_function(found.value, unit.value)
    if set_of is None or unit.value < 1:
        return None
    name = "page" if unit.attribute == "page_size" else "line"
    lines = range(MAP_COLUMNS * MAP_ROWS)
    columns: dict[str, Column] = {
        name: tuple(line % MAP_COLUMNS for line in lines),
        "row": tuple(line // MAP_COLUMNS for line in lines),
        "set": tuple(set_of(line * unit.value) for line in lines),
    }
    title = f"{title_of(found.element)}: set of every {name} of memory, {MAP_COLUMNS} per row"
    note = "by the index function as found, from address 0 on"
    return Figure(title, Kind.MAP, columns, name, ("row",), colour="set", evidence=found.evidence, note=note)


def index_function(text: str, line: int) -> Callable[[int], int] | None:
    """The function from byte addresses to sets that a text describes; None for one set and for any other text.

    ``bits 7 8``; ``xor 7^13 8^14 9`` (each group one bit of the set number); ``line mod 1792``;
    ``(address / 128) mod 7`` (`gpudissect.simulation.cache.index.canonical`).
    """
    if len(text) > MAX_FUNCTION_LENGTH:
        return None
    if re.fullmatch(r"(bits|xor)( \d{1,2}(\^\d{1,2})*)+", text):
        groups = [set(map(int, group.split("^"))) for group in text.split(" ")[1:]]
        if max(map(max, groups)) > MAX_ADDRESS_BIT:
            return None
        masks = [sum(1 << bit for bit in group) for group in groups]
        return lambda address: sum(((address & mask).bit_count() & 1) << n for n, mask in enumerate(masks))
    if modulo := re.fullmatch(r"(?:line|\(address / (\d{1,9})\)) mod (\d{1,9})", text):
        granule, sets = int(modulo[1] or line), int(modulo[2])
        return (lambda address: address // granule % sets) if granule and sets > 1 else None
    return None


def _lists(findings: Sequence[Finding]) -> list[Figure]:
    """A figure for each list of more than two numbers; latencies by SM are coloured by the part of the L2."""
    by_name = {finding.attribute: finding.value for finding in findings}
    figures = []
    for finding in findings:
        value = finding.value
        is_colour = finding.attribute == "partition_by_sm" and "latency_by_sm" in by_name
        if not isinstance(value, tuple) or len(value) < 3 or is_colour:
            continue
        x, name = LIST_INDEX.get(finding.attribute, "sets").removesuffix("s"), words(finding.attribute)
        columns: dict[str, Column] = {x: tuple(range(len(value[:MAX_LIST_LENGTH]))), name: value[:MAX_LIST_LENGTH]}
        parts = by_name.get("partition_by_sm") if finding.attribute == "latency_by_sm" else None
        kind, by = Kind.BARS, None
        if isinstance(parts, tuple) and len(parts) == len(value):
            columns["part"], kind, by = parts[:MAX_LIST_LENGTH], Kind.DOTS, "part"
        title = f"{title_of(finding.element)}: {name}, {x} by {x}"
        units = {name: finding.unit} if finding.unit else {}
        figures.append(Figure(title, kind, columns, x, (name,), units, by, evidence=finding.evidence))
    return figures


def _spectrum(findings: Sequence[Finding]) -> Figure | None:
    """The latency spectrum, P1 to P6 (MC16 section 5.2), as far as it was found."""
    found = [each for each in findings if each.attribute in SPECTRUM and isinstance(each.value, int | float)]
    if len(found) < 2:
        return None
    columns: dict[str, Column] = {
        "pattern": tuple(SPECTRUM.index(each.attribute) + 1 for each in found),
        "latency": tuple(each.value for each in found if isinstance(each.value, int | float)),
        "low": tuple(each.low for each in found),
        "high": tuple(each.high for each in found),
    }
    title, units = (
        f"{title_of(found[0].element)}: cycles of P1 to P6",
        dict.fromkeys(("latency", "low", "high"), "cycles"),
    )
    evidence = tuple(dict.fromkeys(digest for each in found for digest in each.evidence))
    note = (
        "P1 to P3: hits of the cache, by the TLB that hits (first, second, none); P4: a miss of the cache, P5: of the "
    )
    note += "TLBs too, P6: and in another page-table window"
    return Figure(title, Kind.BARS, columns, "pattern", ("latency",), units, evidence=evidence, note=note)
