"""Sets, ways, index function and replacement policy of an array: what was found, completed to what can be simulated.

The capacity comes first: whatever is found or assumed, as many contiguous lines fit as were found to. Texts that name
an index function or a policy become tables; what is not understood, or does not fit the array, is assumed.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from gpudissect.catalogue.arrays import MAX_LINES, MAX_WAYS, IndexTable, PolicyTable
from gpudissect.catalogue.build import index_of
from gpudissect.errors import UsageError
from gpudissect.exports.readings import Entry, Readings, assumed, line, sourced
from gpudissect.simulation.cache.geometry import ROOM_POLICIES, PolicyKind
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.vocabulary import TLBS

MIN_WAYS, USUAL_WAYS = 4, 16  # of an assumed structure
MAX_MAPPED_LINES = 1 << 16  # of unequal sets, that an index table may list
MAX_SINGLE_SET_LINES = 1024  # for which one set is assumed if they do not divide into sets of usual ways
MAX_NAME = 4000  # characters of an index function or a policy
ROUNDING = 0.05  # by which weights, written with few digits, may miss a sum of 1
_RANGE = re.compile(r"(\d{1,2})(?:-(\d{1,2}))?")
_ROW = re.compile(r"\[([\d,\s]*)\]|(\d+(?:\^\d+)*)")
_WAY = re.compile(r"[1-9]\d{0,4}")
_MODULO = re.compile(r"(?:line |page )?mod(?:ulo)? (?P<sets>\d{1,7})(?:, granule (?P<granule>\d{1,9}) b)?")
_COARSER = re.compile(r"\(address / (?P<granule>\d{1,9})\) mod (?P<sets>\d{1,7})")
Entries = dict[str, Entry]


def geometry(readings: Readings, element: str, lines: int, line_size: int, usual: int) -> tuple[int, Entries]:
    """Number of lines, and entries `sets`, `ways`, `index_function`, `replacement_policy` and `room` of an array.

    `element` is a cache, or a TLB whose lines are pages; `usual` ways, which divide `lines`, are assumed if none were
    found. The array has `lines` lines, unless the structure found has more, of which `lines` fit contiguously: because
    of the index function, or else a cache has more tags than room for data.
    Raises `UsageError` for more lines than can be simulated.
    """
    if lines > MAX_LINES:
        raise UsageError(f"{element} has {lines} lines: at most {MAX_LINES} can be simulated")
    index, policy = readings.text(element, "index_function"), readings.text(element, "replacement_policy")
    ways, entries = _found_sets(readings, element, lines) or _assumed_sets(readings, element, lines, usual)
    table = index_function(index, ways, line_size, lines)
    has_tags = len(ways) <= lines < sum(ways) and element not in TLBS and policy in (None, *ROOM_POLICIES)
    if table is None and has_tags and (table := index_function(index, ways, line_size, sum(ways))):
        reason = f"sets and ways are {sum(ways)} lines, but only {lines} contiguous lines fit"
        entries["room"] = assumed({"lines": lines}, reason)
    elif table is None and (sum(ways) != lines or not _can_map(ways)):
        ways, entries = _assumed_sets(readings, element, lines, usual)
        table = index_function(index, ways, line_size, lines)
    entries["index_function"] = sourced(table, readings.source) if table else _assumed_index(index, ways)
    if kind := replacement_policy(policy, ways):
        entries["replacement_policy"] = sourced(kind, readings.source)
    else:
        reason = "not found" if policy is None else f"found {line(policy, 200)!r}, which is not simulated"
        entries["replacement_policy"] = assumed({"kind": "lru"}, f"{reason}; LRU taken")
    return lines if "room" in entries else sum(ways), entries


def scaled_to(entry: Entry, count: int, unit: int, readings: Readings) -> Entry:
    """An entry of `count` lines of `unit` units each, with the number that fits contiguously in the bracket."""
    if count * unit == entry["value"]:
        return entry
    note = f"by its sets and ways; contiguous {entry['value']} fit"
    return sourced(count * unit, readings.source, low=min(entry["value"], count * unit), note=note)


def usual_ways(lines: int) -> int:
    """Ways of equal sets that make so many lines: about 16 if they divide, else one set if that is not large."""
    divisors = [ways for ways in range(MIN_WAYS, USUAL_WAYS + 1) if lines % ways == 0]
    if divisors:
        return divisors[-1]
    if lines <= MAX_SINGLE_SET_LINES:
        return lines
    return next((ways for ways in range(USUAL_WAYS, MAX_WAYS + 1) if lines % ways == 0), 1)


def index_function(name: str | None, ways: Sequence[int], line_size: int, capacity: int) -> dict[str, Any] | None:
    """The table of ``bits 7 8``, ``xor 7^13 8^14 9``, ``line mod 1792`` or ``(address / 128) mod 7``.

    ``bits 7-8`` and ``xor [7, 13] [9]`` are understood, too. `ways`: lines of each set; `capacity`: contiguous lines
    that were found to fit. None for another text, and for a function under which more or fewer lines would fit.
    """
    table = _parse_index(" ".join(name.lower().split())) if name is not None and len(name) <= MAX_NAME else None
    if table is None or (table["kind"] == "modulo" and table.pop("sets") != len(ways)):
        return None
    return table if contiguous_lines(table, ways, line_size) == capacity else None


def contiguous_lines(table: dict[str, Any], ways: Sequence[int], line_size: int) -> int | None:
    """How many contiguous lines fit a cache with this index function; None if it is impossible."""
    try:
        checked = IndexTable.model_validate(table)
        checked.check(len(ways), line_size)
        addresses = np.arange(sum(ways), dtype=np.int64) * line_size
        numbers = set_numbers(index_of(checked), line_size, len(ways), addresses)
    except (ValidationError, PydanticCustomError, UsageError):
        return None
    by_set = np.argsort(numbers, kind="stable")
    earlier = np.arange(numbers.size) - np.searchsorted(numbers[by_set], numbers[by_set])  # lines of the same set
    return int(by_set[earlier >= np.asarray(ways)[numbers[by_set]]].min(initial=numbers.size))


def replacement_policy(name: str | None, ways: Sequence[int]) -> dict[str, Any] | None:
    """The table of ``lru``, ``weighted 0.167 0.500 0.167 0.167`` or ``order 2 3 1``; None if sets cannot have it."""
    if name is None or len(name) > MAX_NAME:
        return None
    kind, *numbers = name.lower().replace(",", " ").split() or [""]
    if kind not in set(PolicyKind) or (numbers and kind not in (PolicyKind.WEIGHTED, PolicyKind.ORDER)):
        return None
    table: dict[str, Any] = {"kind": kind}
    if kind == PolicyKind.WEIGHTED:
        table["weights"] = _weights(numbers)
    if kind == PolicyKind.ORDER:
        table["order"] = [int(number) for number in numbers if _WAY.fullmatch(number)]
        if len(table["order"]) < len(numbers):
            return None
    try:
        PolicyTable.model_validate(table).check(tuple(ways))
    except (ValidationError, PydanticCustomError):
        return None
    return table


def _found_sets(readings: Readings, element: str, lines: int) -> tuple[tuple[int, ...], Entries] | None:
    """Ways of every set and their entries; None if they were not found or are impossible."""
    sets, ways, source = readings.whole(element, "sets"), readings.wholes(element, "ways"), readings.source
    if ways is None and sets is not None and lines % sets == 0 and lines // sets <= MAX_WAYS:
        entry = assumed(lines // sets, "follows from capacity and sets")
        return (lines // sets,) * sets, {"sets": sourced(sets, source), "ways": entry}
    if ways is None or max(ways) > MAX_WAYS:
        return None
    if len(ways) > 1:
        runs = [{"sets": len(list(run)), "ways": way} for way, run in groupby(ways)]
        count = sourced(len(ways), source) if sets else assumed(len(ways), "as many as there are ways of")
        possible = sets in (None, len(ways)) and sum(ways) <= MAX_LINES
        return (ways, {"sets": count, "ways": sourced(runs, source)}) if possible else None
    if sets is None and lines % ways[0]:
        return None
    total = sets or lines // ways[0]
    if total * ways[0] > MAX_LINES:
        return None
    count = sourced(sets, source) if sets else assumed(total, "follows from capacity and ways")
    return (ways[0],) * total, {"sets": count, "ways": sourced(ways[0], source)}


def _assumed_sets(readings: Readings, element: str, lines: int, ways: int) -> tuple[tuple[int, ...], Entries]:
    sets, found = readings.whole(element, "sets"), readings.finding(element, "ways")
    found_ways = found.value if found is not None else None
    count = lines // ways
    reason = "not found"
    if sets is not None or found_ways is not None:
        text = line(found_ways, 80) if found_ways is not None else "?"
        reason = f"found {sets or '?'} sets, ways {text}: that does not make the capacity, {lines}"
    reason += f"; {count} x {ways} taken: they make the capacity"
    return (ways,) * count, {"sets": assumed(count, reason), "ways": assumed(ways, reason)}


def _can_map(ways: Sequence[int]) -> bool:
    """Whether a file can hold an index of these sets: unequal sets may need a long table."""
    is_modulo = contiguous_lines({"kind": "modulo"}, ways, 1) == sum(ways)
    return len(set(ways)) == 1 or sum(ways) <= MAX_MAPPED_LINES or is_modulo


def _assumed_index(found: str | None, ways: Sequence[int]) -> Entry:
    table: dict[str, Any] = {"kind": "modulo"}
    if len(ways) == 1:
        taken = "one set"
    elif len(set(ways)) == 1:
        taken = "line number modulo sets"
    else:
        taken = "any map that fills the sets exactly"
        if contiguous_lines(table, ways, 1) != sum(ways):
            rounds = (s for way in range(max(ways)) for s, count in enumerate(ways) if count > way)
            table = {"kind": "table", "table": list(rounds)}
    if found is None:
        return assumed(table, f"not found; {taken}" if len(ways) > 1 else taken)
    return assumed(table, f"found {line(found, 200)!r}, under which the capacity would not come out; {taken}")


def _parse_index(text: str) -> dict[str, Any] | None:
    kind, _, rest = text.partition(" ")
    if text == "one set":
        return {"kind": "modulo", "sets": 1}
    if kind == "bits":
        parts = [_RANGE.fullmatch(part) for part in rest.replace(",", " ").split()]
        spans = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
        bits = [bit for low, high in spans for bit in range(low, high + 1)]
        return {"kind": "bits", "bits": bits} if all(parts) else None
    if kind == "xor" and not _ROW.sub("", rest).strip(" ,"):
        rows = [listed or chained.replace("^", " ") for listed, chained in _ROW.findall(rest)]
        return {"kind": "xor", "masks": [[int(bit) for bit in row.replace(",", " ").split()] for row in rows]}
    modulo = _MODULO.fullmatch(text) or _COARSER.fullmatch(text)
    if modulo is None:
        return None
    granule = {"granule": int(modulo["granule"])} if modulo["granule"] else {}
    return {"kind": "modulo", "sets": int(modulo["sets"])} | granule


def _weights(numbers: Sequence[str]) -> list[float]:
    """Weights that sum to 1 with six digits; none if the numbers are no weights."""
    try:
        given = [float(number) for number in numbers]
    except ValueError:
        return []
    total = sum(given)
    if not given or not all(0 <= weight <= 1 for weight in given) or not abs(total - 1) <= ROUNDING:
        return []
    weights = [round(weight / total, 6) for weight in given]
    largest = weights.index(max(weights))
    weights[largest] = round(weights[largest] + 1 - sum(weights), 6)
    return weights
