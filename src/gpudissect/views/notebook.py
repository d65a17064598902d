"""Results, comparisons and plots as HTML for Jupyter. Text is escaped; plots are images of their own."""

import base64
from collections.abc import Sequence
from itertools import chain, groupby

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.explanation import sentences
from gpudissect.explanation.result import Explanation
from gpudissect.printable import cut
from gpudissect.results.compare import Comparison, Outcome
from gpudissect.results.model import Finding, Result
from gpudissect.results.summary import summarize
from gpudissect.results.text import bracket, percent, provenance, published_words, quantity
from gpudissect.views.page.about import latency_hiding
from gpudissect.views.page.explanation import answers
from gpudissect.views.page.hierarchy import hierarchy_file
from gpudissect.views.page.markup import Child, Markup, tag
from gpudissect.views.page.overview import overview
from gpudissect.views.plots.element import figures_of_element
from gpudissect.views.plots.explanation import figures_of
from gpudissect.views.plots.signature import signature_figures
from gpudissect.views.plots.standalone import standalone
from gpudissect.views.terminal.compare_table import names_of, values_of, why_of
from gpudissect.vocabulary import LIST_INDEX

MAX_ROWS = 500
MAX_CELL_LENGTH, MAX_REASON_LENGTH = 60, 160  # characters
_COLUMNS = ("element", "attribute", "value", "bracket", "confidence", "published", "reason")
_BADGE = "padding:1px 8px;border:2px solid;border-radius:1em;font-size:85%;"


def result_html(result: Result) -> str:
    """Device, warnings, drawing of the hierarchy, answers and summary, one plot, every finding in a closed table."""
    device = result.device
    simulated = Origin.SIMULATED in (device.origin, device.recorded_origin)
    head = tag(
        "p",
        *(tag("strong", device.name), " "),
        *(tag("span", provenance(device.origin, device.recorded_origin), style=_BADGE), " "),
        *(tag("code", device.spec), tag("br")),
        "simulated: this shows the method, not a real GPU" if simulated else None,
    )
    warnings = [f"failed: {each.experiment}: {each.reason}" for each in result.failures]
    if result.interrupted:
        warnings.append("interrupted: only what was measured until then")
    answers = [each for _, sentences, tables in latency_hiding(result) for each in (*sentences, tables)]
    parts = (*answers, *overview(result, summarize(result)))
    notes = (tag("p", tag("strong", each)) for each in warnings)
    drawing, plot = hierarchy_file(result), _first_plot(result)
    return tag(
        "div",
        *(head, *notes),
        picture(drawing, "Memory hierarchy", "") if drawing else None,
        *parts,
        picture(plot, "Measured", "") if plot else None,
        _findings(result),
    )


def _first_plot(result: Result) -> str:
    """The first plot that says something about the whole GPU, or else of an element; empty without any."""
    elements = (
        figures_of_element(result, element) for element in dict.fromkeys(each.element for each in result.series)
    )
    figures = chain(signature_figures(result), chain.from_iterable(elements))
    return next((svg for figure in figures if (svg := standalone(figure))), "")


def findings_html(findings: Sequence[Finding]) -> Markup:
    """A table of findings with bracket, confidence, published value and reason."""
    rows = [
        _row(finding, element if number == 0 else "")
        for element, group in groupby(findings[:MAX_ROWS], key=lambda each: each.element)
        for number, finding in enumerate(group)
    ]
    return _table(_COLUMNS, rows)


def _findings(result: Result) -> Markup:
    findings = [each for each in result.findings if each.status is not Status.SKIPPED]
    title = f"All {len(findings)} findings"
    if len(findings) > MAX_ROWS:
        title = f"The first {MAX_ROWS} of {len(findings)} findings; to_pandas() has them all"
    return tag("details", tag("summary", title), findings_html(findings))


def comparison_html(comparison: Comparison) -> str:
    """Counts, obstacles and every value side by side, differences first."""
    counts = ", ".join(f"{count} {outcome.value}" for outcome, count in comparison.counts.items())
    rows = []
    for row in sorted(comparison.rows, key=lambda each: list(Outcome).index(each.outcome))[:MAX_ROWS]:
        texts = (row.attribute, *values_of(row), row.outcome.value, cut(why_of(row), MAX_CELL_LENGTH))
        rows.append(tag("tr", tag("th", row.element), *(tag("td", text) for text in texts)))
    columns = ("element", "attribute", *names_of(comparison.results), "verdict", "why")
    warnings = [tag("p", each) for each in comparison.warnings]
    return tag("div", tag("p", tag("strong", counts)), *warnings, _table(columns, rows))


def explanation_html(explanation: Explanation) -> str:
    """Kernel and GPU, answers, the curve over occupancies."""
    head = (
        tag("strong", sentences.kernel_of(explanation)),
        " ",
        tag("span", sentences.gpu_of(explanation), style=_BADGE),
    )
    launch = tag("p", sentences.launch_of(explanation))
    plots = (picture(standalone(figure), figure.title, "") for figure in figures_of(explanation))
    return tag("div", tag("p", *head), launch, answers(explanation), *map(Markup, plots))


def picture(svg: str, title: str, alternative: str) -> str:
    """An SVG as an image, so that its styles and names do not meet those of other plots; a text if it is empty."""
    if not svg:
        return tag("p", tag("strong", title), f" (nothing to plot: {alternative})")
    source = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    return tag("img", src=Markup(source), alt=title, style="max-width:100%")


def _row(finding: Finding, element: str) -> Markup:
    value = quantity(finding.value, finding.unit, LIST_INDEX.get(finding.attribute, "values"))
    ns = f" ({finding.value_ns:.4g} ns)" if finding.value_ns is not None else ""
    reference = ""
    if (known := finding.published) is not None:
        text = published_words(known.value, known.low, known.high, known.unit)
        reference = f"{cut(text, MAX_CELL_LENGTH)}: {known.verdict.value}"
    cells: list[Child] = [
        tag("td", finding.attribute),
        tag("td", tag("strong", cut(value, MAX_CELL_LENGTH)) if value else tag("em", finding.status.value), ns),
        tag("td", bracket(finding.low, finding.high, finding.unit)),
        tag("td", "stated" if finding.status is Status.STATED else percent(finding.confidence)),
        tag("td", reference),
        tag("td", cut(finding.reason, MAX_REASON_LENGTH), title=finding.reason or None),
    ]
    return tag("tr", tag("th", element, style="text-align:left"), *cells)


def _table(columns: Sequence[str], rows: Sequence[Markup]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", name, style="text-align:left") for name in columns)))
    table = tag("table", head, tag("tbody", *rows, style="text-align:left"))
    return tag("div", table, style="max-height:36em;overflow:auto")
