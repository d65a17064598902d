"""What was found against what is published for that GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from gpudissect.estimate import Estimate
from gpudissect.results.text import bracket, quantity
from gpudissect.simulation.cache.geometry import PolicyKind

if TYPE_CHECKING:
    from gpudissect.catalogue import Published


WEIGHTS_WITHIN = 0.02  # by which weights of the ways may differ: they are counted


class Verdict(StrEnum):
    """How a finding stands to a published value, the friendliest first."""

    AGREES = "agrees"  # equal, or the published value lies within the bracket that was found
    FINER = "finer"  # the published value is a range, and what was found lies within it, with its bracket
    OVERLAPS = "overlaps"  # it is a range, and the bracket that was found lies partly in it
    AS_PRINTED = "as printed"  # equal to what the document prints, not to the structure behind it
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"  # nothing found


@dataclass(frozen=True)
class Judgement:
    """A verdict and, in a few words, why."""

    verdict: Verdict
    text: str


def judge(found: Estimate, published: Published) -> Judgement:
    """Hold one finding against one published value."""
    if found.value is None:
        if _both_open(found, published):
            return Judgement(Verdict.AGREES, f"both at least {quantity(published.low, published.unit)}")
        return Judgement(Verdict.NOT_COMPARABLE, f"{found.status.value} here")
    value, known = found.value, published.value
    if value == known:
        return Judgement(Verdict.AGREES, "equal")
    if isinstance(value, tuple) and isinstance(known, tuple) and sorted(value) == sorted(known):
        return Judgement(Verdict.AGREES, "equal, sets in another order")
    if isinstance(value, str) and isinstance(known, str) and weights_agree(value, known):
        return Judgement(Verdict.AGREES, f"weights within {WEIGHTS_WITHIN}")
    if not isinstance(value, int | float) or not isinstance(known, int | float):
        return Judgement(Verdict.DIFFERS, f"not {quantity(known, published.unit)}")
    low = value if found.low is None else found.low
    high = value if found.high is None else found.high
    if low <= known <= high:
        return Judgement(Verdict.AGREES, "within the bracket found")
    if found.unit == "cycles" and abs(value - known) <= 1:
        return Judgement(Verdict.AGREES, "within one cycle")
    if (published.low, published.high) != (None, None) and low <= _high(published) and high >= _low(published):
        return _beside_a_range(value, low, high, published)
    if published.printed is not None and value == published.printed:
        return Judgement(Verdict.AS_PRINTED, f"as printed; the structure has {quantity(known, published.unit)}")
    return Judgement(Verdict.DIFFERS, _difference(value, known, found.unit))


def judge_all(found: Estimate, published: Sequence[Published]) -> tuple[Published, Judgement] | None:
    """The friendliest verdict among several sources, saying how many others do not share it; None without any."""
    if not published:
        return None
    order = list(Verdict)
    judged = sorted(((item, judge(found, item)) for item in published), key=lambda pair: order.index(pair[1].verdict))
    best, judgement = judged[0]
    against = sum(other.verdict is Verdict.DIFFERS for _, other in judged[1:])
    if against and judgement.verdict is not Verdict.DIFFERS:
        judgement = Judgement(judgement.verdict, f"{judgement.text}; {against} of {len(judged)} sources differ")
    return best, judgement


def weights_agree(found: str, published: str) -> bool:
    """Whether two texts of random policies name the same weights of the ways, but for chance; none are equal ones."""
    (kind, *ours), (other, *theirs) = found.split(), published.split()
    ours, theirs = ours or _even(theirs), theirs or _even(ours)
    if not {kind, other} <= {PolicyKind.RANDOM, PolicyKind.WEIGHTED} or len(ours) != len(theirs):
        return False
    return all(abs(float(one) - float(two)) <= WEIGHTS_WITHIN for one, two in zip(ours, theirs, strict=True))


def _even(weights: Sequence[str]) -> list[str]:
    return [str(1 / len(weights)) for _ in weights]


def _both_open(found: Estimate, published: Published) -> bool:
    """Whether both only say "at least": the path ends before the cache does."""
    if found.high is not None or published.high is not None:
        return False
    return found.low is not None and published.low is not None and found.low >= published.low


def lies_within(value: float, published: Published) -> bool:
    """Whether a number lies in the published range."""
    return _low(published) <= value <= _high(published)


def _low(published: Published) -> float:
    return -math.inf if published.low is None else published.low


def _high(published: Published) -> float:
    return math.inf if published.high is None else published.high


def _beside_a_range(value: float, low: float, high: float, published: Published) -> Judgement:
    """What was found, of which some lies in the published range."""
    given = bracket(published.low, published.high, published.unit)
    if lies_within(low, published) and lies_within(high, published):
        return Judgement(Verdict.FINER, f"within {given}")
    if lies_within(value, published):
        return Judgement(Verdict.OVERLAPS, f"within {given}, but the bracket found reaches beyond")
    return Judgement(Verdict.OVERLAPS, f"outside of {given}, but the bracket found reaches into it")


def _difference(value: float, known: float, unit: str) -> str:
    sign = "+" if value > known else "-"
    share = f" ({(value - known) / known:+.0%})" if known else ""
    return f"{sign}{quantity(abs(value - known), unit)}{share}"
