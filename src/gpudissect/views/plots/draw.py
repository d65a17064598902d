"""A figure as SVG: readable without a script, in print, by the colour-blind; the page's script adds zoom and hover.

Marks lie in one group whose transform is the zoom. Dots are strokes without length and every stroke keeps its width
under that transform, so that nothing but the transform and the ticks changes when a reader zooms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

from gpudissect.views.page.markup import Markup, tag
from gpudissect.views.plots.choose import MOST_GROUPS, is_finite
from gpudissect.views.plots.figure import Figure, Kind
from gpudissect.views.plots.scale import Scale, label, scale_of

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 74, 14, 12, 46
ACROSS, UP = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
FEW = 10  # bars of which each has its tick
TICK = 34  # pixels that the text of a tick takes
NUMBERED = ("sm", "peer", "lap", "ring", "run", "number")  # across: neighbours stand equally far apart
CROWD = 150  # dots of one group from which on they are drawn finer
SIZES = (2, 0, 1, 3)  # pairs of styles by the size of their marks, the smallest first (plot.css)
HOLLOW = (2, 3, 6, 7)  # styles whose marks have a hole
SHADES = 9  # colours of a map, style sheet h0 .. h8
Points = list[tuple[float, float]]


def svg(figure: Figure, identity: str) -> Markup:
    """The drawing; `identity` tells it from others of a page. Empty where nothing can be drawn."""
    groups = list(groups_of(figure))
    points = [point for _, own in groups for point in own]
    if not points:
        return Markup("")
    is_even = figure.kind is Kind.BARS or figure.x in NUMBERED
    x = scale_of([each[0] for each in points], powers=False if is_even else None)
    share = figure.unit(figure.ys[0]) == "%"
    heights = {each[1] for each in points}
    zero = [0.0] if figure.kind is Kind.BARS and len(heights) == 1 else []  # else it would stand at half its height
    y = scale_of([*heights, *([0, 100] if share else []), *zero], from_zero=True, powers=figure.powers)
    places: list[float] | None = None
    if figure.kind is Kind.MAP:
        x, y, marks = _map(figure)
    elif figure.kind is Kind.BARS:
        bars = sorted({place for place, _ in points})
        width = _step(bars)
        x = Scale(x.low - width / 2, x.high + width / 2)
        apart = ACROSS * width / (x.high - x.low)
        places = bars if len(bars) <= FEW and apart >= TICK else None
        marks = [_bars(own, x, y, n, width) for n, (_, own) in enumerate(groups)]
    else:
        drawn = [_group(own, x, y, n, figure.kind) for n, (_, own) in enumerate(groups)]
        below = sorted(range(len(drawn)), key=lambda n: (SIZES.index(_style(n) // 2), n), reverse=True)
        marks = [drawn[n] for n in below]  # small marks on large ones, and the first on top
    clip = f"{identity}-clip"
    return tag(
        "svg",
        tag("title", figure.title), tag("desc", said(figure, groups)),
        tag("clipPath", tag("rect", x=LEFT, y=TOP, width=ACROSS, height=UP), id=clip),
        tag("g", _axis(x, figure.unit(figure.x), "x", places or _whole(figure, x)), class_="axis x"),
        tag("g", _axis(y, figure.unit(figure.ys[0]), "y"), class_="axis y"),
        tag("g", tag("g", *marks, class_="marks"), clip_path=f"url(#{clip})"),
        tag("rect", class_="frame", x=LEFT, y=TOP, width=ACROSS, height=UP),
        tag("text", _title(figure, figure.x), class_="name", x=LEFT + ACROSS / 2, y=HEIGHT - 8, text_anchor="middle"),
        tag("text", _title(figure, *figure.ys), class_="name", text_anchor="middle",
            transform=f"translate(12 {TOP + UP / 2:g}) rotate(-90)"),
        class_="plot", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=figure.title,
        data_scales=Markup(json.dumps([[x.low, x.high, int(x.powers), figure.unit(figure.x)],
                                [y.low, y.high, int(y.powers), figure.unit(figure.ys[0])]])),
    )  # fmt: skip


def legend(figure: Figure) -> Markup:
    """Which mark is whose; empty where there is but one group."""
    names = [name for name, _ in groups_of(figure)]
    if figure.kind is Kind.MAP:
        low, high = range_of(figure)
        unit = figure.unit(figure.colour or "")
        swatches = [tag("i", class_=f"h{n}") for n in range(SHADES)]
        return tag("p", f"{label(low, unit)} ", tag("span", *swatches, class_="ramp", aria_hidden="true"),
                   f" {label(high, unit)} {figure.colour or ''}{_of(unit)}", class_="legend")  # fmt: skip
    if len(names) < 2:
        return Markup("")
    keys = [tag("span", tag("svg", *key(figure.kind, n), viewBox="0 0 24 12", aria_hidden="true"), name, class_="key")
            for n, name in enumerate(names)]  # fmt: skip
    return tag("p", *keys, class_="legend")


def key(kind: Kind, number: int) -> Iterator[Markup]:
    """A mark as in the plot, 24 by 12: a line with its dot, a dot, a bar."""
    style = f"s{_style(number)}"
    if kind is Kind.BARS:
        yield tag("path", class_=f"line {style}" if number else "bar s0", d="M4 1h16v10h-16z")
        return
    if kind is Kind.LINES:
        yield tag("path", class_=f"line {style}", d="M1 6h22")
    yield from _marks(number, style, Markup("M12 6h0"))


def groups_of(figure: Figure) -> Iterator[tuple[str, Points]]:
    """The points of each group that can be drawn, by its name; those of a map are one group."""
    across = figure.columns[figure.x]
    split = figure.by if figure.by is not None else figure.colour if figure.kind is Kind.BARS else None
    for name in figure.ys:
        rows = zip(across, figure.columns[name], figure.columns[split] if split else across, strict=True)
        kept = [(x, y, value) for x, y, value in rows if is_finite(x) and is_finite(y)]
        if split is None:
            yield name, [(x, y) for x, y, _ in kept]
            continue
        values = dict.fromkeys(value for _, _, value in kept)
        for value in sorted(values, key=lambda each: (not is_finite(each), each if is_finite(each) else 0, str(each))):
            said = label(value, figure.unit(split)) if is_finite(value) else str(value)
            yield f"{split} {said}", [(x, y) for x, y, other in kept if other == value]


def said(figure: Figure, groups: list[tuple[str, Points]]) -> str:
    """The plot in a sentence, for those who cannot see it."""
    parts = []
    for name, points in groups[:MOST_GROUPS]:
        if points:
            ys = [y for _, y in points]
            unit = figure.unit(figure.ys[0])
            parts.append(f"{name}: {len(points)} points, {label(min(ys), unit)} to {label(max(ys), unit)}{_of(unit)}")
    return f"{figure.kind.value} over {figure.x}; " + "; ".join(parts) + ". The table below the plot has every number."


def _title(figure: Figure, *names: str) -> str:
    unit = figure.unit(names[0])
    name = ", ".join(names)
    if len(names) > 1 and len(name) >= 30:  # the legend has them
        return unit or "value"
    return name.replace("_", " ") + (f" ({unit})" if unit and unit != name else "")


def _of(unit: str) -> str:
    return f" {unit}" if unit and unit != "B" else ""


def _axis(scale: Scale, unit: str, which: str, places: list[float] | None = None) -> Iterator[Markup]:
    base = 2 if unit == "B" else 10
    for value in places or scale.ticks(5 if which == "x" else 6, base):
        place = scale.at(value)
        if which == "x":
            at = LEFT + ACROSS * place
            yield tag("line", x1=at, x2=at, y1=TOP, y2=TOP + UP)
            yield tag("text", label(value, unit), x=at, y=TOP + UP + 17, text_anchor="middle")
        else:
            at = TOP + UP * (1 - place)
            yield tag("line", x1=LEFT, x2=LEFT + ACROSS, y1=at, y2=at)
            yield tag("text", label(value, unit), x=LEFT - 6, y=at + 4, text_anchor="end")


def _whole(figure: Figure, x: Scale) -> list[float] | None:
    """Ticks at whole numbers, of what is numbered."""
    if figure.x not in NUMBERED:
        return None
    return [each for each in x.ticks(5) if each == int(each)] or None


def _place(x: float, y: float, across: Scale, up: Scale) -> str:
    return f"{LEFT + ACROSS * across.at(x):.1f} {TOP + UP * (1 - up.at(y)):.1f}"


def _group(points: Points, x: Scale, y: Scale, number: int, kind: Kind) -> Markup:
    style = f"s{_style(number)}" + (" fine" if len(points) > CROWD else "")
    dots = Markup("".join(f"M{_place(*point, x, y)}h0" for point in points))
    drawn = _marks(number, style, dots)
    if kind is Kind.LINES and len(points) > 1:
        line = "L".join(_place(*point, x, y) for point in sorted(points))
        drawn.insert(0, tag("path", class_=f"line {style}", d=Markup(f"M{line}")))
    return Markup("".join(drawn))


def _marks(number: int, style: str, dots: Markup) -> list[Markup]:
    hole = [tag("path", class_=f"dot {style} hole", d=dots)] if _style(number) in HOLLOW else []
    return [tag("path", class_=f"dot {style}", d=dots), *hole]


def _bars(points: Points, x: Scale, y: Scale, number: int, width: float) -> Markup:
    half = 0.45 * width * ACROSS / (x.high - x.low)
    zero = 0 if not y.powers and y.low < 0 < y.high else y.low
    down = round(TOP + UP * (1 - y.at(zero)), 1)
    drawn = ""
    for place, height in points:
        middle, top = LEFT + ACROSS * x.at(place), TOP + UP * (1 - y.at(height))
        drawn += f"M{middle - half:.1f} {down}V{top:.1f}h{2 * half:.1f}V{down}z"
    style = f"line s{_style(number)}" if number else "bar s0"  # outlines, through which the first ones are seen
    return tag("path", class_=style, d=Markup(drawn))


def range_of(figure: Figure) -> tuple[float, float]:
    """The values of a map's least and its last colour."""
    values = sorted(value for value in figure.columns[figure.colour or figure.ys[0]] if is_finite(value))
    if not values:
        return 0.0, 1.0
    low, high = values[len(values) // 100], values[-1 - len(values) // 100]
    if values[-1] - values[0] <= 1.5 * (high - low):
        return values[0], values[-1]
    return low, high  # a few outliers must not take all colours


def _map(figure: Figure) -> tuple[Scale, Scale, list[Markup]]:
    """Cells by shade: a path each, so that ten thousand cells stay a small page."""
    rows = list(zip(figure.columns[figure.x], figure.columns[figure.ys[0]], figure.columns[figure.colour or ""],
                    strict=True))  # fmt: skip
    cells = [(x, y, value) for x, y, value in rows if is_finite(x) and is_finite(y)]
    xs, ys = sorted({x for x, _, _ in cells}), sorted({y for _, y, _ in cells})
    wide, high = _step(xs), _step(ys)
    across, up = Scale(xs[0] - wide / 2, xs[-1] + wide / 2), Scale(ys[0] - high / 2, ys[-1] + high / 2)
    low, top = range_of(figure)
    shades = [""] * SHADES
    for x, y, value in cells:
        if is_finite(value):
            share = min(max((value - low) / ((top - low) or 1), 0), 1)
            left, upper = LEFT + ACROSS * across.at(x - wide / 2), TOP + UP * (1 - up.at(y + high / 2))
            w, h = ACROSS * wide / (across.high - across.low), UP * high / (up.high - up.low)
            shades[round(share * (SHADES - 1))] += f"M{left:.1f} {upper:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z"
    return across, up, [tag("path", class_=f"cell h{n}", d=Markup(drawn)) for n, drawn in enumerate(shades) if drawn]


def _step(values: list[float]) -> float:
    return min((b - a for a, b in pairwise(values)), default=1.0)


def _style(number: int) -> int:
    return number % MOST_GROUPS
