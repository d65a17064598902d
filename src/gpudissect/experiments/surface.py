"""Throughput over many configurations, measured, and the estimate of its plateau."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpudissect.estimate import Estimate, Status
from gpudissect.inference.confidence import BANDWIDTH
from gpudissect.inference.surface import NEAR, Cell, Top, settled, top_of
from gpudissect.inference.throughput import Throughput
from gpudissect.series import Series
from gpudissect.vocabulary import unit_of

SLACK = 0.005  # relative: by so much a rate may be misread, and be above a bound that holds
MOST_AGAIN = 16  # members of a plateau that are measured anew
METHOD = f"plateau of a searched surface: median of the configurations within {NEAR:.0%} of the best, measured anew"


@dataclass(frozen=True)
class Bound:
    """What cannot be exceeded: a rate in the unit of the attribute, and what cannot do more, in words."""

    rate: float
    what: str


@dataclass(frozen=True)
class Surface:
    """Configurations, what each gave, and what the best of them gave again.

    Attributes:
        columns: of each configuration what was chosen, by name, in the order of `rates`.
        in_flight: how much each has under way at a time.
        first: throughput of each.
        again: of those near the best a second time, by their index.
        evidence: digests of all workloads.
    """

    columns: Mapping[str, tuple[float, ...]]
    in_flight: tuple[float, ...]
    first: tuple[Throughput, ...]
    again: Mapping[int, Throughput]
    evidence: tuple[str, ...]

    @property
    def top(self) -> Top:
        """Its plateau."""
        return _top(self.in_flight, self.first)

    @property
    def level(self) -> Throughput | None:
        """What the plateau comes to; None if it was another the second time."""
        return settled([self.first[i] for i in self.again], list(self.again.values()))

    def words(self, index: int) -> str:
        """A configuration in words: the value of each of its columns."""
        return ", ".join(f"{name.replace('_', ' ')} {column[index]:g}" for name, column in self.columns.items())

    def series(self, element: str, name: str, unit: str, units: Mapping[str, str]) -> Series:
        """All of it, as columns."""
        columns = {**self.columns, "rate": tuple(each.rate for each in self.first)}
        return Series(element, name, columns, {**units, "rate": unit}, self.evidence)


def members_to_repeat(in_flight: Sequence[float], first: Sequence[Throughput]) -> list[int]:
    """Indices of the configurations near the best, the fastest first; at most `MOST_AGAIN`."""
    return list(_top(in_flight, first).members[:MOST_AGAIN])


def _top(in_flight: Sequence[float], first: Sequence[Throughput]) -> Top:
    return top_of([Cell(flying, each.rate) for flying, each in zip(in_flight, first, strict=True)])


def plateau_found(
    element: str, attribute: str, surface: Surface, bound: Bound | None, caveats: tuple[str, ...] = (),
    method: str = METHOD, unbounded: str = "",
) -> Estimate:  # fmt: skip
    """The estimate of a plateau: nothing above a bound is believed, and a slope, a peak or luck is no plateau.

    `unbounded`: what to say if there is no bound to hold it against.
    """
    unit = unit_of(attribute)
    top, level = surface.top, surface.level
    fastest = max(each.rate for each in surface.first)

    def otherwise(status: Status, reason: str, low: float | None = None, high: float | None = None) -> Estimate:
        return Estimate(element=element, attribute=attribute, status=status, low=low, high=high, reason=reason,
                        method=method, evidence=surface.evidence, caveats=caveats)  # fmt: skip

    again = [each.rate for each in surface.again.values()]
    rate = level.rate if level is not None else max(again)
    if bound is not None and rate > (1 + SLACK) * bound.rate:
        return otherwise(Status.NOT_FOUND, f"{said(rate, unit)} were measured, more than {bound.what} can give: "
                                           f"{said(bound.rate, unit)}")  # fmt: skip
    if top.rising:
        most = f"with as much in flight as was tried ({surface.words(top.members[0])})"
        return otherwise(Status.NOT_FOUND, f"at least {said(min(rate, fastest), unit)}: it still rises {most}",
                         low=min(rate, fastest))  # fmt: skip
    if level is None:
        ends = sorted((fastest, *again))
        return otherwise(Status.AMBIGUOUS, "the best configurations gave another rate when measured anew",
                         ends[0], ends[-1])  # fmt: skip
    if top.lonely:
        others = [each.rate for i, each in enumerate(surface.first) if i not in top.members]
        ends = sorted((max(others, default=level.rate), level.rate))
        return otherwise(Status.AMBIGUOUS, f"a peak, no plateau: {surface.words(top.members[0])} does better than all "
                                           "others", ends[0], ends[1])  # fmt: skip
    share = () if bound is None else (f"{level.rate / bound.rate:.1%} of what {bound.what} can give, "
                                      f"{said(bound.rate, unit)}",)  # fmt: skip
    reached = f"first reached with {surface.words(top.first)}"
    lacking = (unbounded,) if bound is None and unbounded else ()
    return Estimate(
        element=element, attribute=attribute, status=Status.FOUND, value=level.rate, low=level.low, high=level.high,
        confidence=BANDWIDTH, method=method, evidence=surface.evidence,
        caveats=(reached, *share, *lacking, *caveats),
    )  # fmt: skip


def said(rate: float, unit: str) -> str:
    """A rate in words."""
    return f"{rate / 1e9:.4g} GB/s" if unit == "B/s" else f"{rate:.4g} {unit}"
