"""`Estimate`: a finding inferred from traces. `Series`: a table of observations, the data of a plot and its basis.

"Not found" is an answer, never an exception and never a zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite

from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, unit_of

Value = float | str | tuple[float, ...]
"""A number; a text (a policy, an index function); or a list (ways of unequal sets, values per SM)."""


class Status(StrEnum):
    """Kind of an answer."""

    FOUND = "found"
    STATED = "stated"  # by the driver, not measured
    NOT_FOUND = "not found"  # measured, and the evidence shows nothing
    AMBIGUOUS = "ambiguous"  # the evidence allows several answers; low and high enclose numbers
    NOT_SUPPORTED = "not supported"  # the device lacks it, or gives no access to it
    SKIPPED = "skipped"  # not measured in this run

    @property
    def has_value(self) -> bool:
        """Whether an answer of this kind has a value."""
        return self in (Status.FOUND, Status.STATED)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One finding.

    Attributes:
        element, attribute: its subject and property, of `vocabulary.ELEMENTS` and `vocabulary.ATTRIBUTES`.
        status: see `Status`.
        value: in `unit`; None unless found or stated.
        unit: unit of the attribute: ``B``, ``cycles``, ``B/s``, or empty.
        low, high: bracket of a number: the truth lies within (inclusive) if the premises of the method hold. One alone
            is an open end.
        confidence: probability that the truth lies within the bracket, or without one that the value is true; only of
            what was found.
        method: how it was found, in a few words with the source.
        evidence: digests of the workloads whose traces it rests on.
        caveats: conditions and limits that the reader must know.
        reason: why the status is not "found".

    Raises `ValueError` for a name that is not in the vocabulary; when a found estimate lacks its value or confidence,
    or another its reason; for a value with a status that has none; for a number that is not finite; and for a bracket
    that does not hold the value.
    """

    element: str
    attribute: str
    status: Status
    value: Value | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    method: str = ""
    evidence: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    reason: str = ""
    unit: str = field(init=False)

    def __post_init__(self) -> None:
        name = f"{self.element}.{self.attribute}"
        if self.element not in ELEMENTS or self.attribute not in ATTRIBUTES:
            raise ValueError(f"{name}: no such element or attribute in gpudissect.vocabulary")
        object.__setattr__(self, "unit", unit_of(self.attribute))
        if self.status.has_value != (self.value is not None):
            raise ValueError(f"{name}: status {self.status.value!r} with value {self.value!r}")
        if (self.status is Status.FOUND) != (self.confidence is not None):
            raise ValueError(f"{name}: found estimates, and only they, have a confidence; got {self.confidence}")
        if not self.status.has_value and not self.reason:
            raise ValueError(f"{name}: status {self.status.value!r} needs a reason")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ValueError(f"{name}: confidence {self.confidence} is no probability")
        number = self.value if isinstance(self.value, int | float) else None
        numbers = self.value if isinstance(self.value, tuple) else ()
        if not all(isfinite(x) for x in (number, self.low, self.high, *numbers) if x is not None):
            raise ValueError(f"{name}: not finite: {self.value} [{self.low}, {self.high}]")
        bracket = [x for x in (self.low, number, self.high) if x is not None]
        if bracket != sorted(bracket):
            raise ValueError(f"{name}: value {self.value} is outside its bracket [{self.low}, {self.high}]")


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
