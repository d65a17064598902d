"""Several results side by side on one page."""

from collections.abc import Iterator
from itertools import groupby

from gpudissect.results.compare import Comparison, Outcome, Row, letter
from gpudissect.results.model import Finding
from gpudissect.results.text import bracket, provenance, title_of, words
from gpudissect.views.page.about import caution, facts
from gpudissect.views.page.hierarchy import hierarchy
from gpudissect.views.page.markup import Child, Markup, document, scrolling, tag
from gpudissect.views.terminal.compare_table import names_of, value_of

MAX_ROWS = 4000
MAX_LISTED = 60  # rows of a kind in the lists on top; the tables have all of them
DRAWING_WIDTH = 380
MAX_TITLE_LENGTH = 120
_COLOPHON = (
    "Made by gpudissect. Two numbers differ if their brackets do not overlap; they are the same if each lies within "
    "the other's bracket."
)
_SIGNS = {Outcome.SAME: "=", Outcome.DIFFERENT: "≠", Outcome.AMBIGUOUS: "≈", Outcome.NOT_COMPARABLE: "–"}
_LISTS = {Outcome.DIFFERENT: "What differs", Outcome.AMBIGUOUS: "Inconclusive"}


def comparison_page(made: Comparison) -> str:
    """The page of a comparison: one HTML file that needs nothing else."""
    counts = ", ".join(f"{count} {kind.value}" for kind, count in made.counts.items())
    title = "Comparison: " + ", ".join(names_of(made.results))
    warnings = made.warnings
    overview = tag("div", *_devices(made), class_="plots"), caution(warnings) if warnings else None, *_lists(made)
    return document(
        title[:MAX_TITLE_LENGTH],
        tag("a", "To what differs", class_="skip", href="#differing"),
        tag("header", tag("h1", "Comparison"), tag("p", counts, class_="facts")),
        tag("main", *overview, tag("h2", "Values", id="findings"), *_tables(made)),
        tag("footer", tag("p", _COLOPHON)),
    )


def _devices(made: Comparison) -> Iterator[Markup]:
    files = made.files or [""] * len(made.results)
    for name, result, file in zip(names_of(made.results), made.results, files, strict=True):
        device = result.device
        origin = tag("strong", provenance(device.origin, device.recorded_origin), class_="origin")
        source = tag("p", origin, " ", tag("code", device.spec), [" from ", tag("code", file)] if file else None)
        drawing = hierarchy(result, DRAWING_WIDTH, {})
        yield tag("section", tag("h2", name), source, tag("p", facts(result), class_="facts"), drawing)


def _lists(made: Comparison) -> Iterator[Markup]:
    """What differs, then what is inconclusive: values, reason, and a link to the row."""
    for kind, title in _LISTS.items():
        rows = [(number, row) for number, row in enumerate(made.rows[:MAX_ROWS]) if row.outcome is kind]
        is_first = kind is Outcome.DIFFERENT
        if rows or is_first:
            yield tag("h2", title, id="differing" if is_first else None)
        if rows:
            yield tag("ul", *(_item(number, row) for number, row in rows[:MAX_LISTED]), class_="differing")
        elif is_first:
            yield tag("p", "Nothing: no value of one contradicts that of another.")
        if len(rows) > MAX_LISTED:
            yield tag("p", f"and {len(rows) - MAX_LISTED} more, in the tables below", class_="facts")


def _item(number: int, row: Row) -> Markup:
    values: list[Child] = [
        [", " if n else "", tag("b", letter(n)), " ", value_of(each) or "nothing"]
        for n, each in enumerate(row.findings)
    ]
    name = f"{title_of(row.element)}: {words(row.attribute)}"
    return tag("li", tag("a", name, href=f"#r{number}"), " ", *values, tag("span", f" ({row.why})", class_="why"))


def _tables(made: Comparison) -> Iterator[Markup]:
    names = ("attribute", *names_of(made.results), "verdict", "why")
    header = tag("tr", *(tag("th", name, scope="col", role="columnheader") for name in names), role="row")
    for element, rows in groupby(enumerate(made.rows[:MAX_ROWS]), key=lambda each: each[1].element):
        title, body = title_of(element), [_row(number, row) for number, row in rows]
        grid = tag("table", tag("thead", header), tag("tbody", *body), class_="beside", role="table")
        yield tag("section", tag("h3", title), scrolling(title, grid), class_="element")


def _row(number: int, row: Row) -> Markup:
    """A row of a table. On a phone it is a block, which would cost it its roles if they were not written."""
    cells = [_cell(letter(place), finding) for place, finding in enumerate(row.findings)]
    sign = tag("span", f"{_SIGNS[row.outcome]} ", aria_hidden="true")
    style = row.outcome.value.replace(" ", "-")
    name = tag("th", words(row.attribute), scope="row", role="rowheader")
    verdict = tag("td", sign, row.outcome.value, class_=f"verdict {style}", role="cell")
    return tag("tr", name, *cells, verdict, tag("td", row.why, class_="why", role="cell"), id=f"r{number}", role="row")


def _cell(name: str, finding: Finding | None) -> Markup:
    ends = bracket(finding.low, finding.high, finding.unit) if finding and finding.status.has_value else ""
    below = (tag("br"), tag("span", ends, class_="ns")) if ends not in ("", "exact") else None
    return tag("td", value_of(finding), below, data_name=name, role="cell")
