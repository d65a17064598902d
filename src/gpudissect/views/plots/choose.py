"""The plot that fits a series, whatever its columns are."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from gpudissect.catalogue.compute_capability import MAX_SM_THREADS
from gpudissect.printable import brief
from gpudissect.results.model import Series
from gpudissect.results.text import title_of
from gpudissect.views.plots.figure import MAX_GROUPS, Column, Figure, Kind, is_finite

MAX_POINTS = 4000
MAX_NAME_LENGTH = 200
MIN_MAP_SIDE = 6  # different values on each axis from which on a full grid is a map
_BYTES_IN_FLIGHT = ("blocks_per_sm", "threads", "ilp", "width")


def figure_of(series: Series) -> Figure | None:
    """The plot of a series; None where there is nothing to plot: no numbers, or a single one.

    Chosen columns come before measured ones (`gpudissect.estimate`): the last numeric column is the vertical axis, with
    all that share its unit. "... against NAME" or "... by NAME" names the horizontal axis, otherwise the chosen column
    with the most values is used; another chosen one with few values makes groups. A full grid of two is a map.
    """
    columns: dict[str, Column] = {name: column[:MAX_POINTS] for name, column in series.columns.items()}
    units = dict(series.units)
    name = brief(series.name, MAX_NAME_LENGTH)
    is_histogram = name.startswith("histogram")  # a single bar is worth showing: all accesses took the same
    numeric = [each for each, column in columns.items() if _is_numeric(column)]
    if not numeric:
        return None
    ys = _measured(numeric, units)
    if len(columns[ys[0]]) < (1 if is_histogram or len(ys) > 1 else 2):
        return None
    chosen = [each for each in columns if each not in ys]
    x = _horizontal(name, [each for each in chosen if each in numeric], columns)
    note = ""
    if in_flight := all(each in chosen for each in _BYTES_IN_FLIGHT):
        columns, x, units["in flight"] = {"in flight": _bytes_in_flight(columns), **columns}, "in flight", "B"
        note = f"bytes in flight per SM: threads (at most {MAX_SM_THREADS}) x accesses x width"
    if x is None:
        columns = {"number": tuple(range(len(columns[ys[0]]))), **columns}
        x, name = "number", re.sub(r" against \w+", ", one by one", name)
        if texts := [each.replace("_", " ") for each in chosen]:
            note = f"in the order of the table, which has the {' and the '.join(texts)} of each"
    groups = ["width"] if in_flight else [each for each in chosen if each != x]
    kind, by, colour = Kind.DOTS, None, None
    row = _map_row(name, chosen, columns, x) if len(ys) == 1 else None
    if is_histogram:
        kind, by = Kind.BARS, _group(groups, columns, x)
    elif row is not None:
        kind, ys, colour = Kind.MAP, [row], ys[0]
    else:
        by = _group(groups, columns, x) if len(ys) == 1 else None
        if x != "number" and " by " not in name and _is_function(columns, x, by):
            kind = Kind.LINES
    name = re.sub(r"(?<=by )sm\b", "SM", name)
    title = f"{brief(title_of(series.element), MAX_NAME_LENGTH)}: {name}"
    return Figure(title, kind, columns, x, tuple(ys), units, by, colour, series.evidence, note)


def _is_numeric(column: Column) -> bool:
    return any(map(is_finite, column)) and not any(isinstance(value, str) for value in column)


def _measured(numeric: Sequence[str], units: Mapping[str, str]) -> list[str]:
    """The last numeric column, and those before it in the same unit; the first one is never among them."""
    measured = [numeric[-1]]
    if unit := units.get(numeric[-1]):
        for name in reversed(numeric[1:-1]):
            if units.get(name) != unit or len(measured) == MAX_GROUPS:
                break
            measured.insert(0, name)
    return measured


def _horizontal(name: str, chosen: Sequence[str], columns: Mapping[str, Column]) -> str | None:
    named = re.search(r"\b(?:against|by) (\w+)", name)
    if named and named[1] in chosen:
        return named[1]
    return max(chosen, key=lambda each: len(set(columns[each])), default=None)


def _map_row(name: str, chosen: Sequence[str], columns: Mapping[str, Column], x: str) -> str | None:
    """The column that makes a nearly full grid with `x`; a small grid only for a name "... by ... and ..."."""
    across = set(columns[x])
    min_side = 2 if re.search(r" by \w+ and \w+", name) else MIN_MAP_SIDE
    for other in chosen:
        down = set(columns[other])
        if other == x or not _is_numeric(columns[other]) or min(len(across), len(down)) < min_side:
            continue
        cells = set(zip(columns[x], columns[other], strict=True))
        is_grid = len(cells) == len(columns[x]) >= 0.9 * len(across) * len(down)
        if is_grid and _is_even(across) and _is_even(down):
            return other
    return None


def _is_even(values: set[float | str | None]) -> bool:
    """Whether cells of one width can show these numbers."""
    rising = sorted(value for value in values if is_finite(value))
    steps = [b - a for a, b in pairwise(rising)]
    return bool(steps) and rising[-1] - rising[0] <= 4 * len(steps) * min(steps)


def _group(chosen: Sequence[str], columns: Mapping[str, Column], x: str) -> str | None:
    """The column that groups best: a function of x within each group, then few groups."""
    sizes = {name: len(set(columns[name])) for name in chosen if name in columns and name != x}
    fitting = [name for name, size in sizes.items() if 2 <= size <= MAX_GROUPS]
    return max(fitting, key=lambda name: (_is_function(columns, x, name), -sizes[name]), default=None)


def _is_function(columns: Mapping[str, Column], x: str, by: str | None) -> bool:
    """Whether each group has one value at each place."""
    pairs = list(zip(columns[x], columns[by] if by is not None else columns[x], strict=True))
    return len(set(pairs)) == len(pairs)


def _bytes_in_flight(columns: Mapping[str, Column]) -> Column:
    """Bytes that an SM has in flight (Little's law); blocks beyond the threads that it runs at once wait."""
    return tuple(
        min(row[0] * row[1], MAX_SM_THREADS) * row[2] * row[3] if all(map(is_finite, row)) else None
        for row in zip(*(columns[name] for name in _BYTES_IN_FLIGHT), strict=True)
    )
