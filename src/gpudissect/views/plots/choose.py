"""The fitting plot of a series, whatever its columns are."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TypeGuard

from gpudissect.results.model import Series
from gpudissect.results.names import title_of
from gpudissect.results.text import brief
from gpudissect.views.plots.figure import Column, Figure, Kind

MOST_GROUPS = 8  # lines that a reader can tell apart
MOST_POINTS = 4000
LONGEST_NAME = 200  # characters
MAP_SIDE = 6  # different values on both sides from which on a full grid is a map
_IN_FLIGHT = ("blocks_per_sm", "threads", "ilp", "width")
AT_ONCE = 2048  # threads that an SM of any GPU runs at once, at most: further blocks wait for their place


def figure_of(series: Series) -> Figure | None:
    """The plot of a series; None where there is nothing to plot: no numbers, or a single one.

    Columns that were chosen come before those that were measured (`gpudissect.series`): the last numeric column goes
    upwards, with all that share its unit; "... against NAME" or "... by NAME" says what goes across, else the chosen
    column of the most different values does; another chosen one of few values makes groups. A full grid of two chosen
    columns is a map.
    """
    columns: dict[str, Column] = {name: column[:MOST_POINTS] for name, column in series.columns.items()}
    numeric = [name for name, column in columns.items() if _is_numeric(column)]
    name = brief(series.name, LONGEST_NAME)
    is_histogram = name.startswith("histogram")  # of which one bar says something: all took the same
    if not numeric:
        return None
    units = dict(series.units)
    ys = _measured(numeric, units)
    if len(columns[ys[0]]) < (1 if is_histogram or len(ys) > 1 else 2):
        return None
    chosen = [name for name in columns if name not in ys]
    if all(name in chosen for name in _IN_FLIGHT):
        columns = {"in flight": _in_flight(columns), **columns}
        units["in flight"] = "B"
        chosen = ["in flight", *chosen]
        x: str | None = "in flight"
    else:
        x = _across(name, [each for each in chosen if each in numeric], columns)
    if x is None:
        columns = {"number": tuple(range(len(columns[ys[0]]))), **columns}
        x, name = "number", re.sub(r" against \w+", ", one by one", name)
    title = f"{brief(title_of(series.element), LONGEST_NAME)}: {name}"
    shown = dict(title=title, columns=columns, units=units, evidence=series.evidence)
    if is_histogram:
        return Figure(kind=Kind.BARS, x=x, ys=tuple(ys), by=_group(chosen, columns, x), **shown)  # type: ignore[arg-type]
    if (down := _grid(name, chosen, columns, x)) is not None and len(ys) == 1:
        return Figure(kind=Kind.MAP, x=x, ys=(down,), colour=ys[0], **shown)  # type: ignore[arg-type]
    by = _group(["width"] if x == "in flight" and "width" in chosen else chosen, columns, x) if len(ys) == 1 else None
    ordered = x != "number" and " by " not in name and _is_function(columns, x, by)
    kind = Kind.LINES if ordered else Kind.DOTS
    note = f"bytes in flight on an SM: threads ({AT_ONCE} at most) x accesses x width" if x == "in flight" else ""
    if texts := [each.replace("_", " ") for each in chosen if each in series.columns and x == "number"]:
        note = f"in the order of the table, which says the {' and the '.join(texts)} of each"
    return Figure(kind=kind, x=x, ys=tuple(ys), by=by, note=note, **shown)  # type: ignore[arg-type]


def is_finite(value: float | str | None) -> TypeGuard[float]:
    """Whether it can be drawn."""
    if not isinstance(value, int | float):
        return False
    return value == 0 or 1e-100 < abs(value) < 1e100  # neither NaN nor what is lost on the way


def _is_numeric(column: Column) -> bool:
    return any(map(is_finite, column)) and not any(isinstance(value, str) for value in column)


def _measured(numeric: list[str], units: dict[str, str]) -> list[str]:
    last = numeric[-1]
    if len(numeric) < 3 or not units.get(last):
        return [last]
    tail = [last]
    for name in reversed(numeric[1:-1]):
        if units.get(name) != units[last] or len(tail) == MOST_GROUPS:
            break
        tail.insert(0, name)
    return tail


def _across(name: str, chosen: list[str], columns: dict[str, Column]) -> str | None:
    said = re.search(r"\b(?:against|by) (\w+)", name)
    if said and said[1] in chosen:
        return said[1]
    return max(chosen, key=lambda each: len(set(columns[each])), default=None)


def _grid(name: str, chosen: list[str], columns: dict[str, Column], x: str) -> str | None:
    """The column that makes a nearly full grid with `x`; a small one only where "by ... and ..." asks for it."""
    across = set(columns[x])
    least = 2 if re.search(r" by \w+ and \w+", name) else MAP_SIDE
    for other in chosen:
        down = set(columns[other])
        if other == x or not _is_numeric(columns[other]) or min(len(across), len(down)) < least:
            continue
        if not _is_even(across) or not _is_even(down):
            continue
        cells = set(zip(columns[x], columns[other], strict=True))
        if len(cells) >= 0.9 * len(across) * len(down) and len(cells) == len(columns[x]):
            return other
    return None


def _is_even(values: set[float | str | None]) -> bool:
    """Whether numbers lie so evenly that cells of one width show them."""
    rising = sorted(value for value in values if is_finite(value))
    steps = [b - a for a, b in pairwise(rising)]
    return bool(steps) and rising[-1] - rising[0] <= 4 * len(steps) * min(steps)


def _group(chosen: list[str], columns: dict[str, Column], x: str) -> str | None:
    """The chosen column that divides best: more than one value, few enough to tell apart."""
    sizes = {name: len(set(columns[name])) for name in chosen if name != x}
    fitting = [name for name, size in sizes.items() if 2 <= size <= MOST_GROUPS]
    return max(fitting, key=lambda name: (_is_function(columns, x, name), -sizes[name]), default=None)


def _is_function(columns: dict[str, Column], x: str, by: str | None) -> bool:
    """Whether each group has one number at each place."""
    groups = columns[by] if by is not None else (0,) * len(columns[x])
    pairs = list(zip(columns[x], groups, strict=True))
    return len(set(pairs)) == len(pairs)


def _in_flight(columns: dict[str, Column]) -> Column:
    """What an SM has under way at a time (Little's law), of as many threads as it can run at once."""
    rows = zip(*(columns[name] for name in _IN_FLIGHT), strict=True)
    return tuple(_bytes(*row) if all(map(is_finite, row)) else None for row in rows)


def _bytes(blocks: float, threads: float, ilp: float, width: float) -> float:
    return min(blocks * threads, AT_ONCE) * ilp * width
