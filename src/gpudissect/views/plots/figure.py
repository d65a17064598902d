"""`Figure`: which columns of a series stand where in its plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Column = tuple[float | str | None, ...]


class Kind(StrEnum):
    """How numbers are drawn."""

    LINES = "lines"  # a line for each group, dots where a number was measured
    DOTS = "dots"
    BARS = "bars"  # one a place, no order between neighbours but their number
    MAP = "map"  # a colour for every pair of x and y


@dataclass(frozen=True)
class Figure:
    """A plot before it is drawn.

    Attributes:
        title: what it shows.
        kind: see `Kind`.
        columns: equally long columns, as in `gpudissect.series.Series`; all of them stand in the table behind the plot.
        units: unit of each column that has one.
        x: column across.
        ys: columns upwards, in one unit, each a group of its own; of a map the one column upwards.
        by: column whose different values are groups (lines of their own).
        colour: of a map the column that is shown as colour; of bars the one that gives groups.
        evidence: digests of the workloads behind it.
        note: one line below the plot.
        powers: its scale upwards is one of powers, whatever its numbers; None where they decide.
        answers: it shows what was found, not what was seen on the way.
        shows: elements and attributes of the findings that it is made for, beside those that rest on its evidence.

    """

    title: str
    kind: Kind
    columns: Mapping[str, Column]
    x: str
    ys: tuple[str, ...]
    units: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    colour: str | None = None
    evidence: tuple[str, ...] = ()
    note: str = ""
    powers: bool | None = None
    answers: bool = False
    shows: tuple[tuple[str, str], ...] = ()

    def unit(self, name: str) -> str:
        """Unit of a column, empty if it has none."""
        return self.units.get(name, "")

    @property
    def rows(self) -> int:
        """How many points there are."""
        return len(next(iter(self.columns.values()), ()))
