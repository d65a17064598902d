"""A value with its bracket in a few characters: ``241-256 KiB``, ``653 ± 11 cycles``."""

import math

from gpudissect.estimate import Status
from gpudissect.printable import brief, cut
from gpudissect.results.model import Finding, Published
from gpudissect.results.text import DECIMAL_PREFIXES, MAX_UNIT_LENGTH, quantity
from gpudissect.units import BYTE_UNITS

DIGITS = 3  # significant ones
MAX_LENGTH = 40  # characters of a text or a list
EXACT_SHARE = 0.01  # half width of a bracket over the value, up to which it is left out
EXACT_CYCLES = 0.6  # ... in cycles: latencies of single accesses are whole numbers of cycles
WIDE_SHARE = 0.1  # ... from which on the ends are given
MAX_HALF = 50  # in units of the last digit, from which on that digit is left out
MAX_SKEW = 0.25  # of the half width, by which the value may lie off the middle of "value ± half"


def folded(finding: Finding, *, unit: bool = True, digits: int = DIGITS) -> str:
    """The value and, unless it is within 1 % (or a cycle wide), the bracket.

    In three significant digits or more, one less where the bracket is wide.

    ``value ± half`` if the bracket is symmetric and at most 10 % wide, its ends if not; without a value the ends
    or the bound (``≥ 64 KiB``) that is known; empty without either. A number of warps is the smallest of those measured
    that is enough, without its bracket; ``> 64`` where that many are not, or not clearly.
    """
    value, low, high = finding.value, finding.low, finding.high
    warps = finding.attribute == "warps_needed"
    if not finding.status.has_value or value is None:
        return _bound(low, high, finding.unit, "> " if warps and finding.status is Status.NOT_FOUND else "≥ ")
    if not isinstance(value, int | float):
        return cut(quantity(value, finding.unit), MAX_LENGTH)
    divisor, name = _display_unit(value, finding.unit)
    tail = f" {name}" if name and unit else ""
    number = value / divisor
    if warps or low is None or high is None:
        sign = "" if warps or low is high else "≥ " if low == value else "≤ " if high == value else ""
        return f"{sign}{_digits(number, digits)}{tail}"
    first, last = low / divisor, high / divisor
    half = (last - first) / 2
    exact = max(EXACT_SHARE * abs(number), EXACT_CYCLES if finding.unit == "cycles" else 0.0) / 10 ** (digits - DIGITS)
    if half <= exact or _digits(first, digits) == _digits(last, digits):
        return f"{_digits(number, digits)}{tail}"
    if half > WIDE_SHARE * abs(number) or abs(number - (first + last) / 2) > MAX_SKEW * half:
        return f"{_digits(first, digits)}-{_digits(last, digits)}{tail}"
    decimals = len(_digits(number, digits).partition(".")[2])
    decimals -= decimals > 0 and max(number - first, last - number) * 10**decimals >= MAX_HALF
    rounding = 0.5 / 10**decimals
    half = max(half, number - first - rounding, last - number - rounding)
    half = math.ceil(half * 10**decimals) / 10**decimals  # never narrower than it is
    return f"{number:.{decimals}f} ± {half:.{decimals}f}{tail}"


def rounded(value: float, unit: str) -> str:
    """A number in three significant digits with its unit: ``9.22 TB/s``, ``24 MiB``."""
    divisor, name = _display_unit(value, unit)
    return f"{_digits(value / divisor)} {name}".rstrip()


def rounded_range(low: float, high: float, unit: str) -> str:
    """A range in three significant digits with its unit: ``213-249 KiB``; one number where both ends look equal."""
    divisor, name = _display_unit(high, unit)
    ends = dict.fromkeys((_digits(low / divisor), _digits(high / divisor)))
    return f"{'-'.join(ends)} {name}".rstrip()


def folded_published(known: Published) -> str:
    """A published range, or else the published value."""
    low, high, unit = known.low, known.high, known.unit
    if low == high:  # or neither is given
        return rounded(known.value, unit) if isinstance(known.value, int | float) else quantity(known.value, unit)
    if low is None or high is None:
        return _bound(low, high, unit)
    return rounded_range(low, high, unit)


def _bound(low: float | None, high: float | None, unit: str, at_least: str = "≥ ") -> str:
    if low is not None and high is not None:
        return rounded_range(low, high, unit)
    for bound, sign in ((low, at_least), (high, "≤ ")):
        if bound is not None:
            divisor, name = _display_unit(bound, unit)
            return f"{sign}{_digits(bound / divisor)} {name}".rstrip()
    return ""


def _display_unit(value: float, unit: str) -> tuple[float, str]:
    """The unit in which a value is shown, such as MiB or TB/s, and its size."""
    if unit == "B":
        return next(((size, name) for size, name in BYTE_UNITS if abs(value) >= size), (1, "B"))
    if unit in ("B/s", "ops/s", "Hz"):
        size, prefix = next((each for each in DECIMAL_PREFIXES if abs(value) >= each[0]), (1, ""))
        return size, f"{prefix}{unit}"
    return 1, brief(unit, MAX_UNIT_LENGTH)


def _digits(number: float, digits: int = DIGITS) -> str:
    """That many significant digits; all of those before the point."""
    return f"{number:.0f}" if abs(number) >= 10 ** (digits - 1) else f"{number:.{digits}g}"
