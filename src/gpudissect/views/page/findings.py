"""Findings on a page: a line each, that opens to how it was found and to what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpudissect.estimate import Status
from gpudissect.results.model import Finding, Number, Published, Value
from gpudissect.results.names import words
from gpudissect.results.text import bracket, brief, cut, percent, published_words
from gpudissect.results.verdict import Verdict
from gpudissect.views.page.markup import Child, Markup, tag
from gpudissect.views.page.words import value_words

LONGEST_NAME = 80  # characters of the name of an attribute, an element, a device
WIDEST = 44  # characters of a value in its line; a longer one stands whole below
DIGESTS = 8  # of the evidence, written out; the result file has them all
SIGNS = {Verdict.AGREES: "✓", Verdict.FINER: "✓", Verdict.OVERLAPS: "∩", Verdict.AS_PRINTED: "≈", Verdict.DIFFERS: "≠",
         Verdict.NOT_COMPARABLE: "–"}  # fmt: skip
NO_WORKLOAD = "No workload of its own: it follows from other findings, or from what the device states."
NO_PLOT = "No plot: what they gave is not kept in this result, or is too little to draw."
Links = Sequence[tuple[str, str]]


def head() -> Markup:
    """What stands in which column; for eyes only, each line says it again for others."""
    names = ("attribute", "value", "bracket", "confidence", "published", "verdict")
    return tag("p", *(tag("span", name, class_=f"c-{name}") for name in names), class_="columns", aria_hidden="true")


def line(finding: Finding, identity: str, plots: Child, links: Links) -> Markup:
    """One finding. `plots` stand inside; `links` lead to plots that stand elsewhere (fragment, title)."""
    cells = [
        tag("span", brief(words(finding.attribute), LONGEST_NAME), class_="c-attribute"),
        tag("span", *_value(finding), class_="c-value"),
        _cell("bracket", "bracket", bracket(finding.low, finding.high, finding.unit)),
        _cell("confidence", "confidence", _confidence(finding)),
        _cell("published", "published", _published(finding.published, finding.attribute)),
        _verdict(finding.published),
    ]
    return tag("details", tag("summary", *cells), tag("div", *_about(finding), _plots(finding, plots, links),
               class_="about"), class_="finding", id=identity)  # fmt: skip


def _cell(name: str, spoken: str, text: str) -> Markup:
    said = tag("span", f"{spoken} ", class_="aside") if text else None
    return tag("span", said, text, class_=f"c-{name}")


def _value(finding: Finding) -> Iterable[Child]:
    if not finding.status.has_value:
        return [tag("em", finding.status.value)]
    text = short(finding.value, finding.unit, finding.attribute)
    if finding.value_ns is None:
        return [tag("strong", text)]
    return [tag("strong", text), tag("span", f" {finding.value_ns:.4g} ns", class_="ns")]


def short(value: Value | None, unit: str, attribute: str = "") -> str:
    """A value as much as fits a line."""
    text = value_words(value, unit, attribute)
    return cut(text, WIDEST)


def _confidence(finding: Finding) -> str:
    return "stated" if finding.status is Status.STATED else percent(finding.confidence)


def _published(known: Published | None, attribute: str) -> str:
    if known is None:
        return ""
    return cut(_given(known, attribute), WIDEST)


def _given(known: Published, attribute: str) -> str:
    """What the document says: its range, where it gives one."""
    if known.value is not None and (known.low, known.high) == (None, None):
        return value_words(known.value, known.unit, attribute)
    value = None if isinstance(known.value, str) else known.value
    return published_words(value, known.low, known.high, known.unit)


def _verdict(known: Published | None) -> Markup:
    if known is None:
        return tag("span", class_="c-verdict")
    style = known.verdict.value.replace(" ", "-")
    sign = tag("span", f"{SIGNS[known.verdict]} ", aria_hidden="true")
    return tag("span", sign, known.verdict.value, class_=f"c-verdict v-{style}")


def _about(finding: Finding) -> list[Markup]:
    """What the line has no room for, as a list of terms."""
    whole = value_words(finding.value, finding.unit, finding.attribute)
    rows: list[tuple[str, Child]] = []
    if finding.reason:
        rows.append((finding.status.value, finding.reason))
    if len(whole) > WIDEST:
        rows.append(("value", tag("span", whole, class_="whole")))
    if finding.method:
        rows.append(("method", finding.method))
    rows += [("caveat", caveat) for caveat in finding.caveats]
    if (known := finding.published) is not None:
        text = _known(known, finding)
        rows.append(("published", f"{text} ({known.source})" if known.source else text))
        rows += [(name, str(given)) for name, given in (("printed", known.printed), ("note", known.note)) if given]
    terms = [each for name, text in rows for each in (tag("dt", name), tag("dd", text))]
    return [tag("dl", *terms)] if terms else []


def _known(known: Published, finding: Finding) -> str:
    text = _given(known, finding.attribute) or "something else"
    if known.value is not None and (known.low, known.high) != (None, None):
        text += f", of which {value_words(known.value, known.unit)} is taken as the value"
    return f"{text}: {known.verdict.value}" + (f", {known.text}" if known.text else "")


def _plots(finding: Finding, plots: Child, links: Links) -> Markup:
    """The evidence: which workloads, and what they gave."""
    see: list[Child] = []
    for number, (fragment, title) in enumerate(links):
        see += [", " if number else " See ", tag("a", title, href=f"#{fragment}")]
    see += ["."] if links else []
    if not links and finding.evidence:
        see = [f" {NO_PLOT}"]
    return tag("div", tag("p", _workloads(finding), *see, class_="evidence"), tag("div", plots, class_="plots"))


def _workloads(finding: Finding) -> str:
    if not finding.evidence:
        return NO_WORKLOAD
    digests = ", ".join(name[:8] for name in finding.evidence[:DIGESTS])
    more = f" and {len(finding.evidence) - DIGESTS} more" if len(finding.evidence) > DIGESTS else ""
    count = len(finding.evidence)
    return f"Evidence: {count} workload{'s' if count > 1 else ''}, {digests}{more}."


def instructions(rows: Iterable[Sequence[str]], columns: Sequence[str], anchors: Mapping[str, str]) -> Markup:
    """The table of instructions, one row each; its first cell leads to that instruction's findings."""
    header = tag("tr", *(tag("th", name, scope="col") for name in columns))
    body = [
        tag("tr", tag("th", tag("a", row[0], href=f"#{anchors[row[0]]}") if row[0] in anchors else row[0], scope="row"),
            *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]  # fmt: skip
    table = tag("table", tag("thead", header), tag("tbody", *body))
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Instructions")


def plain(value: Number | str | None) -> str:
    """A number of a table that needs no unit."""
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
