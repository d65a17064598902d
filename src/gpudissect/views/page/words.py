"""Values as a reader of a page wants them: names in their usual spelling, and no digits that mean nothing."""

from __future__ import annotations

from gpudissect.results.model import Value
from gpudissect.results.text import quantity
from gpudissect.simulation.cache.geometry import PolicyKind
from gpudissect.units import GIB
from gpudissect.views.page.markup import LONGEST
from gpudissect.vocabulary import LIST_INDEX

_ACRONYMS = {kind.value: kind.value.upper() for kind in PolicyKind if kind not in (PolicyKind.RANDOM,
             PolicyKind.WEIGHTED)}  # fmt: skip
_DIGITS = 4


def value_words(value: Value | None, unit: str, attribute: str = "") -> str:
    """A value with its unit; of a text no more than anyone reads.

    Sizes below a GiB are exact, for a byte of them counts; of larger ones, and of numbers without a unit that are not
    whole, four digits.
    """
    if isinstance(value, str):
        kind, _, rest = value.partition(" ")
        if attribute == "replacement_policy" and kind in _ACRONYMS:
            value = f"{_ACRONYMS[kind]} {rest}".strip()
        return quantity(value[: LONGEST + 1], unit)
    if isinstance(value, int | float):
        if unit == "B" and value >= GIB and float(f"{value / GIB:.7g}") * GIB != value:
            return f"{value / GIB:.{_DIGITS}g} GiB"
        if not unit and value != int(value):
            return f"{value:.{_DIGITS}g}"
    return quantity(value, unit, LIST_INDEX.get(attribute, "values"))
