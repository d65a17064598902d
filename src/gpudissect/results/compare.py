"""Comparison of results, value by value: same, different, ambiguous or not comparable, each with the reason.

Two numbers differ if their brackets do not overlap. They are the same if each lies within the other's bracket. In
between they are ambiguous. Values measured under conditions that change the value itself are not compared.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.printable import brief, clean
from gpudissect.results.folded import rounded, rounded_range
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import bracket, title_of
from gpudissect.results.verdict import equality
from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, LIST_INDEX

MIN_CONFIDENCE = 0.5  # below, a value is not compared
MAX_CLOCK_RATIO = 1.002
"""Of clocks that count as equal. One H100 ran at 1980 MHz in three runs and at 1995 MHz in the next two: latencies and
bandwidths of memory then differed by more than their brackets. At one clock, medians agree within 0.01 %."""
MAX_MODEL_LENGTH = 40  # characters
MAX_NAMED = 4  # results, and elements of each, in an error
_ON_CHIP = ("l1", "readonly", "texture", "shared")  # one array, divided by the carve-out
_BY_CARVEOUT = ("capacity", "sets", "ways", "index_function", "replacement_policy", "max_miss_rate")
_OWN_CLOCK = (
    *("l2", "dram", "host", "peer", "tlb_l1", "tlb_l2", "tlb_l3", "page_table"),
    *("tma", "atomg", "redg", "ldg_streaming", "ldg_random"),
)
_PLACES = [{word: place for place, word in enumerate(words)} for words in (ELEMENTS, ATTRIBUTES)]
Key = tuple[str, str]


class Outcome(StrEnum):
    """How values compare, the most serious first."""

    DIFFERENT = "different"
    AMBIGUOUS = "ambiguous"
    NOT_COMPARABLE = "not comparable"
    SAME = "same"


@dataclass(frozen=True)
class Row:
    """One attribute of one element in every result; None where a result has no such finding."""

    element: str
    attribute: str
    findings: tuple[Finding | None, ...]
    outcome: Outcome
    why: str
    spread: str = ""
    """Of a value that differs: its range over the cards of one model, as text; empty without two cards."""


@dataclass(frozen=True)
class Comparison:
    """Several results side by side."""

    results: tuple[Result, ...]  # two or more
    rows: tuple[Row, ...]  # every attribute that any of them has, in the order of the vocabulary
    obstacles: tuple[str, ...]  # conditions that keep values from being compared
    files: tuple[str, ...] = ()  # where the results were read from, if from files
    version_note: str = ""  # that different versions analysed the traces, where values differ

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """Number of rows of each outcome."""
        counted = Counter(row.outcome for row in self.rows)
        return {outcome: counted[outcome] for outcome in Outcome}

    @property
    def count_without_value(self) -> int:
        """Number of rows that are the same because no result has a value."""
        return sum(
            row.outcome is Outcome.SAME and not any(each is not None and each.status.has_value for each in row.findings)
            for row in self.rows
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """The obstacles, and the note on versions if there is one."""
        return (*self.obstacles, *([self.version_note] if self.version_note else []))


def compare(results: Sequence[Result], files: Sequence[str] = ()) -> Comparison:
    """Compare every attribute of two or more results; `files` are their names, if they have any.

    Raises `UsageError` for fewer than two, and for results without a common attribute.
    """
    if len(results) < 2:
        raise UsageError(f"compare takes two or more results, got {len(results)}")
    names = files or [letter(n) for n in range(len(results))]
    tables: list[dict[Key, Finding]] = [{(f.element, f.attribute): f for f in each.findings} for each in results]
    if not common_keys(results):
        contents = _named(names[:MAX_NAMED], [_contents(each) for each in results[:MAX_NAMED]], "; ")
        more = "; ..." if len(results) > MAX_NAMED else ""
        raise UsageError(f"nothing to compare, the results have no attribute in common: {contents}{more}")
    keys = sorted({key for table in tables for key in table}, key=_order)
    conditions = _Conditions(results, names)
    found = (_row(key, tuple(table.get(key) for table in tables), conditions) for key in keys)
    rows = tuple(replace(row, spread=_spread(row, results)) for row in found)
    unequal = any(row.outcome in (Outcome.DIFFERENT, Outcome.AMBIGUOUS) for row in rows)
    note = _version_note(results, names) if unequal else ""
    return Comparison(tuple(results), rows, conditions.obstacles, tuple(files), note)


def common_keys(results: Sequence[Result]) -> set[Key]:
    """Elements and attributes that every result has a finding of."""
    return set.intersection(*({(each.element, each.attribute) for each in result.findings} for result in results))


def letter(number: int) -> str:
    """Name of a result in a comparison: A, B, ..., Z, A1, ..."""
    return f"{chr(ord('A') + number % 26)}{number // 26 or ''}"


def judge(first: Finding, second: Finding) -> tuple[Outcome, str]:
    """How two findings of the same attribute compare, and why."""
    one, other = first.value, second.value
    if not first.status.has_value or not second.status.has_value:
        return _judge_missing(first, second)
    confidence = min(1.0 if each.confidence is None else each.confidence for each in (first, second))
    if confidence < MIN_CONFIDENCE:
        return Outcome.AMBIGUOUS, f"confidence only {confidence:.0%}"
    if text := equality(one, other):
        return Outcome.SAME, text
    if isinstance(one, int | float) and isinstance(other, int | float):
        return _judge_numbers(first, one, second, other)
    return Outcome.DIFFERENT, "not equal"


def _judge_numbers(first: Finding, one: float, second: Finding, other: float) -> tuple[Outcome, str]:
    (low, high), (other_low, other_high) = _ends(first, one), _ends(second, other)
    if high < other_low or other_high < low:
        gap = rounded(max(other_low - high, low - other_high), first.unit)
        return Outcome.DIFFERENT, f"ranges do not overlap (gap {gap}{_ratio(one, other)})"
    if other_low <= one <= other_high and low <= other <= high:
        return Outcome.SAME, "each within the other's bracket"
    first_shared, last_shared = max(low, other_low), min(high, other_high)
    if first_shared == last_shared:
        return Outcome.AMBIGUOUS, "brackets touch"
    return Outcome.AMBIGUOUS, f"brackets overlap in {rounded_range(first_shared, last_shared, first.unit)}"


def _ratio(one: float, other: float) -> str:
    """The second value relative to the first: in percent, or as a factor where it is far off."""
    if one <= 0 or other <= 0:
        return ""
    ratio = other / one if one > other * 1e-300 else math.inf
    if not 0 < ratio < math.inf:
        return ""
    if 0.5 < ratio < 2:
        return f", {ratio - 1:+.1%}"
    return f", {ratio:.3g} times as much" if ratio > 1 else f", {1 / ratio:.3g} times less"


def _ends(finding: Finding, value: float) -> tuple[float, float]:
    """The bracket; an unknown end is the value itself."""
    return value if finding.low is None else finding.low, value if finding.high is None else finding.high


def _judge_missing(first: Finding, second: Finding) -> tuple[Outcome, str]:
    """One or both lack a value; the open bracket of one can still exclude the other's value."""
    if not first.status.has_value and not second.status.has_value:
        if first.status is second.status:
            return Outcome.SAME, f"{first.status.value} in both"
        return Outcome.AMBIGUOUS, f"{first.status.value} versus {second.status.value}"
    found, missing = (first, second) if first.status.has_value else (second, first)
    if isinstance(found.value, int | float):
        low, high = _ends(found, found.value)
        if (missing.low is not None and high < missing.low) or (missing.high is not None and low > missing.high):
            limits = bracket(missing.low, missing.high, missing.unit)
            return Outcome.DIFFERENT, f"{missing.status.value} ({limits}) excludes the other value"
    if missing.status is Status.NOT_SUPPORTED:
        return Outcome.DIFFERENT, "not supported in one of them"
    return Outcome.AMBIGUOUS, f"{missing.status.value} in one of them"


