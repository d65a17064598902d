"""The texts that findings name index functions and replacement policies by, read into tables of a GPU file.

What is not understood, or does not fit the cache, is None: then something is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from gpudissect.catalogue.arrays import IndexTable, PolicyTable
from gpudissect.catalogue.build import index_of
from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import IndexKind, PolicyKind
from gpudissect.simulation.cache.index import set_numbers

LONGEST = 4000  # characters of a name that can be one
ROUNDED = 0.05  # by which weights, written with few digits, may miss a sum of 1
_RANGE = re.compile(r"(\d{1,2})(?:-(\d{1,2}))?")
_ROW = re.compile(r"\[([\d,\s]*)\]|(\d+(?:\^\d+)*)")
_MODULO = re.compile(
    r"(?:line |page )?mod(?:ulo)? (?P<sets>\d{1,7})(?:, granule (?P<granule>\d{1,9}) B)?", re.IGNORECASE
)
_COARSER = re.compile(r"\(address / (?P<granule>\d{1,9})\) mod (?P<sets>\d{1,7})", re.IGNORECASE)


def index_function(name: str | None, ways: Sequence[int], line: int, capacity: int) -> dict[str, Any] | None:
    """The index function that ``bits 7 8``, ``xor 7^13 8^14 9``, ``line mod 1792`` or ``(address / 128) mod 7`` names.

    Args:
        name: the text, None if there is none; ``bits 7-8`` and ``xor [7, 13] [9]`` are understood as well.
        ways: lines of each set that it must number.
        line: bytes of a line.
        capacity: lines in one piece that were found to fit.

    Returns:
        The table; None for another text, and for a function under which more or fewer lines in one piece would fit.

    """
    table = _index(" ".join(name.split())) if name is not None and len(name) <= LONGEST else None
    if table is None or (table["kind"] == "modulo" and table.pop("sets") != len(ways)):
        return None
    return table if fitting(table, ways, line) == capacity else None


def fitting(table: dict[str, Any], ways: Sequence[int], line: int) -> int | None:
    """How many lines in one piece fit a cache with this index function; None if it cannot be."""
    try:
        checked = IndexTable.model_validate(table)
        checked.check(len(ways), line)
        lines = np.arange(sum(ways), dtype=np.int64) * line
        numbers = set_numbers(index_of(checked), line, len(ways), lines)
    except (ValidationError, PydanticCustomError, UsageError):
        return None
    by_set = np.argsort(numbers, kind="stable")
    before = np.arange(lines.size) - np.searchsorted(numbers[by_set], numbers[by_set])  # lines of its set before each
    overflowing = by_set[before >= np.asarray(ways)[numbers[by_set]]]
    return int(overflowing.min(initial=lines.size))


def replacement_policy(name: str | None, ways: Sequence[int]) -> dict[str, Any] | None:
    """The policy that ``lru``, ``random`` or ``weighted 0.167 0.500 0.167 0.167`` names, if sets can have it."""
    if name is None or len(name) > LONGEST:
        return None
    kind, *numbers = name.lower().replace(",", " ").split() or [""]
    if kind not in set(PolicyKind) or (numbers and kind != PolicyKind.WEIGHTED):
        return None
    table: dict[str, Any] = {"kind": kind}
    if kind == PolicyKind.WEIGHTED:
        weights = _weights(numbers)
        if weights is None:
            return None
        table["weights"] = weights
    try:
        PolicyTable.model_validate(table).check(tuple(ways))
    except (ValidationError, PydanticCustomError):
        return None
    return table


def _index(text: str) -> dict[str, Any] | None:
    kind, _, rest = text.lower().partition(" ")
    if text.lower() == "one set":
        return {"kind": IndexKind.MODULO.value, "sets": 1}
    if kind == "bits":
        parts = [_RANGE.fullmatch(part) for part in rest.replace(",", " ").split()]
        if not all(parts):
            return None
        spans = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
        return {"kind": IndexKind.BITS.value, "bits": [bit for low, high in spans for bit in range(low, high + 1)]}
    if kind == "xor" and not _ROW.sub("", rest).strip(" ,"):
        rows = [listed or chained.replace("^", " ") for listed, chained in _ROW.findall(rest)]
        masks = [[int(bit) for bit in row.replace(",", " ").split()] for row in rows]
        return {"kind": IndexKind.XOR.value, "masks": masks}
    modulo = _MODULO.fullmatch(text) or _COARSER.fullmatch(text)
    if modulo is None:
        return None
    granule = {"granule": int(modulo["granule"])} if modulo["granule"] else {}
    return {"kind": IndexKind.MODULO.value, "sets": int(modulo["sets"])} | granule


def _weights(numbers: Sequence[str]) -> list[float] | None:
    """Weights that sum to 1 with six digits; None if they are none."""
    try:
        given = [float(number) for number in numbers]
    except ValueError:
        return None
    total = sum(given)
    if not given or not all(0 <= weight <= 1 for weight in given) or not abs(total - 1) <= ROUNDED:
        return None
    weights = [round(weight / total, 6) for weight in given]
    largest = weights.index(max(weights))
    weights[largest] = round(weights[largest] + 1 - sum(weights), 6)
    return weights
