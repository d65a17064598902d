"""Values as text, with units; titles of elements."""

import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path

from gpudissect.device_info import Origin
from gpudissect.estimate import Value
from gpudissect.printable import brief, clean
from gpudissect.units import format_bytes

DECIMAL_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
MAX_UNIT_LENGTH = 100  # characters
MAX_LISTED_RUNS = 12  # runs of equal numbers in a list that is written out
_TITLES = Path(__file__).with_name("titles.toml")  # element -> title, short title


def title_of(element: str, *, short: bool = False) -> str:
    """Title of an element; its own name where it has no other."""
    return _titles().get(element, (element, element))[short]


@cache
def _titles() -> dict[str, list[str]]:
    return tomllib.loads(_TITLES.read_text(encoding="utf-8"))


SPECTRUM = {
    "p1": "cache hit, TLB hit",
    "p2": "cache hit, L2 TLB hit",
    "p3": "cache hit, TLB miss",
    "p4": "cache miss, TLB hit",
    "p5": "cache miss, TLB miss",
    "p6": "cache and TLB miss, new page-table window",
}
"""Attributes of the latency spectrum (MC16 section 5.2)."""


def words(attribute: str) -> str:
    """An attribute in words."""
    return SPECTRUM.get(attribute) or attribute.replace("_", " ").replace(" sm", " SM")


def provenance(origin: Origin, recorded: Origin | None) -> str:
    """Where numbers come from, in capitals: ``SIMULATED``, ``REPLAYED from a recording of a measured GPU``."""
    return origin.value.upper() + (f" from a recording of a {recorded.value} GPU" if recorded is not None else "")


def quantity(value: Value | None, unit: str, each: str = "values") -> str:
    """A value with its unit: ``24 KiB``, ``132.4 cycles``, ``3.35 TB/s``, ``17, 6 x 8``.

    A long list of counts is shown by frequency, ``66 x 0, 66 x 1 over 132 SMs``, any other by its range,
    ``262.1 ... 331 cycles over 132 SMs``; `each` names what the list has one number of.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    unit = brief(unit, MAX_UNIT_LENGTH)
    if isinstance(value, tuple):
        if unit == "B/s" or unit.endswith("/cycle"):
            scale, prefix = _prefix(max(value, default=0), unit)
            return f"{', '.join(f'{item / scale:.3g}' for item in value)} {prefix}{unit}"
        tail = f" {unit}" if unit else ""
        runs = [(item, sum(1 for _ in run)) for item, run in groupby(value)]
        if len(runs) <= MAX_LISTED_RUNS:
            return _counted(runs) + tail
        tail += f" over {len(value)} {each}"
        if not unit and len(set(value)) <= MAX_LISTED_RUNS:
            return _counted(sorted(Counter(value).items())) + tail
        return f"{min(value):g} ... {max(value):g}{tail}"
    if unit == "B":
        return format_bytes(value)
    if unit in ("B/s", "ops/s"):
        scale, prefix = _prefix(value, unit)
        return f"{value / scale:.4g} {prefix}{unit}"
    if unit in ("cycles", "ns"):
        return f"{round(value, 1):.7g} {unit}"
    if unit.endswith("/cycle"):
        return f"{value:.4g} {unit}"
    return f"{value:.7g}" + (f" {unit}" if unit else "")


def _prefix(value: float, unit: str) -> tuple[float, str]:
    """The decimal prefix of a number per second, with its factor; none of a number per cycle."""
    prefixes = () if unit.endswith("/cycle") else DECIMAL_PREFIXES
    return next((each for each in prefixes if abs(value) >= each[0]), (1.0, ""))


def _counted(numbers: Iterable[tuple[float, int]]) -> str:
    return ", ".join(f"{count} x {item:g}" if count > 1 else f"{item:g}" for item, count in numbers)


def bracket(low: float | None, high: float | None, unit: str) -> str:
    """A bracket, ends included; empty without one, ``exact`` for a single point, open where only one end is known."""
    if low is None or high is None:
        known = quantity(high if low is None else low, unit)
        return f"{'<=' if low is None else '>='} {known}" if known else ""
    first, last = quantity(low, unit), quantity(high, unit)
    if first == last and low == high:
        return "exact"
    if first == last:  # the ends differ by less than is shown of a value
        return f"{low:.6g} .. {high:.6g}" + (f" {unit}" if unit else "")
    if unit and first.endswith(tail := last[last.index(" ") :]):  # a common unit is shown once
        first = first.removesuffix(tail)
    return f"{first} .. {last}"


def published_words(value: Value | None, low: float | None, high: float | None, unit: str) -> str:
    """A published range, or else a published value."""
    return bracket(low, high, unit) if (low, high) != (None, None) and low != high else quantity(value, unit)


def percent(share: float | None) -> str:
    """A probability in percent, never rounded up to certainty."""
    if share is None:
        return ""
    return f"{share:.0%}" if share < 0.99 or share == 1 else f"{min(int(share * 10000) / 100, 99.99):g}%"
