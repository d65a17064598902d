"""A figure as SVG: readable without a script, in print, by the colour-blind; the page's script adds zoom and hover.

Marks lie in one group whose transform is the zoom. Dots are strokes without length and every stroke keeps its width
under that transform, so that nothing but the transform and the ticks changes when a reader zooms.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from gpudissect.views.page.markup import Markup, tag
from gpudissect.views.plots.figure import (
    LOG_RATIO,
    MAX_GROUPS,
    Figure,
    Kind,
    Scale,
    axis_unit,
    is_finite,
    label,
    scale_of,
)

WIDTH, HEIGHT = 520, 300
LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 84, 12, 422, 242
BOTTOM = TOP + PLOT_HEIGHT
MAX_LABELLED_BARS = 10  # bars that have a tick each
TICK_WIDTH = 34  # pixels of the text of a tick
TICK_LETTER = 10.6  # and of one letter on a phone, where text is largest (page.css)
NUMBERED = ("sm", "peer", "lap", "ring", "chain", "run", "number")  # neighbours stand equally far apart
MAX_LARGE_DOTS = 150  # of one group; of more each is plotted smaller
SIZE_ORDER = (2, 0, 1, 3)  # pairs of styles by the size of their marks, the smallest first (plot.css)
HOLLOW_STYLES = (2, 3, 6, 7)
RATES = ("B/s", "B/cycle", "ops/cycle", "instructions/cycle", "%")
"""Units of quantities that are plotted from zero on."""
SM = re.compile(r"\bsm\b")  # in a column's name
MAX_LEVEL_LABELS = 1  # of vertical marks; those of more stand upright
UPRIGHT_WIDTH = 14  # pixels of an upright label beside its line
MATRIX_MARGIN = 0.06  # of a cell, in a map of one colour
SHADES = 9  # colours of a map, h0 .. h8 in the style sheet
Points = list[tuple[float, float]]


def svg(figure: Figure, identity: str) -> Markup:
    """The drawing; `identity` is unique among the drawings of a document. Empty where nothing can be plotted."""
    marked, levels = ([each for each in lines if is_finite(each[0])] for lines in (figure.marks, figure.levels))
    figure = replace(figure, marks=marked, levels=levels)
    groups = list(groups_of(figure))
    points = [point for _, group in groups for point in group]
    if not points:
        return Markup("")
    x_ticks: Sequence[float] | None = None
    if figure.kind is Kind.MAP:
        x, y, marks = _map(figure)
    else:
        x, y = _scales(figure, points)
        if figure.kind is Kind.BARS:
            places = sorted({place for place, _ in points})
            width = _step(places)
            x = Scale(x.low - width / 2, x.high + width / 2)
            has_room = PLOT_WIDTH * width / (x.high - x.low) >= TICK_WIDTH
            x_ticks = places if len(places) <= MAX_LABELLED_BARS and has_room else None
            marks = [_bars(group, x, y, n, width) for n, (_, group) in enumerate(groups)]
        else:
            strokes = [Markup("".join(_group(figure, *group, x, y, n))) for n, group in enumerate(groups)]
            order = sorted(range(len(strokes)), key=lambda n: (SIZE_ORDER.index(n % MAX_GROUPS // 2), n), reverse=True)
            marks = [*_band(figure, x, y), *(strokes[n] for n in order)]  # small marks on large ones, the first on top
    if x_ticks is None and figure.x in NUMBERED:
        x_ticks = [each for each in x.ticks(5) if each == int(each)] or None
    units = axis_unit(figure.unit(figure.x), x), axis_unit(figure.unit(figure.ys[0]), y)
    names = [figure.y_title] if figure.y_title else figure.ys
    x_title, y_title = _axis_title(units[0], figure.x), _axis_title(units[1], *names)
    named = [list(ticks.items()) for ticks in (figure.x_ticks, figure.y_ticks)]
    scales = [
        [each.low, each.high, int(each.log), unit, *([ticks] if ticks else [])]
        for each, unit, ticks in zip((x, y), units, named, strict=True)
    ]
    middle, turned = LEFT + PLOT_WIDTH / 2, f"translate(12 {TOP + PLOT_HEIGHT / 2:g}) rotate(-90)"
    parts = (
        tag("title", figure.title),
        tag("desc", describe(figure, groups)),
        tag("clipPath", tag("rect", **_AREA), id=f"{identity}-clip"),
        tag(
            "g",
            _x_axis(x, figure.x_ticks or _labels(x_ticks or x.ticks(5, _base(units[0])), units[0])),
            class_="axis x",
        ),
        tag("g", _y_axis(y, figure.y_ticks or _labels(y.ticks(6, _base(units[1])), units[1])), class_="axis y"),
        tag("g", tag("g", *marks, class_="marks"), clip_path=f"url(#{identity}-clip)"),
        tag("g", *_vertical_marks(figure, x), *_horizontal_marks(figure, y), class_="fixed"),
        tag("rect", class_="frame", **_AREA),
        tag("text", x_title, class_="name", x=middle, y=HEIGHT - 8, text_anchor="middle"),
        tag("text", y_title, class_="name", text_anchor="middle", transform=turned),
    )
    box, data = f"0 0 {WIDTH} {HEIGHT}", Markup(json.dumps(scales))
    return tag("svg", *parts, class_="plot", viewBox=box, role="img", aria_label=figure.title, data_scales=data)


def legend(figure: Figure) -> Markup:
    """Legend in HTML; empty where there is only one group."""
    if figure.kind is Kind.MAP:
        first, last = _colour_range(figure)
        if first == last:
            return Markup("")
        low, high = colour_labels(figure)
        ramp = tag("span", *(tag("i", class_=f"h{n}") for n in range(SHADES)), class_="ramp", aria_hidden="true")
        return tag("p", f"{low} ", ramp, f" {high}", class_="legend")
    keys = []
    for number, name in drawn_groups(figure):
        mark = tag("svg", *key(figure, name, number), viewBox="0 0 24 12", aria_hidden="true")
        keys.append(tag("span", mark, name, class_="key"))
    return tag("p", *keys, class_="legend") if len(keys) > 1 else Markup("")


def key(figure: Figure, group: str, number: int) -> list[Markup]:
    """The mark of a group as in the plot, 24 by 12 pixels: a line, a dot, a bar."""
    if figure.kind is Kind.BARS:
        return [_bar_path(number, "M4 1h16v10h-16z")]
    return _strokes(figure, group, number, "", "M1 6h22", "M12 6h0")


def groups_of(figure: Figure) -> Iterator[tuple[str, Points]]:
    """Name and drawable points of each group; a map is one group."""
    xs = figure.columns[figure.x]
    split = figure.by if figure.by is not None else figure.colour if figure.kind is Kind.BARS else None
    for name in figure.ys:
        rows = zip(xs, figure.columns[name], figure.columns[split] if split else xs, strict=True)
        drawable = [(x, y, value) for x, y, value in rows if is_finite(x) and is_finite(y)]
        if split is None:
            yield name, [(x, y) for x, y, _ in drawable]
            continue
        values = dict.fromkeys(value for _, _, value in drawable)
        for value in sorted(values, key=lambda each: each if is_finite(each) else math.inf):
            name = f"{split} {label(value, figure.unit(split))}" if is_finite(value) else str(value)
            yield name, [(x, y) for x, y, other in drawable if other == value]


def drawn_groups(figure: Figure) -> Iterator[tuple[int, str]]:
    """Number, which gives the style, and name of each group that has points."""
    return ((number, name) for number, (name, points) in enumerate(groups_of(figure)) if points)


def band_of(figure: Figure) -> list[tuple[float, float, float]]:
    """Place, lower and upper end of the band of a figure, from left to right; empty without one."""
    if figure.band is None:
        return []
    rows = zip(*(figure.columns[name] for name in (figure.x, *figure.band)), strict=True)
    return sorted((x, low, high) for x, low, high in rows if is_finite(x) and is_finite(low) and is_finite(high))


def describe(figure: Figure, groups: list[tuple[str, Points]]) -> str:
    """The plot in a sentence, for readers who cannot see it."""
    unit = figure.unit(figure.ys[0])
    ranges = [
        f"{name}: {len(points)} points, {label(min(ys), unit)} to {label(max(ys), unit)}{_suffix(unit)}"
        for name, points in groups[:MAX_GROUPS]
        if (ys := [y for _, y in points])
    ]
    return f"{figure.kind.value} over {figure.x}; {'; '.join(ranges)}. The table below the plot has every number."


def colour_labels(figure: Figure) -> tuple[str, str]:
    """Texts before and behind the colours of a map."""
    (low, high), unit = _colour_range(figure), figure.unit(figure.colour)
    return label(low, unit), f"{label(high, unit)}{_suffix(unit)} {figure.colour or ''}"


def _scales(figure: Figure, points: Points) -> tuple[Scale, Scale]:
    is_even = figure.kind is Kind.BARS or figure.x in NUMBERED
    x = scale_of([point[0] for point in points], log=False if is_even else figure.log_x)
    heights = {min(point[1], figure.y_max or point[1]) for point in points} | {value for value, _ in figure.levels}
    heights |= {height for row in band_of(figure) for height in row[1:]}
    is_log = figure.log_y or (figure.log_y is None and min(heights) > 0 and max(heights) >= LOG_RATIO * min(heights))
    if figure.unit(figure.ys[0]) in RATES and not is_log:
        heights |= {0}
    if figure.unit(figure.ys[0]) == "%":
        heights |= {0, 100}
    if figure.kind is Kind.BARS and len(heights) == 1:
        heights |= {0}  # otherwise the bar would stand at half its height
    return x, scale_of(list(heights), from_zero=True, log=figure.log_y)


def _axis_title(unit: str, *names: str) -> str:
    name = SM.sub("SM", ", ".join(names))
    if len(names) > 1 and len(name) >= 30:  # the legend has them
        return unit or "value"
    return name.replace("_", " ") + (f" ({unit})" if unit and unit != name else "")


def _suffix(unit: str) -> str:
    return f" {unit}" if unit and unit != "B" else ""


def _base(unit: str) -> int:
    return 2 if unit == "B" else 10


def _labels(ticks: Sequence[float], unit: str) -> dict[float, str]:
    return {value: label(value, unit) for value in ticks}


def _x_axis(scale: Scale, ticks: Mapping[float, str]) -> Iterator[Markup]:
    for value, text in ticks.items():
        at = LEFT + PLOT_WIDTH * scale.at(value)
        yield tag("line", x1=at, x2=at, y1=TOP, y2=BOTTOM)
        yield tag("text", text, x=min(at, WIDTH - TICK_LETTER / 2 * len(text)), y=BOTTOM + 17, text_anchor="middle")


def _y_axis(scale: Scale, ticks: Mapping[float, str]) -> Iterator[Markup]:
    for value, text in ticks.items():
        at = TOP + PLOT_HEIGHT * (1 - scale.at(value))
        yield tag("line", x1=LEFT, x2=LEFT + PLOT_WIDTH, y1=at, y2=at)
        yield tag("text", text, x=LEFT - 6, y=at + 4, text_anchor="end")


def _vertical_marks(figure: Figure, x: Scale) -> Iterator[Markup]:
    """Vertical lines; labels of many stand upright to the right of them, or to the left where the next line is near."""
    places = [round(LEFT + PLOT_WIDTH * x.at(value), 1) for value, _ in figure.marks]
    for row, (at, (_, text)) in enumerate(zip(places, figure.marks, strict=True)):
        yield tag("path", class_="mark", d=f"M{at} {TOP}V{BOTTOM}")
        if len(figure.marks) > MAX_LEVEL_LABELS:
            beside = -3 if any(0 < other - at < UPRIGHT_WIDTH for other in places) else 11
            yield tag("text", text, transform=f"translate({at + beside:g} {BOTTOM - 5}) rotate(-90)")
            continue
        is_left = at > LEFT + PLOT_WIDTH / 2
        anchor = "end" if is_left else "start"
        yield tag("text", text, x=at + (-5 if is_left else 5), y=TOP + 14 + 15 * row, text_anchor=anchor)


def _horizontal_marks(figure: Figure, y: Scale) -> Iterator[Markup]:
    for value, text in figure.levels:
        at = round(TOP + PLOT_HEIGHT * (1 - y.at(value)), 1)
        yield tag("path", class_="mark", d=f"M{LEFT} {at}h{PLOT_WIDTH}")
        yield tag("text", text, x=LEFT + 5, y=at - 4 if at > TOP + 16 else at + 13)


def _place(x: float, y: float, across: Scale, up: Scale) -> str:
    return f"{LEFT + PLOT_WIDTH * across.at(x):.1f} {TOP + PLOT_HEIGHT * (1 - up.at(y)):.1f}"


def _band(figure: Figure, x: Scale, y: Scale) -> list[Markup]:
    rows = band_of(figure)
    if len(rows) < 2:
        return []
    ends = [*((at, low) for at, low, _ in rows), *((at, high) for at, _, high in reversed(rows))]
    return [tag("path", class_="band", d=Markup(f"M{'L'.join(_place(*end, x, y) for end in ends)}z"))]


def _group(figure: Figure, name: str, points: Points, x: Scale, y: Scale, number: int) -> list[Markup]:
    line = "L".join(_place(*point, x, y) for point in sorted(points))
    fine = " fine" if len(points) > MAX_LARGE_DOTS else ""
    dots = "".join(f"M{_place(*point, x, y)}h0" for point in points)
    return _strokes(figure, name, number, fine, f"M{line}" if len(points) > 1 else "", dots)


def _strokes(figure: Figure, group: str, number: int, fine: str, line: str, dots: str) -> list[Markup]:
    """The line of a group, its dots and, in some styles, their holes, as far as its kind has them."""
    kind, style = figure.kinds.get(group, figure.kind), number % MAX_GROUPS
    fine = "" if kind is Kind.CURVES else fine
    paths = [("line", "", line)] if line and kind in (Kind.LINES, Kind.CURVES) else []
    if kind is not Kind.CURVES:
        paths += [("dot", "", dots), *([("dot", " hole", dots)] if style in HOLLOW_STYLES else [])]
    return [tag("path", class_=f"{mark} s{style}{fine}{hole}", d=Markup(path)) for mark, hole, path in paths]


def _bars(points: Points, x: Scale, y: Scale, number: int, width: float) -> Markup:
    half = 0.45 * width * PLOT_WIDTH / (x.high - x.low)
    zero = 0 if not y.log and y.low < 0 < y.high else y.low
    floor = round(TOP + PLOT_HEIGHT * (1 - y.at(zero)), 1)
    path = ""
    for place, height in points:
        middle, top = LEFT + PLOT_WIDTH * x.at(place), TOP + PLOT_HEIGHT * (1 - y.at(height))
        path += f"M{middle - half:.1f} {floor}V{top:.1f}h{2 * half:.1f}V{floor}z"
    return _bar_path(number, path)


def _bar_path(number: int, path: str) -> Markup:
    """Bars of the first group are filled, those of later ones outlines over them."""
    return tag("path", class_=f"line s{number % MAX_GROUPS}" if number else "bar s0", d=Markup(path))


def _colour_range(figure: Figure) -> tuple[float, float]:
    """The values of a map's first and last colour; a few outliers do not take all colours."""
    values = sorted(value for value in figure.columns[figure.colour or figure.ys[0]] if is_finite(value))
    if not values:
        return 0.0, 1.0
    low, high = values[len(values) // 100], values[-1 - len(values) // 100]
    return (values[0], values[-1]) if values[-1] - values[0] <= 1.5 * (high - low) else (low, high)


def _map(figure: Figure) -> tuple[Scale, Scale, list[Markup]]:
    """Cells by shade, one path each: ten thousand cells stay small."""
    rows = zip(*(figure.columns[name] for name in (figure.x, figure.ys[0], figure.colour or "")), strict=True)
    cells = [(x, y, value) for x, y, value in rows if is_finite(x) and is_finite(y)]
    xs, ys = sorted({x for x, _, _ in cells}), sorted({y for _, y, _ in cells})
    x_step, y_step = _step(xs), _step(ys)
    across, up = Scale(xs[0] - x_step / 2, xs[-1] + x_step / 2), Scale(ys[0] - y_step / 2, ys[-1] + y_step / 2)
    width, height = PLOT_WIDTH * x_step / (across.high - across.low), PLOT_HEIGHT * y_step / (up.high - up.low)
    first, last = _colour_range(figure)
    paths = [""] * SHADES
    margin = 0.0 if first < last else MATRIX_MARGIN
    for x, y, value in cells:
        if is_finite(value):
            share = min(max((value - first) / ((last - first) or 1), 0), 1)
            corner = _place(x - (0.5 - margin) * x_step, y + (0.5 - margin) * y_step, across, up)
            wide, high = width * (1 - 2 * margin), height * (1 - 2 * margin)
            paths[round(share * (SHADES - 1))] += f"M{corner}h{wide:.1f}v{high:.1f}h{-wide:.1f}z"
    shades = [(f"h{n}" if first < last else "one", path) for n, path in enumerate(paths) if path]
    marks = [tag("path", class_=f"cell {shade}", d=Markup(path)) for shade, path in shades]
    if figure.pins is not None:
        columns = (figure.columns[name] for name in (figure.x, figure.ys[0], figure.pins))
        pins = "".join(f"M{_place(x, y, across, up)}h0" for x, y, pin in zip(*columns, strict=True) if pin == 1)
        marks += [tag("path", class_=f"pin {layer}", d=Markup(pins)) for layer in ("outer", "inner")]
    return across, up, marks


def _step(values: Sequence[float]) -> float:
    return min((b - a for a, b in pairwise(values)), default=1.0)


_AREA = {"x": LEFT, "y": TOP, "width": PLOT_WIDTH, "height": PLOT_HEIGHT}
