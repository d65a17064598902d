"""How a finding compares with the values published for that GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from gpudissect.estimate import Estimate, Status
from gpudissect.results.text import bracket, quantity
from gpudissect.simulation.cache.geometry import RANDOM_POLICIES

if TYPE_CHECKING:
    from gpudissect.catalogue import Published


MAX_WEIGHT_DIFFERENCE = 0.02  # of weights of ways, which are counted and have a sampling error


class Verdict(StrEnum):
    """How a finding compares with a published value, the best first."""

    AGREES = "agrees"  # equal, or the published value lies within the bracket
    FINER = "finer"  # a range is published, and the bracket lies within it
    OVERLAPS = "overlaps"  # a range is published, and the bracket lies partly in it
    AS_PRINTED = "as printed"  # equal to the printed value, which is known to be wrong
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"  # nothing measured


@dataclass(frozen=True)
class Judgement:
    """A verdict and the reason in a few words."""

    verdict: Verdict
    text: str


def judge(found: Estimate, published: Published) -> Judgement:
    """Compare one estimate with one published value."""
    if found.value is None:
        at_least = found.low is not None and published.low is not None and found.low >= published.low
        if at_least and found.high is None and published.high is None:
            return Judgement(Verdict.AGREES, f"both at least {quantity(published.low, published.unit)}")
        return Judgement(Verdict.NOT_COMPARABLE, found.status.value)
    if found.status is Status.STATED:
        return Judgement(Verdict.NOT_COMPARABLE, "the driver's value, not a measurement")
    value, known = found.value, published.value
    if text := equality(value, known):
        return Judgement(Verdict.AGREES, _consistency(found) or text)
    if not isinstance(value, int | float) or not isinstance(known, int | float):
        return Judgement(Verdict.DIFFERS, f"not {quantity(known, published.unit)}")
    low = value if found.low is None else found.low
    high = value if found.high is None else found.high
    if low <= known <= high:
        return Judgement(Verdict.AGREES, "within the bracket")
    if found.unit == "cycles" and abs(value - known) <= 1:
        return Judgement(Verdict.AGREES, "within one cycle")
    first, last = _range(published)
    if (published.low, published.high) != (None, None) and low <= last and high >= first:
        return _judge_range(value, low, high, published)
    if published.printed is not None and value == published.printed:
        return Judgement(Verdict.AS_PRINTED, f"as printed; the structure has {quantity(known, published.unit)}")
    return Judgement(Verdict.DIFFERS, _difference(value, known, found.unit))


def judge_all(found: Estimate, published: Sequence[Published]) -> tuple[Published, Judgement] | None:
    """The best verdict among several sources, and how many others differ; None without sources."""
    if not published:
        return None
    order = list(Verdict)
    judged = sorted(((item, judge(found, item)) for item in published), key=lambda pair: order.index(pair[1].verdict))
    best, judgement = judged[0]
    differing = sum(other.verdict is Verdict.DIFFERS for _, other in judged[1:])
    if differing and judgement.verdict is not Verdict.DIFFERS:
        judgement = Judgement(judgement.verdict, f"{judgement.text}; {differing} of {len(judged)} sources differ")
    return best, judgement


def equality(one: object, other: object) -> str:
    """In which respect two values are equal; empty if they are not."""
    if one == other:
        return "equal"
    if isinstance(one, tuple) and isinstance(other, tuple) and sorted(one) == sorted(other):
        return "equal, in a different order"
    if isinstance(one, str) and isinstance(other, str) and weights_agree(one, other):
        return "equal within sampling error"
    return ""


def weights_agree(found: str, published: str) -> bool:
    """Whether two random policies have the same weights of ways within sampling error; no weights are equal ones."""
    (kind, *ours), (other, *theirs) = found.split() or [""], published.split() or [""]
    equal = [str(1 / max(1, len(ours), len(theirs)))] * max(len(ours), len(theirs))
    ours, theirs = ours or equal, theirs or equal
    if not {kind, other} <= set(RANDOM_POLICIES) or len(ours) != len(theirs):
        return False
    try:
        return all(abs(float(one) - float(two)) <= MAX_WEIGHT_DIFFERENCE for one, two in zip(ours, theirs, strict=True))
    except ValueError:  # a text that gpudissect did not write
        return False


def _consistency(found: Estimate) -> str:
    """That a value is only a bound, which an equal published value is consistent with; empty if it is none."""
    for bound, other, sign in ((found.low, found.high, ">="), (found.high, found.low, "<=")):
        if other is None and bound is not None and bound == found.value:
            return f"consistent with {sign} {quantity(bound, found.unit)}"
    return ""


def lies_within(value: float, published: Published) -> bool:
    """Whether a number lies in the published range."""
    low, high = _range(published)
    return low <= value <= high


def _range(published: Published) -> tuple[float, float]:
    """The published range; an end that is not given is infinite."""
    low, high = published.low, published.high
    return -math.inf if low is None else low, math.inf if high is None else high


def _judge_range(value: float, low: float, high: float, published: Published) -> Judgement:
    """A bracket that overlaps the published range."""
    range_text = bracket(published.low, published.high, published.unit)
    if lies_within(low, published) and lies_within(high, published):
        return Judgement(Verdict.FINER, f"within {range_text}")
    if lies_within(value, published):
        return Judgement(Verdict.OVERLAPS, f"within {range_text}, but the bracket reaches beyond")
    return Judgement(Verdict.OVERLAPS, f"outside {range_text}, but the bracket reaches into it")


def _difference(value: float, known: float, unit: str) -> str:
    sign = "+" if value > known else "-"
    share = f" ({(value - known) / known:+.0%})" if known else ""
    return f"{sign}{quantity(abs(value - known), unit)}{share}"
