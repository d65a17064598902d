"""The drawing of the hierarchy as an SVG file that stands alone: in a notebook, a paper, a talk."""

import re
from functools import cache
from importlib.resources import files

from gpudissect.results.model import Result
from gpudissect.results.text import brief, provenance
from gpudissect.views.page.findings import MAX_NAME_LENGTH
from gpudissect.views.page.hierarchy import hierarchy
from gpudissect.views.page.markup import Markup, tag
from gpudissect.views.plots.standalone import with_light_colours

WIDTH, TITLE_HEIGHT = 760, 30  # pixels
_ON_PAGE = ("display:", ":hover", ":focus")  # rules that only a page needs
_TITLE_STYLE = ".title { font: 600 15px system-ui, sans-serif; fill: var(--ink); } .paper { fill: var(--paper); }"


def hierarchy_file(result: Result, width: int = WIDTH) -> str:
    """The drawing under the name and origin of the GPU; empty for a result without a cache or memory."""
    drawing = hierarchy(result, width, {})
    if not drawing:
        return ""
    device = result.device
    title = f"{brief(device.name, MAX_NAME_LENGTH)}, {provenance(device.origin, device.recorded_origin)}"
    placed, height = place(drawing, 0, TITLE_HEIGHT)
    size = {"width": width, "height": height + TITLE_HEIGHT}
    parts = tag("rect", class_="paper", x=0, y=0, **size), tag("text", title, class_="title", x=12, y=20), placed
    style, box = Markup(f"<style>{light_style()}</style>"), f"0 0 {width} {height + TITLE_HEIGHT:g}"
    head = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": box, "role": "img", "aria_label": title}
    return tag("svg", tag("title", title), style, *parts, **head, **size) + "\n"


def place(drawing: Markup, x: float, y: float) -> tuple[Markup, float]:
    """A drawing as a part of another one, at this place, and its height in pixels."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)[0]
    size = f'<svg x="{x:g}" y="{y:g}" width="{width}" height="{height}" '
    return Markup(drawing.replace("<svg ", size, 1)), float(height)


@cache
def light_style() -> str:
    """The style sheet of a drawing in light colours, with a title and paper."""
    css = files("gpudissect.views.page").joinpath("page.css").read_text("utf-8")
    rules = [
        rule for rule in re.findall(r"\.hierarchy [^{}]*\{[^}]*\}", css) if not any(each in rule for each in _ON_PAGE)
    ]
    return with_light_colours("\n".join([_TITLE_STYLE, *rules]), css)
