"""Figures as an SVG file that stands alone: in a notebook, a paper, a browser; with title, legend and colours."""

import re
import textwrap
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from gpudissect.views.page.markup import Markup, shown, tag
from gpudissect.views.plots.draw import HEIGHT, SHADES, WIDTH, colour_labels, drawn_groups, key, svg
from gpudissect.views.plots.figure import Figure, Kind

MARGIN = 12
LINE, NOTE_LINE = 18, 13  # pixels from one line of text to the next
LETTER = 6.4  # width of a letter in pixels, about
SWATCH = 14
TITLE_LETTERS, NOTE_LETTERS = 58, 92  # per line
SHEET_COLUMNS = 2
_STYLE = """text { font: 12px system-ui, sans-serif; fill: var(--soft); } .paper { fill: var(--paper); }
.title { fill: var(--ink); font-weight: 600; font-size: 13px; } .note { font-size: 10px; }
"""


def standalone(figure: Figure) -> str:
    """The figure as an SVG file; empty where nothing can be plotted. Colours are literal: not all programs know CSS."""
    return sheet(figure.title, [figure])


def sheet(title: str, figures: Sequence[Figure]) -> str:
    """Several figures side by side in one SVG file; empty where nothing can be plotted."""
    panels = [each for n, figure in enumerate(figures) if (each := panel(figure, f"plot{n}"))]
    if not panels:
        return ""
    parts, top = [], 0
    for first in range(0, len(panels), SHEET_COLUMNS):
        row = panels[first : first + SHEET_COLUMNS]
        parts += [tag("g", panel, transform=f"translate({n * WIDTH} {top})") for n, (panel, _) in enumerate(row)]
        top += max(height for _, height in row)
    size = {"width": WIDTH * min(SHEET_COLUMNS, len(panels)), "height": top}
    box, paper = f"0 0 {size['width']} {top}", tag("rect", class_="paper", x=0, y=0, **size)
    head = tag("title", title), Markup(f"<style>{plot_style()}</style>"), paper
    label = {"role": "img", "aria_label": title}
    return tag("svg", *head, *parts, xmlns="http://www.w3.org/2000/svg", viewBox=box, **size, **label) + "\n"


def panel(figure: Figure, identity: str) -> tuple[Markup, int] | None:
    """Title, legend, plot and note of a figure, and their height in pixels."""
    drawing = svg(figure, identity)
    if not drawing:
        return None
    title = textwrap.wrap(shown(figure.title), TITLE_LETTERS, max_lines=2, placeholder=" …")
    note = textwrap.wrap(shown(figure.note), NOTE_LETTERS, max_lines=3, placeholder=" …")
    legend, top = _legend(figure, MARGIN + LINE * len(title))
    below = top + HEIGHT + 8
    lines = [tag("text", line, class_="title", x=MARGIN, y=MARGIN + 8 + LINE * n) for n, line in enumerate(title)]
    notes = [tag("text", line, class_="note", x=MARGIN, y=below + NOTE_LINE * n) for n, line in enumerate(note)]
    plot = tag("svg", drawing, x=0, y=top, width=WIDTH, height=HEIGHT)
    return Markup("".join((*lines, *legend, plot, *notes))), top + HEIGHT + NOTE_LINE * len(note) + 4 * bool(note)


def _legend(figure: Figure, top: int) -> tuple[list[Markup], int]:
    """The legend in as many lines as it takes, and where the plot begins."""
    if figure.kind is Kind.MAP and len(set(figure.columns[figure.colour or figure.ys[0]])) == 1:
        return [], top
    if figure.kind is Kind.MAP:
        low, high = colour_labels(figure)
        left = MARGIN + round(LETTER * len(low)) + 8
        places = {n: left + n * SWATCH for n in range(SHADES)}
        ramp = [tag("rect", class_=f"h{n}", x=x, y=top - 5, width=SWATCH, height=13) for n, x in places.items()]
        ends = ((low, MARGIN), (high, left + SHADES * SWATCH + 6))
        return [*(tag("text", text, x=x, y=top + 6) for text, x in ends), *ramp], top + LINE
    names = list(drawn_groups(figure))
    if len(names) < 2:
        return [], top
    parts: list[Markup] = []
    x, y = MARGIN, top
    for number, name in names:
        text = textwrap.shorten(shown(name), TITLE_LETTERS, placeholder=" …")
        width = round(44 + LETTER * len(text))
        if x > MARGIN and x + width > WIDTH:
            x, y = MARGIN, y + LINE
        mark = tag("g", *key(figure, name, number), transform=f"translate({x} {y - 4})")
        parts += [mark, tag("text", text, x=x + 29, y=y + 6)]
        x += width
    return parts, y + LINE


def with_light_colours(style: str, definitions: str = "") -> str:
    """A style sheet with literal light colours in place of the variables of plots and of other `definitions`."""
    light = dict(reversed(re.findall(r"--(\w+): (#\w+)", _plot_css() + definitions)))  # the first is the light one
    return re.sub(r"var\(--(\w+)\)", lambda name: light[name[1]], style)


@cache
def plot_style() -> str:
    """The style sheet of the marks."""
    return with_light_colours(_STYLE + _plot_css().partition("/* marks */")[2].strip())


@cache
def _plot_css() -> str:
    return files("gpudissect.views.plots").joinpath("plot.css").read_text("utf-8")
