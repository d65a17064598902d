"""The hierarchy of a GPU with its numbers, as SVG: a pure function of a result, in any width.

What is one array is one box; what belongs to an SM stands in its frame; between the frames stands what it costs to go
from one to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpudissect.estimate import Status
from gpudissect.results.model import Finding, Result
from gpudissect.results.names import title_of
from gpudissect.results.text import brief, quantity
from gpudissect.views.page.markup import Markup, tag
from gpudissect.views.page.words import value_words

GAP, PAD, LINE, HEAD = 10, 12, 15, 24
LETTERS, BOLD = 6.3, 7.7  # width of a letter of the small print, and of a title
LONGEST_NAME = 80  # characters
Findings = Mapping[tuple[str, str], Finding]
_ARRAYS = ("l1", "readonly", "texture", "constant_l1", "constant_l15", "icache_l0", "icache_l1", "icache_l15")
_TLBS = ("tlb_l1", "tlb_l2", "tlb_l3")
_FEATURES = ("capacity", "entries", "line_size", "page_size", "reach", "sets", "replacement_policy", "hit_latency",
             "miss_penalty", "banks", "read_rate", "near_latency", "far_latency", "wide_latency")  # fmt: skip
_SAID = {
    "line_size": "line", "page_size": "page of", "replacement_policy": "", "hit_latency": "hit", "reach": "reach",
    "miss_penalty": "miss +", "near_latency": "near", "far_latency": "far", "wide_latency": "all of it",
}  # fmt: skip
_DOWN = {"l2": ("hit_latency", "far_latency", "read_bandwidth", "write_bandwidth"),
         "dram": ("hit_latency", "near_latency", "far_latency", "read_bandwidth", "write_bandwidth")}  # fmt: skip
_ON_EDGES = {"l2": ("hit_latency", "near_latency", "far_latency"), "dram": ("hit_latency", "near_latency",
             "far_latency", "wide_latency")}  # fmt: skip


@dataclass
class Box:
    """One array: its names, its numbers, and the element whose findings a click leads to."""

    title: str
    lines: list[str]
    element: str
    kind: str = "cache"

    def height(self) -> float:
        """Units that it takes downwards."""
        return HEAD + LINE * (len(self.lines) + self.title.count("\n")) + 8


@dataclass
class Frame:
    """Boxes that belong together, in rows."""

    title: str
    boxes: list[Box]
    kind: str
    down: list[str] = field(default_factory=list)
    lacking: str = ""  # what was looked for and not found


def drawing(result: Result, width: int, anchors: Mapping[str, str]) -> Markup:
    """The drawing, `width` units wide. `anchors` gives the fragment of each element's findings.

    Empty for a result with no finding about a cache or memory.
    """
    frames = frames_of(result, width)
    if not any(frame.boxes for frame in frames):
        return Markup("")
    parts: list[Markup] = []
    down: float = 4
    for number, frame in enumerate(frames):
        if number:
            way = max(1, len(frame.down)) * LINE + 14
            parts.append(_edge(frame.down, down, way, width))
            down += way
        drawn, height = _frame(frame, down, width, anchors)
        parts.append(drawn)
        down += height
    if frames[-1].lacking:
        for line in _folded(f"Looked for and not found: {frames[-1].lacking}.", width):
            down += LINE
            parts.append(tag("text", line, x=PAD, y=down + 4, class_="place lacking"))
        down += 6
    about = f"Memory hierarchy of {brief(result.device.name, LONGEST_NAME)}"
    return tag("svg", *parts, class_="hierarchy", viewBox=f"0 0 {width} {down + 4:g}", role="group", aria_label=about)


def frames_of(result: Result, width: int) -> list[Frame]:
    """What is drawn: an SM, the L2, memory, with the boxes in each; frames without any are left out."""
    by_name = {(finding.element, finding.attribute): finding for finding in result.findings}
    seen = {finding.element for finding in result.findings}
    found = [each for each in _ARRAYS if each in seen and _known(by_name, each)]
    looked_for = {finding.element for finding in result.findings if finding.status is not Status.SKIPPED}
    lacking = [title_of(each) for each in (*_ARRAYS, *_TLBS) if each in looked_for and not _known(by_name, each)]
    sm = [_array(group, by_name) for group in _groups(by_name, found)]
    if "shared" in seen:
        sm.append(_box(("shared",), by_name, "scratch"))
    sm += [_box((name,), by_name, "tlb") for name in _TLBS[:1] if _known(by_name, name)]
    l2 = _l2(by_name) if "l2" in seen else []
    l2 += [_box((name,), by_name, "tlb") for name in _TLBS[1:] if _known(by_name, name)]
    memory = [_box(("dram",), by_name, "memory")] if "dram" in seen else []
    frames = [
        Frame(f"each of {result.device.sm_count} SMs", sm, "sm"),
        Frame("shared by all SMs", l2, "chip", _edge_lines("l2", by_name, width)),
        Frame("device memory", memory, "board", _edge_lines("dram", by_name, width), ", ".join(lacking)),
    ]
    return [frame for frame in frames if frame.boxes]


def _groups(by_name: Findings, elements: Sequence[str]) -> list[tuple[str, ...]]:
    """Elements that were found to be one array, together, each in one group only."""
    groups: list[list[str]] = []
    for element in elements:
        shared = by_name.get((element, "shared_with"))
        partners = (
            [each.strip() for each in shared.value.split(",")] if shared and isinstance(shared.value, str) else []
        )
        home = next((group for group in groups if any(each in group for each in partners)), None)
        if home is None:
            groups.append([element])
        else:
            home.append(element)
    return [tuple(group) for group in groups]


def _array(group: tuple[str, ...], by_name: Findings) -> Box:
    return _box(group, by_name, "code" if group[0].startswith("icache") else "cache")


def _l2(by_name: Findings) -> list[Box]:
    """One box; two where it is in two parts."""
    whole = _box(("l2",), by_name, "cache", skip=_ON_EDGES["l2"])
    part = _value(by_name, "l2", "segment_size")
    size = by_name.get(("l2", "capacity"))
    one = by_name.get(("l2", "segment_size"))
    if not part or not size or not one or not isinstance(size.value, int | float) or not isinstance(one.value, int):
        return [whole]
    if size.value < 1.5 * one.value:
        return [whole]
    rest = [line for line in whole.lines if not line.startswith(_value(by_name, "l2", "capacity"))]
    return [Box(f"L2, part {n}", [part, *rest], "l2") for n in (0, 1)]  # as part_by_sm has them


def _box(group: tuple[str, ...], by_name: Findings, kind: str, skip: Sequence[str] = ()) -> Box:
    """A box of the first element's numbers; latencies of the others where they differ."""
    lines: list[str] = []
    skip = (*skip, *_ON_EDGES.get(group[0], ()))
    for attribute in _FEATURES:
        text = _value(by_name, group[0], attribute)
        if not text or attribute in skip:
            continue
        if attribute in ("capacity", "hit_latency") and (own := _of_each(group, by_name, attribute)):
            lines += own
            continue
        if attribute == "sets":
            ways = _value(by_name, group[0], "ways")
            text = f"{text} set{'' if text == '1' else 's'}" + (f" x {ways} ways" if ways and len(ways) < 12 else "")
        elif attribute in ("entries", "banks"):
            text = f"{text} {attribute}"
        elif _SAID.get(attribute):
            text = f"{_SAID[attribute]} {text}"
        lines.append(text)
    count = by_name.get((group[0], "count_per_sm"))
    if count is not None and isinstance(count.value, int | float) and count.value > 1:
        lines.append(f"{count.value:g} of them")
    title = " + ".join(title_of(each, short=len(group) > 1) for each in group)
    return Box(title, lines, group[0], kind)


