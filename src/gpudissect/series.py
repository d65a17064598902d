"""`Series`: a table of observations, the data of a plot and the basis of a finding."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Series:
    """A table about one element. Raises `ValueError` for columns of different lengths and units of unknown columns."""

    element: str
    name: str  # such as "latency against stride"
    columns: Mapping[str, tuple[float | str, ...]]  # of equal length, first those of parameters
    units: Mapping[str, str] = field(default_factory=dict)  # of columns that have one
    evidence: tuple[str, ...] = ()  # digests of the workloads that it rests on

    def __post_init__(self) -> None:
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError(f"columns of {self.name!r} have different lengths")
        if unknown := set(self.units) - set(self.columns):
            raise ValueError(f"{self.name!r} has no columns {sorted(unknown)}")
        object.__setattr__(self, "columns", dict(self.columns))  # dicts can be pickled, views of mappings cannot
        object.__setattr__(self, "units", dict(self.units))
