"""Sets, ways, index function and replacement policy of an array: what was found, completed to what can be simulated.

The capacity comes first: with whatever is found or assumed, so many lines in one piece fit as were found to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gpudissect.catalogue.arrays import MAX_LINES, MAX_WAYS
from gpudissect.errors import UsageError
from gpudissect.exports.gpu.readings import Entry, Readings, assumed, sourced, words
from gpudissect.exports.gpu.texts import fitting, index_function, replacement_policy

FEWEST_WAYS, USUAL_WAYS = 4, 16  # of an assumed structure
MOST_MAPPED = 1 << 16  # lines of unequal sets that a map may list
ONE_SET = 1024  # lines that may be one set, if they do not divide into sets of so many ways


@dataclass(frozen=True)
class Geometry:
    """The entries `sets`, `ways`, `index_function` and `replacement_policy` of an array, and its `lines`.

    Those are as many as were asked for, unless a structure was found that has more of them, of which not all fit in one
    piece.
    """

    lines: int
    entries: dict[str, Entry]


def geometry(readings: Readings, element: str, lines: int, line: int, usual: int) -> Geometry:
    """The structure of an array.

    Args:
        readings: the findings.
        element: whose array it is: a cache, or a TLB whose lines are pages.
        lines: how many lines in one piece fit.
        line: bytes of a line.
        usual: ways to assume, if none were found; they divide `lines`.

    Raises:
        UsageError: for more lines than can be simulated.

    """
    if lines > MAX_LINES:
        raise UsageError(f"{element} has {lines} lines: at most {MAX_LINES} can be simulated")
    index, policy = readings.text(element, "index_function"), readings.text(element, "replacement_policy")
    ways, entries = _found_sets(readings, element, lines) or _assumed_sets(readings, element, lines, usual)
    table = index_function(index, ways, line, lines)
    if table is None and (sum(ways) != lines or not _has_map(ways)):
        ways, entries = _assumed_sets(readings, element, lines, usual)
        table = index_function(index, ways, line, lines)
    kind = replacement_policy(policy, ways)
    entries["index_function"] = sourced(table, readings.source) if table else _assumed_index(index, ways)
    entries["replacement_policy"] = sourced(kind, readings.source) if kind else _assumed_policy(policy)
    return Geometry(sum(ways), entries)


def in_all(entry: Entry, count: int, each: int, readings: Readings) -> Entry:
    """An entry of `count` lines, `each` of so many units, that says how many of them fit in one piece."""
    if count * each == entry["value"]:
        return entry
    note = f"by its sets and ways; in one piece {entry['value']} fit"
    return sourced(count * each, readings.source, low=min(entry["value"], count * each), note=note)


def _found_sets(readings: Readings, element: str, lines: int) -> tuple[tuple[int, ...], dict[str, Entry]] | None:
    """Ways of every set, and the entries that say so; None if they were not found or cannot be."""
    sets, ways = readings.whole(element, "sets"), readings.wholes(element, "ways")
    source = readings.source
    if ways is None or max(ways) > MAX_WAYS:
        if ways is None and sets is not None and lines % sets == 0 and lines // sets <= MAX_WAYS:
            entry = assumed(lines // sets, "follows from capacity and sets")
            return (lines // sets,) * sets, {"sets": sourced(sets, source), "ways": entry}
        return None
    if len(ways) > 1:
        runs = [{"sets": len(list(run)), "ways": way} for way, run in groupby(ways)]
        count = sourced(len(ways), source) if sets else assumed(len(ways), "as many as there are ways of")
        possible = sets in (None, len(ways)) and sum(ways) <= MAX_LINES
        return (ways, {"sets": count, "ways": sourced(runs, source)}) if possible else None
    if sets is None and lines % ways[0]:
        return None
    count = sourced(sets, source) if sets else assumed(lines // ways[0], "follows from capacity and ways")
    every = sets or lines // ways[0]
    if every * ways[0] > MAX_LINES:
        return None
    return (ways[0],) * every, {"sets": count, "ways": sourced(ways[0], source)}


def _has_map(ways: Sequence[int]) -> bool:
    """Whether a file has room for a map to these sets, if they need one."""
    return len(set(ways)) == 1 or sum(ways) <= MOST_MAPPED or fitting({"kind": "modulo"}, ways, 1) == sum(ways)


def _assumed_sets(readings: Readings, element: str, lines: int, way: int) -> tuple[tuple[int, ...], dict[str, Entry]]:
    sets, ways = readings.whole(element, "sets"), readings.finding(element, "ways")
    rest = lines // way
    taken = f"{rest} x {way} taken: they make the capacity"
    found = ways is not None and ways.value is not None
    if sets is None and not found:
        why = f"not found; {taken}"
    else:
        of = words(ways.value, 80) if ways is not None and found else "?"
        why = f"found {sets or '?'} sets, ways {of}: that does not make the capacity, {lines}; {taken}"
    return (way,) * rest, {"sets": assumed(rest, why), "ways": assumed(way, why)}


def usual_ways(lines: int) -> int:
    """Ways of equal sets that make so many lines: about 16 if they divide, else one set if that is not large."""
    divisors = [way for way in range(FEWEST_WAYS, USUAL_WAYS + 1) if lines % way == 0]
    if divisors:
        return divisors[-1]
    if lines <= ONE_SET:
        return lines
    return next((way for way in range(USUAL_WAYS, MAX_WAYS + 1) if lines % way == 0), 1)


def _assumed_index(found: str | None, ways: Sequence[int]) -> Entry:
    if len(ways) == 1:
        table, taken = {"kind": "modulo"}, "one set"
    elif len(set(ways)) == 1:
        table, taken = {"kind": "modulo"}, "line number modulo sets"
    else:
        table, taken = _table_of(ways), "any map that fills the sets exactly"
    if found is None:
        return assumed(table, f"not found; {taken}" if len(ways) > 1 else taken)
    return assumed(table, f"found {words(found, 200)!r}, under which the capacity would not come out; {taken}")


def _table_of(ways: Sequence[int]) -> dict[str, Any]:
    """A map for unequal sets: modulo if that fills them, else round the sets that still have room."""
    modulo = {"kind": "modulo"}
    if fitting(modulo, ways, 1) == sum(ways):
        return modulo
    return {"kind": "table", "table": [s for turn in range(max(ways)) for s, way in enumerate(ways) if way > turn]}


def _assumed_policy(found: str | None) -> Entry:
    why = "not found" if found is None else f"found {words(found, 200)!r}, which is not simulated"
    return assumed({"kind": "lru"}, f"{why}; LRU taken")
