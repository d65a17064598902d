"""Arrays and views: which elements have an array of their own, and what each is like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpudissect.exports.gpu.chip import REQUIRED
from gpudissect.exports.gpu.geometry import geometry, in_all, usual_ways
from gpudissect.exports.gpu.readings import MOST, Entry, Readings, assumed, sourced
from gpudissect.vocabulary import CACHES, PATHS
from gpudissect.workload import Path

PRIVATE = tuple(element for element in CACHES if element != "l2")
ROOMS = {element: Path(path) for path, elements in PATHS.items() for element in elements}
MOST_SECTORS = 32  # of a line
LONGEST_LINE = 1 << 16  # bytes: beyond any
MOST_COPIES = 64
SOMETHING = 32 << 10  # bytes, where no capacity is known at all
SOME_L2 = 4 << 20
VIEWED = ("capacity", "line_size", "fetch_granularity", "sets", "count_per_sm")
_TWO_PARTS = "two parts like the near one taken"


@dataclass(frozen=True)
class Arrays:
    """What caches there are.

    Attributes:
        caches: the entries of each array of its own.
        views: the entries of each element that looks into another's array.
        partition: capacity and such of an L2 in two parts; `caches` then describes one of them.

    """

    caches: Mapping[str, Mapping[str, Entry]]
    views: Mapping[str, Mapping[str, Entry]]
    partition: Mapping[str, Entry] | None

    def has(self, element: str) -> bool:
        """Whether an element is there, with an array or a view."""
        return element in self.caches or element in self.views


def arrays(readings: Readings, known: Sequence[str]) -> Arrays:
    """Arrays and views of the elements `known`, the L2 among them or not.

    Raises `UsageError` for a cache that is too large to be simulated.
    """
    private = [element for element in PRIVATE if element in known]
    owners = sharing(readings, private)
    caches = {element: _cache(readings, element) for element in private if owners[element] == element}
    views = {
        element: _view(readings, element, owner, caches[owner]) for element, owner in owners.items() if owner != element
    }
    if "l2" not in known:
        return Arrays(caches, views, None)
    partition = _partition(readings)
    size = partition["capacity"]["value"] // 2 if partition else None
    return Arrays(caches | {"l2": _cache(readings, "l2", part=size)}, views, partition)


def sharing(readings: Readings, elements: Sequence[str]) -> dict[str, str]:
    """For each element the one whose array it shares: itself, or an earlier one.

    Two share if one was found to and the other not found not to; two elements of one path never do.
    """
    claims: dict[str, set[str] | None] = {}
    for element in elements:
        text = readings.text(element, "shared_with")
        claims[element] = None if text is None else {part.strip() for part in text.split(",")}
    owners = {element: element for element in elements}
    for i, element in enumerate(elements):
        for other in elements[:i]:
            group = [each for each in elements if owners[each] == owners[other]]
            if owners[element] == element and _agree(claims, element, other) and _apart([*group, element]):
                owners[element] = owners[other]
    return owners


def _agree(claims: Mapping[str, set[str] | None], one: str, other: str) -> bool:
    pairs = ((claims[one], other), (claims[other], one))
    return {name in claim for claim, name in pairs if claim is not None} == {True}


def _apart(group: Sequence[str]) -> bool:
    rooms = [ROOMS[element] for element in group]
    return len(set(rooms)) == len(rooms)


def _view(readings: Readings, element: str, owner: str, array: Mapping[str, Entry]) -> dict[str, Entry]:
    """A view repeats what was found for it as well, where that is the same as for the array."""
    found = {attribute: readings.entry(element, attribute) for attribute in VIEWED}
    same = {
        attribute: entry
        for attribute, entry in found.items()
        if entry is not None and attribute in array and entry["value"] == array[attribute]["value"]
    }
    finding = readings.finding(element, "shared_with") or readings.finding(owner, "shared_with")
    note = "; ".join(finding.caveats) if finding is not None else ""
    return {"of": sourced(owner, readings.source, note=note)} | same


def _cache(readings: Readings, element: str, part: int | None = None) -> dict[str, Entry]:
    line, fetch = _line_and_fetch(readings, element)
    capacity = _capacity(readings, element, line["value"]) if part is None else _segment(readings, part)
    copies = readings.entry(element, "count_per_sm")
    lines = capacity["value"] // line["value"]
    structure = geometry(readings, element, lines, line["value"], usual_ways(lines))
    capacity = in_all(capacity, structure.lines, line["value"], readings)
    entries = {"capacity": capacity, "line_size": line, "fetch_granularity": fetch} | structure.entries
    if element != "l2" and copies is not None and copies["value"] in range(1, MOST_COPIES + 1):
        entries["count_per_sm"] = copies
    return entries


def _line_and_fetch(readings: Readings, element: str) -> tuple[Entry, Entry]:
    line, fetch = (_power_of_two(readings, element, each) for each in ("line_size", "fetch_granularity"))
    if line is None and fetch is None:
        return assumed(128, "not found; 128 B taken"), assumed(32, "not found; 32 B taken")
    if line is None and fetch is not None:
        line = assumed(fetch["value"], "not found; as large as what one miss fetches")
    assert line is not None
    if fetch is None:
        return line, assumed(max(4, line["value"]), "not found; a whole line")
    size = line["value"]
    if size // MOST_SECTORS <= fetch["value"] <= size:
        return line, fetch
    why = f"one miss was found to fetch {fetch['value']} B, of which no line of {size} B is made; a whole line taken"
    return line, assumed(size, why)


def _power_of_two(readings: Readings, element: str, attribute: str) -> Entry | None:
    entry = readings.entry(element, attribute)
    if entry is None or not 4 <= entry["value"] <= LONGEST_LINE or entry["value"] & (entry["value"] - 1):
        return None
    return entry


def _capacity(readings: Readings, element: str, line: int) -> Entry:
    """The capacity of an array, in whole lines: found, or as much as makes a survey find the same again."""
    entry, finding = readings.entry(element, "capacity"), readings.finding(element, "capacity")
    if entry is not None and entry["value"] >= line:
        whole = entry["value"] // line * line
        if whole == entry["value"]:
            return entry
        return assumed(whole, f"found {entry['value']} B, which is no whole number of lines; those that fit")
    low = finding.low if finding is not None and not finding.status.has_value else None
    if finding is None or low is None or not line <= low <= MOST:
        return _unknown(readings, element, line)
    if finding.high is None:
        size = -(-max(int(low), _reach(readings, element)) // line) * line
        return sourced(size, readings.source, low=int(low), note=finding.reason)
    why = f"{finding.status.value}, {finding.reason}; the low end taken"
    return assumed(int(low) // line * line, why)


def _reach(readings: Readings, element: str) -> int:
    """Bytes that a path reaches, where it may end before its cache does; 0 where it does not."""
    return (readings.fact("constant_size") or REQUIRED["constant_size"]) if ROOMS.get(element) is Path.CONSTANT else 0


def _unknown(readings: Readings, element: str, line: int) -> Entry:
    stated = readings.fact("l2_size") if element == "l2" else None
    if stated is not None and stated >= line:
        return assumed(stated // line * line, "not found; what the driver states")
    size = max(line, SOME_L2 if element == "l2" else SOMETHING)
    return assumed(size, f"not found; {size >> 10} KiB taken")


def _segment(readings: Readings, part: int) -> Entry:
    entry = readings.entry("l2", "segment_size")
    if entry is not None and entry["value"] == part:
        return entry
    return assumed(part, "half of both parts")


def _partition(readings: Readings) -> dict[str, Entry] | None:
    """Of an L2 whose far part was seen: what both parts hold. Its cycles are known where its path is."""
    near, far = readings.number("l2", "hit_latency"), readings.number("l2", "far_latency")
    if near is None or far is None or far <= near:
        return None
    line = _line_and_fetch(readings, "l2")[0]["value"]
    segment, both = readings.whole("l2", "segment_size"), readings.entry("l2", "capacity")
    if segment is None or segment < line:
        whole = (both or _unknown(readings, "l2", 2 * line))["value"]
        segment = max(1, whole // 2 // line) * line
    whole = 2 * (segment // line * line)
    if both is None:
        return {"capacity": assumed(whole, "not found; " + _TWO_PARTS)}
    if both["value"] == whole:
        return {"capacity": both}
    if both.get("low", whole) <= whole <= both.get("high", whole):
        bracket = {end: both[end] for end in ("low", "high") if end in both}
        return {
            "capacity": sourced(whole, readings.source, note=f"found as {both['value']} B; {_TWO_PARTS}", **bracket)
        }
    return {"capacity": assumed(whole, f"found as {both['value']} B; {_TWO_PARTS}")}
