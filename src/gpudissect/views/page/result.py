"""One result as one page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from gpudissect.device_info import Origin
from gpudissect.printable import brief, clean, counted
from gpudissect.results.machine import CURVES
from gpudissect.results.model import Finding, Result, Series
from gpudissect.results.summary import summarize
from gpudissect.results.text import provenance, title_of
from gpudissect.views.page import about, findings
from gpudissect.views.page.figures import Budget, Plots
from gpudissect.views.page.findings import MAX_NAME_LENGTH
from gpudissect.views.page.hierarchy import hierarchy
from gpudissect.views.page.markup import Child, Markup, document, table, tag
from gpudissect.views.page.overview import differences, overview, uncertainties
from gpudissect.views.plots.element import figures_of_series, figures_together, known_machine
from gpudissect.views.plots.figure import Figure
from gpudissect.views.plots.signature import CURVES as ALL_LEVELS
from gpudissect.views.plots.signature import MOUNTAIN, signature_figures
from gpudissect.views.terminal import instructions
from gpudissect.vocabulary import CACHES

MAX_PLOT_BYTES, MAX_FINDING_BYTES, MAX_OTHER_BYTES = 2_000_000, 600_000, 250_000  # with style and script below 3 MB
MAX_FINDINGS = 2000  # of a file that may come from anywhere; no GPU has as many
MAX_SERIES = 400
MAX_LINKS = 200  # to elements
MAX_SPEC_LENGTH = 200  # characters: a recording's has its path
MAX_HOVER_LENGTH = 400  # characters of a name that the mouse points at
WIDE, NARROW = 640, 380  # pixels of the drawings of the hierarchy
Group = tuple[str, list[Finding]]


def result_page(result: Result) -> str:
    """The page of a result: one HTML file that needs nothing else."""
    return _Page(result).text()


class _Page:
    def __init__(self, result: Result) -> None:
        self._result = result
        self._plots = Plots(MAX_PLOT_BYTES)
        self._budget = Budget(MAX_FINDING_BYTES)
        self._rest = Budget(MAX_OTHER_BYTES)
        self._machine = known_machine(result)
        self._summary = summarize(result)
        self._anchors: dict[str, str] = {}  # fragment of each element written so far
        self._count = 0
        self._has_mountain = any((each.element, each.name) == MOUNTAIN for each in result.series)
        self._titles: set[str] = set()  # of figures that stand before the findings

    def text(self) -> str:
        result = self._result
        by_element = groupby(result.findings[:MAX_FINDINGS], lambda each: each.element)
        groups = [(name, list(group)) for name, group in by_element]
        of_instructions = [group for group in groups if instructions.is_of_instruction(group[1][0])]
        first, warnings = list(self._first(result)), self._within_budget(about.notes(result))
        hiding = list(self._hiding())
        elements = [self._element(*group) for group in groups if group not in of_instructions]
        links = list(self._anchors)
        sections = [*elements, *self._instructions(of_instructions), *self._other_series({name for name, _ in groups})]
        parts = (about.prediction, about.older_methods, about.conditions, about.environment)
        after = self._within_budget(*(part(result) for part in parts))
        screen = tag("section", *overview(result, self._summary), differences(result, self._summary))
        contents = self._contents(links, bool(of_instructions))
        return document(
            f"{brief(result.device.name, MAX_NAME_LENGTH)}: memory hierarchy",
            tag("a", "To the findings", class_="skip", href="#findings"),
            tag("header", *self._header()),
            tag(
                "main",
                tag("div", self._hierarchy(), screen, class_="first")
                if self._summary.levels or self._summary.warps
                else None,
                warnings,
                *hiding,
                *first,
                uncertainties(self._summary),
                tag("h2", "All findings", id="findings"),
                contents,
                self._tools(),
                *sections,
                *after,
            ),
            tag("footer", tag("p", self._colophon())),
        )

    def _first(self, result: Result) -> Iterator[Markup]:
        """The figures of the whole memory hierarchy; elements do not repeat them."""
        figures = list(signature_figures(result))
        self._titles = {figure.title for figure in figures}
        if plotted := self._plots.draw(figures):
            yield tag("section", tag("h2", "Plots"), plotted, aria_label="Plots")

    def _hiding(self) -> Iterator[Markup]:
        """How many warps hide latency: the answer, the map it rests on, and the tables folded."""
        for number, (element, sentences, tables) in enumerate(about.latency_hiding(self._result)):
            series = [each for each in self._result.series if (each.element, each.name) == (element, CURVES)]
            figures = [figure for each in series for figure in figures_of_series(each, self._machine)[:1]]
            self._titles |= {figure.title for figure in figures}
            answer = tag("div", tag("div", *sentences), self._plots.draw(figures), class_="answer")
            head = tag("h2", "How many warps hide latency") if number == 0 else None
            section = tag("section", head, tag("h3", title_of(element)), answer, tables, class_="element")
            if self._rest.take(section):
                yield section

    def _new(self, figures: Iterable[Figure]) -> Iterator[Figure]:
        return (figure for figure in figures if figure.title not in self._titles)

    def _within_budget(self, *parts: Iterable[Markup]) -> list[Markup]:
        return [each for part in parts if not self._rest.is_spent for each in part if self._rest.take(each)]

    def _header(self) -> Iterator[Child]:
        device = self._result.device
        style = "simulated" if Origin.SIMULATED in (device.origin, device.recorded_origin) else "measured"
        origin = tag("strong", provenance(device.origin, device.recorded_origin), class_=f"origin {style}")
        name = brief(device.name, MAX_NAME_LENGTH)
        yield tag("h1", name, title=brief(device.name, MAX_HOVER_LENGTH) if name != device.name else None)
        spec = tag("code", brief(device.spec, MAX_SPEC_LENGTH))
        where = "".join(f" · {each}" for each in (*about.provenance(self._result), "brackets hold for this card"))
        yield tag("p", origin, " ", spec, where, class_="facts")
        yield tag("p", about.facts(self._result), class_="facts")

    def _hierarchy(self) -> Child:
        wide, narrow = (hierarchy(self._result, width, self._anchors) for width in (WIDE, NARROW))
        if not wide:
            return None
        drawings = tag("div", wide, class_="wide"), tag("div", narrow, class_="narrow")
        return tag("section", *drawings, aria_label="Hierarchy")

    def _contents(self, elements: Sequence[str], has_instructions: bool) -> Markup:
        links = [(_short(title_of(name)), self._anchors[name]) for name in elements]
        links += [("Instructions", "instructions")] if has_instructions else []
        items = [tag("li", tag("a", title, href=f"#{anchor}")) for title, anchor in links[:MAX_LINKS]]
        return tag("nav", tag("ul", *items), aria_label="Elements", class_="contents")

    def _tools(self) -> Markup:
        """How many findings there are, what the page has no room for, and the place of the script's tools."""
        total, shown = len(self._result.findings), self._count
        texts = [f"The first {shown} of {total} findings" if total > shown else f"{shown} findings"]
        omitted = [f"{total - shown} findings"] if total > shown else []
        omitted += [f"{self._plots.omitted} plots"] if self._plots.omitted else []
        omitted += ["some other parts of the file"] if self._rest.is_spent else []
        texts += [f"{each} are left out to keep this page small" for each in omitted]
        hint = tag("span", f"{'; '.join(texts)}. Click a row for method and measurements.")
        return tag("p", hint, tag("span", id="tools"), class_="tools")

    def _element(self, name: str, group: list[Finding]) -> Markup | None:
        title = title_of(name)
        count = counted(len(group), "finding")
        values = tag("span", " ", " · ".join([*findings.brief_values(group), count]), class_="facts")
        code = tag("code", _short(name)) if title != name else None
        head = tag("summary", tag("h3", _short(title), " ", code), values)
        body = self._body(name, group, head)
        return tag("details", head, *body, class_="element group", id=self._new_anchor(name)) if body else None

    def _new_anchor(self, name: str) -> str | None:
        """The fragment of an element, for the first group of its findings only."""
        return None if name in self._anchors else self._anchors.setdefault(name, f"e{len(self._anchors)}")

    def _body(self, name: str, group: Sequence[Finding], head: Markup) -> list[Child]:
        """Lines and plots of an element; empty where the page has no room for it."""
        if not self._budget.take(head):
            return []
        series = self._series(name, group)
        attributes = {finding.attribute for finding in group}
        general = [each for each in series if not attributes.intersection(each.shows)]
        plots = self._plots.draw(self._new(figures_together(group, general, self._machine)))
        evidence = [self._evidence(finding, series) for finding in group]  # before the lines, which link to them
        lines = [*map(self._line, group, evidence)]
        orphans = [plot for plot, line in zip(evidence, lines, strict=True) if line is None]  # other lines link to them
        return [findings.head(), tag("div", *lines, class_="lines"), plots, *orphans]

    def _line(self, finding: Finding, evidence: Markup) -> Markup | None:
        if self._budget.is_spent:
            return None
        line = findings.line(finding, f"f{self._count + 1}", evidence, self._plots.links(finding))
        if not self._budget.take(line, evidence):
            return None
        self._count += 1
        return line

    def _evidence(self, finding: Finding, series: Sequence[Series]) -> Markup:
        """Plots of the kept evidence, once: other findings that rest on the same link to them."""
        kept = [each for each in series if each.shows and each.shows[0] == finding.attribute]
        figures = (figure for each in kept for figure in figures_of_series(each, self._machine))
        return self._plots.draw(self._new(figures))

    def _series(self, element: str, group: Sequence[Finding]) -> list[Series]:
        """Series of an element; kept evidence gets the digests of its finding."""
        evidence = {finding.attribute: finding.evidence for finding in group}
        return [
            each.model_copy(update={"evidence": evidence.get(each.shows[0], ())}) if each.shows else each
            for each in self._result.series[:MAX_SERIES]
            if each.element == element and not self._is_replaced(each)
        ]

    def _is_replaced(self, series: Series) -> bool:
        """Whether the latency of whole laps over all levels shows the same without the timer's overhead."""
        return self._has_mountain and series.name == MOUNTAIN[1] and series.element in CACHES

    def _instructions(self, groups: Sequence[Group]) -> Iterator[Markup]:
        """The table of instructions, then their findings, folded."""
        if not groups:
            return
        listed = instructions.rows([each for _, own in groups for each in own], self._result.device.facts)
        rows = [[cell.plain for cell in row] for row in listed]
        folded = []
        for name, group in groups:
            head = tag("summary", tag("code", name))
            if body := self._body(name, group, head):
                folded.append(tag("details", head, *body, class_="group", id=self._new_anchor(name)))
        columns = [n for n in range(len(instructions.COLUMNS)) if any(row[n] for row in rows)]
        heads = [instructions.COLUMNS[n] for n in columns]
        elements = {instructions.name_of(name): name for name, _ in groups}
        grid = table("Instructions", heads, ([self._linked(row[n], n, elements) for n in columns] for row in rows))
        each = tag("details", tag("summary", "Findings and plots of each instruction"), *folded, class_="group")
        yield tag("section", tag("h3", "Instructions"), grid, each, id="instructions", class_="element")

    def _linked(self, text: str, column: int, elements: Mapping[str, str]) -> Child:
        anchor = self._anchors.get(elements.get(text, ""))
        return text if column or anchor is None else tag("a", text, href=f"#{anchor}")

    def _other_series(self, elements: set[str]) -> Iterator[Markup]:
        """Series about elements without a finding."""
        other = [each for each in self._result.series[:MAX_SERIES] if each.element not in {*elements, ALL_LEVELS}]
        figures = (figure for each in other for figure in figures_of_series(each, self._machine))
        if plotted := self._plots.draw(self._new(figures)):
            yield tag("section", tag("h3", "Other measurements"), plotted, class_="element")

    def _colophon(self) -> str:
        made = f"Made by gpudissect {clean(self._result.environment.get('gpudissect', ''))}."
        if not any(series.shows for series in self._result.series):
            made += " The file keeps no traces behind single findings; discover --html plots them."
        return made


def _short(name: str) -> str:
    return brief(name, MAX_NAME_LENGTH)
