"""`Figure`: which columns of a series stand where in its plot; `Scale`: from values to places on an axis."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeGuard

from gpudissect.results.text import quantity

Column = tuple[float | str | None, ...]
MAX_GROUPS = 8  # groups that a reader can distinguish
RATE_UNITS = {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3}
"""Units of an axis in B/s."""
MAX_SHORT = 1e4  # number that a tick shows in few digits
LOG_RATIO = 64  # largest over smallest value from which on a logarithmic scale reads better


class Kind(StrEnum):
    """How values are plotted."""

    LINES = "lines"  # points joined by a line
    CURVES = "curves"  # a line without points: what a model predicts
    DOTS = "dots"
    BARS = "bars"  # neighbours have no order but their number
    MAP = "map"  # a colour for every pair of x and y


@dataclass(frozen=True)
class Figure:
    """A plot before it is plotted. Groups are the columns `ys`, or the values of the column `by`."""

    title: str
    kind: Kind
    columns: Mapping[str, Column]  # equally long; all of them stand in the table behind the plot
    x: str  # column of the horizontal axis
    ys: tuple[str, ...]  # columns of the vertical axis, in one unit; one column for a map
    units: Mapping[str, str] = field(default_factory=dict)  # of each column that has one
    by: str | None = None
    colour: str | None = None  # column shown as colour (map) or as groups (bars)
    evidence: tuple[str, ...] = ()  # digests of the workloads behind it
    note: str = ""  # one line below the plot
    y_title: str = ""  # in place of the names of the columns
    log_x: bool | None = None  # None: the values decide
    log_y: bool | None = None
    y_max: float | None = None  # values beyond it are cut off
    kinds: Mapping[str, Kind] = field(default_factory=dict)  # of groups that differ from `kind`
    marks: Sequence[tuple[float, str]] = ()  # vertical lines, each with its label
    levels: Sequence[tuple[float, str]] = ()  # horizontal lines, each with its label
    x_ticks: Mapping[float, str] = field(default_factory=dict)  # in place of round numbers
    y_ticks: Mapping[float, str] = field(default_factory=dict)
    band: tuple[str, str] | None = None  # columns of the lower and the upper end of an area behind the marks
    pins: str | None = None  # column of a map: cells with a 1 get a pin
    shows: tuple[tuple[str, str], ...] = ()  # element and attribute of findings with other evidence that it belongs to

    def unit(self, name: str | None) -> str:
        """Unit of a column, empty if it has none."""
        return self.units.get(name or "", "")


def overlay(
    title: str,
    x: tuple[str, str],
    y: tuple[str, str],
    groups: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    kind: Kind = Kind.LINES,
    **options: Any,
) -> Figure:
    """A figure of groups with x values of their own; `x` and `y`: name and unit of an axis; `options`: of `Figure`."""
    rows = [(float(a), float(b), name) for name, (xs, ys) in groups.items() for a, b in zip(xs, ys, strict=True)]
    columns = dict(zip((x[0], y[0], "group"), (tuple(column) for column in zip(*rows, strict=True)), strict=True))
    return Figure(title, kind, columns, x[0], (y[0],), dict((x, y)), by="group", **options)


def is_finite(value: float | str | None) -> TypeGuard[float]:
    """Whether a value can be plotted: a number that neither overflows nor vanishes in a product."""
    return isinstance(value, int | float) and (value == 0 or 1e-100 < abs(value) < 1e100)


@dataclass(frozen=True)
class Scale:
    """One axis from `low` to `high`, linear or logarithmic."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Position of a value: 0 at `low`, 1 at `high`."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, count: int = 6, base: int = 10) -> list[float]:
        """About `count` round values within."""
        for each in (base, 2):
            decades = 2 if self.low < 0.1 else 2.5  # labels of small powers of two are long
            if self.log and self.high / self.low >= each**decades:
                first = math.ceil(math.log(self.low, each) - 1e-9)
                last = math.floor(math.log(self.high, each) + 1e-9)
                room = count if each == base or self.high > MAX_SHORT else 8
                stride = max(1, math.ceil((last - first + 1) / room))
                return [float(each) ** n for n in range(first, last + 1, stride)]
        step = _round_step((self.high - self.low) / count, base)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(n * step, 12) for n in range(first, min(last, first + 4 * count) + 1)]


def scale_of(values: Sequence[float], *, from_zero: bool = False, log: bool | None = None) -> Scale:
    """The scale that fits finite values, with margins; `from_zero`: it begins at zero unless all are far from that."""
    low, high = float(min(values)), float(max(values))  # integers beyond 2**53 may differ and yet be plotted alike
    if log is None:
        log = low > 0 and high / low >= LOG_RATIO
    if log and low > 0:
        margin = max((high / low) ** 0.04, 1.02)
        return Scale(low / margin, high * margin, True)
    if from_zero and 0 < low < 0.6 * high:
        low = 0.0
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    margin = 0.04 * (high - low)
    return Scale(low if from_zero and low == 0 else low - margin, high + margin)


def label(value: float, unit: str) -> str:
    """A value at a tick: short, with its unit only where it is needed to read it."""
    if unit in RATE_UNITS:
        return f"{value / RATE_UNITS[unit]:.4g}"
    if unit in ("B", "B/s"):
        return quantity(value, unit).removesuffix("B/s").strip() if value else "0"
    for power, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(power, 1e4):
            return f"{value / power:.4g}{suffix}"
    return f"{value:.4g}"


def axis_unit(unit: str, scale: Scale) -> str:
    """The unit of an axis: of B/s the one in which its numbers are short."""
    if unit != "B/s":
        return unit
    return next((name for name, size in RATE_UNITS.items() if scale.high >= size), unit)


def _round_step(step: float, base: int) -> float:
    """The next larger step of 1, 2, 5 times a power of ten, or of a power of two for sizes."""
    if base == 2:
        return 2.0 ** math.ceil(math.log2(step))
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= step * (1 - 1e-9))
