"""Scales of a plot: from numbers to places, and the ticks that a reader wants to see on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpudissect.results.text import quantity

DECADES = 64  # largest over smallest number from which on a scale of powers reads better


@dataclass(frozen=True)
class Scale:
    """One axis: `low` .. `high` in its own numbers, linear or by powers."""

    low: float
    high: float
    powers: bool = False

    def at(self, value: float) -> float:
        """Where a number lies: 0 at `low`, 1 at `high`."""
        if self.powers:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6, base: int = 10) -> list[float]:
        """Round numbers within, at most about `most` of them."""
        for each in (base, 2):
            enough = 2 if self.low < 0.1 else 2.5  # powers of two of little numbers are long to read
            if self.powers and self.high / self.low >= each**enough:
                return _powers(self.low, self.high, most if each == base else 8, each)
        step = _round((self.high - self.low) / most, base)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(n * step, 12) for n in range(first, min(last, first + 4 * most) + 1)]


def scale_of(values: Sequence[float], *, from_zero: bool = False, powers: bool | None = None) -> Scale:
    """The scale that shows finite numbers best, with a little room at both ends; `powers` where that is known.

    With `from_zero` a scale begins there, without room, where the numbers come near enough to it.
    """
    low, high = float(min(values)), float(max(values))  # whole numbers beyond 2^53 may differ and yet be drawn alike
    if powers is None:
        powers = low > 0 and high / low >= DECADES
    if powers and low > 0:
        room = max((high / low) ** 0.04, 1.02)
        return Scale(low / room, high * room, True)
    if from_zero and 0 < low < 0.6 * high:
        low = 0.0
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    room = 0.04 * (high - low)
    return Scale(low if from_zero and low == 0 else low - room, high + room)


def label(value: float, unit: str) -> str:
    """A number at a tick: short, its unit only where it is needed to read it."""
    if unit == "B":
        return quantity(value, "B") if value else "0"
    if unit == "B/s":
        return quantity(value, "B/s").removesuffix("B/s").strip() if value else "0"
    if abs(value) >= 1e4:
        for power, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= power:
                return f"{value / power:g}{suffix}"
    return f"{value:g}"


def _powers(low: float, high: float, most: int, base: int) -> list[float]:
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / most))
    return [float(base) ** n for n in range(first, last + 1, step)]


def _round(step: float, base: int) -> float:
    """The next step up that counts well: 1, 2, 5 by tens; powers of two where numbers are sizes."""
    if base == 2:
        return 2.0 ** math.ceil(math.log2(step))
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= step * (1 - 1e-9))
