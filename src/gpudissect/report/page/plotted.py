"""The plots of a page: each drawn once, with its data behind it, and found again by the evidence it shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpudissect.report.markup import Markup, data, tag
from gpudissect.report.plots.draw import legend, svg
from gpudissect.report.plots.figure import Figure

ENOUGH = 2_400_000  # characters of plots: a page stays below three million


class Plotted:
    """Draws figures until the page is full; counts what it had no room for."""

    def __init__(self) -> None:
        self._size = 0
        self._numbers: dict[str, list[tuple[str, str]]] = {}
        self._seen: set[str] = set()  # digests of workloads whose traces are drawn, not only what was found by them
        self._data: dict[str, Any] = {}
        self.left_out = 0

    def draw(self, figure: Figure) -> Markup:
        """A figure as an element of the page; empty where nothing can be drawn or there is no room left."""
        identity = f"p{len(self._data) + 1}"
        drawn = svg(figure, identity)
        if not drawn:
            return Markup("")
        about = {"title": figure.title, "columns": figure.columns, "units": dict(figure.units), "kind": figure.kind,
                 "x": figure.x, "ys": figure.ys, "by": figure.by or figure.colour}  # fmt: skip
        block = data(f"{identity}-data", about)
        made = tag(
            "figure",
            tag("figcaption", figure.title),
            legend(figure), tag("div", drawn, class_="canvas"),
            tag("p", figure.note, class_="note") if figure.note else None, block,
            class_="plot", id=identity,
        )  # fmt: skip
        if self._size + len(made) > ENOUGH:
            self.left_out += 1
            return Markup("")
        self._size += len(made)
        self._data[identity] = True
        self._seen.update(() if figure.answers else figure.evidence)
        for digest in figure.evidence:
            self._numbers.setdefault(digest, []).append((identity, figure.title))
        return made

    def covers(self, evidence: Sequence[str]) -> bool:
        """Whether most of what was seen is drawn already."""
        return 2 * sum(digest in self._seen for digest in evidence) > len(evidence)

    def showing(self, evidence: Sequence[str], most: int = 6) -> list[tuple[str, str]]:
        """Plots already drawn that show some of this evidence: fragment and title, those with most of it first."""
        seen: dict[tuple[str, str], int] = {}
        for digest in evidence:
            for plot in self._numbers.get(digest, ()):
                seen[plot] = seen.get(plot, 0) + 1
        return sorted(seen, key=lambda plot: -seen[plot])[:most]


def all_of(figures: Iterable[Figure], plotted: Plotted) -> Markup:
    """Several figures side by side; empty without any."""
    drawn = [made for figure in figures if (made := plotted.draw(figure))]
    return tag("div", *drawn, class_="plots") if drawn else Markup("")
