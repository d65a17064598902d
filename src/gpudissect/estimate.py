"""`Estimate`: what the traces mean. An honest "not found" is an answer, never an exception and never a zero."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Kinds of answers."""

    FOUND = "found"
    NOT_FOUND = "not found"  # looked for, and the evidence shows nothing
    AMBIGUOUS = "ambiguous"  # the evidence allows several answers; low and high hold them
    NOT_SUPPORTED = "not supported"  # this device has no such thing, or no way to reach it
    SKIPPED = "skipped"  # not measured in this run


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One finding.

    Attributes:
        element: what it is about: ``l1``, ``texture``, ``l2``, ``dram``, ...
        attribute: which property: ``capacity``, ``line_size``, ``hit_latency``, ...
        status: see `Status`.
        value: a number in `unit`, None unless found.
        unit: ``B`` or ``cycles``.
        low, high: bracket in the same unit: the truth lies within (inclusive) if the method's premises hold.
        confidence: probability that the value is right (sizes: exactly; latencies: within the bracket).
        method: how it was found, in a few words with the source.
        evidence: digests of the workloads whose traces it rests on.
        caveats: what a careful reader must know.
        reason: why it is not a plain "found".

    Raises `ValueError` when a found estimate lacks its value or confidence, another lacks its reason, or the
    bracket does not hold the value.

    """

    element: str
    attribute: str
    status: Status
    value: float | None = None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    method: str = ""
    evidence: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        name = f"{self.element}.{self.attribute}"
        if self.status is Status.FOUND:
            if self.value is None or self.confidence is None:
                raise ValueError(f"{name}: a found estimate needs a value and a confidence")
            if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
                raise ValueError(f"{name}: value {self.value} lies outside its bracket [{self.low}, {self.high}]")
        elif not self.reason:
            raise ValueError(f"{name}: status {self.status.value!r} needs a reason")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ValueError(f"{name}: confidence {self.confidence} is no probability")
