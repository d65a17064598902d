"""Several results side by side on one page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gpudissect.results.compare import Comparison, Row, letter
from gpudissect.results.likeness import Likeness
from gpudissect.results.names import title_of, words
from gpudissect.results.text import bracket, provenance
from gpudissect.views.page.about import facts
from gpudissect.views.page.document import document
from gpudissect.views.page.drawing import drawing
from gpudissect.views.page.markup import Markup, tag
from gpudissect.views.terminal.compare_table import names_of, value_of

MOST_ROWS = 4000
MOST_NAMED = 60  # rows of a kind in the list on top; the tables have them all
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
        tag("a", "To what differs", class_="skip", href="#differing"),
        tag("header", tag("h1", "Comparison"), tag("p", counts, class_="facts")),
        tag("main", tag("div", *_devices(made), class_="plots"), _caution(made), *_named(made),
            tag("h2", "Values", id="findings"), *_tables(made)),
        tag("footer", tag("p", _COLOPHON)),
    )  # fmt: skip


def _devices(made: Comparison) -> Iterator[Markup]:
    files = made.files or [""] * len(made.results)
    for name, result, file in zip(names_of(made.results), made.results, files, strict=True):
        device = result.device
        origin = provenance(device.origin, device.recorded_origin)
        read = [" from ", tag("code", file)] if file else None
        yield tag("section", tag("h2", name), tag("p", tag("strong", origin, class_="origin"), " ",
                  tag("code", device.spec), read), tag("p", facts(result), class_="facts"),
                  drawing(result, NARROW, {}))  # fmt: skip


def _caution(made: Comparison) -> Markup | None:
    said = [*made.obstacles, *([made.read] if made.read else [])]
    if not said:
        return None
    return tag("div", tag("ul", *(tag("li", each) for each in said)), class_="caution", role="note")


def _named(made: Comparison) -> Iterator[Markup]:
    """What differs, then what nobody can tell: each with its values and the reason, and a link to its line."""
    for kind, title in ((Likeness.DIFFERENT, "What differs"), (Likeness.AMBIGUOUS, "What nobody can tell")):
        rows = [(number, row) for number, row in enumerate(made.rows[:MOST_ROWS]) if row.likeness is kind]
        if kind is Likeness.DIFFERENT:
            yield tag("h2", title, id="differing")
            if not rows:
                yield tag("p", "Nothing: no value of one contradicts that of another.")
        elif rows:
            yield tag("h2", title)
        if rows:
            yield tag("ul", *(_item(number, row) for number, row in rows[:MOST_NAMED]), class_="differing")
        if len(rows) > MOST_NAMED:
            yield tag("p", f"and {len(rows) - MOST_NAMED} more, in the tables below", class_="facts")


def _item(number: int, row: Row) -> Markup:
    values = [[", " if n else "", tag("b", letter(n)), " ", value_of(each) or "nothing"]
              for n, each in enumerate(row.findings)]  # fmt: skip
    name = f"{title_of(row.element)}: {words(row.attribute)}"
    return tag("li", tag("a", name, href=f"#r{number}"), " ", *values, tag("span", f" ({row.why})", class_="why"))


def _tables(made: Comparison) -> Iterator[Markup]:
    names = names_of(made.results)
    heads = ("attribute", *names, "verdict", "why")
    header = tag("tr", *(tag("th", each, scope="col", role="columnheader") for each in heads), role="row")
    for element, rows in groupby(enumerate(made.rows[:MOST_ROWS]), key=lambda each: each[1].element):
        body = [_line(number, row) for number, row in rows]
        yield tag("section", tag("h3", title_of(element)), tag("div", tag("table", tag("thead", header),
                  tag("tbody", *body), class_="beside", role="table"), class_="scroll", tabindex="0", role="region",
                  aria_label=title_of(element)), class_="element")  # fmt: skip


def _line(number: int, row: Row) -> Markup:
    """A line of a table. On a phone it is set as a block, which would cost it its roles if they were not written."""
    cells = []
    for place, finding in enumerate(row.findings):
        said = "" if finding is None else bracket(finding.low, finding.high, finding.unit)
        shown = said if finding is not None and finding.status.has_value and said != "exact" else ""
        cells.append(
            tag(
                "td",
                value_of(finding),
                tag("br") if shown else None,
                tag("span", shown, class_="ns") if shown else None,
                data_name=letter(place),
                role="cell",
            )
        )
    sign = tag("span", f"{_SIGNS[row.likeness]} ", aria_hidden="true")
    style = row.likeness.value.replace(" ", "-")
    verdict = tag("td", sign, row.likeness.value, class_=f"verdict {style}", role="cell")
    return tag("tr", tag("th", words(row.attribute), scope="row", role="rowheader"), *cells, verdict,
               tag("td", row.why, class_="why", role="cell"), id=f"r{number}", role="row")  # fmt: skip