def _contents(result: Result) -> str:
    """Command and elements of a result."""
    elements = [title_of(each, short=True) for each in dict.fromkeys(each.element for each in result.findings)]
    more = ", ..." if len(elements) > MAX_NAMED else ""
    return f"{result.command} ({', '.join(elements[:MAX_NAMED]) or 'no finding'}{more})"


def _version_note(results: Sequence[Result], names: Sequence[str]) -> str:
    """That different versions analysed the traces; empty if one version analysed them all."""
    versions = [
        f"{each.environment.get('gpudissect', '?'):.40}, build {each.code or 'unknown':.40}" for each in results
    ]
    if len(set(versions)) == 1:
        return ""
    advice = "replay the recordings with one version to rule that out"
    return f"results come from different analysis versions ({_named(names, versions, '; ')}); {advice}"


def _named(names: Sequence[str], texts: Sequence[str], separator: str = ", ") -> str:
    return separator.join(clean(f"{name}: {text}") for name, text in zip(names, texts, strict=True))


class _Conditions:
    """Conditions of several results, and the values that are not comparable because of them."""

    def __init__(self, results: Sequence[Result], names: Sequence[str]) -> None:
        notes = [each.conditions.notes for each in results]
        carveouts = [each.get("carveout_preferred") or each.get("carveout_requested") or () for each in notes]
        clocks = [each.conditions.clock_hz or 0.0 for each in results]
        self._carveouts_differ = all(carveouts) and len({tuple(sorted(each)) for each in carveouts}) > 1
        self._clocks_differ = min(clocks) > 0 and max(clocks) > MAX_CLOCK_RATIO * min(clocks)
        obstacles = []
        if self._carveouts_differ:
            texts = _named(names, [", ".join(each) for each in carveouts])
            obstacles.append(f"different carve-outs of L1 and shared memory ({texts}): their capacity is not compared")
        if self._clocks_differ:
            texts = _named(names, [f"{each / 1e6:.5g} MHz" for each in clocks])
            excluded = "bandwidths, and cycles and rates of what has its own clock (L2, TLBs, memory)"
            obstacles.append(f"different SM clocks ({texts}): {excluded}, are not compared")
        self.obstacles = tuple(obstacles)

    def refuse(self, key: Key, found: Sequence[Finding]) -> str:
        """Why values of this attribute are not compared; empty if they can be."""
        element, attribute = key
        unit = found[0].unit
        if self._carveouts_differ and element in _ON_CHIP and attribute in _BY_CARVEOUT:
            return "measured with different carve-outs"
        own_clock = element in _OWN_CLOCK or element.startswith("spectrum") or attribute == "miss_penalty"
        if self._clocks_differ and (unit in ("B/s", "ops/s") or (unit in ("cycles", "ops/cycle") and own_clock)):
            return "measured at different SM clocks"
        if any(each.unit != unit for each in found):
            return "in different units"
        if attribute in LIST_INDEX and len({each.value for each in found}) > 1:
            return "SM numbers of different GPUs or runs do not correspond"
        return ""


