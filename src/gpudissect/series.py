"""`Series`: what was seen, as columns of numbers: the stuff of a plot, and what a finding was read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Series:
    """A table of numbers about one element.

    Attributes:
        element: what it is about.
        name: which of its series: ``latency against stride``.
        columns: equally long columns by name, those that were chosen before those that were measured.
        units: unit of each column that has one.
        evidence: digests of the workloads behind it.

    Raises `ValueError` for columns of different lengths, and for units of columns that there are not.

    """

    element: str
    name: str
    columns: Mapping[str, tuple[float | str, ...]]
    units: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError(f"columns of {self.name!r} are not equally long")
        if unknown := set(self.units) - set(self.columns):
            raise ValueError(f"{self.name!r} has no columns {sorted(unknown)}")
        object.__setattr__(self, "columns", dict(self.columns))  # no proxies: a series goes from process to process
        object.__setattr__(self, "units", dict(self.units))
