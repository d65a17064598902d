"""The memory hierarchy of a GPU as a drawing (SVG): a pure function of a result, in any width.

One array is one box; boxes of an SM stand in its frame; between frames arrows show latency, their width bandwidth. What
no experiment locates (TLBs, instruction caches, the L1.5 of constants) stands in a strip of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from gpudissect.estimate import Status
from gpudissect.printable import brief
from gpudissect.results.folded import folded, rounded
from gpudissect.results.model import Result
from gpudissect.results.summary import summarize
from gpudissect.results.text import provenance, title_of
from gpudissect.views.page.findings import BRIEF, MAX_NAME_LENGTH, value_text
from gpudissect.views.page.markup import Markup, tag
from gpudissect.views.plots.standalone import with_light_colours
from gpudissect.vocabulary import TLBS

GAP, PADDING, LINE, HEAD = 10, 12, 15, 24  # pixels
LETTER, BOLD_LETTER = 6.3, 7.7  # width of a letter in pixels, about
MIN_BOX_WIDTH = 132  # pixels
MAX_LINES = 4  # of one text in a box
MAX_WAYS_LENGTH = 12  # characters
ARROW_GAP, ARROW_INSET = 40, 24  # pixels between frames; of an arrow from the right side of its box
FAR_DROP = 30  # pixels by which the far partition of an L2 stands lower
MIN_STROKE, MAX_STROKE = 2, 14  # pixels of an arrow
TWO_PARTITIONS = 1.5  # size of the L2 over that of a partition from which on it has two
UNIFIED = 7.0  # compute capability from which on L1 and shared memory are one array
_ARRAYS = ("l1", "readonly", "texture", "constant_l1", "constant_l15", "icache_l0", "icache_l1", "icache_l15")
_MAY_BE_SHARED = frozenset(_ARRAYS[4:])  # by several SMs, as on an H200
_TEXTS = BRIEF["box"]  # attributes in a box, in order, and how each is written
_OF_EACH = ("capacity", "hit_latency")  # may differ between the views of one array
_NOT_IN_BOX = {"l2": ("hit_latency", "near_latency", "far_latency", "segment_size"), "dram": ("hit_latency",)}
_BANDWIDTHS = {"read_bandwidth": "read", "write_bandwidth": "write"}
WIDTH, TITLE_HEIGHT = 760, 30  # pixels
_ON_PAGE = ("display:", ":hover", ":focus")  # rules that only a page needs
_TITLE_STYLE = ".title { font: 600 15px system-ui, sans-serif; fill: var(--ink); } .paper { fill: var(--paper); }"


@dataclass(frozen=True)
class Box:
    """One array: lines of names and of values, and the element whose findings a click leads to."""

    titles: Sequence[str]
    lines: Sequence[str]
    element: str
    kind: str = "cache"
    parts: Sequence[Box] = ()  # side by side within it
    latency: str = ""  # beside the arrow that leads to it
    drop: float = 0  # pixels by which it stands lower than its neighbours

    def fitted(self, width: float) -> Box:
        """With texts broken into lines of so many pixels."""
        titles = [part for title in self.titles for part in _broken(title, width, BOLD_LETTER)]
        lines = [part for line in self.lines for part in _broken(line, width)]
        parts = [part.fitted(width / len(self.parts)) for part in self.parts]
        return replace(self, titles=titles, lines=lines, parts=parts)

    @property
    def height(self) -> float:
        """Height in pixels."""
        inner = max((part.height for part in self.parts), default=0) - 6 * bool(self.parts)
        return HEAD + LINE * (len(self.lines) + len(self.titles) - 1) + 8 + inner

    @property
    def span(self) -> int:
        """Columns of the frame that it takes."""
        return max(1, len(self.parts))


@dataclass(frozen=True)
class Frame:
    """Boxes that belong together; `stroke` is the width of the arrows above it, in pixels; 0: no arrow."""

    title: str
    boxes: Sequence[Box]
    kind: str
    stroke: float = 0


def hierarchy(result: Result, width: int, anchors: Mapping[str, str]) -> Markup:
    """The drawing, `width` pixels wide. `anchors` has the fragment of the findings of each element.

    Empty for a result without findings about a cache or memory.
    """
    parts: list[Markup] = []
    top: float = 4
    frames = frames_of(result)
    for frame in frames:
        if frame is not frames[0]:
            top += ARROW_GAP if frame.stroke else GAP
        drawing, height = _frame(frame, top, width, anchors)
        parts.append(drawing)
        top += height
    if not frames:
        return Markup("")
    tried = {finding.element for finding in result.findings if finding.status is not Status.SKIPPED}
    known = {finding.element for finding in result.findings if finding.status.has_value}
    missing = [title_of(each) for each in (*_ARRAYS, *TLBS) if each in tried - known]
    if missing and "dram" in known:
        lines = _broken(f"Tested for and not found: {', '.join(missing)}.", width)
        starts = (top + LINE * (n + 1) + 4 for n in range(len(lines)))
        parts += [
            tag("text", text, x=PADDING, y=y, class_="place lacking") for text, y in zip(lines, starts, strict=True)
        ]
        top += LINE * len(lines) + 6
    label = f"Memory hierarchy of {brief(result.device.name, MAX_NAME_LENGTH)}"
    box = f"0 0 {width} {top + 4:g}"
    return tag("svg", *parts, class_="hierarchy", viewBox=box, role="group", aria_label=label)


def frames_of(result: Result) -> list[Frame]:
    """An SM, the L2, memory, and what has no known position; a frame without boxes is left out."""
    values = _Values(result)
    groups = _groups(values)
    code = [group for group in groups if _MAY_BE_SHARED.intersection(group)]
    sm = [_box(group, values) for group in groups if group not in code]
    if "shared" in values.elements:
        shared = _box(["shared"], values, "scratch")
        is_unified = sm and sm[0].element == "l1" and _compute_capability(result) >= UNIFIED
        sm = [_unified(sm[0], shared, values), *sm[1:]] if is_unified else [*sm, shared]
    l2 = _l2(values) if "l2" in values.elements else []
    memory = [_box(["dram"], values, "memory")] if "dram" in values.elements else []
    memory = [replace(each, lines=[" · ".join(each.lines)], latency=_latency("dram", values)) for each in memory]
    unplaced = [_box([name], values, "tlb") for name in TLBS if name in values.known]
    unplaced += [_box(group, values, "code") for group in code]
    rates = {each: values.number(each, "read_bandwidth") for each in ("l2", "dram")}
    widest = max(rates.values()) or 1
    strokes = {each: max(MIN_STROKE, MAX_STROKE * rate / widest) for each, rate in rates.items()}
    frames = [
        Frame(f"Each of {result.device.sm_count} SMs", sm, "sm"),
        Frame(_with_bandwidth("Shared by all SMs", "l2", values), l2, "chip", strokes["l2"] / max(1, len(l2))),
        Frame(_with_bandwidth("Device memory", "dram", values), memory, "board", strokes["dram"]),
        Frame("Position not measured", unplaced, "unplaced"),
    ]
    return [frame for frame in frames if frame.boxes]


def _compute_capability(result: Result) -> float:
    try:
        return float(result.device.facts.get("compute_capability") or 0)
    except ValueError:  # the file may come from anywhere
        return 0.0


def _unified(l1: Box, shared: Box, values: _Values) -> Box:
    """The array that L1 and shared memory divide between them, with a part for each."""
    sizes = {each: values.text(each, "capacity") for each in ("l1", "shared")}
    line = f"one array: {sizes['l1']} as cache, or up to {sizes['shared']} as shared memory"
    parts = [replace(each, lines=[text for text in each.lines if text not in sizes.values()]) for each in (l1, shared)]
    return Box(["L1 cache and shared memory"], [line] if all(sizes.values()) else [], "l1", parts=parts)


def _with_bandwidth(title: str, element: str, values: _Values) -> str:
    texts = [f"{word} {text}" for each, word in _BANDWIDTHS.items() if (text := values.bandwidth(element, each))]
    return " · ".join([title, *texts])


def _latency(element: str, values: _Values) -> str:
    text = values.text(element, "hit_latency")
    return f"latency {text}" if text else ""


class _Values:
    """Values of a result by element and attribute; the elements that it has, and those with a value."""

    def __init__(self, result: Result) -> None:
        self._by_name = {(finding.element, finding.attribute): finding for finding in result.findings}
        self._ends = {level.element: level.bandwidth_ends for level in summarize(result).levels}
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
        if isinstance(finding.value, str | tuple):
            return value_text(finding.value, finding.unit, attribute)
        if finding.status.has_value or (attribute in ("capacity", "reach") and finding.high is None):
            return folded(finding).replace("≥", "at least")
        return ""

    def bandwidth(self, element: str, attribute: str) -> str:
        """A bandwidth, with the footprint that it holds for where it depends on it."""
        text, ends = self.text(element, attribute), self._ends.get(element)
        return f"{text} at {rounded(ends[0][0], 'B')}" if text and ends and attribute == "read_bandwidth" else text


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
    """One box, or two where it has two partitions: the far one stands lower, for its latency is longer."""
    box, size = _box(["l2"], values), values.number("l2", "segment_size")
    if not size or values.number("l2", "capacity") < TWO_PARTITIONS * size:
        return [replace(box, latency=_latency("l2", values))]
    of_both = (values.text("l2", "capacity"), _TEXTS["miss_penalty"].format(""))  # a miss costs a mean of both
    lines = [values.text("l2", "segment_size"), *[line for line in box.lines if not line.startswith(of_both)]]
    near = Box(["L2, near partition"], lines, "l2", latency=_hit("near", values))
    return [near, replace(near, titles=["L2, far partition"], latency=_hit("far", values), drop=FAR_DROP)]


def _hit(which: str, values: _Values) -> str:
    text = values.text("l2", f"{which}_latency")
    return f"{which} hit {text}" if text else which


def _box(group: Sequence[str], values: _Values, kind: str = "cache") -> Box:
    """Values of the first element of the group; capacity and hit latency of the others where they differ."""
    first = group[0]
    lines: list[str] = []
    for attribute, template in _TEXTS.items():
        if attribute in _NOT_IN_BOX.get(first, ()):
            continue
        if first.startswith("icache") and attribute == "miss_penalty":
            template = "miss + {} per line"  # of sequential code: no latency
        texts = {each: text for each in group if (text := values.text(each, attribute))}
        if attribute in _OF_EACH and len(set(texts.values())) > 1:
            own = texts.get(first)
            lines += [template.format(own)] if own else []
            lines += [f"{title_of(each, short=True)}: {text}" for each, text in texts.items() if text != own]
        elif first in texts and (attribute, texts[first]) != ("miss_cache", "0"):
            line = "1 set" if (attribute, texts[first]) == ("sets", "1") else template.format(texts[first])
            ways = values.text(first, "ways") if attribute == "sets" else ""
            lines.append(f"{line} x {ways} ways" if 0 < len(ways) < MAX_WAYS_LENGTH else line)
    if (count := values.number(first, "count_per_sm")) > 1:
        lines.append(f"{count:g} of them")
    title = " + ".join(title_of(each, short=len(group) > 1) for each in group)
    return Box([title[:1].upper() + title[1:]], lines, first, kind)


def _arrow(text: str, x: float, top: float, bottom: float, stroke: float, room: float) -> Markup:
    """An arrow with two heads from a frame down to a box, its text on the left within `room` pixels of the arrow."""
    head = max(5.0, 0.9 * stroke)
    tip = f"l{-head:g} {head:g}h{2 * head:g}z"
    first, last = top + 3, bottom - 3
    heads = f"M{x:g} {first:g}{tip}M{x:g} {last:g}l{-head:g} {-head:g}h{2 * head:g}z"
    line = tag("path", class_="edge", d=f"M{x:g} {first + head:g}V{last - head:g}", stroke_width=stroke)
    lines = _broken(text, room)
    highest = top + ARROW_GAP / 2 + 4 - LINE / 2 * (len(lines) - 1)
    labels = [
        tag("text", part, x=x - head - 8, y=highest + LINE * n, class_="cost", text_anchor="end")
        for n, part in enumerate(lines)
    ]
    return tag("g", line, tag("path", class_="tip", d=heads), *labels)


def _frame(frame: Frame, top: float, width: int, anchors: Mapping[str, str]) -> tuple[Markup, float]:
    inner = width - 2 * PADDING - 2
    spans = sum(box.span for box in frame.boxes)
    columns = max(1, min(spans, int(inner // MIN_BOX_WIDTH)))
    if frame.stroke:
        columns = len(frame.boxes)  # an arrow leads to each
    rows = math.ceil(spans / columns)
    columns = math.ceil(spans / rows) if rows > 1 else columns
    unit = (inner - GAP * (columns - 1)) / columns
    title = _broken(frame.title, width - 2 * ARROW_INSET if frame.stroke else width, BOLD_LETTER)
    down = top + HEAD + 4 + LINE * (len(title) - 1)
    parts = [tag("text", text, class_="place", x=PADDING, y=top + 18 + LINE * n) for n, text in enumerate(title)]
    arrows: list[Markup] = []
    for row in _rows(frame.boxes, columns):
        widths = [unit * min(box.span, columns) + GAP * (min(box.span, columns) - 1) for box in row]
        boxes = [box.fitted(wide) for box, wide in zip(row, widths, strict=True)]
        height = max(box.height for box in boxes)
        x: float = 1 + PADDING
        for box, wide in zip(boxes, widths, strict=True):
            if frame.stroke:
                bottom = down + box.drop if box.drop else top
                at, room = x + wide - ARROW_INSET, wide - ARROW_INSET
                arrows.append(_arrow(box.latency, at, top - ARROW_GAP, bottom, frame.stroke, room))
            parts.append(_drawn(box, x, down + box.drop, wide, height, anchors))
            x += wide + GAP
        down += height + GAP + max(box.drop for box in boxes)
    height = down - top + 2
    border = tag("rect", class_=f"frame {frame.kind}", x=1, y=top, width=width - 2, height=height, rx=8)
    return tag("g", border, *parts, *arrows), height


def _rows(boxes: Sequence[Box], columns: int) -> list[list[Box]]:
    """Boxes in rows of so many columns."""
    rows: list[list[Box]] = []
    for box in boxes:
        if not rows or sum(each.span for each in rows[-1]) + box.span > columns:
            rows.append([])
        rows[-1].append(box)
    return rows


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
    texts.insert(0, tag("rect", class_=f"box {box.kind}", x=x, y=y, width=width, height=height, rx=5))
    inner, part_width = down + LINE * len(box.lines) - 16, width / box.span
    for n, part in enumerate(box.parts):
        texts.append(_part(part, x + n * part_width, inner, y + height, has_rule=n > 0))
    if box.element not in anchors:
        return tag("g", *texts)
    label = f"{' '.join(box.titles)}: {', '.join((*box.lines, *(line for part in box.parts for line in part.lines)))}"
    return tag("a", *texts, href=f"#{anchors[box.element]}", aria_label=label)


def _part(part: Box, x: float, y: float, bottom: float, *, has_rule: bool) -> Markup:
    """One of several arrays within a box, divided from the one before by a rule."""
    texts = [tag("text", line, class_="sub", x=x + 9, y=y + 18 + LINE * n) for n, line in enumerate(part.titles)]
    down = y + HEAD - 2 + LINE * len(part.titles)
    texts += [tag("text", line, x=x + 9, y=down + LINE * n) for n, line in enumerate(part.lines)]
    rule = tag("path", class_="rule", d=f"M{x:g} {y + 6:g}V{bottom - 6:g}") if has_rule else None
    return tag("g", rule, *texts)


def hierarchy_file(result: Result, width: int = WIDTH) -> str:
    """The drawing under the name and origin of the GPU; empty for a result without a cache or memory."""
    drawing = hierarchy(result, width, {})
    if not drawing:
        return ""
    device = result.device
    title = f"{brief(device.name, MAX_NAME_LENGTH)}, {provenance(device.origin, device.recorded_origin)}"
    placed, height = place(drawing, 0, TITLE_HEIGHT)
    size = {"width": width, "height": height + TITLE_HEIGHT}
    parts = tag("rect", class_="paper", x=0, y=0, **size), tag("text", title, class_="title", x=12, y=20), placed
    style, box = Markup(f"<style>{light_style()}</style>"), f"0 0 {width} {height + TITLE_HEIGHT:g}"
    head = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": box, "role": "img", "aria_label": title}
    return tag("svg", tag("title", title), style, *parts, **head, **size) + "\n"


def place(drawing: Markup, x: float, y: float) -> tuple[Markup, float]:
    """A drawing as a part of another one, at this place, and its height in pixels."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)[0]
    size = f'<svg x="{x:g}" y="{y:g}" width="{width}" height="{height}" '
    return Markup(drawing.replace("<svg ", size, 1)), float(height)


@cache
def light_style() -> str:
    """The style sheet of a drawing in light colours, with a title and paper."""
    css = files("gpudissect.views.page").joinpath("page.css").read_text("utf-8")
    rules = [
        rule for rule in re.findall(r"\.hierarchy [^{}]*\{[^}]*\}", css) if not any(each in rule for each in _ON_PAGE)
    ]
    return with_light_colours("\n".join([_TITLE_STYLE, *rules]), css)
