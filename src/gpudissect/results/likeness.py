"""Two findings of one attribute against each other.

Two numbers differ if their brackets do not meet, and are the same if each lies within the other's bracket; between the
two the brackets overlap and nobody knows.
"""

from __future__ import annotations

from enum import StrEnum

from gpudissect.estimate import Status
from gpudissect.results.model import Finding
from gpudissect.results.text import bracket, quantity
from gpudissect.results.verdict import weights_agree

SURE = 0.5  # confidence below which a value says nothing about another


class Likeness(StrEnum):
    """How values stand to one another, the gravest first."""

    DIFFERENT = "different"
    AMBIGUOUS = "ambiguous"
    NOT_COMPARABLE = "not comparable"
    SAME = "same"


def judge(one: Finding, other: Finding) -> tuple[Likeness, str]:
    """How two findings of the same attribute stand to each other, and why."""
    if not one.status.has_value or not other.status.has_value:
        return _lacking(one, other)
    unsure = [each.confidence for each in (one, other) if each.confidence is not None and each.confidence < SURE]
    if unsure:
        return Likeness.AMBIGUOUS, f"one of them is held at {min(unsure):.0%} only"
    if one.value == other.value:
        return Likeness.SAME, "equal"
    if isinstance(one.value, str) and isinstance(other.value, str) and _weights(one.value, other.value):
        return Likeness.SAME, "equal but for chance"
    if not isinstance(one.value, int | float) or not isinstance(other.value, int | float):
        if isinstance(one.value, tuple) and isinstance(other.value, tuple) and sorted(one.value) == sorted(other.value):
            return Likeness.SAME, "equal, in another order"
        return Likeness.DIFFERENT, "another one"
    return _numbers(one, one.value, other, other.value)


def _weights(one: str, other: str) -> bool:
    try:
        return weights_agree(one, other)
    except (ValueError, IndexError):  # a text that no run of gpudissect gave
        return False


def _numbers(one: Finding, first: float, other: Finding, second: float) -> tuple[Likeness, str]:
    (low, high), (lower, higher) = _ends(one, first), _ends(other, second)
    if high < lower or higher < low:
        apart = max(lower - high, low - higher)
        return Likeness.DIFFERENT, f"brackets {quantity(apart, one.unit)} apart{_ratio(first, second)}"
    if lower <= first <= higher and low <= second <= high:
        return Likeness.SAME, "each within the other's bracket"
    shared = bracket(max(low, lower), min(high, higher), one.unit)
    return Likeness.AMBIGUOUS, f"brackets overlap, in {shared}" if shared != "exact" else "brackets touch"


def _ratio(first: float, second: float) -> str:
    """How the second value stands to the first: in percent, or how many times where it is far off."""
    if first <= 0 or second <= 0:
        return ""
    ratio = second / first
    if 0.5 < ratio < 2:
        return f", {ratio - 1:+.1%}"
    return f", {ratio:.3g} times as much" if ratio > 1 else f", {1 / ratio:.3g} times less"


def _ends(finding: Finding, value: float) -> tuple[float, float]:
    """The bracket; an end that is not known is the value itself."""
    low = value if finding.low is None else finding.low
    high = value if finding.high is None else finding.high
    return low, high


def _lacking(one: Finding, other: Finding) -> tuple[Likeness, str]:
    """At least one has no value: then an open bracket can still exclude the other's value."""
    if not one.status.has_value and not other.status.has_value:
        if one.status is other.status:
            return Likeness.SAME, f"{one.status.value} in both"
        return Likeness.AMBIGUOUS, f"{one.status.value} against {other.status.value}"
    found, lacks = (one, other) if one.status.has_value else (other, one)
    if isinstance(found.value, int | float):
        low, high = _ends(found, found.value)
        if (lacks.low is not None and high < lacks.low) or (lacks.high is not None and low > lacks.high):
            said = bracket(lacks.low, lacks.high, lacks.unit)
            return Likeness.DIFFERENT, f"{lacks.status.value} ({said}), which excludes the value of the other"
    if Status.NOT_SUPPORTED in (one.status, other.status):
        return Likeness.DIFFERENT, "one has no such thing"
    return Likeness.AMBIGUOUS, f"{lacks.status.value} in one of them"