def _row(key: Key, findings: tuple[Finding | None, ...], conditions: _Conditions) -> Row:
    measured = [each for each in findings if each is not None and each.status is not Status.SKIPPED]
    if len(measured) < len(findings):
        return Row(*key, findings, Outcome.NOT_COMPARABLE, "not measured in all of them")
    if all(each.status.has_value for each in measured) and (why := conditions.refuse(key, measured)):
        return Row(*key, findings, Outcome.NOT_COMPARABLE, why)
    order = list(Outcome)
    judged = [
        (*judge(one, other), f"{letter(a)}-{letter(b)}")
        for (a, one), (b, other) in combinations(enumerate(measured), 2)
    ]
    outcome, why, pair = min(judged, key=lambda each: order.index(each[0]))
    if len(findings) > 2 and order.index(outcome) < order.index(Outcome.SAME):
        others = [other for kind, _, other in judged if kind is outcome and other != pair]
        why = f"{pair}: {why}" + (f"; {outcome.value} too: {', '.join(others)}" if others else "")
    return Row(*key, findings, outcome, why)


def _spread(row: Row, results: Sequence[Result]) -> str:
    """Range of a value that differs over the cards of each model that has two or more, distinguished by UUID."""
    if row.outcome is not Outcome.DIFFERENT:
        return ""
    cards: dict[str, set[str]] = {}
    values: dict[str, list[float]] = {}
    for finding, result in zip(row.findings, results, strict=True):
        uuid, model = result.provenance.gpu_uuid, result.device.name
        if finding is not None and isinstance(finding.value, int | float) and uuid is not None:
            cards.setdefault(model, set()).add(uuid)
            values.setdefault(model, []).append(finding.value)
    unit = next((each.unit for each in row.findings if each is not None), "")
    of = {model: f" of {brief(model, MAX_MODEL_LENGTH)}" if len(cards) > 1 else "" for model in cards}
    return "; ".join(
        f"{rounded_range(min(values[model]), max(values[model]), unit)} over {len(uuids)} cards{of[model]}"
        for model, uuids in cards.items()
        if len(uuids) > 1
    )


def _order(key: Key) -> tuple[int | str, ...]:
    """Sort key: the vocabulary's order, then words that this version does not know."""
    return *(places.get(word, len(places)) for word, places in zip(key, _PLACES, strict=True)), *key
