"""Curves side by side in one picture, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from math import ceil, floor, log2, log10
from xml.etree import ElementTree

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT = 250, 190  # of the frame of a panel
LEFT, TOP, RIGHT, BELOW = 58, 30, 92, 52  # round it
COLOURS = ("#1f5fa8", "#c8501e", "#2f8a3c", "#8a4fa8", "#a8821f", "#555555")


@dataclass(frozen=True)
class Panel:
    """Curves with one pair of axes.

    Attributes:
        title: above it.
        curves: points of each, by the name that stands beside its end, x rising.
        published: points that a document prints, drawn as rings.

    """

    title: str
    curves: Mapping[str, Points]
    published: Points = field(default_factory=tuple)


def picture(panels: Sequence[Panel], across: str, up: str, *, doubling: bool = True) -> str:
    """All panels in a row. `across` and `up` name the axes; `doubling`: powers of two lie at equal distances."""
    whole, high = (LEFT + WIDTH + RIGHT) * len(panels), TOP + HEIGHT + BELOW
    root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {whole} {high}",
                               attrib={"font-family": "sans-serif", "font-size": "11"})  # fmt: skip
    _add(root, "rect", x=0, y=0, width=whole, height=high, fill="white")
    for number, panel in enumerate(panels):
        left = LEFT + number * (LEFT + WIDTH + RIGHT)
        group = ElementTree.SubElement(root, "g", transform=f"translate({left} {TOP})")
        _draw(group, panel, across, up, doubling)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _draw(group: ElementTree.Element, panel: Panel, across: str, up: str, doubling: bool) -> None:
    points = [point for curve in panel.curves.values() for point in curve] + list(panel.published)
    least, most = min(x for x, _ in points), max(x for x, _ in points)
    top, steps = _rounded(max(y for _, y in points))

    def x(value: float) -> float:
        share = log2(value / least) / log2(most / least) if doubling else (value - least) / (most - least)
        return round(share * WIDTH, 1)

    def y(value: float) -> float:
        return round((1 - value / top) * HEIGHT, 1)

    _add(group, "rect", x=0, y=0, width=WIDTH, height=HEIGHT, fill="none", stroke="#888")
    _add(group, "text", panel.title, x=WIDTH / 2, y=-10, text_anchor="middle", font_weight="bold")
    _add(group, "text", across, x=WIDTH / 2, y=HEIGHT + 36, text_anchor="middle")
    _add(group, "text", up, x=-44, y=HEIGHT / 2, text_anchor="middle", transform=f"rotate(-90 -44 {HEIGHT / 2})")
    for value in _marks(least, most, doubling):
        _add(group, "text", f"{value:g}", x=x(value), y=HEIGHT + 16, text_anchor="middle")
    for step in range(steps + 1):
        value = top * step / steps
        _add(group, "text", f"{value:g}", x=-6, y=y(value) + 4, text_anchor="end")
        _add(group, "line", x1=0, y1=y(value), x2=WIDTH, y2=y(value), stroke="#eee")
    taken: list[float] = []
    for (name, curve), colour in zip(panel.curves.items(), cycle(COLOURS), strict=False):
        line = " ".join(f"{x(a)},{y(b)}" for a, b in curve)
        _add(group, "polyline", points=line, fill="none", stroke=colour, stroke_width=1.6)
        at = _free(y(curve[-1][1]) + 4, taken)
        _add(group, "text", name, x=WIDTH + 5, y=at, fill=colour)
    for a, b in panel.published:
        _add(group, "circle", cx=x(a), cy=y(b), r=5, fill="none", stroke="#000", stroke_width=1.5)


def _marks(least: float, most: float, doubling: bool) -> list[float]:
    if doubling:
        return [2.0**power for power in range(ceil(log2(least)), floor(log2(most)) + 1)]
    return [least + (most - least) * part / 8 for part in range(9)]


def _rounded(value: float) -> tuple[float, int]:
    """The end of an axis that holds a value, and into how many steps it goes."""
    power = 10.0 ** floor(log10(value))
    return next((each * power, steps) for each, steps in ((1, 5), (2, 4), (3, 6), (5, 5), (6, 6), (8, 4), (10, 5))
                if each * power >= value)  # fmt: skip


def _free(wanted: float, taken: list[float]) -> float:
    """A height near the one that is wanted at which no other name stands."""
    at = next(
        wanted + sign * step for step in range(400) for sign in (1, -1)
        if all(abs(wanted + sign * step - other) >= 12 for other in taken)
    )  # fmt: skip
    taken.append(at)
    return round(at, 1)


def _add(parent: ElementTree.Element, tag: str, text: str = "", **attributes: object) -> None:
    element = ElementTree.SubElement(parent, tag, {k.replace("_", "-"): str(v) for k, v in attributes.items()})
    element.text = text or None
