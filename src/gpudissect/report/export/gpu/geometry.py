"""Sets, ways, index function and replacement policy of an array: what was found, completed to what can be simulated.

The capacity comes first: whatever is found or assumed multiplies out to it, to the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gpudissect.catalogue.structure import MOST_LINES, MOST_WAYS
from gpudissect.errors import UsageError
from gpudissect.report.export.gpu.readings import Entry, Readings, assumed, sourced, words
from gpudissect.report.export.gpu.texts import fills, index_function, replacement_policy
from gpudissect.report.text import quantity

FEWEST_WAYS, USUAL_WAYS = 4, 16  # of an assumed structure
MOST_MAPPED = 1 << 16  # lines of unequal sets that a map may list
ONE_SET = 1024  # lines that may be one set, if they do not divide into sets of so many ways


def geometry(readings: Readings, element: str, lines: int, line: int) -> dict[str, Entry]:
    """The entries `sets`, `ways`, `index_function` and `replacement_policy` of an array.

    Args:
        readings: the findings.
        element: whose array it is: a cache, or a TLB whose lines are pages.
        lines: how many lines it has.
        line: bytes of a line.

    Raises:
        UsageError: for more lines than can be simulated.

    """
    if lines > MOST_LINES:
        raise UsageError(f"{element} has {lines} lines: at most {MOST_LINES} can be simulated")
    ways, entries = _sets_and_ways(readings, element, lines)
    index = readings.text(element, "index_function")
    table = index_function(index, ways, line)
    policy = readings.text(element, "replacement_policy")
    kind = replacement_policy(policy, ways)
    return entries | {
        "index_function": sourced(table, readings.source) if table else _assumed_index(index, ways, line),
        "replacement_policy": sourced(kind, readings.source) if kind else _assumed_policy(policy),
    }


def _sets_and_ways(readings: Readings, element: str, lines: int) -> tuple[tuple[int, ...], dict[str, Entry]]:
    """Ways of every set, and the entries that say so."""
    sets, ways = readings.whole(element, "sets"), readings.wholes(element, "ways")
    source = readings.source
    if ways is not None and len(ways) > 1 and sets in (None, len(ways)) and _can_be(ways, lines):
        runs = [{"sets": len(list(run)), "ways": way} for way, run in groupby(ways)]
        count = sourced(len(ways), source) if sets else assumed(len(ways), "as many as there are ways of")
        return ways, {"sets": count, "ways": sourced(runs if len(runs) > 1 else ways[0], source)}
    way = ways[0] if ways is not None and len(ways) == 1 else None
    if way is not None and lines % way == 0 and way <= MOST_WAYS and sets in (None, lines // way):
        rest = lines // way
        count = sourced(rest, source) if sets else assumed(rest, "follows from capacity and ways")
        return (way,) * rest, {"sets": count, "ways": sourced(way, source)}
    if way is None and ways is None and sets is not None and lines % sets == 0 and lines // sets <= MOST_WAYS:
        way = lines // sets
        follows = assumed(way, "follows from capacity and sets")
        return (way,) * sets, {"sets": sourced(sets, source), "ways": follows}
    return _assumed_sets(sets, ways, lines)


def _can_be(ways: Sequence[int], lines: int) -> bool:
    """Whether unequal sets have so many lines, and a file has room for a map to them if they need one."""
    if sum(ways) != lines or max(ways) > MOST_WAYS:
        return False
    return lines <= MOST_MAPPED or fills({"kind": "modulo"}, ways, 1)


def _assumed_sets(sets: int | None, ways: Sequence[int] | None, lines: int) -> tuple[tuple[int, ...], dict[str, Entry]]:
    way = usual_ways(lines)
    rest = lines // way
    taken = f"{rest} x {way} taken: they make the capacity"
    if sets is None and ways is None:
        why = f"not found; {taken}"
    else:
        of = quantity(tuple(map(float, ways)), "")[:80] if ways else "?"
        why = f"found {sets or '?'} sets, ways {of}: not as many lines as the capacity, {lines}; {taken}"
    return (way,) * rest, {"sets": assumed(rest, why), "ways": assumed(way, why)}


def usual_ways(lines: int) -> int:
    """Ways of equal sets that make so many lines: about 16 if they divide, else one set if that is not large."""
    divisors = [way for way in range(FEWEST_WAYS, USUAL_WAYS + 1) if lines % way == 0]
    if divisors:
        return divisors[-1]
    if lines <= ONE_SET:
        return lines
    return next((way for way in range(USUAL_WAYS, MOST_WAYS + 1) if lines % way == 0), 1)


def _assumed_index(found: str | None, ways: Sequence[int], line: int) -> Entry:
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
    if fills(modulo, ways, 1):
        return modulo
    return {"kind": "table", "table": [s for turn in range(max(ways)) for s, way in enumerate(ways) if way > turn]}


def _assumed_policy(found: str | None) -> Entry:
    why = "not found" if found is None else f"found {words(found, 200)!r}, which is not simulated"
    return assumed({"kind": "lru"}, f"{why}; LRU taken")
