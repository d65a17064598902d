"""A GPU on a card: one picture (SVG or PNG) with its name, the drawing of its hierarchy and the summary, to share."""

import textwrap
from collections.abc import Iterator
from functools import cache

from gpudissect.errors import UsageError
from gpudissect.printable import brief, clean, cut
from gpudissect.results.model import Result
from gpudissect.results.summary import Summary, summarize
from gpudissect.results.text import provenance
from gpudissect.views.page.about import facts
from gpudissect.views.page.findings import MAX_NAME_LENGTH
from gpudissect.views.page.hierarchy import hierarchy, light_style, place
from gpudissect.views.page.markup import Markup, tag
from gpudissect.views.page.overview import LEVEL_HEAD, level_row, remarkable, tlb_line
from gpudissect.views.plots.signature import signature_figures
from gpudissect.views.plots.standalone import panel, plot_style, with_light_colours

DRAWING_WIDTH, MARGIN, TOP = 640, 24, 84  # pixels
LINE, ROW, LETTER, BOLD_LETTER = 17, 25, 6.4, 7.6  # pixels: of a line of text, of a row of the table, of a letter
GAP, PLOT_INSET = 12, 12  # pixels: between columns; of the title of a plot
MAX_CELL_LENGTH, LINE_LENGTH = 44, 96  # characters
_STYLE = """.cell { font: 12px system-ui, sans-serif; fill: var(--ink); font-variant-numeric: tabular-nums; }
.head, .foot { font: 12px system-ui, sans-serif; fill: var(--soft); } .first { font-weight: 600; }
.name { font: 700 26px system-ui, sans-serif; fill: var(--ink); } .row { stroke: var(--rule); }
.origin { font: 700 13px system-ui, sans-serif; fill: var(--soft); letter-spacing: .04em; }
"""
ZOOM = 2  # pixels of a PNG for each of the SVG
FONTS = ("Helvetica", "Arial", "DejaVu Sans", "Liberation Sans", "Noto Sans")  # the first that is installed is used
PROBE = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
PROBE_LETTER = '<text x="2" y="16" font-size="16" font-family="sans-serif">M</text>'
NO_FONT = f"a PNG needs one of the fonts {', '.join(FONTS)}: install one, or name a file that ends in .svg"


def card_file(result: Result, suffix: str) -> bytes:
    """The card as a file that ends in `suffix`, ``.svg`` or ``.png``. Raises `UsageError` if no PNG can be made."""
    drawing = card(result)
    return png_of(drawing) if suffix.lower() == ".png" else drawing.encode()


def card(result: Result) -> str:
    """The card of a result as an SVG file that needs nothing else."""
    summary, device = summarize(result), result.device
    name = brief(device.name, MAX_NAME_LENGTH)
    origin = provenance(device.origin, device.recorded_origin)
    drawing = hierarchy(result, DRAWING_WIDTH, {})
    placed, height = place(drawing, MARGIN, TOP) if drawing else (Markup(""), 0.0)
    left = MARGIN + (DRAWING_WIDTH + MARGIN if drawing else 0)
    cells, width, bottom = _table(summary, left, TOP + 12)
    texts = list(_lines(_sentences(result, summary), left, bottom + LINE))
    bottom += LINE * (len(texts) + 1)
    plot, plot_height = _plot(result, left, bottom + LINE)
    size = {
        "width": round(max(left + width, left + LINE_LENGTH * LETTER) + MARGIN),
        "height": round(max(TOP + height, bottom + plot_height + LINE) + 2 * LINE),
    }
    made = f"Brackets hold for this card. gpudissect {clean(result.environment.get('gpudissect', ''))}".rstrip()
    parts = (
        tag("rect", class_="paper", x=0, y=0, **size),
        tag("text", name, class_="name", x=MARGIN, y=40),
        tag("text", origin, class_="origin", x=MARGIN, y=64),
        tag("text", facts(result), class_="foot", x=MARGIN + 9.6 * len(origin) + 14, y=64),
        *(placed, *cells, *texts, plot),
        tag("text", made, class_="foot", x=MARGIN, y=size["height"] - 12),
    )
    style = Markup(f"<style>{plot_style()}{light_style()}{with_light_colours(_STYLE)}</style>")
    label = f"{name}, {origin}: memory hierarchy"
    head = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {size['width']} {size['height']}", "role": "img"}
    return tag("svg", tag("title", label), style, *parts, aria_label=label, **head, **size) + "\n"


def _table(summary: Summary, left: float, top: float) -> tuple[list[Markup], float, float]:
    """The rows of the levels, the width of the table, and where it ends."""
    rows = [[cut(text, MAX_CELL_LENGTH) for text in level_row(level)] for level in summary.levels]
    columns = [n for n in range(len(LEVEL_HEAD)) if any(row[n] for row in rows)]
    widths = [max(len(row[n]) for row in (LEVEL_HEAD, *rows)) * (LETTER if n else BOLD_LETTER) + GAP for n in columns]
    places, width = [left + sum(widths[:n]) for n in range(len(columns))], sum(widths)
    parts = [tag("text", LEVEL_HEAD[n], class_="head", x=x, y=top) for n, x in zip(columns, places, strict=True)]
    for number, row in enumerate(rows, start=1):
        y = top + ROW * number
        parts.append(tag("path", class_="row", d=f"M{left:g} {y - ROW + 8:g}h{width:g}"))
        for n, x in zip(columns, places, strict=True):
            parts.append(tag("text", row[n], class_="cell" if n else "cell first", x=x, y=y))
    return parts, width, top + ROW * len(rows) + 8


def _sentences(result: Result, summary: Summary) -> Iterator[str]:
    for tlb in summary.tlbs:
        yield f"{tlb.name}: {tlb_line(tlb)}"
    if summary.warps:
        yield f"Warps per SM {summary.warps_needed}"
    yield from remarkable(result)


def _lines(sentences: Iterator[str], left: float, top: float) -> Iterator[Markup]:
    wrapped = [line for text in sentences for line in textwrap.wrap(clean(text), LINE_LENGTH)]
    for number, text in enumerate(wrapped, start=1):
        yield tag("text", text, class_="cell", x=left, y=top + LINE * number)


def _plot(result: Result, left: float, top: float) -> tuple[Markup, float]:
    """The first of the figures of the whole hierarchy, and its height; empty without any."""
    for figure in signature_figures(result):
        if (plot := panel(figure, "plot")) is not None:
            return tag("g", plot[0], transform=f"translate({left - PLOT_INSET:g} {top:g})"), plot[1]
    return Markup(""), 0.0


def png_of(svg: str) -> bytes:
    """The PNG of a drawing. Raises `UsageError` without a font, `ImportError` without resvg-py."""
    import resvg_py

    picture = resvg_py.svg_to_bytes(svg_string=svg, zoom=ZOOM, background="white", sans_serif_family=_installed_font())
    return bytes(picture)


@cache
def _installed_font() -> str:
    """The first of `FONTS` that renders a letter. Raises `UsageError` without one."""
    import resvg_py

    empty = resvg_py.svg_to_bytes(svg_string=PROBE.format(""))
    for font in FONTS:
        if resvg_py.svg_to_bytes(svg_string=PROBE.format(PROBE_LETTER), sans_serif_family=font) != empty:
            return font
    raise UsageError(NO_FONT)
