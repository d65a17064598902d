"""Several results side by side on one page."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from gpudissect.printable import brief
from gpudissect.results.compare import Comparison, Outcome, Row, letter
from gpudissect.results.model import Finding
from gpudissect.results.text import bracket, provenance, title_of, words
from gpudissect.views.page.about import caution, facts
from gpudissect.views.page.hierarchy import hierarchy
from gpudissect.views.page.markup import Child, Markup, document, scrolling, tag
from gpudissect.views.terminal.compare_table import names_of, values_of, why_of

MAX_ROWS = 4000
MAX_LISTED = 60  # rows of a kind in the lists on top; the tables have all of them
DRAWING_WIDTH = 380
MAX_TITLE_LENGTH, MAX_UUID_LENGTH = 120, 16  # characters
_COLOPHON = (
    "Made by gpudissect. Two numbers differ if their brackets do not overlap; they are the same if each lies within "
    "the other's bracket."
)
_SIGNS = {Outcome.SAME: "=", Outcome.DIFFERENT: "≠", Outcome.AMBIGUOUS: "≈"}  # of others a dash
FOUND_IN_NONE = "found in none"
_NAMES = (*(outcome.value for outcome in Outcome), FOUND_IN_NONE)
_LISTS = {Outcome.DIFFERENT: "What differs", Outcome.AMBIGUOUS: "Inconclusive"}


def comparison_page(made: Comparison) -> str:
    """The page of a comparison: one HTML file that needs nothing else."""
    counted = Counter(map(_outcome, made.rows))
    counts = ", ".join(f"{count} {counted_as}" for counted_as in _NAMES if (count := counted[counted_as]))
    title = "Comparison: " + ", ".join(names_of(made.results))
    warnings = made.warnings
    sources = tag("ul", *(tag("li", *each) for each in _sources(made)), class_="sources")
    lists = caution(warnings) if warnings else None, *_lists(made)
    drawings = tag("h2", "Drawings"), tag("div", *_drawings(made), class_="drawings")
    return document(
        title[:MAX_TITLE_LENGTH],
        tag("a", "To what differs", class_="skip", href="#differing"),
        tag("header", tag("h1", "Comparison"), tag("p", counts, class_="facts"), sources),
        tag("main", *lists, *drawings, tag("h2", "All values", id="findings"), *_tables(made)),
        tag("footer", tag("p", _COLOPHON)),
    )


def _sources(made: Comparison) -> Iterator[list[Child]]:
    """Letter, GPU, origin and file of each result."""
    files = made.files or [""] * len(made.results)
    for name, result, file in zip(names_of(made.results), made.results, files, strict=True):
        device = result.device
        origin = tag("strong", provenance(device.origin, device.recorded_origin), class_="origin")
        uuid = brief(result.provenance.gpu_uuid or "", MAX_UUID_LENGTH)
        yield [tag("b", name), " ", origin, " ", tag("code", file or device.spec), f" {uuid}" if uuid else None]


def _drawings(made: Comparison) -> Iterator[Markup]:
    for name, result in zip(names_of(made.results), made.results, strict=True):
        stated = tag("p", facts(result), class_="facts")
        yield tag("section", tag("h3", name), stated, hierarchy(result, DRAWING_WIDTH, {}))


def _lists(made: Comparison) -> Iterator[Markup]:
    """What differs, then what is inconclusive: values, reason, and a link to the row."""
    for kind, title in _LISTS.items():
        rows = [(number, row) for number, row in enumerate(made.rows[:MAX_ROWS]) if row.outcome is kind]
        is_first = kind is Outcome.DIFFERENT
        if rows or is_first:
            yield tag("h2", title + (f" ({len(rows)})" if rows else ""), id="differing" if is_first else None)
        if rows:
            names = ("value", *map(letter, range(len(made.results))), "why")
            head = tag("tr", *(tag("th", name, scope="col", role="columnheader") for name in names), role="row")
            body = tag("tbody", *(_item(*each) for each in rows[:MAX_LISTED]))
            grid = tag("table", tag("thead", head), body, class_="beside differing", role="table")
            yield scrolling(title, grid)
        elif is_first:
            yield tag("p", "Nothing: no value of one contradicts that of another.")
        if len(rows) > MAX_LISTED:
            yield tag("p", f"and {len(rows) - MAX_LISTED} more, in the tables below", class_="facts")


def _outcome(row: Row) -> str:
    """The outcome in words; that no result has a value is not called the same."""
    has_value = any(each is not None and each.status.has_value for each in row.findings)
    return FOUND_IN_NONE if row.outcome is Outcome.SAME and not has_value else row.outcome.value


def _item(number: int, row: Row) -> Markup:
    """A row of a list, with its reason and a link to the row that has the brackets."""
    name = tag("a", f"{title_of(row.element)}: {words(row.attribute)}", href=f"#r{number}")
    cells = [tag("td", text, data_name=letter(place), role="cell") for place, text in enumerate(values_of(row))]
    why = tag("td", why_of(row), class_="why", role="cell")
    return tag("tr", tag("th", name, scope="row", role="rowheader"), *cells, why, role="row")


def _tables(made: Comparison) -> Iterator[Markup]:
    """Every value, folded by element; the heading of each counts what differs."""
    names = ("attribute", *names_of(made.results), "verdict", "why")
    header = tag("tr", *(tag("th", name, scope="col", role="columnheader") for name in names), role="row")
    for element, group in groupby(enumerate(made.rows[:MAX_ROWS]), key=lambda each: each[1].element):
        title, rows = title_of(element), list(group)
        body = [_row(number, row) for number, row in rows]
        counts = Counter(_outcome(row) for _, row in rows)
        text = ", ".join(f"{counts[name]} {name}" for name in _NAMES if counts[name])
        head = tag("summary", tag("h3", title), tag("span", f" {text}", class_="facts"))
        grid = tag("table", tag("thead", header), tag("tbody", *body), class_="beside", role="table")
        yield tag("details", head, scrolling(title, grid), class_="element group")


def _row(number: int, row: Row) -> Markup:
    """A row of a table. On a phone it is a block, which would cost it its roles if they were not written."""
    shown = zip(values_of(row), row.findings, strict=True)
    cells = [_cell(letter(place), text, finding) for place, (text, finding) in enumerate(shown)]
    outcome = _outcome(row)
    sign = tag("span", f"{'–' if outcome == FOUND_IN_NONE else _SIGNS.get(row.outcome, '–')} ", aria_hidden="true")
    style = outcome.replace(" ", "-")
    name = tag("th", words(row.attribute), scope="row", role="rowheader")
    verdict = tag("td", sign, outcome, class_=f"verdict {style}", role="cell")
    return tag(
        "tr", name, *cells, verdict, tag("td", why_of(row), class_="why", role="cell"), id=f"r{number}", role="row"
    )


def _cell(name: str, value: str, finding: Finding | None) -> Markup:
    ends = bracket(finding.low, finding.high, finding.unit) if finding and finding.status.has_value else ""
    below = (tag("br"), tag("span", ends, class_="ns")) if ends not in ("", "exact") else None
    return tag("td", value, below, data_name=name, role="cell")
