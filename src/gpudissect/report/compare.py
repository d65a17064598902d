"""Results against one another, value by value: the same, different, or not to be told, each with the reason.

Two numbers differ if their brackets do not meet, and are the same if each lies within the other's bracket; between the
two the brackets overlap and nobody knows. What was measured under conditions that change the value itself is not
compared at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.report.result import Finding, Result
from gpudissect.report.text import bracket, clean, quantity
from gpudissect.report.verdict import weights_agree
from gpudissect.vocabulary import ATTRIBUTES, EACH, ELEMENTS

CLOCKS_WITHIN = 0.01  # by which two clocks are one
SURE = 0.5  # confidence below which a value says nothing about another
_ON_CHIP = ("l1", "readonly", "texture", "shared")  # one array, which the carve-out divides
_BY_CARVEOUT = ("capacity", "sets", "ways", "index_function", "replacement_policy", "max_miss_rate")
_OWN_CLOCK = ("l2", "dram", "tlb_l1", "tlb_l2", "tlb_l3", "tma", "spectrum_global", "spectrum_global_l2", "atomg",
              "ldg_streaming", "ldg_random")  # fmt: skip
Key = tuple[str, str]


class Likeness(StrEnum):
    """How values stand to one another, the gravest first."""

    DIFFERENT = "different"
    AMBIGUOUS = "ambiguous"
    NOT_COMPARABLE = "not comparable"
    SAME = "same"


@dataclass(frozen=True)
class Row:
    """One attribute of one element in every result that has it; None where one has no such finding."""

    element: str
    attribute: str
    findings: tuple[Finding | None, ...]
    likeness: Likeness
    why: str


@dataclass(frozen=True)
class Comparison:
    """Several results beside one another.

    Attributes:
        results: as they were given, two or more.
        rows: every attribute that any of them has, in the order of the vocabulary.
        obstacles: what keeps values of these results from being compared, in words.

    """

    results: tuple[Result, ...]
    rows: tuple[Row, ...]
    obstacles: tuple[str, ...]

    @property
    def counts(self) -> Mapping[Likeness, int]:
        """How many rows there are of each kind."""
        counted = Counter(row.likeness for row in self.rows)
        return {each: counted[each] for each in Likeness}

    def to_html(self) -> str:
        """The results side by side, as one page."""
        from gpudissect.report.page.beside import side_by_side

        return side_by_side(self)

    def _repr_html_(self) -> str:
        from gpudissect.report.notebook import of_comparison

        return of_comparison(self)


def compare(results: Sequence[Result]) -> Comparison:
    """Compare every attribute of two or more results.

    Raises `UsageError` for fewer than two, and for results that have no attribute in common.
    """
    if len(results) < 2:
        raise UsageError(f"comparing takes two results or more, got {len(results)}")
    tables: list[dict[Key, Finding]] = [{(f.element, f.attribute): f for f in each.findings} for each in results]
    if not set(tables[0]).intersection(*tables[1:]):
        raise UsageError("these results have no attribute in common: nothing to compare")
    keys = sorted({key for table in tables for key in table}, key=_place)
    refusals = _Refusals(results)
    rows = tuple(_row(key, tuple(table.get(key) for table in tables), refusals) for key in keys)
    return Comparison(tuple(results), rows, refusals.said)


class _Refusals:
    """Which values depend on conditions that are not the same in all results."""

    def __init__(self, results: Sequence[Result]) -> None:
        carved = [_noted(each, "carveout_preferred") or _noted(each, "carveout_asked") for each in results]
        self._carveout = all(carved) and len(set(carved)) > 1
        clocks = [each.conditions.clock_hz for each in results]
        known = [each for each in clocks if each]
        self._clocks = len(known) == len(clocks) and max(known) > (1 + CLOCKS_WITHIN) * min(known)
        said = []
        if self._carveout:
            texts = " against ".join(clean(", ".join(each)) for each in carved)
            said.append(f"other carve-outs of the L1 and shared memory ({texts}): what they hold is not compared")
        if self._clocks:
            texts = ", ".join(f"{each / 1e6:.5g} MHz" for each in known)
            said.append(f"other SM clocks ({texts}): cycles of what runs on a clock of its own (L2, TLBs, memory) and "
                        "bandwidths are not compared")  # fmt: skip
        self.said = tuple(said)

    def refuse(self, key: Key, found: Sequence[Finding]) -> str:
        """Why values of this attribute are not compared; empty if they can be."""
        element, attribute = key
        if self._carveout and element in _ON_CHIP and attribute in _BY_CARVEOUT:
            return "measured under another carve-out"
        unit = found[0].unit
        if self._clocks and (
            unit == "B/s" or (unit == "cycles" and (element in _OWN_CLOCK or attribute == "miss_penalty"))
        ):
            return "measured at another SM clock"
        if any(each.unit != unit for each in found):
            return "in other units"
        if attribute in EACH and len({each.value for each in found}) > 1:
            return "SMs of different GPUs, or runs, have no common order"
        return ""


def _noted(result: Result, name: str) -> tuple[str, ...]:
    return tuple(sorted(result.conditions.notes.get(name, ())))


def _row(key: Key, findings: tuple[Finding | None, ...], refusals: _Refusals) -> Row:
    there = [each for each in findings if each is not None and each.status is not Status.SKIPPED]
    if len(there) < len(findings):
        return Row(*key, findings, Likeness.NOT_COMPARABLE, "not measured in all of them")
    if all(each.status.has_value for each in there) and (why := refusals.refuse(key, there)):
        return Row(*key, findings, Likeness.NOT_COMPARABLE, why)
    order = list(Likeness)
    likeness, why = min((judge(*pair) for pair in combinations(there, 2)), key=lambda each: order.index(each[0]))
    return Row(*key, findings, likeness, why)


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


def _place(key: Key) -> tuple[int, int, str, str]:
    """The vocabulary's order, then words that this version does not know."""
    element, attribute = key
    elements, attributes = list(ELEMENTS), list(ATTRIBUTES)
    return (
        elements.index(element) if element in ELEMENTS else len(elements),
        attributes.index(attribute) if attribute in ATTRIBUTES else len(attributes),
        element,
        attribute,
    )
