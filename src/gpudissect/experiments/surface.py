"""Throughput over many configurations, measured, and the estimate of its plateau."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpudissect.estimate import Estimate, Status
from gpudissect.inference.confidence import BANDWIDTH
from gpudissect.inference.surface import FAR, FEWEST, NEAR, Cell, Plateau, Top, nearness, plateau_of, top_of
from gpudissect.inference.throughput import Throughput
from gpudissect.series import Series
from gpudissect.vocabulary import unit_of

SLACK = 0.005  # relative: by so much a rate may be misread, and be above a bound that holds
SAID = 0.0001  # relative: an excess over a bound that is worth a word
TELLING = 0.1  # share of a bound from which it tells something
MOST_AGAIN = 16  # configurations near the best that are measured anew
METHOD = (
    f"plateau of a searched surface: of the fastest configurations, within {FAR:.0%} of the best, all measured anew, "
    "the median of those that cannot be told from it"
)


@dataclass(frozen=True)
class Bound:
    """What cannot be exceeded: a rate in the unit of the attribute, and what cannot do more, in words."""

    rate: float
    what: str


@dataclass(frozen=True)
class Unbounded:
    """That nobody knows what cannot be exceeded, and why, in words."""

    why: str


@dataclass(frozen=True)
class Surface:
    """Configurations, what each gave, and what the best of them gave again.

    Attributes:
        columns: of each configuration what was chosen, by name, in the order of `rates`.
        in_flight: how much each has under way at a time.
        first: throughput of each.
        again: of those near the best a second time, by their index, the fastest first.
        evidence: digests of all workloads.
    """

    columns: Mapping[str, tuple[float, ...]]
    in_flight: tuple[float, ...]
    first: tuple[Throughput, ...]
    again: Mapping[int, Throughput]
    evidence: tuple[str, ...]

    @property
    def top(self) -> Top:
        """What there may be a plateau among."""
        return _top(self.in_flight, self.first)

    @property
    def plateau(self) -> Plateau | None:
        """Its plateau, members by their index; None if it was another the second time."""
        near = list(self.again)
        found = plateau_of([self.first[i] for i in near], list(self.again.values()))
        return None if found is None else replace(found, members=tuple(near[i] for i in found.members))

    def words(self, index: int) -> str:
        """A configuration in words: the value of each of its columns."""
        return ", ".join(f"{name.replace('_', ' ')} {column[index]:g}" for name, column in self.columns.items())

    def series(self, element: str, name: str, unit: str, units: Mapping[str, str]) -> Series:
        """All of it, as columns."""
        columns = {**self.columns, "rate": tuple(each.rate for each in self.first)}
        return Series(element, name, columns, {**units, "rate": unit}, self.evidence)


def members_to_repeat(first: Sequence[Throughput], within: float = FAR) -> list[int]:
    """Indices of the configurations at most `within` (relative) below the best, the fastest first, but no crowd.

    The few fastest, if no more are near: whether one alone is so fast shows when it is measured anew.
    """
    order = sorted(range(len(first)), key=lambda i: -first[i].rate)
    near = [i for i in order if first[i].rate >= (1 - within) * first[order[0]].rate]
    return order[: min(max(len(near), FEWEST), MOST_AGAIN)]


def _top(in_flight: Sequence[float], first: Sequence[Throughput]) -> Top:
    cells = [Cell(flying, each.rate) for flying, each in zip(in_flight, first, strict=True)]
    return top_of(cells, nearness(first))


def plateau_found(
    element: str, attribute: str, surface: Surface, bound: Bound | Unbounded, caveats: tuple[str, ...] = (),
    method: str = METHOD, confidence: float = BANDWIDTH,
) -> Estimate:  # fmt: skip
    """The estimate of a plateau: nothing above a bound is believed, and a slope, a peak or luck is no plateau.

    What ends near the bound is as good as one: the bracket reaches up to the bound.
    """
    unit = unit_of(attribute)
    top, plateau = surface.top, surface.plateau
    seen = [each.rate for each in (*surface.first, *surface.again.values())]

    def otherwise(status: Status, reason: str, low: float | None = None, high: float | None = None) -> Estimate:
        if isinstance(bound, Bound):
            low, high = (None if end is None else min(end, bound.rate) for end in (low, high))
        return Estimate(element=element, attribute=attribute, status=status, low=low, high=high, reason=reason,
                        method=method, evidence=surface.evidence, caveats=caveats)  # fmt: skip

    rate = plateau.level.rate if plateau is not None else max(each.rate for each in surface.again.values())
    if isinstance(bound, Bound) and rate > (1 + SLACK) * bound.rate:
        return otherwise(Status.NOT_FOUND, f"{said(rate, unit)} were measured, more than {bound.what} can give: "
                                           f"{said(bound.rate, unit)}")  # fmt: skip
    ended = isinstance(bound, Bound) and rate >= (1 - NEAR) * bound.rate  # it can rise no farther
    if top.rising and not ended:
        most = f"with as much in flight as was tried ({surface.words(top.members[0])})"
        least = min(rate, max(each.rate for each in surface.first))
        return otherwise(Status.NOT_FOUND, f"at least {said(least, unit)}: it still rises {most}", low=least)
    if plateau is None:
        return otherwise(Status.AMBIGUOUS, "the best configurations gave another rate when measured anew",
                         min(each.rate for each in surface.again.values()), max(seen))  # fmt: skip
    if plateau.lonely and not ended:
        best, *others = sorted(surface.again, key=lambda i: -surface.again[i].rate)
        second = max((surface.again[i].rate for i in others), default=rate)
        return otherwise(Status.AMBIGUOUS, f"a peak, no plateau: {surface.words(best)} does better than all others, "
                                           "and did when measured anew", min(second, rate), max(seen))  # fmt: skip
    level, share = _below(bound, plateau.level, unit)
    if (top.rising or plateau.lonely) and isinstance(bound, Bound):
        level = replace(level, high=bound.rate)
    least = min(plateau.members, key=lambda i: surface.in_flight[i])
    reached = f"first reached with {surface.words(least)}"
    alike = f"{len(plateau.members)} configurations within {plateau.width:.1%} of the best are alike"
    if plateau.width > NEAR:
        alike += f": each gives another rate when it is measured anew, give or take {plateau.scatter:.1%}"
    return Estimate(
        element=element, attribute=attribute, status=Status.FOUND, value=level.rate, low=level.low, high=level.high,
        confidence=confidence, method=method, evidence=surface.evidence, caveats=(reached, alike, *share, *caveats),
    )  # fmt: skip


def _below(bound: Bound | Unbounded, level: Throughput, unit: str) -> tuple[Throughput, tuple[str, ...]]:
    """A level cut off at what cannot be exceeded; and what to say of it."""
    if isinstance(bound, Unbounded):
        return level, ((bound.why,) if bound.why else ())
    value = min(level.rate, bound.rate)
    part = level.rate / bound.rate
    share = f"{part:.1%} of what {bound.what} can give, {said(bound.rate, unit)}"
    more = (f"{part - 1:.2%} more were measured: misread",) if part - 1 > SAID else ()
    words = (share, *more) if part >= TELLING else ()
    return Throughput(value, min(level.low, value), min(level.high, bound.rate)), words


def said(rate: float, unit: str) -> str:
    """A rate in words."""
    return f"{rate / 1e9:.4g} GB/s" if unit == "B/s" else f"{rate:.4g} {unit}"
