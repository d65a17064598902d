"""What a result says, looked up by element and attribute, and written as the entries of a GPU file.

A result may be a stranger's: numbers are taken only where they can be what they claim, texts are cut and cleaned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import Any

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import clean
from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, unit_of

Entry = dict[str, Any]
"""A value of a GPU file with its source, or with the reason why it was assumed."""

LONGEST = 390  # characters of a source, a note or a reason: a GPU file takes 400
LONGEST_NAME = 100
MOST = 2**44  # bytes, and anything else that is counted
MOST_CYCLES = 1e6
DIGITS = 2  # of cycles behind the point


def words(text: object, longest: int = LONGEST) -> str:
    """One printable line of at most `longest` characters."""
    line = clean(" ".join(str(text).split()))
    return line if len(line) <= longest else line[: longest - 3] + "..."


def sourced(
    value: Any, source: str, *, low: float | None = None, high: float | None = None, note: str = "", **more: Any
) -> Entry:
    """An entry with a source; a bracket of one point says nothing more and is left out."""
    entry: Entry = {"value": value}
    if not low == value == high:
        entry |= {key: each for key, each in (("low", low), ("high", high)) if each is not None}
    entry["source"] = words(source)
    if note:
        entry["note"] = words(note)
    return entry | more


def assumed(value: Any, why: str) -> Entry:
    """An entry that nothing was found for."""
    return {"value": value, "assumed": words(why)}


@dataclass(frozen=True)
class Readings:
    """The findings of a result."""

    result: Result

    @cached_property
    def source(self) -> str:
        """Which run the numbers are of."""
        return f"{self._kind}: gpudissect discover of {self._run}"

    @cached_property
    def stated_source(self) -> str:
        """The same for what the driver stated, which nobody measured."""
        kind = "" if self._kind == Origin.MEASURED else f" ({self._kind})"
        return f"stated by the driver{kind}: gpudissect discover of {self._run}"

    @property
    def _kind(self) -> str:
        device = self.result.device
        if device.origin is not Origin.REPLAYED:
            return device.origin.value
        of = device.recorded_origin.value if device.recorded_origin else "unknown"
        return f"{of}, {device.origin.value}"

    @property
    def _run(self) -> str:
        device, environment = self.result.device, self.result.environment
        driver = [f"driver {words(environment['driver'], 40)}"] if environment.get("driver") else []
        return ", ".join([words(device.name, LONGEST_NAME), *driver, words(device.spec, LONGEST_NAME)])

    @cached_property
    def _findings(self) -> Mapping[tuple[str, str], Finding]:
        known: dict[tuple[str, str], Finding] = {}
        for finding in self.result.findings:
            if finding.element in ELEMENTS and finding.attribute in ATTRIBUTES:
                known.setdefault((finding.element, finding.attribute), finding)
        return known

    def __iter__(self) -> Iterator[Finding]:
        """Every finding that has words of the vocabulary, one an element and attribute."""
        return iter(self._findings.values())

    def finding(self, element: str, attribute: str) -> Finding | None:
        """The finding, whatever its status."""
        return self._findings.get((element, attribute))

    def number(self, element: str, attribute: str) -> float | None:
        """What was found or stated, if it is a number that can be: cycles rounded, bytes and counts whole."""
        finding = self.finding(element, attribute)
        if finding is None or not finding.status.has_value or finding.unit != unit_of(attribute):
            return None
        return _plausible(finding.value, finding.unit)

    def whole(self, element: str, attribute: str) -> int | None:
        """What was found or stated of bytes and counts, at least 1."""
        value = self.number(element, attribute)
        return int(value) if value is not None and value >= 1 and value == int(value) else None

    def wholes(self, element: str, attribute: str) -> tuple[int, ...] | None:
        """As `whole`, where there may be a list: the ways of unequal sets."""
        finding = self.finding(element, attribute)
        if finding is None or finding.status is not Status.FOUND or not isinstance(finding.value, tuple):
            one = self.whole(element, attribute)
            return None if one is None else (one,)
        counts = [_plausible(each, "") for each in finding.value]
        if not counts or any(each is None or each < 1 or each != int(each) for each in counts):
            return None
        return tuple(int(each) for each in counts if each is not None)

    def text(self, element: str, attribute: str) -> str | None:
        """What was found, if it has a name."""
        finding = self.finding(element, attribute)
        if finding is None or finding.status is not Status.FOUND or not isinstance(finding.value, str):
            return None
        return finding.value

    def entry(self, element: str, attribute: str) -> Entry | None:
        """The entry of a number with its bracket and its caveats; None if there is none."""
        value, finding = self.number(element, attribute), self.finding(element, attribute)
        if value is None or finding is None:
            return None
        low, high = (_plausible(end, finding.unit, outwards) for end, outwards in
                     ((finding.low, floor), (finding.high, ceil)))  # fmt: skip
        if (low is not None and low > value) or (high is not None and high < value):
            low = high = None
        source = self.stated_source if finding.status is Status.STATED else self.source
        return sourced(value, source, low=low, high=high, note="; ".join(finding.caveats))

    def fact(self, name: str) -> int | None:
        """What the driver said, if it is a whole number that can be."""
        value = self.result.device.facts.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST else None


def _plausible(value: Any, unit: str, rounded: Callable[[float], int] = round) -> float | None:
    """The number, rounded as a GPU file has it; None if it is none or cannot be in this unit."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e18:
        return None
    if unit == "cycles":
        return rounded(value * 10**DIGITS) / 10**DIGITS if value <= MOST_CYCLES else None
    if unit == "B" or (unit == "" and value == int(value)):
        return rounded(value) if value <= MOST else None
    return float(value)
