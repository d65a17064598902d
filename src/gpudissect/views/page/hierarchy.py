"""The memory hierarchy of a GPU as a drawing (SVG): a pure function of a result, in any width.

One array is one box; boxes of an SM stand in its frame; between frames stands the cost of going from one to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpudissect.estimate import Status
from gpudissect.results.model import Result
from gpudissect.results.text import brief, quantity, title_of
from gpudissect.views.page.findings import MAX_NAME_LENGTH, value_text
from gpudissect.views.page.markup import Markup, tag
from gpudissect.vocabulary import TLBS

GAP, PADDING, LINE, HEAD = 10, 12, 15, 24  # pixels
LETTER, BOLD_LETTER = 6.3, 7.7  # width of a letter in pixels, about
MIN_BOX_WIDTH = 168  # pixels
MAX_LINES = 4  # of one text in a box
MAX_WAYS_LENGTH = 12  # characters
TWO_PARTITIONS = 1.5  # size of the L2 over that of a partition from which on it has two
_ARRAYS = ("l1", "readonly", "texture", "constant_l1", "constant_l15", "icache_l0", "icache_l1", "icache_l15")
_TEXTS = {
    "capacity": "{}",
    "entries": "{} entries",
    "line_size": "line {}",
    "page_size": "page of {}",
    "reach": "reach {}",
    "sets": "{} sets",
    "replacement_policy": "{}",
    "hit_latency": "hit {}",
    "miss_penalty": "miss + {}",
    "banks": "{} banks",
    "read_rate": "{}",
    "near_latency": "near {}",
    "far_latency": "far {}",
    "wide_latency": "all of it {}",
}
"""Attributes in a box, in order, and how each is written."""
_OF_EACH = ("capacity", "hit_latency")  # may differ between the views of one array
_EDGES = {
    "l2": ("hit_latency", "far_latency", "read_bandwidth", "write_bandwidth"),
    "dram": ("hit_latency", "near_latency", "far_latency", "read_bandwidth", "write_bandwidth"),
}
"""Attributes beside the arrow down to an element."""
_NOT_IN_BOX = {"l2": ("hit_latency", "near_latency", "far_latency"), "dram": (*_EDGES["dram"], "wide_latency")}


@dataclass(frozen=True)
class Box:
    """One array: lines of names and of values, and the element whose findings a click leads to."""

    titles: Sequence[str]
    lines: Sequence[str]
    element: str
    kind: str = "cache"

    def fitted(self, width: float) -> Box:
        """With texts broken into lines of so many pixels."""
        titles = [part for title in self.titles for part in _broken(title, width, BOLD_LETTER)]
        return Box(titles, [part for line in self.lines for part in _broken(line, width)], self.element, self.kind)

    @property
    def height(self) -> float:
        """Height in pixels."""
        return HEAD + LINE * (len(self.lines) + len(self.titles) - 1) + 8


@dataclass(frozen=True)
class Frame:
    """Boxes that belong together; `edge` has the texts beside the arrow above it."""

    title: str
    boxes: Sequence[Box]
    kind: str
    edge: Sequence[str] = ()


def hierarchy(result: Result, width: int, anchors: Mapping[str, str]) -> Markup:
    """The drawing, `width` pixels wide. `anchors` has the fragment of the findings of each element.

    Empty for a result without findings about a cache or memory.
    """
    parts: list[Markup] = []
    top: float = 4
    frames = frames_of(result, width)
    for frame in frames:
        if frame is not frames[0]:
            gap = max(1, len(frame.edge)) * LINE + 14
            parts.append(_edge(frame.edge, top, gap))
            top += gap
        drawing, height = _frame(frame, top, width, anchors)
        parts.append(drawing)
        top += height
    if not frames:
        return Markup("")
    tried = {finding.element for finding in result.findings if finding.status is not Status.SKIPPED}
    known = {finding.element for finding in result.findings if finding.status.has_value}
    missing = [title_of(each) for each in (*_ARRAYS, *TLBS) if each in tried - known]
    if missing and frames[-1].kind == "board":
        lines = _broken(f"Tested for and not found: {', '.join(missing)}.", width)
        starts = (top + LINE * (n + 1) + 4 for n in range(len(lines)))
        parts += [
            tag("text", text, x=PADDING, y=y, class_="place lacking") for text, y in zip(lines, starts, strict=True)
        ]
        top += LINE * len(lines) + 6
    label = f"Memory hierarchy of {brief(result.device.name, MAX_NAME_LENGTH)}"
    box = f"0 0 {width} {top + 4:g}"
    return tag("svg", *parts, class_="hierarchy", viewBox=box, role="group", aria_label=label)


def frames_of(result: Result, width: int) -> list[Frame]:
    """An SM, the L2 and memory with their boxes; a frame without boxes is left out."""
    values = _Values(result)
    tlbs = [_box([name], values, "tlb") if name in values.known else None for name in TLBS]
    sm = [_box(group, values, "code" if group[0].startswith("icache") else "cache") for group in _groups(values)]
    sm += [_box(["shared"], values, "scratch")] if "shared" in values.elements else []
    l2 = _l2(values) if "l2" in values.elements else []
    memory = [_box(["dram"], values, "memory")] if "dram" in values.elements else []
    frames = [
        Frame(f"each of {result.device.sm_count} SMs", [*sm, *filter(None, tlbs[:1])], "sm"),
        Frame("shared by all SMs", [*l2, *filter(None, tlbs[1:])], "chip", _edge_lines("l2", values, width)),
        Frame("device memory", memory, "board", _edge_lines("dram", values, width)),
    ]
    return [frame for frame in frames if frame.boxes]


class _Values:
    """Values of a result by element and attribute; the elements that it has, and those with a value."""

    def __init__(self, result: Result) -> None:
        self._by_name = {(finding.element, finding.attribute): finding for finding in result.findings}
        self.elements = {finding.element for finding in result.findings}
        self.known = {finding.element for finding in result.findings if finding.status.has_value}

    def number(self, element: str, attribute: str) -> float:
        """A number; 0 if there is none."""
        finding = self._by_name.get((element, attribute))
        return finding.value if finding is not None and isinstance(finding.value, int | float) else 0

    def text(self, element: str, attribute: str) -> str:
        """A value as text; empty if there is none, ``at least`` where only a lower bound is known."""
        finding = self._by_name.get((element, attribute))
        if finding is None:
            return ""
        if finding.status.has_value:
            return value_text(finding.value, finding.unit, attribute)
        if attribute in ("capacity", "reach") and finding.low is not None and finding.high is None:
            return f"at least {quantity(finding.low, finding.unit)}"
        return ""


def _groups(values: _Values) -> list[list[str]]:
    """Elements that were found to be one array, together."""
    groups: list[list[str]] = []
    for element in (each for each in _ARRAYS if each in values.known):
        partners = {each.strip() for each in values.text(element, "shared_with").split(",")}
        group = next((group for group in groups if not partners.isdisjoint(group)), None)
        if group is None:
            groups.append(group := [])
        group.append(element)
    return groups


def _l2(values: _Values) -> list[Box]:
    """One box, or two where it has two partitions."""
    box, size = _box(["l2"], values, "cache"), values.number("l2", "segment_size")
    if not size or values.number("l2", "capacity") < TWO_PARTITIONS * size:
        return [box]
    rest = [line for line in box.lines if not line.startswith(values.text("l2", "capacity"))]
    lines = [values.text("l2", "segment_size"), *rest]
    return [Box([f"L2, partition {n}"], lines, "l2") for n in (0, 1)]  # as partition_by_sm numbers them


def _box(group: Sequence[str], values: _Values, kind: str) -> Box:
    """Values of the first element of the group; capacity and hit latency of the others where they differ."""
    first = group[0]
    lines: list[str] = []
    for attribute, template in _TEXTS.items():
        if attribute in _NOT_IN_BOX.get(first, ()):
            continue
        texts = {each: text for each in group if (text := values.text(each, attribute))}
        if attribute in _OF_EACH and len(set(texts.values())) > 1:
            lines += [f"{template.format(text)} ({title_of(each, short=True)})" for each, text in texts.items()]
        elif first in texts:
            line = "1 set" if (attribute, texts[first]) == ("sets", "1") else template.format(texts[first])
            ways = values.text(first, "ways") if attribute == "sets" else ""
            lines.append(f"{line} x {ways} ways" if 0 < len(ways) < MAX_WAYS_LENGTH else line)
    if (count := values.number(first, "count_per_sm")) > 1:
        lines.append(f"{count:g} of them")
    return Box([" + ".join(title_of(each, short=len(group) > 1) for each in group)], lines, first, kind)


def _edge_lines(element: str, values: _Values, width: int) -> list[str]:
    """Latencies and bandwidths of an element in lines of the drawing's width."""
    lines: list[str] = []
    for attribute in _EDGES[element]:
        if text := values.text(element, attribute):
            part = f"{attribute.replace('_', ' ')} {text}"
            if lines and len(lines[-1]) + len(part) + 3 <= (width - 48) / LETTER / 1.15:
                lines[-1] += f" · {part}"
            else:
                lines.append(part)
    return lines


