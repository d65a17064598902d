"""One result as one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from gpudissect.device.base import Origin
from gpudissect.report import instructions
from gpudissect.report.evidence import ALL, Kept
from gpudissect.report.keep import with_evidence
from gpudissect.report.markup import Child, Markup, tag
from gpudissect.report.names import title_of
from gpudissect.report.page import findings as shown
from gpudissect.report.page.about import conditions, environment, facts, foretold, hidden, notes, readings
from gpudissect.report.page.document import document
from gpudissect.report.page.drawing import drawing
from gpudissect.report.page.plotted import Plotted, all_of
from gpudissect.report.plots.of_element import figures_of_series, figures_together, known_machine
from gpudissect.report.result import Finding, Result, Series
from gpudissect.report.text import clean, provenance

MOST_FINDINGS = 2000  # no GPU has as many; a file may
MOST_SERIES = 400
WIDE, NARROW = 760, 380


def page(result: Result, kept: Kept | None = None) -> str:
    """The page of a result: one HTML file that needs nothing else.

    Each finding shows what it was read from, as far as the result keeps that. `kept` has the traces by the digests of
    their workloads, where they are at hand: then it is drawn of them, finer.
    """
    return _Page(with_evidence(result, kept or {}, ALL)).text()


class _Page:
    def __init__(self, result: Result) -> None:
        self._result = result
        self._findings = result.findings[:MOST_FINDINGS]
        self._groups = [(name, list(own)) for name, own in groupby(self._findings, key=lambda each: each.element)]
        self._anchors: dict[str, str] = {}
        for number, (name, _) in enumerate(self._groups):
            self._anchors.setdefault(name, f"e{number}")
        self._plotted = Plotted()
        self._machine = known_machine(result)
        self._number = 0

    def text(self) -> str:
        result = self._result
        own, of_instructions = self._apart()
        sections = [*self._elements(own), *self._instructions(of_instructions)]
        title = f"{clean(result.device.name)[:80]}: memory hierarchy"
        return document(
            title,
            tag("a", "To the findings", class_="skip", href="#findings"),
            tag("header", *self._header()),
            tag("main", self._drawing(), self._contents(own, bool(of_instructions)), *notes(result), *hidden(result),
                tag("h2", "Findings", id="findings"), self._tools(), *sections, *self._strays(), *foretold(result),
                *readings(result), *conditions(result), *environment(result)),
            tag("footer", tag("p", self._colophon())),
        )  # fmt: skip

    def _apart(self) -> tuple[list[tuple[str, list[Finding]]], list[tuple[str, list[Finding]]]]:
        of_instructions = [group for group in self._groups if instructions.is_of_instruction(group[1][0])]
        return [group for group in self._groups if group not in of_instructions], of_instructions

    def _header(self) -> Iterator[Child]:
        device = self._result.device
        origin = provenance(device.origin, device.recorded_origin)
        style = "measured" if Origin.SIMULATED not in (device.origin, device.recorded_origin) else "simulated"
        yield tag("h1", device.name)
        yield tag("p", tag("strong", origin, class_=f"origin {style}"), " ", tag("code", device.spec))
        yield tag("p", facts(self._result), class_="facts")

    def _drawing(self) -> Child:
        wide = drawing(self._result, WIDE, self._anchors)
        if not wide:
            return None
        narrow = drawing(self._result, NARROW, self._anchors)
        return tag("section", tag("h2", "Hierarchy"), tag("div", wide, class_="wide"),
                   tag("div", narrow, class_="narrow"), aria_label="Hierarchy")  # fmt: skip

    def _contents(self, own: Sequence[tuple[str, list[Finding]]], more: bool) -> Markup:
        items = [tag("li", tag("a", title_of(name), href=f"#{self._anchors[name]}")) for name, _ in own]
        items += [tag("li", tag("a", "Instructions", href="#instructions"))] if more else []
        return tag("nav", tag("ul", *items), aria_label="Elements", class_="contents")

    def _tools(self) -> Markup:
        said = f"{len(self._findings)} findings"
        if len(self._result.findings) > len(self._findings):
            said += f", the first of {len(self._result.findings)}; the result file has the rest"
        return tag("p", tag("span", f"{said}. A line opens to how it was found and what was seen."),
                   tag("span", id="tools"), class_="tools")  # fmt: skip

    def _elements(self, groups: Iterable[tuple[str, list[Finding]]]) -> Iterator[Markup]:
        for name, group in groups:
            body = [tag("h3", title_of(name), " ", tag("code", name) if title_of(name) != name else None)]
            yield tag("section", *body, *self._of_element(name, group), class_="element", id=self._anchor(name, group))

    def _anchor(self, name: str, group: Sequence[Finding]) -> str | None:
        """Only the first group of an element's findings has its anchor."""
        first = next(own for other, own in self._groups if other == name)
        return self._anchors[name] if first is group else None

    def _of_element(self, name: str, group: Sequence[Finding]) -> Iterator[Child]:
        series = self._series(name, group)
        known = {finding.attribute for finding in group}
        of_all = [each for each in series if not known.intersection(each.shows)]
        plots = all_of(figures_together(group, of_all, self._machine), self._plotted)
        within = [self._evidence(finding, series) for finding in group]  # first, so that every line can refer to them
        yield shown.head()
        yield tag("div", *map(self._line, group, within), class_="lines")
        yield plots

    def _line(self, finding: Finding, own: Child) -> Markup:
        self._number += 1
        return shown.line(finding, f"f{self._number}", own, self._plotted.showing(finding))

    def _evidence(self, finding: Finding, series: Sequence[Series]) -> Child:
        """What is kept of the evidence, once: other findings that rest on the same refer to it."""
        own = [each for each in series if each.shows and each.shows[0] == finding.attribute]
        return all_of((figure for each in own for figure in figures_of_series(each, self._machine)), self._plotted)

    def _instructions(self, groups: Sequence[tuple[str, list[Finding]]]) -> Iterator[Markup]:
        if not groups:
            return
        together = [finding for _, group in groups for finding in group]
        rows = [[cell.plain for cell in row] for row in instructions.rows(together)]
        kept = [n for n in range(len(instructions.COLUMNS)) if any(row[n] for row in rows)]
        table = shown.instructions(
            ([row[n] for n in kept] for row in rows), [instructions.COLUMNS[n] for n in kept], self._anchors
        )
        yield tag("section", tag("h3", "Instructions"), table, *self._elements_closed(groups), id="instructions",
                  class_="element")  # fmt: skip

    def _elements_closed(self, groups: Iterable[tuple[str, list[Finding]]]) -> Iterator[Markup]:
        for name, group in groups:
            yield tag("details", tag("summary", tag("code", name)), *self._of_element(name, group), class_="group",
                      id=self._anchor(name, group))  # fmt: skip

    def _series(self, element: str, group: Sequence[Finding]) -> list[Series]:
        """Those of an element; what was kept of the evidence of findings has theirs."""
        behind = {finding.attribute: finding.evidence for finding in group}
        own = [series for series in self._result.series[:MOST_SERIES] if series.element == element]
        return [
            series.model_copy(update={"evidence": behind.get(series.shows[0], ())}) if series.shows else series
            for series in own
        ]

    def _strays(self) -> Iterator[Markup]:
        """Series about elements of which there is no finding."""
        strays = [each for each in self._result.series[:MOST_SERIES] if each.element not in self._anchors]
        figures = [figure for each in strays for figure in figures_of_series(each, self._machine)]
        if drawn := all_of(figures, self._plotted):
            yield tag("section", tag("h3", "Also seen"), drawn, class_="element")

    def _colophon(self) -> str:
        result, left = self._result, self._plotted.left_out
        made = f"Made by gpudissect {clean(result.environment.get('gpudissect', ''))}."
        if not any(series.shows for series in result.series):
            made += " The file keeps nothing of the traces behind single findings: discover --html has them."
        return made + (f" {left} plots were left out to keep the page small." if left else "")