def _of_each(group: Sequence[str], by_name: Findings, attribute: str) -> list[str]:
    """A line for each view of an array where they do not all have the same; none where they do."""
    own = {each: text for each in group if (text := _value(by_name, each, attribute))}
    said = _SAID.get(attribute, "")
    if len(set(own.values())) < 2:
        return []
    return [f"{said} {text} ({title_of(each, short=True)})".strip() for each, text in own.items()]


def _known(by_name: Findings, *elements: str) -> bool:
    return any(finding.status.has_value for (element, _), finding in by_name.items() if element in elements)


def _value(by_name: Findings, element: str, attribute: str) -> str:
    """A value as it stands in the drawing; empty if there is none, ``at least`` with an open end."""
    finding = by_name.get((element, attribute))
    if finding is None:
        return ""
    if finding.status in (Status.FOUND, Status.STATED):
        return value_words(finding.value, finding.unit, finding.attribute)
    if finding.attribute in ("capacity", "reach") and finding.low is not None and finding.high is None:
        return f"at least {quantity(finding.low, finding.unit)}"
    return ""


def _edge_lines(element: str, by_name: Findings, width: int) -> list[str]:
    """What stands beside the way down to an element, as much in a line as there is room for."""
    said = [(attribute, _value(by_name, element, attribute)) for attribute in _DOWN[element]]
    parts = [f"{attribute.replace('_', ' ')} {text}" for attribute, text in said if text]
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 3 <= (width / 2 - 24) * 2 / LETTERS / 1.15:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return lines


