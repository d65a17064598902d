"""Small plots as SVG: axes, marks, a map of cells. Colours are classes, so that the page's style sets them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 480, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 24, 44


@dataclass
class Axis:
    """One axis: its label, its ends, whether it is logarithmic (base 2 where `binary`), where its ticks stand."""

    label: str
    low: float
    high: float
    log: bool = False
    ticks: Sequence[float] = ()
    name: Callable[[float], str] = field(default=lambda value: f"{value:,.6g}")

    def place(self, value: float) -> float:
        """Where a value stands, 0 to 1 from the low end to the high one."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def marks(self) -> list[float]:
        """Values of the ticks: those given, or round ones."""
        if self.ticks:
            return list(self.ticks)
        if self.log:
            powers = range(math.ceil(math.log2(self.low)), math.floor(math.log2(self.high)) + 1)
            return [2.0**power for power in powers][:: max(1, len(powers) // 7)]
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _round_step(rough: float) -> float:
    power = 10 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


class Plot:
    """A plot that is drawn upon, mark by mark."""

    def __init__(self, title: str, x: Axis, y: Axis, height: int = HEIGHT) -> None:
        self.title, self.x, self.y, self.height = title, x, y, height
        self._marks: list[str] = []
        self._legend: list[tuple[str, str]] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point stands, in pixels from the upper left corner."""
        across = LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT)
        return across, self.height - BOTTOM - self.y.place(y) * (self.height - TOP - BOTTOM)

    def points(self, xs: Iterable[float], ys: Iterable[float], kind: str, name: str = "") -> None:
        """A dot for each pair. `kind` is one of the classes one, two, three, four."""
        for x, y in zip(xs, ys, strict=True):
            across, down = self.at(x, y)
            self._marks.append(f'<circle class="fill {kind}" cx="{across:.1f}" cy="{down:.1f}" r="2.6"/>')
        self._name(kind, name)

    def curve(self, xs: Iterable[float], ys: Iterable[float], kind: str, name: str = "") -> None:
        """A line through all pairs."""
        places = " ".join("{:.1f},{:.1f}".format(*self.at(x, y)) for x, y in zip(xs, ys, strict=True))
        self._marks.append(f'<polyline class="stroke {kind}" points="{places}"/>')
        self._name(kind, name)

    def line(self, xs: Iterable[float], ys: Iterable[float], kind: str, name: str = "") -> None:
        """A line through all pairs, with a dot at each."""
        xs, ys = list(xs), list(ys)
        self.curve(xs, ys, kind)
        self.points(xs, ys, kind, name)

    def bars(self, names: Sequence[str], values: Sequence[float | None], kind: str, notes: Sequence[str]) -> None:
        """A bar from the low end of y for each name, with a note above; None gives the note alone."""
        share = 1 / len(names)
        for n, (name, value, note) in enumerate(zip(names, values, notes, strict=True)):
            left = LEFT + (n + 0.2) * share * (WIDTH - LEFT - RIGHT)
            wide = 0.6 * share * (WIDTH - LEFT - RIGHT)
            floor = self.height - BOTTOM
            top = floor if value is None else self.at(self.x.low, value)[1]
            if value is not None:
                self._marks.append(
                    f'<rect class="fill {kind}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" '
                    f'height="{floor - top:.1f}"/>'
                )
            middle = left + wide / 2
            self._marks.append(_text(middle, top - 5, note, "middle"))
            self._marks.append(_text(middle, floor + 16, name, "middle"))

    def cells(self, rows: Sequence[Sequence[str]]) -> None:
        """A map: a class for each cell, the first row on top, an empty text for none."""
        wide = (WIDTH - LEFT - RIGHT) / len(rows[0])
        high = (self.height - TOP - BOTTOM) / len(rows)
        gap = 1 if min(wide, high) > 5 else 0
        paths: dict[str, str] = {}  # one path a class: thousands of cells in little text
        for row, kinds in enumerate(rows):
            for column, kind in enumerate(kinds):
                corner = f"M{LEFT + column * wide:.1f} {TOP + row * high:.1f}"
                paths[kind] = paths.get(kind, "") + f"{corner}h{wide - gap:.1f}v{high - gap:.1f}h{gap - wide:.1f}z"
        self._marks += [f'<path class="fill {kind}" d="{path}"/>' for kind, path in paths.items() if kind]

    def edge(self, x: float, text: str, anchor: str = "end", row: int = 0) -> None:
        """A dashed upright line with a few words at its top, `row` lines down."""
        across = self.at(x, self.y.low)[0]
        self._marks.append(f'<path class="edge" d="M{across:.1f} {TOP}V{self.height - BOTTOM}"/>')
        beside = across + (-5 if anchor == "end" else 5)
        self._marks.append(_text(beside, TOP + 12 + 15 * row, text, anchor, "strong"))

    def say(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        """A few words at a point."""
        self._marks.append(_text(*self.at(x, y), text, anchor, "strong"))

    def name(self, kind: str, text: str) -> None:
        """An entry of the legend, for kinds that cells have."""
        self._name(kind, text)

    def _name(self, kind: str, name: str) -> None:
        if name:
            self._legend.append((kind, name))

    def svg(self) -> str:
        """The whole picture, for a page to hold."""
        high = self.height + (18 if self._legend else 0)
        return "".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {WIDTH} {high}" role="img">',
                f"<title>{escape(self.title)}</title>",
                *self._frame(),
                *self._marks,
                *self._names(),
                "</svg>",
            ]
        )

    def _frame(self) -> Iterable[str]:
        floor = self.height - BOTTOM
        for value in self.y.marks():
            down = self.at(self.x.low, value)[1]
            yield f'<path class="grid" d="M{LEFT} {down:.1f}H{WIDTH - RIGHT}"/>'
            yield _text(LEFT - 6, down + 4, self.y.name(value), "end")
        yield f'<path class="axis" d="M{LEFT} {TOP}V{floor}H{WIDTH - RIGHT}"/>'
        for value in self.x.marks():
            across = self.at(value, self.y.low)[0]
            yield f'<path class="axis" d="M{across:.1f} {floor}v4"/>'
            yield _text(across, floor + 17, self.x.name(value), "middle")
        yield _text((LEFT + WIDTH - RIGHT) / 2, floor + 36, self.x.label, "middle")
        yield _text(4, 14, self.y.label, "start")

    def _names(self) -> Iterable[str]:
        across = float(LEFT)
        for kind, name in self._legend:
            yield f'<circle class="fill {kind}" cx="{across + 4:.0f}" cy="{self.height + 6}" r="4"/>'
            yield _text(across + 13, self.height + 10, name, "start")
            across += 30 + 7.4 * len(name)


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    shown = f' class="{kind}"' if kind else ""
    return f'<text{shown} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
