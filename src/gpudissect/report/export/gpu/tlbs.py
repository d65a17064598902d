"""The TLBs, as far as they were found: a level without entries and page size is left out."""

from __future__ import annotations

from dataclasses import dataclass

from gpudissect.report.export.gpu.geometry import geometry
from gpudissect.report.export.gpu.readings import Entry, Readings, assumed

LEVELS = ("tlb_l1", "tlb_l2", "tlb_l3")
MOST_ENTRIES = 2**20
MOST_REACH = 2**48  # bytes: addresses have no more bits


@dataclass(frozen=True)
class Tlbs:
    """TLB levels by name, in the order in which they are asked, and what a miss in all of them costs."""

    levels: dict[str, dict[str, Entry]]
    walk: dict[str, Entry] | None


def tlbs(readings: Readings) -> Tlbs:
    """The TLBs that a result knows; none, and no page walk, if it knows none."""
    levels = {level: table for level in LEVELS if (table := _level(readings, level)) is not None}
    if not levels:
        return Tlbs({}, None)
    *before, last = levels
    for level in before:
        levels[level]["penalty"] = _penalty(readings, level)
    return Tlbs(levels, {"penalty": _penalty(readings, last)})


def _level(readings: Readings, level: str) -> dict[str, Entry] | None:
    entries, page = _entries_and_page(readings, level)
    if entries is None or page is None or entries["value"] * page["value"] > MOST_REACH:
        return None
    table = {"entries": entries, "page_size": page}
    return table | geometry(readings, level, entries["value"], page["value"])


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


def _penalty(readings: Readings, level: str) -> Entry:
    return readings.entry(level, "miss_penalty") or assumed(0, "not found")