def _edge(lines: Sequence[str], top: float, height: float, width: int) -> Markup:
    left = 26.0
    arrow = tag("path", class_="edge", d=f"M{left:g} {top + 3:g}V{top + height - 3:g}m-4 -6l4 6l4 -6M{left:g} "
                f"{top + 3:g}m-4 6l4 -6l4 6")  # fmt: skip
    texts = [tag("text", line, x=left + 14, y=top + 18 + LINE * n, class_="cost") for n, line in enumerate(lines)]
    return tag("g", arrow, *texts)


def _frame(frame: Frame, top: float, width: int, anchors: Mapping[str, str]) -> tuple[Markup, float]:
    inner = width - 2 * PAD - 2
    columns = max(1, min(len(frame.boxes), int(inner // 168)))
    wide = (inner - GAP * (columns - 1)) / columns
    down, drawn = top + HEAD + 4, []
    for first in range(0, len(frame.boxes), columns):
        row = frame.boxes[first : first + columns]
        fitted = [Box("\n".join(_folded(box.title, wide, BOLD)), [cut for line in box.lines for cut in
                  _folded(line, wide)], box.element, box.kind) for box in row]  # fmt: skip
        height = max(box.height() for box in fitted)
        for n, box in enumerate(fitted):
            drawn.append(_drawn(box, 1 + PAD + n * (wide + GAP), down, wide, height, anchors))
        down += height + GAP
    height = down - top + 2
    around = tag("rect", class_=f"frame {frame.kind}", x=1, y=top, width=width - 2, height=height, rx=8)
    return tag("g", around, tag("text", frame.title, class_="place", x=PAD, y=top + 18), *drawn), height


def _folded(line: str, wide: float, letters: float = LETTERS) -> list[str]:
    """A line in as many as it needs in this box."""
    most = max(8, int((wide - 16) / letters))
    cut: list[str] = [""]
    for word in line.split(" "):
        if cut[-1] and len(cut[-1]) + 1 + len(word) > most:
            cut.append("")
        cut[-1] += (" " if cut[-1] else "") + word[:most]
    return cut[:4]


def _drawn(box: Box, x: float, y: float, wide: float, height: float, anchors: Mapping[str, str]) -> Markup:
    titles = box.title.split("\n")
    head = [tag("text", line, class_="what", x=x + 9, y=y + 18 + LINE * n) for n, line in enumerate(titles)]
    down = y + HEAD + 13 + LINE * (len(titles) - 1)
    texts = [tag("text", line, x=x + 9, y=down + LINE * n) for n, line in enumerate(box.lines)]
    shape = tag("rect", class_=f"box {box.kind}", x=x, y=y, width=wide, height=height, rx=5)
    if box.element in anchors:
        label = f"{' '.join(titles)}: {', '.join(box.lines)}"
        return tag("a", shape, *head, *texts, href=f"#{anchors[box.element]}", aria_label=label)
    return tag("g", shape, *head, *texts)
