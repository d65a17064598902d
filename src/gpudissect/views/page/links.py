"""Links of GPUs on one page: a matrix for each attribute, coloured where links between GPUs differ."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from gpudissect.device_info import DeviceInfo
from gpudissect.results.folded import rounded
from gpudissect.results.links import HOST, LEGEND, MATRICES, ROWS, LinkReport
from gpudissect.views.page.fleet import heat
from gpudissect.views.page.markup import Markup, document, table, tag
from gpudissect.vocabulary import unit_of

if TYPE_CHECKING:
    from gpudissect.results.links import Bracketed

_COLOPHON = (
    f"Made by gpudissect. {LEGEND} Colours show the deviation from the median of the links between GPUs, from 1 % on."
)


def links_page(report: LinkReport) -> str:
    """The page of a report: one HTML file that needs nothing else."""
    gpus = [tag("li", f"{info.spec}: {info.name}, {info.origin}{_links(info)}") for info in report.gpus]
    missing = [tag("h2", "Missing values"), tag("ul", *(tag("li", line) for line in report.reasons))]
    failed = [tag("h2", "Failed experiments"), tag("ul", *(tag("li", line) for line in report.failures))]
    return document(
        f"Links of {len(report.gpus)} GPU{'s' * (len(report.gpus) != 1)}",
        tag("header", tag("h1", "Links"), tag("ul", *gpus)),
        tag(
            "main",
            *(tag("p", "Interrupted: links are missing.") for _ in range(report.interrupted)),
            *_matrices(report),
            *(tag("p", line) for line in report.notes),
            *(missing if report.reasons else ()),
            *(failed if report.failures else ()),
        ),
        tag("footer", tag("p", _COLOPHON)),
    )


def _links(info: DeviceInfo) -> str:
    """PCIe generation and lanes, NVLinks and NUMA node, as far as the driver states them."""
    texts = {"pcie_generation": "PCIe generation {}", "pcie_lanes": "{} lanes", "nvlinks": "{} NVLinks"}
    texts["numa_node"] = "NUMA node {}"
    return "".join(f", {text.format(info.facts[name])}" for name, text in texts.items() if name in info.facts)


def _matrices(report: LinkReport) -> Iterator[Markup]:
    for attribute, shown in report.matrices.items():
        matrix = report.matrix(attribute)
        between = [found[0] for row in matrix.values() for target, found in row.items() if found and target != HOST]
        usual = median(between) if len(between) > 1 else None
        yield tag("h2", shown.title)
        rows = [
            [source, *(_cell(found, attribute, None if target == HOST else usual) for target, found in row.items())]
            for source, row in matrix.items()
        ]
        yield table(shown.title, [ROWS, *report.targets], rows)


def _cell(found: Bracketed | None, attribute: str, usual: float | None) -> Markup:
    if found is None:
        return tag("span", "-", class_="heat")
    (value, low, high), shown = found, MATRICES[attribute]
    deviation = 0.0 if usual is None else value / usual - 1
    bracket = f"{rounded(low, unit_of(attribute))} to {rounded(high, unit_of(attribute))}"
    return heat(f"{value / shown.unit:.4g}", deviation, (deviation > 0) is shown.more_is_slower, bracket)