def _edge(lines: Sequence[str], top: float, height: float) -> Markup:
    down, up = f"M26 {top + 3:g}V{top + height - 3:g}m-4 -6l4 6l4 -6", f"M26 {top + 3:g}m-4 6l4 -6l4 6"
    texts = [tag("text", line, x=40.0, y=top + 18 + LINE * n, class_="cost") for n, line in enumerate(lines)]
    return tag("g", tag("path", class_="edge", d=down + up), *texts)


def _frame(frame: Frame, top: float, width: int, anchors: Mapping[str, str]) -> tuple[Markup, float]:
    inner = width - 2 * PADDING - 2
    columns = max(1, min(len(frame.boxes), inner // MIN_BOX_WIDTH))
    box_width = (inner - GAP * (columns - 1)) / columns
    down, parts = top + HEAD + 4, [tag("text", frame.title, class_="place", x=PADDING, y=top + 18)]
    for first in range(0, len(frame.boxes), columns):
        row = [box.fitted(box_width) for box in frame.boxes[first : first + columns]]
        height = max(box.height for box in row)
        for n, box in enumerate(row):
            parts.append(_drawn(box, 1 + PADDING + n * (box_width + GAP), down, box_width, height, anchors))
        down += height + GAP
    height = down - top + 2
    border = tag("rect", class_=f"frame {frame.kind}", x=1, y=top, width=width - 2, height=height, rx=8)
    return tag("g", border, *parts), height


def _broken(text: str, width: float, letter: float = LETTER) -> list[str]:
    """A text in as many lines as it needs, up to `MAX_LINES`."""
    max_length = max(8, int((width - 16) / letter))
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > max_length:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word[:max_length]
    return lines[:MAX_LINES]


def _drawn(box: Box, x: float, y: float, width: float, height: float, anchors: Mapping[str, str]) -> Markup:
    down = y + HEAD - 2 + LINE * len(box.titles)
    texts = [tag("text", line, class_="what", x=x + 9, y=y + 18 + LINE * n) for n, line in enumerate(box.titles)]
    texts += [tag("text", line, x=x + 9, y=down + LINE * n) for n, line in enumerate(box.lines)]
    shape = tag("rect", class_=f"box {box.kind}", x=x, y=y, width=width, height=height, rx=5)
    if box.element not in anchors:
        return tag("g", shape, *texts)
    label = f"{' '.join(box.titles)}: {', '.join(box.lines)}"
    return tag("a", shape, *texts, href=f"#{anchors[box.element]}", aria_label=label)
