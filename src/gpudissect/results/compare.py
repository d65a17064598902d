"""Results against one another, value by value: the same, different, or not to be told, each with the reason.

How two values stand to each other: `gpudissect.results.likeness`. What was measured under conditions that change the
value itself is not compared at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.results.command import command_of
from gpudissect.results.likeness import Likeness, judge
from gpudissect.results.model import Finding, Result
from gpudissect.results.names import title_of
from gpudissect.results.text import clean
from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, LIST_INDEX

CLOCKS_WITHIN = 0.01  # by which two clocks are one
NAMED = 4  # results, and elements of one, that an error names
_ON_CHIP = ("l1", "readonly", "texture", "shared")  # one array, which the carve-out divides
_BY_CARVEOUT = ("capacity", "sets", "ways", "index_function", "replacement_policy", "max_miss_rate")
_OWN_CLOCK = ("l2", "dram", "tlb_l1", "tlb_l2", "tlb_l3", "tma", "spectrum_global", "spectrum_global_l2", "atomg",
              "ldg_streaming", "ldg_random")  # fmt: skip
Key = tuple[str, str]


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
        files: where the results were read from, as many; empty if they were not.
        read: that other code read the traces of one than of another, where something differs; else empty.

    """

    results: tuple[Result, ...]
    rows: tuple[Row, ...]
    obstacles: tuple[str, ...]
    files: tuple[str, ...] = ()
    read: str = ""

    @property
    def counts(self) -> Mapping[Likeness, int]:
        """How many rows there are of each kind."""
        counted = Counter(row.likeness for row in self.rows)
        return {each: counted[each] for each in Likeness}


def compare(results: Sequence[Result], files: Sequence[str] = ()) -> Comparison:
    """Compare every attribute of two or more results, read from `files`, if from any.

    Raises `UsageError` for fewer than two, and for results that have no attribute in common.
    """
    if len(results) < 2:
        raise UsageError(f"comparing takes two results or more, got {len(results)}")
    tables: list[dict[Key, Finding]] = [{(f.element, f.attribute): f for f in each.findings} for each in results]
    if not in_common(results):
        raise UsageError(f"no attribute is in all of these results, nothing to compare: {_told(results, files)}")
    keys = sorted({key for table in tables for key in table}, key=_place)
    refusals = _Refusals(results, files or [letter(n) for n in range(len(results))])
    rows = tuple(_row(key, tuple(table.get(key) for table in tables), refusals) for key in keys)
    apart = any(row.likeness in (Likeness.DIFFERENT, Likeness.AMBIGUOUS) for row in rows)
    return Comparison(tuple(results), rows, refusals.said, tuple(files), _read(results, files) if apart else "")


def _read(results: Sequence[Result], files: Sequence[str]) -> str:
    """That what differs may differ by the code that read the traces; empty if one code read them all."""
    if len({(each.code, each.environment.get("gpudissect")) for each in results}) == 1:
        return ""
    names = files or [letter(n) for n in range(len(results))]
    told = [clean(f"{name}: {each.environment.get('gpudissect', '?'):.40}, code {each.code or 'unknown':.40}")
            for name, each in zip(names, results, strict=True)]  # fmt: skip
    return f"read by other code ({'; '.join(told)}): what differs may differ by that; recordings, replayed, tell"


def in_common(results: Sequence[Result]) -> set[Key]:
    """Elements and attributes that every result has a finding of."""
    return set.intersection(*({(each.element, each.attribute) for each in result.findings} for result in results))


def _told(results: Sequence[Result], files: Sequence[str]) -> str:
    """What each of the results is of, so that whoever named them sees which of them does not belong."""
    said = []
    for number, result in enumerate(results[:NAMED]):
        elements = [title_of(each, short=True) for each in dict.fromkeys(each.element for each in result.findings)]
        about = ", ".join(elements[:NAMED]) + (", ..." if len(elements) > NAMED else "")
        name = files[number] if files else letter(number)
        said.append(f"{name} is of {command_of(result)} ({about or 'no finding'})")
    return "; ".join(said) + ("; ..." if len(results) > NAMED else "")


def letter(number: int) -> str:
    """What a result is called beside others: A, B, ..., Z, A1, ..."""
    return f"{chr(ord('A') + number % 26)}{number // 26 or ''}"


class _Refusals:
    """Which values depend on conditions that are not the same in all results."""

    def __init__(self, results: Sequence[Result], names: Sequence[str]) -> None:
        carved = [_noted(each, "carveout_preferred") or _noted(each, "carveout_asked") for each in results]
        self._carveout = all(carved) and len(set(carved)) > 1
        clocks = [each.conditions.clock_hz for each in results]
        known = [each for each in clocks if each]
        self._clocks = len(known) == len(clocks) and max(known) > (1 + CLOCKS_WITHIN) * min(known)
        said = []
        if self._carveout:
            texts = ", ".join(f"{name}: {clean(', '.join(each))}" for name, each in zip(names, carved, strict=True))
            said.append(f"other carve-outs of the L1 and shared memory ({texts}): what they hold is not compared")
        if self._clocks:
            texts = ", ".join(f"{name}: {each / 1e6:.5g} MHz" for name, each in zip(names, known, strict=True))
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
        if attribute in LIST_INDEX and len({each.value for each in found}) > 1:
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
