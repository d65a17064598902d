"""Text for people: humane units, and nothing a file or a driver says may drive the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from gpudissect.device_info import Origin
from gpudissect.estimate import Value
from gpudissect.units import format_bytes


def clean(text: str) -> str:
    """One printable line: control characters, escapes, bidirectional marks and newlines are shown, not obeyed."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cut(text: str, most: int) -> str:
    """As much of a text as fits, with a mark where something is left out."""
    return text if len(text) <= most else f"{text[: most - 2].rstrip()} …"


def brief(text: str, most: int) -> str:
    """A text of a stranger's, printable and no longer than that."""
    return cut(clean(text[: most + 1]), most)


def provenance(origin: Origin, recorded: Origin | None) -> str:
    """Where numbers come from, loud: ``SIMULATED``, ``REPLAYED from a recording of a measured GPU``."""
    own = origin.value.upper()
    return own if recorded is None else f"{own} from a recording of a {recorded.value} GPU"


LISTED = 12  # runs of equal numbers in a list that is written out


def quantity(value: Value | None, unit: str, each: str = "values") -> str:
    """A value with its unit as people write it: ``24 KiB``, ``132.4 cycles``, ``3.35 TB/s``, ``17, 6 x 8``.

    Of a long list of counts how often each comes, ``66 x 0, 66 x 1 over 132 SMs``, of any other where its numbers lie,
    ``262.1 ... 331 cycles over 132 SMs``; `each` names what there is one number of.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, tuple):
        tail = f" {unit}" if unit else ""
        runs = [(item, sum(1 for _ in run)) for item, run in groupby(value)]
        if len(runs) <= LISTED:
            return _counted(runs) + tail
        tail += f" over {len(value)} {each}"
        if not unit and len(set(value)) <= LISTED:
            return _counted(sorted(Counter(value).items())) + tail
        return f"{min(value):g} ... {max(value):g}{tail}"
    if unit == "B":
        return format_bytes(value)
    if unit == "B/s":
        return _decimal(value, "B/s")
    if unit in ("cycles", "ns"):
        return f"{round(value, 1):.7g} {unit}"
    if unit.endswith("/cycle"):
        return f"{value:.4g} {unit}"
    return f"{value:.7g}" + (f" {unit}" if unit else "")


def _counted(numbers: Iterable[tuple[float, int]]) -> str:
    return ", ".join(f"{count} x {item:g}" if count > 1 else f"{item:g}" for item, count in numbers)


def bracket(low: float | None, high: float | None, unit: str) -> str:
    """A bracket, ends included; empty without one, ``exact`` for a single point, open where only one end is known."""
    if low is None and high is None:
        return ""
    if low is None:
        return f"<= {quantity(high, unit)}"
    if high is None:
        return f">= {quantity(low, unit)}"
    first, last = quantity(low, unit), quantity(high, unit)
    if first == last and low == high:
        return "exact"
    if first == last:  # apart by less than is shown of a value
        return f"{low:.6g} .. {high:.6g}" + (f" {unit}" if unit else "")
    if unit and first.endswith(tail := last[last.index(" ") :]):  # say a common unit once
        first = first.removesuffix(tail)
    return f"{first} .. {last}"


def published_words(value: Value | None, low: float | None, high: float | None, unit: str) -> str:
    """What a document gives: its range where it gives one, else its value."""
    return bracket(low, high, unit) if (low, high) != (None, None) and low != high else quantity(value, unit)


def percent(share: float | None) -> str:
    """A probability in percent, never rounded up to certainty."""
    if share is None:
        return ""
    return f"{share:.0%}" if share < 0.99 or share == 1 else f"{min(int(share * 10000) / 100, 99.99):g}%"


def _decimal(value: float, unit: str) -> str:
    for power, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= power:
            return f"{value / power:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"
