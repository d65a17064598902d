"""What a rate cannot exceed, and what becomes of one that does: refused as a mistake, or cut off as misread."""

from __future__ import annotations

from dataclasses import dataclass

from gpudissect.measure.throughput.infer_throughput import Throughput

SLACK = 0.005  # relative: by so much a rate may be misread, and be above a bound that holds
SAID = 0.0001  # relative: an excess over a bound that is worth a word


@dataclass(frozen=True)
class Bound:
    """What cannot be exceeded: a rate in the unit of the attribute, and what cannot do more, in words."""

    rate: float
    what: str

    def share(self, rate: float) -> float:
        """How much of the bound a rate is."""
        return rate / self.rate

    def end(self, rate: float) -> float:
        """An end of a bracket, cut off."""
        return min(rate, self.rate)


@dataclass(frozen=True)
class Unbounded:
    """That nobody knows what cannot be exceeded, and why, in words."""

    why: str

    def end(self, rate: float) -> float:
        """An end of a bracket, as it is."""
        return rate


def refusal(rate: float, bound: Bound | Unbounded, unit: str) -> str | None:
    """Why a rate in `unit` cannot be, in words: it is above the bound by more than may be misread. None if it can."""
    if isinstance(bound, Unbounded) or bound.share(rate) <= 1 + SLACK:
        return None
    return f"{said(rate, unit)} were measured, more than {bound.what} can give: {said(bound.rate, unit)}"


def below(found: Throughput, bound: Bound | Unbounded) -> Throughput:
    """A throughput cut off at what cannot be exceeded."""
    value = bound.end(found.rate)
    return Throughput(value, min(found.low, value), bound.end(found.high))


def excess(rate: float, bound: Bound) -> tuple[str, ...]:
    """How much of a rate was cut off, in words; nothing where it is not worth a word."""
    over = bound.share(rate) - 1
    return (f"{over:.2%} more were measured: misread",) if over > SAID else ()


def said(rate: float, unit: str) -> str:
    """A rate in words."""
    return f"{rate / 1e9:.4g} GB/s" if unit == "B/s" else f"{rate:.4g} {unit}"
