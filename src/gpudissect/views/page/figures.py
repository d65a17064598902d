"""Plots of a page with their data, within a number of bytes."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from gpudissect.results.model import Finding
from gpudissect.views.page.markup import Markup, data, tag
from gpudissect.views.plots.draw import legend, svg
from gpudissect.views.plots.figure import Figure

MAX_PLOT_LINKS = 6  # of one finding
Link = tuple[str, str]  # fragment and title of a plot


class Budget:
    """A number of bytes: after the first part that does not fit nothing else does."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.is_spent = False

    def take(self, part: Markup, counted: Markup | None = None) -> bool:
        """Whether a part fits, less what stands within it and was counted elsewhere."""
        size = len(part.encode()) - len((counted or "").encode())
        self.is_spent = self.is_spent or size > self._left
        if not self.is_spent:
            self._left -= size
        return not self.is_spent


class Plots:
    """Draws figures within a number of bytes, and finds them again by the evidence they show."""

    def __init__(self, size: int) -> None:
        self._budget = Budget(size)
        self._by_digest: dict[str, list[Link]] = defaultdict(list)
        self._by_finding: dict[tuple[str, str], list[Link]] = defaultdict(list)
        self._count = 0
        self.omitted = 0

    def draw(self, figures: Iterable[Figure]) -> Markup:
        """Figures side by side; empty without any."""
        plotted = [made for figure in figures if (made := self._draw(figure))]
        return tag("div", *plotted, class_="plots") if plotted else Markup("")

    def _draw(self, figure: Figure) -> Markup:
        identity = f"p{self._count + 1}"
        drawing = Markup("") if self._budget.is_spent else svg(figure, identity)
        if not drawing:
            self.omitted += self._budget.is_spent
            return drawing
        columns = {"columns": figure.columns, "units": dict(figure.units), "x": figure.x, "ys": figure.ys}
        content = {"title": figure.title, "kind": figure.kind, "by": figure.by or figure.colour, **columns}
        note = tag("p", figure.note, class_="note") if figure.note else None
        canvas, block = tag("div", drawing, class_="canvas"), data(f"{identity}-data", content)
        parts = tag("figcaption", figure.title), legend(figure), canvas, note, block
        made = tag("figure", *parts, class_="plot", id=identity)
        if not self._budget.take(made):
            self.omitted += 1
            return Markup("")
        self._count += 1
        for digest in figure.evidence:
            self._by_digest[digest].append((identity, figure.title))
        for name in figure.shows:
            self._by_finding[name].append((identity, figure.title))
        return made

    def links(self, finding: Finding) -> list[Link]:
        """Drawn plots of a finding: those made for it, then those that share most of its evidence."""
        shared = Counter(link for digest in finding.evidence for link in self._by_digest.get(digest, ()))
        first = self._by_finding.get((finding.element, finding.attribute), [])
        return list(dict.fromkeys([*first, *(link for link, _ in shared.most_common())]))[:MAX_PLOT_LINKS]
