"""Every figure of one element: of its findings (sets, lists, the spectrum), then of its series."""

import re
from collections.abc import Sequence
from dataclasses import replace

from gpudissect.errors import UsageError
from gpudissect.models.base import Machine
from gpudissect.results.folded import folded
from gpudissect.results.machine import KINDS, machine_of
from gpudissect.results.model import Finding, Result, Series
from gpudissect.results.text import title_of, words
from gpudissect.views.plots.choose import figure_of
from gpudissect.views.plots.figure import Column, Figure, Kind
from gpudissect.views.plots.hiding import figures_of_hiding
from gpudissect.vocabulary import LIST_INDEX

MAX_LIST_LENGTH = 2048
SM_COLUMNS, MAX_SM_TICKS = 12, 12
SM_LISTS = ("latency_by_sm", "partition_by_sm")
OTHERWISE_PLOTTED = ("_by_sm", "_by_width")  # lists: on a map of SMs, as a series
MAX_ADDRESS_BIT = 63
MAX_FUNCTION_LENGTH = 2000  # characters of an index function
SPECTRUM_AXIS = "cache, TLB level"
SPECTRUM = {"p1": "hit, L1", "p2": "hit, L2", "p3": "hit, none", "p4": "miss, L1", "p5": "miss, none", "p6": "window"}
"""What each pattern of the spectrum hits: the cache, then the level of the TLB."""
_RATES = re.compile(r"((?:read |write |copy )?(?:bandwidth|rate))(?: by configuration| against warps and chains)$")
_SINGLE = re.compile(r"(?:mean access )?latency against footprint$")
_WITHOUT_AXIS = ("misses by chain", "mean access latency by chain")  # chains have no order, and values are noise
_COLUMNS = {"pairs": "measured", "if one line": "expected within one line", "if two lines": "expected in two lines"}
SHOWN_ATTRIBUTES = {
    "misses against footprint": ("capacity",),
    "latency against footprint": ("miss_penalty",),
    "hits against distance of a second access": ("line_size",),
    "added cycles against offset, in rising and in falling order": ("window", "switch_penalty"),
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
    figures = [index_matrix(findings), sm_map(findings), _spectrum(findings), *_lists(findings)]
    for each in series:
        level = _answer(each, findings)
        figures += [replace(figure, levels=level) if level else figure for figure in figures_of_series(each, machine)]
    return [figure for figure in figures if figure is not None]


def _answer(series: Series, findings: Sequence[Finding]) -> list[tuple[float, str]]:
    """A line at the value that was found from a series of rates."""
    measured = _RATES.match(series.name)
    attribute = measured[1].replace(" ", "_") if measured else ""
    values = [each for each in findings if each.attribute == attribute and isinstance(each.value, int | float)]
    return [(float(each.value), folded(each)) for each in values if isinstance(each.value, int | float)]


def figures_of_series(series: Series, machine: Machine | None = None) -> list[Figure]:
    """Those known for its name, otherwise the one that fits its columns; none where there is nothing to plot."""
    if series.name in _WITHOUT_AXIS:
        return []
    figures = figures_of_hiding(series, machine)
    if figures is None:
        figure = figure_of(_in_words(series))
        figures = [figure] if figure is not None else []
    if _SINGLE.match(series.name) and "stride" in series.columns:
        title = f"{title_of(series.element)}: latency of single accesses against footprint, timer included"
        figures = [replace(figure, title=title) for figure in figures]
    shows = tuple((series.element, each) for each in series.shows or SHOWN_ATTRIBUTES.get(series.name, ()))
    return [replace(figure, shows=shows) for figure in figures]


def _in_words(series: Series) -> Series:
    columns = {_COLUMNS.get(name, name): column for name, column in series.columns.items()}
    units = {_COLUMNS.get(name, name): unit for name, unit in series.units.items()}
    return series.model_copy(update={"columns": columns, "units": units})


def known_machine(result: Result) -> Machine | None:
    """Parameters for models of latency hiding; None if the result has none, or impossible ones."""
    if not any(each.element in KINDS for each in result.series):
        return None
    try:
        return machine_of(result)
    except UsageError:
        return None


def index_matrix(findings: Sequence[Finding]) -> Figure | None:
    """Which address bits each bit of the set number is the XOR of; None for other index functions and for one set."""
    found = next((each for each in findings if each.attribute == "index_function"), None)
    groups = index_bits(found.value) if found is not None and isinstance(found.value, str) else []
    if found is None or not groups:
        return None
    cells = [(bit, n) for n, group in enumerate(groups) for bit in sorted(group)]
    columns: dict[str, Column] = {
        "address bit": tuple(bit for bit, _ in cells),
        "set bit": tuple(n for _, n in cells),
        "used": (1,) * len(cells),
    }
    return Figure(
        f"{title_of(found.element)}: address bits in each bit of the set number",
        Kind.MAP,
        columns,
        "address bit",
        ("set bit",),
        colour="used",
        evidence=found.evidence,
        note="each bit of the set number is the XOR of the marked address bits",
        x_ticks={bit: f"{bit}" for bit in range(min(cells)[0], max(cells)[0] + 1)},
        y_ticks={n: f"{n}" for n in range(len(groups))},
        shows=((found.element, "index_function"),),
    )


def index_bits(text: str) -> list[set[int]]:
    """The address bits of each bit of the set number; empty for other texts.

    ``bits 7 8``; ``xor 7^13 8^14 9``: each group is one bit (`gpudissect.simulation.cache.index.canonical`).
    """
    if len(text) > MAX_FUNCTION_LENGTH or not re.fullmatch(r"(bits|xor)( \d{1,2}(\^\d{1,2})*)+", text):
        return []
    groups = [set(map(int, group.split("^"))) for group in text.split(" ")[1:]]
    return groups if max(map(max, groups)) <= MAX_ADDRESS_BIT and len(groups) > 1 else []


def _lists(findings: Sequence[Finding]) -> list[Figure]:
    """A figure for each list of more than two numbers: bars, or a map for latencies by SM."""
    figures = []
    for finding in findings:
        value = finding.value
        if not isinstance(value, tuple) or len(value) < 3 or finding.attribute.endswith(OTHERWISE_PLOTTED):
            continue
        x, name = LIST_INDEX.get(finding.attribute, "sets").removesuffix("s"), words(finding.attribute)
        columns: dict[str, Column] = {x: tuple(range(len(value[:MAX_LIST_LENGTH]))), name: value[:MAX_LIST_LENGTH]}
        title = f"{title_of(finding.element)}: {name}, {x} by {x}"
        units = {name: finding.unit} if finding.unit else {}
        figures.append(Figure(title, Kind.BARS, columns, x, (name,), units, evidence=finding.evidence))
    return figures


def sm_map(findings: Sequence[Finding]) -> Figure | None:
    """Latency of each SM in the order of their numbers, L2 partition marked; None unless they differ."""
    by_name = {finding.attribute: finding for finding in findings}
    found, partitions = (by_name.get(name) for name in SM_LISTS)
    if found is None or not isinstance(found.value, tuple) or len(set(found.value)) < 2:
        return None
    count = min(len(found.value), MAX_LIST_LENGTH)
    columns: dict[str, Column] = {
        "SM in its row": tuple(sm % SM_COLUMNS for sm in range(count)),
        "first SM of the row": tuple(sm - sm % SM_COLUMNS for sm in range(count)),
        "SM": tuple(range(count)),
    }
    note, pins = "", None
    if partitions is not None and isinstance(partitions.value, tuple) and len(partitions.value) == len(found.value):
        columns["partition"], pins = partitions.value[:count], "partition"
        note = "dot: SMs of L2 partition 1, the others are of partition 0"
    columns["latency"] = found.value[:count]
    firsts = range(0, count, SM_COLUMNS * max(1, -(-count // (SM_COLUMNS * MAX_SM_TICKS))))
    return Figure(
        f"{title_of(found.element)}: latency by SM",
        Kind.MAP,
        columns,
        "SM in its row",
        ("first SM of the row",),
        {"latency": found.unit},
        colour="latency",
        evidence=found.evidence,
        note=note,
        x_ticks={n: f"+{n}" for n in range(SM_COLUMNS)},
        y_ticks={sm: f"{sm}" for sm in firsts},
        pins=pins,
        shows=tuple((found.element, name) for name in SM_LISTS),
    )


def _spectrum(findings: Sequence[Finding]) -> Figure | None:
    """The latency spectrum (MC16 section 5.2), as far as it was found."""
    found = [each for each in findings if each.attribute in SPECTRUM and isinstance(each.value, int | float)]
    if len(found) < 2:
        return None
    columns: dict[str, Column] = {
        SPECTRUM_AXIS: tuple(range(len(found))),
        "cache and TLB": tuple(words(each.attribute) for each in found),
        "latency": tuple(each.value for each in found if isinstance(each.value, int | float)),
        "low": tuple(each.low for each in found),
        "high": tuple(each.high for each in found),
    }
    title = f"{title_of(found[0].element)}: latency by what an access hits"
    units = dict.fromkeys(("latency", "low", "high"), "cycles")
    evidence = tuple(dict.fromkeys(digest for each in found for digest in each.evidence))
    names = [SPECTRUM[each.attribute] for each in found]
    note = "cache: hit or miss; below: the TLB level that hits, or a window of the page table that was not used before"
    return Figure(
        title,
        Kind.BARS,
        columns,
        SPECTRUM_AXIS,
        ("latency",),
        units,
        evidence=evidence,
        note=note,
        x_ticks=dict(enumerate(names)),
    )
