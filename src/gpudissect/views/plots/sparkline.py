"""A line of a few values over time, with their brackets, as small as a line of text."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpudissect.views.page.markup import Markup, tag
from gpudissect.views.plots.figure import Scale, is_finite

WIDTH, HEIGHT, MARGIN = 240, 56, 6  # pixels
MIN_RANGE = 0.04  # height of the plot, of the median: noise looks small


@dataclass(frozen=True)
class Point:
    """A value with the ends of its bracket, at a `place` on the horizontal axis; one that `is_marked` is red."""

    place: float
    value: float
    low: float
    high: float
    is_marked: bool = False


def sparkline(points: Sequence[Point], first: float, last: float, text: str) -> Markup:
    """The drawing over places from `first` to `last`; `text` says the same to readers who cannot see it.

    The dashed line is the median of all points but the last one. Empty without a finite point.
    """
    points = [each for each in points if all(map(is_finite, (each.value, each.low, each.high)))]
    if not points:
        return Markup("")
    centre = median([each.value for each in points[:-1] or points])
    across, up = Scale(first, last) if first < last else Scale(first - 1, first + 1), _heights(points, centre)

    def place(x: float, y: float) -> str:
        return f"{_x(across.at(x))} {_y(up.at(y))}"

    line = "L".join(place(each.place, each.value) for each in points)
    whiskers = "".join(f"M{place(each.place, each.low)}V{_y(up.at(each.high))}" for each in points)
    marks = [
        tag("path", class_="reference", d=Markup(f"M0 {_y(up.at(centre))}H{WIDTH}")),
        tag("path", class_="whisker", d=Markup(whiskers)),
        tag("path", class_="line s0", d=Markup(f"M{line}")),
    ]
    for is_marked, style in ((False, "dot s0"), (True, "dot drift")):
        dots = "".join(f"M{place(each.place, each.value)}h0" for each in points if each.is_marked is is_marked)
        marks.append(tag("path", class_=style, d=Markup(dots)) if dots else Markup(""))
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", tag("title", text), *marks, class_="sparkline", viewBox=box, role="img", aria_label=text)


def _x(share: float) -> float:
    return round(MARGIN + (WIDTH - 2 * MARGIN) * share, 1)


def _y(share: float) -> float:
    return round(MARGIN + (HEIGHT - 2 * MARGIN) * (1 - share), 1)


def _heights(points: Sequence[Point], centre: float) -> Scale:
    """All brackets, and at least `MIN_RANGE` of the median."""
    low = min(each.low for each in points)
    high = max(each.high for each in points)
    missing = max(MIN_RANGE * abs(centre) - (high - low), 0.0)
    return Scale(low - missing / 2, (high + missing / 2) if high + missing > low else low + 1.0)
