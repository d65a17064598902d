"""Findings on a page: a line each, which opens to method, caveats and evidence."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from gpudissect.estimate import Status
from gpudissect.printable import brief, counted, cut
from gpudissect.results.folded import folded, folded_published, rounded, rounded_range
from gpudissect.results.model import Finding, Published, Value
from gpudissect.results.scope import warps_share
from gpudissect.results.text import bracket, percent, quantity, words
from gpudissect.results.verdict import Verdict
from gpudissect.simulation.cache.geometry import RANDOM_POLICIES, PolicyKind
from gpudissect.units import GIB
from gpudissect.views.page.markup import MAX_TEXT_LENGTH, Child, Markup, tag
from gpudissect.vocabulary import LIST_INDEX

MAX_NAME_LENGTH = 80  # characters of the name of an attribute, an element, a device
MAX_VALUE_LENGTH = 44  # characters of a value in its line; a longer one stands in full below
MAX_DIGESTS = 8  # of the evidence on the page; the result file has all
COLUMNS = ("attribute", "value", "bracket", "confidence", "published", "verdict")
NO_WORKLOAD = "No workload of its own: it follows from other findings, or from what the device states."
NO_PLOT = "No plot: their traces are not kept in this result, or there is too little to draw."
BRIEF = tomllib.loads(Path(__file__).with_name("brief.toml").read_text(encoding="utf-8"))
"""Attributes in short, in order, and how each is written."""
MAX_BRIEF = 4  # of them
_SIGNS = {Verdict.OVERLAPS: "∩", Verdict.AS_PRINTED: "≈", Verdict.DIFFERS: "≠", Verdict.NOT_COMPARABLE: "–"}
_ACRONYMS = {*map(str, PolicyKind)} - {*RANDOM_POLICIES, PolicyKind.ORDER, PolicyKind.LAST_TWO_HITS}
Links = Sequence[tuple[str, str]]  # fragment and title of plots


def value_text(value: Value | None, unit: str, attribute: str = "") -> str:
    """A value with its unit.

    Sizes below a GiB are exact, for a byte of them counts; larger ones and fractions without a unit have four digits.
    """
    if isinstance(value, str):
        kind, _, rest = value.partition(" ")
        if attribute == "replacement_policy" and kind in _ACRONYMS:
            value = f"{kind.upper()} {rest}".strip()
        return quantity(value[: MAX_TEXT_LENGTH + 1], unit)
    if isinstance(value, int | float):
        if unit == "B" and value >= GIB and float(f"{value / GIB:.7g}") * GIB != value:
            return f"{value / GIB:.4g} GiB"
        if not unit and value != int(value):
            return f"{value:.4g}"
    return quantity(value, unit, LIST_INDEX.get(attribute, "values"))


def brief_values(group: Sequence[Finding]) -> list[str]:
    """The values of an element that one looks for first."""
    found = {each.attribute: each for each in group if each.status.has_value}
    return [template.format(folded(found[name])) for name, template in BRIEF["heading"].items() if name in found][
        :MAX_BRIEF
    ]


def head() -> Markup:
    """Headings of the columns, for the eye only: each line repeats them for screen readers."""
    return tag("p", *(tag("span", name, class_=f"c-{name}") for name in COLUMNS), class_="columns", aria_hidden="true")


def line(finding: Finding, identity: str, plots: Child, links: Links) -> Markup:
    """One finding. `plots` stand inside; `links` lead to plots elsewhere on the page."""
    known = finding.published
    cells = [
        tag("span", brief(_label(finding), MAX_NAME_LENGTH), class_="c-attribute"),
        tag("span", *_value(finding), class_="c-value"),
        _cell("bracket", _bracket(finding)),
        _cell("confidence", "stated" if finding.status is Status.STATED else percent(finding.confidence)),
        _cell("published", cut(_published(known, finding.attribute), MAX_VALUE_LENGTH) if known else ""),
        _verdict(known),
    ]
    about = tag("div", _about(finding), _evidence(finding, plots, links), class_="about")
    return tag("details", tag("summary", *cells), about, class_="finding", id=identity)


def _label(finding: Finding) -> str:
    """The attribute in words; of warps needed with the share of the peak."""
    share = f" for {warps_share(finding.element)} of peak" if finding.attribute == "warps_needed" else ""
    return words(finding.attribute) + share


def _cell(name: str, text: str) -> Markup:
    return tag("span", tag("span", f"{name} ", class_="aside") if text else None, text, class_=f"c-{name}")


def _value(finding: Finding) -> list[Child]:
    if not finding.status.has_value:
        return [tag("em", finding.status.value)]
    if finding.attribute == "warps_needed":
        return [tag("strong", folded(finding))]
    is_range = finding.unit == "B" and None not in (finding.low, finding.high) and finding.low != finding.high
    written = folded(finding) if is_range else value_text(finding.value, finding.unit, finding.attribute)
    text = tag("strong", cut(written, MAX_VALUE_LENGTH))
    return [text, None if finding.value_ns is None else tag("span", f" {finding.value_ns:.4g} ns", class_="ns")]


def _bracket(finding: Finding) -> str:
    low, high = finding.low, finding.high
    if low is None or high is None or low == high:
        return bracket(low, high, finding.unit)
    text = rounded_range(low, high, finding.unit)
    return text if rounded(low, finding.unit) != rounded(high, finding.unit) else bracket(low, high, finding.unit)


def _published(known: Published, attribute: str) -> str:
    """What the document gives: its range, where it gives one."""
    if known.value is not None and (known.low, known.high) == (None, None):
        return value_text(known.value, known.unit, attribute)
    return folded_published(known)


def _verdict(known: Published | None) -> Markup:
    if known is None:
        return tag("span", class_="c-verdict")
    sign = tag("span", f"{_SIGNS.get(known.verdict, '✓')} ", aria_hidden="true")
    return tag("span", sign, known.verdict.value, class_=f"c-verdict v-{known.verdict.value.replace(' ', '-')}")


def _about(finding: Finding) -> Markup | None:
    """Reason, method, caveats and the published value, as a list of terms."""
    whole = value_text(finding.value, finding.unit, finding.attribute)
    rows: list[tuple[str, Child]] = [(finding.status.value, finding.reason)]
    rows.append(("value", tag("span", whole, class_="whole") if len(whole) > MAX_VALUE_LENGTH else None))
    rows.append(("method", finding.method))
    rows += [("caveat", caveat) for caveat in finding.caveats]
    if (known := finding.published) is not None:
        text = _published(known, finding.attribute) or "something else"
        if known.value is not None and (known.low, known.high) != (None, None):
            text += f", of which {value_text(known.value, known.unit)} is taken as the value"
        text += f": {known.verdict.value}" + (f", {known.text}" if known.text else "")
        rows.append(("published", f"{text} ({known.source})" if known.source else text))
        rows += [("printed", str(known.printed or "")), ("note", known.note)]
    terms = [each for name, text in rows if text for each in (tag("dt", name), tag("dd", text))]
    return tag("dl", *terms) if terms else None


def _evidence(finding: Finding, plots: Child, links: Links) -> Markup:
    """Which workloads a finding rests on, and their plots."""
    digests, text = finding.evidence, NO_WORKLOAD
    if digests:
        more = f" and {len(digests) - MAX_DIGESTS} more" if len(digests) > MAX_DIGESTS else ""
        named = ", ".join(name[:8] for name in digests[:MAX_DIGESTS])
        text = f"Evidence: {counted(len(digests), 'workload')}, {named}{more}."
    see: list[Child] = [f" {NO_PLOT}"] if digests and not links else []
    for number, (fragment, title) in enumerate(links):
        see += [", " if number else " See ", tag("a", title, href=f"#{fragment}")]
    see += ["."] if links else []
    return tag("div", tag("p", text, *see, class_="evidence"), tag("div", plots, class_="plots"))
