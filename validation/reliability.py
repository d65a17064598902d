"""A reliability diagram: how often answers of one confidence are right (Murphy & Winkler 1977)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree

from gpudissect.measure.prediction.infer_agreement import wilson_interval

EDGES = (0.0, 0.7, 0.95, 0.9975, 0.9994, 1.01)  # between the confidences that there are
LEFT, TOP, SIZE = 70, 20, 400
TICKS = (0.5, 0.1, 0.01, 0.001, 0.0001)
MOST, LEAST = 1.0, 1e-4  # chances of being wrong at the ends of the axes, which are logarithmic


@dataclass(frozen=True)
class Bin:
    """Answers of about one confidence.

    Attributes:
        least, most: confidences among them.
        mean: their mean.
        count, right: how many, and how many of them were right.

    """

    least: float
    most: float
    mean: float
    count: int
    right: int

    @property
    def share(self) -> float:
        """Share right."""
        return self.right / self.count

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval of the share."""
        return wilson_interval(self.right, self.count)[0]

    @property
    def high(self) -> float:
        """Upper end."""
        return wilson_interval(self.right, self.count)[1]


def bins(told: Sequence[tuple[float, bool]]) -> list[Bin]:
    """Confidences and whether they were right, binned; empty bins are left out."""
    found = []
    for low, high in pairwise(EDGES):
        own = [(confidence, right) for confidence, right in told if low <= confidence < high]
        if own:
            of = [confidence for confidence, _ in own]
            found.append(Bin(min(of), max(of), sum(of) / len(of), len(own), sum(right for _, right in own)))
    return found


def picture(found: Sequence[Bin]) -> str:
    """The diagram as SVG: share wrong over the chance of being wrong that was stated, both logarithmic.

    With 95 % intervals and the diagonal of the truth; below it are confidences that are too modest.
    """
    root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox="0 0 590 490", role="img",
                               attrib={"font-family": "sans-serif", "font-size": "12"})  # fmt: skip

    def add(tag: str, text: str = "", **attributes: object) -> None:
        element = ElementTree.SubElement(root, tag, {k.replace("_", "-"): str(v) for k, v in attributes.items()})
        element.text = text or None

    def along(chance: float) -> float:
        return math.log(MOST / min(MOST, max(LEAST, chance))) / math.log(MOST / LEAST) * SIZE

    def x(chance: float) -> float:
        return round(LEFT + along(chance), 1)

    def y(chance: float) -> float:
        return round(TOP + along(chance), 1)

    add("title", "Share of wrong answers against the chance of being wrong that was stated")
    add("rect", x=0, y=0, width=590, height=490, fill="white")
    add("rect", x=LEFT, y=TOP, width=SIZE, height=SIZE, fill="none", stroke="#888")
    for chance in TICKS:
        add("text", f"{100 * (1 - chance):.4g}%", x=x(chance), y=TOP + SIZE + 18, text_anchor="middle")
        add("text", f"{chance:.4g}", x=LEFT - 8, y=y(chance) + 4, text_anchor="end")
        add("line", x1=x(chance), y1=TOP, x2=x(chance), y2=TOP + SIZE, stroke="#eee")
        add("line", x1=LEFT, y1=y(chance), x2=LEFT + SIZE, y2=y(chance), stroke="#eee")
    add("line", x1=LEFT, y1=TOP, x2=LEFT + SIZE, y2=TOP + SIZE, stroke="#999", stroke_dasharray="4 4")
    for each in found:
        at, wrong = x(1 - each.mean), each.count - each.right
        add("line", x1=at, y1=y(1 - each.low), x2=at, y2=y(1 - each.high), stroke="#1f5fa8", stroke_width=2)
        add("circle", cx=at, cy=y(1 - each.share), r=4, fill="#1f5fa8")
        add("text", f"{wrong} of {each.count}", x=at + 8, y=y(1 - each.low) + 4, fill="#333")
    add("text", "confidence stated", x=LEFT + SIZE / 2, y=TOP + SIZE + 42, text_anchor="middle")
    add("text", "share wrong, with its 95 % interval", x=16, y=TOP + SIZE / 2, text_anchor="middle",
        transform=f"rotate(-90 16 {TOP + SIZE / 2})")  # fmt: skip
    return ElementTree.tostring(root, encoding="unicode")
