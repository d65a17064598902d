"""One result as one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from gpudissect.device_info import Origin
from gpudissect.results.evidence.keep import with_evidence
from gpudissect.results.evidence.series import ALL, Kept
from gpudissect.results.model import Finding, Result, Series
from gpudissect.results.names import title_of
from gpudissect.results.text import brief, clean, provenance
from gpudissect.views.page import findings as shown
from gpudissect.views.page.about import conditions, environment, facts, foretold, hidden, notes, readings
from gpudissect.views.page.document import document
from gpudissect.views.page.drawing import drawing
from gpudissect.views.page.markup import Child, Markup, tag
from gpudissect.views.page.plotted import Plotted, all_of
from gpudissect.views.page.room import FOR_FINDINGS, FOR_THE_REST, Room
from gpudissect.views.plots.of_element import figures_of_series, figures_together, known_machine
from gpudissect.views.terminal import instructions

MOST_FINDINGS = 2000  # no GPU has as many; a file may
MOST_SERIES = 400
MOST_LINKS = 200  # to elements
LONGEST_SPEC = 200  # characters: a recording's has its path
HOVERED = 400  # characters of a name that a reader points at
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
        self._anchors: dict[str, str] = {}  # of elements that there is room for, as they are written
        self._plotted = Plotted()
        self._room = Room(FOR_FINDINGS)
        self._rest = Room(FOR_THE_REST)
        self._machine = known_machine(result)
        self._number = 0

    def text(self) -> str:
        result = self._result
        own, of_instructions = self._apart()
        self._of_instructions = {name for name, _ in of_instructions}
        sections = [*self._elements(own), *self._instructions(of_instructions)]
        strays = [*self._strays()]
        before = self._of_rest(notes(result), hidden(result))
        after = self._of_rest(foretold(result), readings(result), conditions(result), environment(result))
        title = f"{brief(result.device.name, shown.LONGEST_NAME)}: memory hierarchy"
        return document(
            title,
            tag("a", "To the findings", class_="skip", href="#findings"),
            tag("header", *self._header()),
            tag("main", self._drawing(), self._contents(bool(of_instructions)), *before,
                tag("h2", "Findings", id="findings"), self._tools(), *sections, *strays, *after),
            tag("footer", tag("p", self._colophon())),
        )  # fmt: skip

    def _of_rest(self, *parts: Iterable[Markup]) -> list[Markup]:
        """What else is said, as far as there is room."""
        return [each for part in parts if not self._rest.is_full for each in part if self._rest.has(each)]

    def _apart(self) -> tuple[list[tuple[str, list[Finding]]], list[tuple[str, list[Finding]]]]:
        of_instructions = [group for group in self._groups if instructions.is_of_instruction(group[1][0])]
        return [group for group in self._groups if group not in of_instructions], of_instructions

    def _header(self) -> Iterator[Child]:
        device = self._result.device
        origin = provenance(device.origin, device.recorded_origin)
        style = "measured" if Origin.SIMULATED not in (device.origin, device.recorded_origin) else "simulated"
        name = brief(device.name, shown.LONGEST_NAME)
        yield tag("h1", name, title=brief(device.name, HOVERED) if name != device.name else None)
        spec = tag("code", brief(device.spec, LONGEST_SPEC))
        yield tag("p", tag("strong", origin, class_=f"origin {style}"), " ", spec)
        yield tag("p", facts(self._result), class_="facts")

    def _drawing(self) -> Child:
        wide = drawing(self._result, WIDE, self._anchors)
        if not wide:
            return None
        narrow = drawing(self._result, NARROW, self._anchors)
        return tag("section", tag("h2", "Hierarchy"), tag("div", wide, class_="wide"),
                   tag("div", narrow, class_="narrow"), aria_label="Hierarchy")  # fmt: skip

    def _contents(self, more: bool) -> Markup:
        items = [tag("li", tag("a", _title(name), href=f"#{anchor}")) for name, anchor in self._anchors.items()
                 if not more or name not in self._of_instructions]  # fmt: skip
        items += [tag("li", tag("a", "Instructions", href="#instructions"))] if more else []
        return tag("nav", tag("ul", *items[:MOST_LINKS]), aria_label="Elements", class_="contents")

    def _tools(self) -> Markup:
        every = len(self._result.findings)
        said = f"{self._number} findings"
        if every > self._number:
            left = every - self._number
            said = f"The first {self._number} of {every} findings; {left} are left out to keep this page small"
        if self._plotted.left_out:
            said += f"; {self._plotted.left_out} plots are left out to keep this page small"
        if self._rest.is_full:
            said += "; some of what else the file says is left out to keep this page small"
        return tag("p", tag("span", f"{said}. A line opens to how it was found and what was seen."),
                   tag("span", id="tools"), class_="tools")  # fmt: skip

    def _elements(self, groups: Iterable[tuple[str, list[Finding]]]) -> Iterator[Markup]:
        for name, group in groups:
            head = tag("h3", _title(name), " ", tag("code", _short(name)) if title_of(name) != name else None)
            if body := self._of_element(name, group, head):
                yield tag("section", head, *body, class_="element", id=self._anchor(name))

    def _anchor(self, name: str) -> str | None:
        """Only the first group of an element's findings has its anchor."""
        if name in self._anchors:
            return None
        return self._anchors.setdefault(name, f"e{len(self._anchors)}")

    def _of_element(self, name: str, group: Sequence[Finding], head: Markup) -> list[Child]:
        """Lines and plots of an element; empty where there is no room for it."""
        if not self._room.has(head):
            return []
        series = self._series(name, group)
        known = {finding.attribute for finding in group}
        of_all = [each for each in series if not known.intersection(each.shows)]
        plots = all_of(figures_together(group, of_all, self._machine), self._plotted)
        within = [self._evidence(finding, series) for finding in group]  # first, so that every line can refer to them
        lines = [*map(self._line, group, within)]
        homeless = [own for own, line in zip(within, lines, strict=True) if line is None]  # others may refer to them
        return [shown.head(), tag("div", *lines, class_="lines"), plots, *homeless]

    def _line(self, finding: Finding, own: Markup) -> Markup | None:
        if self._room.is_full:
            return None
        made = shown.line(finding, f"f{self._number + 1}", own, self._plotted.showing(finding))
        if not self._room.has(made, own):
            return None
        self._number += 1
        return made

    def _evidence(self, finding: Finding, series: Sequence[Series]) -> Markup:
        """What is kept of the evidence, once: other findings that rest on the same refer to it."""
        own = [each for each in series if each.shows and each.shows[0] == finding.attribute]
        return all_of((figure for each in own for figure in figures_of_series(each, self._machine)), self._plotted)

    def _instructions(self, groups: Sequence[tuple[str, list[Finding]]]) -> Iterator[Markup]:
        if not groups:
            return
        together = [finding for _, group in groups for finding in group]
        rows = [[cell.plain for cell in row] for row in instructions.rows(together)]
        kept = [n for n in range(len(instructions.COLUMNS)) if any(row[n] for row in rows)]
        closed = [*self._elements_closed(groups)]
        table = shown.instructions(
            ([row[n] for n in kept] for row in rows), [instructions.COLUMNS[n] for n in kept], self._anchors
        )
        yield tag("section", tag("h3", "Instructions"), table, *closed, id="instructions", class_="element")

    def _elements_closed(self, groups: Iterable[tuple[str, list[Finding]]]) -> Iterator[Markup]:
        for name, group in groups:
            head = tag("summary", tag("code", name))
            if body := self._of_element(name, group, head):
                yield tag("details", head, *body, class_="group", id=self._anchor(name))

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
        known = {name for name, _ in self._groups}
        strays = [each for each in self._result.series[:MOST_SERIES] if each.element not in known]
        figures = (figure for each in strays for figure in figures_of_series(each, self._machine))
        if drawn := all_of(figures, self._plotted):
            yield tag("section", tag("h3", "Also seen"), drawn, class_="element")

    def _colophon(self) -> str:
        result = self._result
        made = f"Made by gpudissect {clean(result.environment.get('gpudissect', ''))}."
        if not any(series.shows for series in result.series):
            made += " The file keeps nothing of the traces behind single findings: discover --html has them."
        return made


def _title(element: str) -> str:
    return _short(title_of(element))


def _short(name: str) -> str:
    return brief(name, shown.LONGEST_NAME)
