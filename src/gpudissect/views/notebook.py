"""What Jupyter shows of a result, a plot, a trace, a comparison. Text is escaped; plots are pictures of their own."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.results.text import bracket, percent, provenance, quantity
from gpudissect.views.page.markup import Child, Markup, tag
from gpudissect.vocabulary import LIST_INDEX

if TYPE_CHECKING:
    from gpudissect.results.compare import Comparison
    from gpudissect.results.model import Finding, Result

MOST_ROWS = 500
MOST_CHARACTERS = 60  # of a cell
_LOUD = "padding:1px 8px;border:2px solid;border-radius:1em;font-size:85%;"
_COLUMNS = ("element", "attribute", "status", "value", "bracket", "confidence", "published", "reason")


def of_result(result: Result) -> str:
    """The table of findings: status, value, bracket, confidence; what is published; why there is no value."""
    device = result.device
    simulated = Origin.SIMULATED in (device.origin, device.recorded_origin)
    origin = provenance(device.origin, device.recorded_origin)
    head = tag("p", tag("strong", device.name), " ", tag("span", origin, style=_LOUD), " ", tag("code", device.spec),
               tag("br"), "simulated: this tells of the method, not of a real GPU" if simulated else None)  # fmt: skip
    shown = result.findings[:MOST_ROWS]
    rows = [_row(finding, first=number == 0) for _, group in groupby(shown, key=lambda each: each.element)
            for number, finding in enumerate(group)]  # fmt: skip
    return tag("div", head, *_cautions(result), _table(_COLUMNS, rows))


def of_comparison(made: Comparison) -> str:
    """Who is compared, what cannot be, and every value side by side."""
    from gpudissect.views.terminal.compare_table import names_of, value_of

    names = names_of(made.results)
    counts = ", ".join(f"{count} {kind.value}" for kind, count in made.counts.items())
    rows = []
    for row in made.rows[:MOST_ROWS]:
        texts = (row.attribute, *map(value_of, row.findings), row.outcome.value, _short(row.why))
        rows.append(tag("tr", tag("th", row.element), *(tag("td", text) for text in texts)))
    cautions = [tag("p", each) for each in made.warnings]
    return tag("div", tag("p", tag("strong", counts)), *cautions,
               _table(("element", "attribute", *names, "verdict", "why"), rows))  # fmt: skip


def picture(svg: str, title: str, otherwise: str) -> str:
    """An SVG as an image: its styles and names meet no other's in the same page."""
    if not svg:
        return tag("p", tag("strong", title), f" (nothing to plot: {otherwise})")
    source = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    return tag("img", src=Markup(source), alt=title, style="max-width:100%")


def _row(finding: Finding, *, first: bool) -> Markup:
    value = quantity(finding.value, finding.unit, LIST_INDEX.get(finding.attribute, "values"))
    ns = f" ({finding.value_ns:.4g} ns)" if finding.value_ns is not None else ""
    known = finding.published
    published = "" if known is None else quantity(known.value, known.unit) or bracket(known.low, known.high, known.unit)
    verdict = "" if known is None else f"{_short(published)}: {known.verdict.value}"
    confidence = "stated" if finding.status is Status.STATED else percent(finding.confidence)
    cells: list[Child] = [
        tag("td", finding.attribute), tag("td", finding.status.value), tag("td", tag("strong", _short(value)), ns),
        tag("td", bracket(finding.low, finding.high, finding.unit)), tag("td", confidence), tag("td", verdict),
        tag("td", _short(finding.reason), title=finding.reason or None),
    ]  # fmt: skip
    return tag("tr", tag("th", finding.element if first else "", style="text-align:left"), *cells)


def _cautions(result: Result) -> list[Markup]:
    said = [f"failed: {each.experiment}: {each.reason}" for each in result.failures]
    if result.interrupted:
        said.append("interrupted: what was measured until then")
    if len(result.findings) > MOST_ROWS:
        said.append(f"the first {MOST_ROWS} of {len(result.findings)} findings; to_pandas() has them all")
    return [tag("p", tag("strong", each)) for each in said]


def _table(names: Sequence[str], rows: Sequence[Markup]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", name, style="text-align:left") for name in names)))
    table = tag("table", head, tag("tbody", *rows, style="text-align:left"))
    return tag("div", table, style="max-height:36em;overflow:auto")


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 2]} …"
