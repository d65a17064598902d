"""The plots of a page: each drawn once, with its data behind it, and found again by the evidence it shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpudissect.results.model import Finding
from gpudissect.views.page.markup import Markup, data, tag
from gpudissect.views.page.room import FOR_PLOTS, Room
from gpudissect.views.plots.draw import legend, svg
from gpudissect.views.plots.figure import Figure

MOST_LINKS = 6
Link = tuple[str, str]
"""The fragment of a plot, and its title."""


class Plotted:
    """Draws figures until the page is full; counts what it had no room for."""

    def __init__(self) -> None:
        self._room = Room(FOR_PLOTS)
        self._numbers: dict[str, list[Link]] = {}  # plots by the digests of workloads whose traces they draw
        self._made_for: dict[tuple[str, str], list[Link]] = {}  # by element and attribute of what they show
        self._data: dict[str, Any] = {}
        self.left_out = 0

    def draw(self, figure: Figure) -> Markup:
        """A figure as an element of the page; empty where nothing can be drawn or there is no room left."""
        if self._room.is_full:
            self.left_out += 1
            return Markup("")
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
        if not self._room.has(made):
            self.left_out += 1
            return Markup("")
        self._data[identity] = True
        for digest in figure.evidence:
            self._numbers.setdefault(digest, []).append((identity, figure.title))
        for name in figure.shows:
            self._made_for.setdefault(name, []).append((identity, figure.title))
        return made

    def showing(self, finding: Finding, most: int = MOST_LINKS) -> list[Link]:
        """Plots already drawn that show this: those made for it, then those with most of its evidence."""
        seen: dict[Link, int] = {}
        for digest in finding.evidence:
            for plot in self._numbers.get(digest, ()):
                seen[plot] = seen.get(plot, 0) + 1
        own = self._made_for.get((finding.element, finding.attribute), [])
        return list(dict.fromkeys([*own, *sorted(seen, key=lambda plot: -seen[plot])]))[:most]


def all_of(figures: Iterable[Figure], plotted: Plotted) -> Markup:
    """Several figures side by side; empty without any."""
    drawn = [made for figure in figures if (made := plotted.draw(figure))]
    return tag("div", *drawn, class_="plots") if drawn else Markup("")
