"""The set map: which set each line of memory goes to, by the index function that was found."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpudissect.results.model import Finding
from gpudissect.results.names import title_of
from gpudissect.views.plots.figure import Column, Figure, Kind

ACROSS, DOWN = 64, 16  # lines of a row of the map, and rows
MOST_BITS = 63
LONGEST = 2000  # characters of an index function


def figure_of_sets(findings: Sequence[Finding]) -> Figure | None:
    """The map of one element's sets; None without an index function of several sets and a size of its lines."""
    by_name = {finding.attribute: finding for finding in findings}
    found = by_name.get("index_function")
    unit = next((by_name[name] for name in ("line_size", "page_size") if name in by_name), None)
    if found is None or unit is None or not isinstance(found.value, str) or not isinstance(unit.value, int):
        return None
    number = numbering(found.value, unit.value)
    if number is None or unit.value < 1:
        return None
    lines = range(ACROSS * DOWN)
    what = "page" if unit.attribute == "page_size" else "line"
    columns: dict[str, Column] = {
        what: tuple(line % ACROSS for line in lines),
        "row": tuple(line // ACROSS for line in lines),
        "set": tuple(number(line * unit.value) for line in lines),
    }
    return Figure(
        title=f"{title_of(found.element)}: set of every {what} of memory, {ACROSS} a row",
        kind=Kind.MAP,
        columns=columns,
        x=what,
        ys=("row",),
        colour="set",
        evidence=found.evidence,
        answers=True,
        note="by the index function as found, from address 0 on",
    )


def numbering(text: str, line: int) -> Callable[[int], int] | None:
    """The function from byte addresses to sets that a text names; None for one set, and for what it does not name.

    ``bits 7 8``; ``xor 7^13 8^14 9`` (each group one bit of the set number); ``line mod 1792``;
    ``(address / 128) mod 7`` (`gpudissect.simulation.cache.index.canonical`).
    """
    if len(text) > LONGEST:
        return None
    if re.fullmatch(r"(bits|xor)( \d{1,2}(\^\d{1,2})*)+", text):
        groups = [[int(bit) for bit in group.split("^")] for group in text.split(" ")[1:]]
        if max(max(group) for group in groups) > MOST_BITS:
            return None
        masks = [sum(1 << bit for bit in set(group)) for group in groups]
        return lambda address: sum(((address & mask).bit_count() & 1) << n for n, mask in enumerate(masks))
    if said := re.fullmatch(r"(?:line|\(address / (\d{1,9})\)) mod (\d{1,9})", text):
        granule, sets = int(said[1] or line), int(said[2])
        return (lambda address: address // granule % sets) if granule and sets > 1 else None
    return None
