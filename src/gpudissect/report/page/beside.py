"""Several results side by side on one page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gpudissect.report.compare import Comparison, Likeness, Row
from gpudissect.report.compare_table import names_of, value_of
from gpudissect.report.markup import Markup, tag
from gpudissect.report.names import title_of, words
from gpudissect.report.page.about import facts
from gpudissect.report.page.document import document
from gpudissect.report.page.drawing import drawing
from gpudissect.report.text import bracket, provenance

MOST_ROWS = 4000
NARROW = 380
_COLOPHON = (
    "Made by gpudissect. Two numbers differ if their brackets do not meet; they are the same if each lies within the "
    "other's bracket."
)
_SIGNS = {Likeness.SAME: "=", Likeness.DIFFERENT: "≠", Likeness.AMBIGUOUS: "≈", Likeness.NOT_COMPARABLE: "–"}


def side_by_side(made: Comparison) -> str:
    """The page of a comparison: one HTML file that needs nothing else."""
    counts = ", ".join(f"{count} {kind.value}" for kind, count in made.counts.items())
    title = "Comparison: " + ", ".join(names_of(made.results))
    return document(
        title[:120],
        tag("header", tag("h1", "Comparison"), tag("p", counts, class_="facts")),
        tag("main", tag("div", *_devices(made), class_="plots"), _caution(made), tag("h2", "Values", id="findings"),
            *_tables(made)),
        tag("footer", tag("p", _COLOPHON)),
    )  # fmt: skip


def _devices(made: Comparison) -> Iterator[Markup]:
    for name, result in zip(names_of(made.results), made.results, strict=True):
        device = result.device
        origin = provenance(device.origin, device.recorded_origin)
        yield tag("section", tag("h2", name), tag("p", tag("strong", origin, class_="origin"), " ",
                  tag("code", device.spec)), tag("p", facts(result), class_="facts"),
                  drawing(result, NARROW, {}))  # fmt: skip


def _caution(made: Comparison) -> Markup | None:
    if not made.obstacles:
        return None
    return tag("div", tag("ul", *(tag("li", each) for each in made.obstacles)), class_="caution", role="note")


def _tables(made: Comparison) -> Iterator[Markup]:
    names = names_of(made.results)
    header = tag("tr", *(tag("th", each, scope="col") for each in ("attribute", *names, "verdict", "why")))
    for element, rows in groupby(made.rows[:MOST_ROWS], key=lambda row: row.element):
        body = [_line(row) for row in rows]
        yield tag("section", tag("h3", title_of(element)), tag("div", tag("table", tag("thead", header),
                  tag("tbody", *body), class_="beside"), class_="scroll", tabindex="0", role="region",
                  aria_label=title_of(element)), class_="element")  # fmt: skip


def _line(row: Row) -> Markup:
    cells = []
    for finding in row.findings:
        said = "" if finding is None else bracket(finding.low, finding.high, finding.unit)
        shown = said if finding is not None and finding.status.has_value and said != "exact" else ""
        cells.append(
            tag(
                "td",
                value_of(finding),
                tag("br") if shown else None,
                tag("span", shown, class_="ns") if shown else None,
            )
        )
    sign = tag("span", f"{_SIGNS[row.likeness]} ", aria_hidden="true")
    style = row.likeness.value.replace(" ", "-")
    return tag("tr", tag("th", words(row.attribute), scope="row"), *cells,
               tag("td", sign, row.likeness.value, class_=style), tag("td", row.why))  # fmt: skip
