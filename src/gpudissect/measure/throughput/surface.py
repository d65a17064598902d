"""Throughput over many configurations, measured, and the estimate of its plateau."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import BANDWIDTH
from gpudissect.measure.throughput.bound import Bound, Unbounded, below, excess, refusal, said
from gpudissect.measure.throughput.infer_surface import (
    ALIKE,
    FAR,
    FEWEST,
    NEAR,
    Cell,
    Plateau,
    Top,
    nearness,
    plateau_of,
    top_of,
)
from gpudissect.measure.throughput.infer_throughput import Throughput
from gpudissect.series import Series
from gpudissect.vocabulary import unit_of

TELLING = 0.1  # share of a bound from which it tells something
MOST_AGAIN = 16  # configurations near the best that are measured anew
METHOD = (
    f"plateau of a searched surface: of the fastest configurations, within {FAR:.0%} of the best, all measured anew, "
    "the median of those that cannot be told from it"
)


@dataclass(frozen=True)
class Surface:
    """Configurations, what each gave, and what the best of them gave again.

    Attributes:
        columns: of each configuration what was chosen, by name, in the order of `rates`.
        in_flight: how much each has under way at a time.
        first: throughput of each.
        again: of those near the best a second time, by their index, the fastest first.
        evidence: digests of all workloads.
        alternation: of those measured again how far apart, relative, two rates are between which runs alternate.
    """

    columns: Mapping[str, tuple[float, ...]]
    in_flight: tuple[float, ...]
    first: tuple[Throughput, ...]
    again: Mapping[int, Throughput]
    evidence: tuple[str, ...]
    alternation: Mapping[int, float] = field(default_factory=dict)

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

    @property
    def counted(self) -> tuple[int, ...]:
        """Indices of those that count: the plateau's members, or, without one, all that were measured again."""
        plateau = self.plateau
        return tuple(self.again) if plateau is None else plateau.members

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


@dataclass(frozen=True)
class _Doubt:
    """Why a surface has no plateau that can be believed, and between what its rate may lie."""

    status: Status
    reason: str
    low: float | None = None
    high: float | None = None


def plateau_found(
    element: str, attribute: str, surface: Surface, bound: Bound | Unbounded, caveats: tuple[str, ...] = (),
    method: str = METHOD, confidence: float = BANDWIDTH,
) -> Estimate:  # fmt: skip
    """The estimate of a plateau: nothing above a bound is believed, and a slope, a peak or luck is no plateau.

    What ends near the bound is as good as one: the bracket reaches up to the bound.
    """
    unit = unit_of(attribute)
    found = _believed(surface, bound, unit)
    if isinstance(found, _Doubt):
        low, high = (None if end is None else bound.end(end) for end in (found.low, found.high))
        return Estimate(element=element, attribute=attribute, status=found.status, low=low, high=high,
                        reason=found.reason, method=method, evidence=surface.evidence, caveats=caveats)  # fmt: skip
    level, share = below(found.level, bound), _of_the_bound(bound, found.level.rate, unit)
    if (surface.top.rising or found.lonely) and isinstance(bound, Bound):
        level = replace(level, high=bound.rate)
    return Estimate(
        element=element, attribute=attribute, status=Status.FOUND, value=level.rate, low=level.low, high=level.high,
        confidence=confidence, method=method, evidence=surface.evidence,
        caveats=(*_shape(surface, found), *share, *caveats),
    )  # fmt: skip


def _believed(surface: Surface, bound: Bound | Unbounded, unit: str) -> Plateau | _Doubt:
    """The plateau, or why there is none."""
    top, plateau, again = surface.top, surface.plateau, {i: each.rate for i, each in surface.again.items()}
    rate = plateau.level.rate if plateau is not None else max(again.values())
    fastest = max(each.rate for each in surface.first)
    if (reason := refusal(rate, bound, unit)) is not None:
        return _Doubt(Status.NOT_FOUND, reason)
    ended = isinstance(bound, Bound) and bound.share(rate) >= 1 - NEAR  # it can rise no farther
    if top.rising and not ended:
        most = f"with as much in flight as was tried ({surface.words(top.members[0])})"
        least = min(rate, fastest)
        return _Doubt(Status.NOT_FOUND, f"at least {said(least, unit)}: it still rises {most}", low=least)
    if plateau is None:
        return _Doubt(Status.AMBIGUOUS, "the best configurations gave another rate when measured anew",
                      min(again.values()), max(fastest, *again.values()))  # fmt: skip
    if plateau.lonely and not ended:
        best, *others = sorted(again, key=lambda i: -again[i])
        second = max((again[i] for i in others), default=rate)
        return _Doubt(Status.AMBIGUOUS, f"a peak, no plateau: {surface.words(best)} does better than all others, and "
                      "did when measured anew", min(second, rate), max(fastest, *again.values()))  # fmt: skip
    return plateau


def _shape(surface: Surface, plateau: Plateau) -> tuple[str, ...]:
    """With which configuration a plateau begins, how alike its members are, and whether runs of them are not."""
    least = min(plateau.members, key=lambda i: surface.in_flight[i])
    alike = f"{len(plateau.members)} configurations within {plateau.width:.1%} of the best are alike"
    if plateau.width > NEAR:
        alike += f": each gives another rate when it is measured anew, give or take {plateau.scatter:.1%}"
    apart = [each for i in plateau.members if (each := surface.alternation.get(i, 0.0)) > ALIKE]
    turns = (f"runs of {len(apart)} of them alternate between two rates, up to {max(apart):.1%} apart: what counts is "
             "the middle of both",) if apart else ()  # fmt: skip
    return f"first reached with {surface.words(least)}", alike, *turns


def _of_the_bound(bound: Bound | Unbounded, rate: float, unit: str) -> tuple[str, ...]:
    """What share of a bound a rate is and what was cut off, in words; or why there is no bound."""
    if isinstance(bound, Unbounded):
        return (bound.why,) if bound.why else ()
    if bound.share(rate) < TELLING:
        return ()
    return (f"{bound.share(rate):.1%} of what {bound.what} can give, {said(bound.rate, unit)}", *excess(rate, bound))
