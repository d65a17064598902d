"""A reliability diagram: how often answers of one confidence are right (Murphy & Winkler 1977)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree

from gpudissect.inference.prediction import bound

EDGES = (0.0, 0.55, 0.7, 0.85, 0.925, 0.97, 0.9925, 1.01)  # between the confidences that there are
LEFT, TOP, SIZE = 60, 20, 360
LEAST = 0.4  # where the axes begin


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
        return bound(self.right, self.count)[0]

    @property
    def high(self) -> float:
        """Upper end."""
        return bound(self.right, self.count)[1]


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
    """The diagram as SVG: share right over confidence, 95 % intervals, the diagonal of the truth."""
    root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox="0 0 450 440",
                               attrib={"font-family": "sans-serif", "font-size": "12"})  # fmt: skip

    def add(tag: str, text: str = "", **attributes: object) -> None:
        element = ElementTree.SubElement(root, tag, {k.replace("_", "-"): str(v) for k, v in attributes.items()})
        element.text = text or None

    def x(value: float) -> float:
        return round(LEFT + (value - LEAST) / (1 - LEAST) * SIZE, 1)

    def y(value: float) -> float:
        return round(TOP + (1 - value) / (1 - LEAST) * SIZE, 1)

    add("rect", x=0, y=0, width=450, height=440, fill="white")
    add("rect", x=LEFT, y=TOP, width=SIZE, height=SIZE, fill="none", stroke="#888")
    for tenth in range(4, 11):
        at = tenth / 10
        add("text", f"{at:.1f}", x=x(at), y=TOP + SIZE + 18, text_anchor="middle")
        add("text", f"{at:.1f}", x=LEFT - 8, y=y(at) + 4, text_anchor="end")
    add("line", x1=x(LEAST), y1=y(LEAST), x2=x(1), y2=y(1), stroke="#bbb", stroke_dasharray="4 4")
    for each in found:
        low, high = max(LEAST, each.low), max(LEAST, each.high)
        add("line", x1=x(each.mean), y1=y(low), x2=x(each.mean), y2=y(high), stroke="#1f5fa8", stroke_width=2)
        add("circle", cx=x(each.mean), cy=y(max(LEAST, each.share)), r=4, fill="#1f5fa8")
        add("text", str(each.count), x=x(each.mean) - 8, y=y(max(LEAST, each.share)) + 16, text_anchor="end",
            fill="#555")  # fmt: skip
    add("text", "confidence stated", x=LEFT + SIZE / 2, y=TOP + SIZE + 42, text_anchor="middle")
    add("text", "share right", x=16, y=TOP + SIZE / 2, text_anchor="middle",
        transform=f"rotate(-90 16 {TOP + SIZE / 2})")  # fmt: skip
    return ElementTree.tostring(root, encoding="unicode")
