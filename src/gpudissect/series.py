"""`Series`: a table of observations, the data of a plot and the basis of a finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Series:
    """A table about one element.

    Attributes:
        element: its subject.
        name: name of the series, such as ``latency against stride``.
        columns: columns of equal length by name, first those of parameters, then those of measurements.
        units: unit of each column that has one.
        evidence: digests of the workloads that it rests on.

    Raises `ValueError` for columns of different lengths and for units of unknown columns.
    """

    element: str
    name: str
    columns: Mapping[str, tuple[float | str, ...]]
    units: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError(f"columns of {self.name!r} have different lengths")
        if unknown := set(self.units) - set(self.columns):
            raise ValueError(f"{self.name!r} has no columns {sorted(unknown)}")
        object.__setattr__(self, "columns", dict(self.columns))  # dicts can be pickled, views of mappings cannot
        object.__setattr__(self, "units", dict(self.units))
