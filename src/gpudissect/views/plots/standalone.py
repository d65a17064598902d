"""A figure as one SVG that stands alone: in a notebook, a paper, a browser; with its title, its legend, its colours."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from gpudissect.views.page.markup import Markup, shown, tag
from gpudissect.views.plots.draw import HEIGHT, SHADES, WIDTH, groups_of, key, range_of, svg
from gpudissect.views.plots.figure import Figure, Kind
from gpudissect.views.plots.scale import label

MARGIN = 12
LINE = 18  # pixels from one line of text to the next
LETTER = 6.4  # pixels of a letter of 12, about
SHADE = 14
LETTERS, SMALL_LETTERS = 58, 92  # of a line of the title, of a note
SMALL_LINE = 13


def standalone(figure: Figure) -> str:
    """The figure as an SVG file of its own; empty where nothing can be drawn.

    Colours stand in it as numbers, on white paper: programs that know no variables of CSS draw it too.
    """
    drawing = svg(figure, "plot")
    if not drawing:
        return ""
    title = textwrap.wrap(shown(figure.title), LETTERS, max_lines=2, placeholder=" …")
    note = textwrap.wrap(shown(figure.note), SMALL_LETTERS, max_lines=3, placeholder=" …")
    keys, top = _legend(figure, MARGIN + LINE * len(title))
    height = top + HEIGHT + SMALL_LINE * len(note) + (4 if note else 0)
    sheet = tag(
        "svg",
        tag("title", figure.title), Markup(f"<style>{_style()}</style>"),
        tag("rect", class_="paper", x=0, y=0, width=WIDTH, height=height),
        *(tag("text", line, class_="title", x=MARGIN, y=MARGIN + 8 + LINE * n) for n, line in enumerate(title)), *keys,
        tag("svg", drawing, x=0, y=top, width=WIDTH, height=HEIGHT),
        *(tag("text", line, class_="note", x=MARGIN, y=top + HEIGHT + 8 + SMALL_LINE * n)
          for n, line in enumerate(note)),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}", width=WIDTH, height=height, role="img",
        aria_label=figure.title,
    )  # fmt: skip
    return str(sheet) + "\n"


def _legend(figure: Figure, top: int) -> tuple[list[Markup], int]:
    """Which mark is whose, in as many lines as it takes; and where the plot begins."""
    if figure.kind is Kind.MAP:
        return list(_ramp(figure, top)), top + LINE
    names = [name for name, _ in groups_of(figure)]
    if len(names) < 2:
        return [], top
    made: list[Markup] = []
    x, y = MARGIN, top
    for number, name in enumerate(names):
        said = textwrap.shorten(shown(name), LETTERS, placeholder=" …")
        wide = round(30 + LETTER * len(said) + 14)
        if x > MARGIN and x + wide > WIDTH:
            x, y = MARGIN, y + LINE
        mark = tag("g", *key(figure.kind, number), transform=f"translate({x} {y - 4})")
        made += [mark, tag("text", said, x=x + 29, y=y + 6)]
        x += wide
    return made, y + LINE


def _ramp(figure: Figure, top: int) -> Iterator[Markup]:
    low, high = range_of(figure)
    unit = figure.unit(figure.colour or "")
    first = label(low, unit)
    left = MARGIN + round(LETTER * len(first)) + 8
    yield tag("text", first, x=MARGIN, y=top + 6)
    for n in range(SHADES):
        yield tag("rect", class_=f"h{n}", x=left + n * SHADE, y=top - 5, width=SHADE, height=13)
    said = f"{label(high, unit)} {figure.colour or ''}" + (f" ({unit})" if unit else "")
    yield tag("text", said, x=left + SHADES * SHADE + 6, y=top + 6)


@cache
def _style() -> str:
    """The marks' style sheet with colours for variables, and what only a sheet of its own needs."""
    colours, _, marks = files("gpudissect.views.plots").joinpath("plot.css").read_text("utf-8").partition("/* marks */")
    light = dict(reversed(re.findall(r"--(\w+): (#\w+)", colours)))  # the first of a name is the light one
    own = ("text { font: 12px system-ui, sans-serif; fill: var(--soft); } .paper { fill: var(--paper); } "
           ".title { fill: var(--ink); font-weight: 600; font-size: 13px; } .note { font-size: 10px; }\n")  # fmt: skip
    return re.sub(r"var\(--(\w+)\)", lambda found: light[found[1]], own + marks.strip())
