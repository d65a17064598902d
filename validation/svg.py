"""Small pictures: panels with lines, points and shaded regions, as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from xml.etree import ElementTree

WIDTH, HEIGHT = 300, 190  # of a panel's frame
LEFT, TOP, RIGHT, BOTTOM = 52, 30, 18, 44  # around it
LINE = 15  # height of a line of the legend
COLUMNS = 3
STRAIGHT = 0.08  # pixels by which a point may be off the line that it is left out of


@dataclass(frozen=True)
class Line:
    """A curve. `look`: ``thick`` (a model, grey), ``thin`` (black), ``dashed``."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: str = "thick"


@dataclass(frozen=True)
class Points:
    """What was measured, or printed: `look` ``dot`` or ``ring``."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: str = "dot"


@dataclass(frozen=True)
class Region:
    """A shaded region between two curves."""

    label: str
    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `log` for the horizontal one, `log_y` for the other; `top` ends the vertical one."""

    title: str
    x: str
    y: str
    items: Sequence[Line | Points | Region]
    log: bool = False
    log_y: bool = False
    top: float | None = None


LOOKS = {
    "thick": {"stroke": "#9aa5b1", "stroke-width": "4"},
    "thin": {"stroke": "#222", "stroke-width": "1.3"},
    "dashed": {"stroke": "#1f5fa8", "stroke-width": "1.6", "stroke-dasharray": "5 3"},
}


def picture(title: str, panels: Sequence[Panel]) -> str:
    """The panels in rows, each with its legend below, as the text of an SVG file."""
    legend = LINE * max(len(panel.items) for panel in panels)
    wide, high = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM + legend
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg",
                               viewBox=f"0 0 {columns * wide} {rows * high + 24}",
                               attrib={"font-family": "sans-serif", "font-size": "11"})  # fmt: skip
    ElementTree.SubElement(root, "rect", width="100%", height="100%", fill="white")
    ElementTree.SubElement(root, "text", x="10", y="17", attrib={"font-size": "13"}).text = title
    for i, panel in enumerate(panels):
        place = f"translate({i % columns * wide} {i // columns * high + 24})"
        _draw(ElementTree.SubElement(root, "g", transform=place), panel)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    log: bool

    @property
    def ticks(self) -> list[float]:
        if self.log:
            first, last = floor(log10(self.low)), floor(log10(self.high))
            decades = [10.0**e for e in range(first, last + 1)]
            twos = [2.0 * d for d in decades] + [5.0 * d for d in decades] if last - first < 2 else []
            return [t for t in sorted(decades + twos) if self.low * 0.999 <= t <= self.high * 1.001]
        step = 10.0 ** floor(log10((self.high - self.low) / 3))
        step *= next(m for m in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (m * step) <= 6)
        return [k * step for k in range(int(-(-self.low // step)), int(self.high / step + 1e-9) + 1)]

    def at(self, value: float) -> float:
        """From 0 to 1, cut off at both ends."""
        if self.log:
            share = log10(max(value, self.low) / self.low) / log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)


def _draw(group: ElementTree.Element, panel: Panel) -> None:
    across = _axis((x for item in panel.items for x in item.x), panel.log, None)
    ups = (y for item in panel.items for y in ((*item.low, *item.high) if isinstance(item, Region) else item.y))
    up = _axis(ups, panel.log_y, panel.top)

    def add(tag: str, text: str = "", **attributes: object) -> None:
        named = {k.replace("_", "-"): str(v) for k, v in attributes.items()}
        ElementTree.SubElement(group, tag, named).text = text or None

    def x(value: float) -> float:
        return round(LEFT + across.at(value) * WIDTH, 1)

    def y(value: float) -> float:
        return round(TOP + (1 - up.at(value)) * HEIGHT, 1)

    add("text", panel.title, x=LEFT + WIDTH / 2, y=TOP - 8, text_anchor="middle", font_weight="bold")
    for tick in across.ticks:
        add("line", x1=x(tick), x2=x(tick), y1=TOP, y2=TOP + HEIGHT, stroke="#eee")
        add("text", f"{tick:g}", x=x(tick), y=TOP + HEIGHT + 14, text_anchor="middle")
    for tick in up.ticks:
        add("line", x1=LEFT, x2=LEFT + WIDTH, y1=y(tick), y2=y(tick), stroke="#eee")
        add("text", f"{tick:g}", x=LEFT - 5, y=y(tick) + 4, text_anchor="end")
    add("rect", x=LEFT, y=TOP, width=WIDTH, height=HEIGHT, fill="none", stroke="#888")
    add("text", panel.x, x=LEFT + WIDTH / 2, y=TOP + HEIGHT + 29, text_anchor="middle", fill="#555")
    add("text", panel.y, x=12, y=TOP + HEIGHT / 2, text_anchor="middle", fill="#555",
        transform=f"rotate(-90 12 {TOP + HEIGHT / 2})")  # fmt: skip
    for i, item in enumerate(panel.items):
        at = TOP + HEIGHT + BOTTOM + LINE * i
        add("text", item.label, x=LEFT + 26, y=at + 4)
        if isinstance(item, Region):
            edge = [*zip(item.x, item.high, strict=True), *reversed([*zip(item.x, item.low, strict=True)])]
            add("polygon", points=" ".join(f"{x(a)},{y(b)}" for a, b in edge), fill="#9cc3ea", stroke="#1f5fa8")
            add("rect", x=LEFT, y=at - 5, width=20, height=9, fill="#9cc3ea", stroke="#1f5fa8")
        elif isinstance(item, Points):
            fill = "#c0392b" if item.look == "dot" else "none"
            for a, b in [*zip(item.x, item.y, strict=True)]:
                add("circle", cx=x(a), cy=y(b), r=2.2, fill=fill, stroke="#c0392b")
            add("circle", cx=LEFT + 10, cy=at, r=2.2, fill=fill, stroke="#c0392b")
        else:
            look = LOOKS[item.look]
            for run in _runs(item):
                path = _straightened([(x(a), y(b)) for a, b in run])
                add("polyline", points=" ".join(f"{a},{b}" for a, b in path), fill="none", **look)
            add("line", x1=LEFT, x2=LEFT + 20, y1=at, y2=at, **look)


def _runs(line: Line) -> list[list[tuple[float, float]]]:
    """The curve in pieces, where it is a number."""
    runs: list[list[tuple[float, float]]] = [[]]
    for a, b in zip(line.x, line.y, strict=True):
        if isfinite(b):
            runs[-1].append((a, b))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _straightened(path: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without the points that lie on the way between their neighbours."""
    kept = path[:1]
    for before, here, after in zip(path, path[1:], path[2:], strict=False):
        (x0, y0), (x1, y1), (x2, y2) = kept[-1], here, after
        off = abs((x2 - x0) * (y1 - y0) - (x1 - x0) * (y2 - y0))
        far = ((x2 - x0) ** 2 + (y2 - y0) ** 2) ** 0.5
        if off > STRAIGHT * far or (x1 - before[0]) * (x2 - x1) < 0:
            kept.append(here)
    return kept + path[-1:] if len(path) > 1 else kept


def _axis(values: Iterable[float], log: bool, top: float | None) -> _Axis:
    known = [float(value) for value in values if isfinite(value)] or [1.0]
    if log:
        positive = [value for value in known if value > 0]
        return _Axis(min(positive), top or max(*positive, 2 * min(positive)), True)
    low, high = min(0.0, *known), top or max(known) * 1.05
    return _Axis(low, high if high > low else low + 1, False)
