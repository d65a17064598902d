"""`Estimate`: what the traces mean. An honest "not found" is an answer, never an exception and never a zero."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite

from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, unit_of

Value = float | str | tuple[float, ...]
"""A number; a text, for what has a name (a policy, an index function); or a list, for ways of unequal sets or what
differs from SM to SM."""


class Status(StrEnum):
    """Kinds of answers."""

    FOUND = "found"
    STATED = "stated"  # by the driver, not measured
    NOT_FOUND = "not found"  # looked for, and the evidence shows nothing
    AMBIGUOUS = "ambiguous"  # the evidence allows several answers; low and high hold those that are numbers
    NOT_SUPPORTED = "not supported"  # this device has no such thing, or no way to reach it
    SKIPPED = "skipped"  # not measured in this run

    @property
    def has_value(self) -> bool:
        """Whether an answer of this kind comes with a value."""
        return self in (Status.FOUND, Status.STATED)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One finding.

    Attributes:
        element: what it is about, one of `vocabulary.ELEMENTS`.
        attribute: which property, one of `vocabulary.ATTRIBUTES`.
        status: see `Status`.
        value: in `unit`; None unless found or stated.
        unit: follows from the attribute: ``B``, ``cycles``, ``B/s``, or empty.
        low, high: bracket of a number in the same unit: the truth lies within (inclusive) if the method's premises
            hold. One alone is an open end.
        confidence: probability that the truth lies within the bracket (a size to the byte has a bracket of one
            point; without a bracket: that it is the value); only of what was found.
        method: how it was found, in a few words with the source.
        evidence: digests of the workloads whose traces it rests on.
        caveats: what a careful reader must know.
        reason: why it is not a plain "found".

    Raises `ValueError` for a word that is not in the vocabulary; when a found estimate lacks its value or
    confidence or another lacks its reason; when a value comes with a status that has none; when a number is not
    finite, a bracket is upside down or does not hold the value.

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
            raise ValueError(f"{name}: a confidence belongs to what was found, got {self.confidence}")
        if not self.status.has_value and not self.reason:
            raise ValueError(f"{name}: status {self.status.value!r} needs a reason")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ValueError(f"{name}: confidence {self.confidence} is no probability")
        self._check_numbers(name)

    def _check_numbers(self, name: str) -> None:
        single = self.value if isinstance(self.value, int | float) else None
        listed = self.value if isinstance(self.value, tuple) else ()
        if not all(isfinite(x) for x in (single, self.low, self.high, *listed) if x is not None):
            raise ValueError(f"{name}: not finite: {self.value} [{self.low}, {self.high}]")
        rising = [x for x in (self.low, single, self.high) if x is not None]
        if rising != sorted(rising):
            raise ValueError(f"{name}: value {self.value} lies outside its bracket [{self.low}, {self.high}]")
