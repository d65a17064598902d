"""The TLBs, as far as they were found: a level without entries and page size is left out."""

from __future__ import annotations

from dataclasses import dataclass

from gpudissect.catalogue.arrays import MAX_WAYS
from gpudissect.exports.gpu.geometry import geometry, in_all, usual_ways
from gpudissect.exports.gpu.readings import DIGITS, Entry, Readings, assumed, sourced

LEVELS = ("tlb_l1", "tlb_l2", "tlb_l3")
MOST_ENTRIES = 2**20
MOST_REACH = 2**48  # bytes: addresses have no more bits


@dataclass(frozen=True)
class Tlbs:
    """TLB levels by name, in the order in which they are asked, and what a miss in all of them costs."""

    levels: dict[str, dict[str, Entry]]
    walk: dict[str, Entry] | None


def tlbs(readings: Readings) -> Tlbs:
    """The TLBs that a result knows; none, and no page walk, if it knows none.

    A miss is found to cost more than a hit in that level does; a GPU file counts from a hit in the first.
    """
    levels = {level: table for level in LEVELS if (table := _level(readings, level)) is not None}
    if not levels:
        return Tlbs({}, None)
    first, *others = levels
    before, penalty = first, _penalty(readings, first, None)
    for level in others:
        levels[before]["penalty"] = penalty
        before, penalty = level, _penalty(readings, level, penalty)
    return Tlbs(levels, {"penalty": penalty})


def _level(readings: Readings, level: str) -> dict[str, Entry] | None:
    entries, page = _entries_and_page(readings, level)
    if entries is None or page is None or entries["value"] * page["value"] > MOST_REACH:
        return None
    count = entries["value"]
    # Pages far apart were found to fit as well: an assumed TLB is one set.
    structure = geometry(readings, level, count, page["value"], count if count <= MAX_WAYS else usual_ways(count))
    return {"entries": in_all(entries, structure.lines, 1, readings), "page_size": page} | structure.entries


def _entries_and_page(readings: Readings, level: str) -> tuple[Entry | None, Entry | None]:
    """Two of entries, page size and reach give the third."""
    entries, page = (readings.entry(level, attribute) for attribute in ("entries", "page_size"))
    reach = readings.whole(level, "reach")
    if entries is not None and not 1 <= entries["value"] <= MOST_ENTRIES:
        entries = None
    if page is not None and (page["value"] < 1 or page["value"] & (page["value"] - 1)):
        page = None
    if entries is None and page is not None and reach is not None:
        entries = assumed(min(max(1, reach // page["value"]), MOST_ENTRIES), "follows from reach and page size")
    elif page is None and entries is not None and reach is not None:
        largest = max(1, reach // entries["value"])
        page = assumed(1 << largest.bit_length() - 1, "follows from reach and entries")
    return entries, page


def _penalty(readings: Readings, level: str, before: Entry | None) -> Entry:
    """Cycles that a miss in this level and all before it costs."""
    own = readings.entry(level, "miss_penalty")
    if before is None:
        return own or assumed(0, "not found")
    if own is None:
        return assumed(before["value"], "not found; as much as a miss in the level before")
    total = round(before["value"] + own["value"], DIGITS)
    return sourced(total, readings.source, note=f"miss_penalty of {level} and of the levels before")
