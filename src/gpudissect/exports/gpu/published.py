"""Findings that no table of a simulated GPU holds: they stand under ``[published]``, to compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudissect.catalogue.published import published_of
from gpudissect.catalogue.schema import GpuTable
from gpudissect.catalogue.tables import Element
from gpudissect.estimate import Status
from gpudissect.exports.gpu.readings import Entry, Readings, words

if TYPE_CHECKING:
    from gpudissect.results.model import Finding

CLOSE = 1.0  # cycles
OF_PARTS = (("l2", "near_latency"), ("l2", "far_latency"), ("dram", "near_latency"), ("dram", "far_latency"))
NO_PART = "no part of the simulated GPU"
OTHERWISE = "simulated otherwise, the reason stands there"
OF_MEMORY = "memory is simulated with one latency, or one near and one far, and without a tail of slow accesses"
WIDE = "translations that were not found, and the slow tail of a real memory, are in it and not in the simulated one"
ANOTHER = "the array that it shares is simulated once, as the element it is of has it"


def published(readings: Readings, gpu: GpuTable) -> dict[str, dict[str, Entry]]:
    """Entries by element and attribute, of every number found that `gpu` does not give as its own already."""
    given = {(item.element, item.attribute) for item in published_of(gpu)}
    tables: dict[str, dict[str, Entry]] = {}
    for finding in readings:
        entry = readings.entry(finding.element, finding.attribute)
        place = (finding.element, finding.attribute)
        if entry is None or finding.status is not Status.FOUND or place in given or finding.element == "timer":
            continue
        lacking = _why_not_simulated(readings, finding, gpu)
        if lacking:
            entry["note"] = words("; ".join([lacking, *finding.caveats]))
            entry["simulated"] = False
        tables.setdefault(finding.element, {})[finding.attribute] = entry
    return tables


def _why_not_simulated(readings: Readings, finding: Finding, gpu: GpuTable) -> str:
    """Why a survey of the simulated GPU would not find a number again; empty if it would."""
    element, attribute = finding.element, finding.attribute
    found, memory = readings.number(element, attribute), readings.number("dram", "hit_latency")
    if (element, attribute) in OF_PARTS:
        return "" if gpu.partition is not None else "nothing was seen that a cache in two parts would explain"
    if attribute == "miss_penalty" and element in gpu.caches | gpu.views and element != "l2":
        return ""
    if attribute == "max_miss_rate" and _follows_a_found_policy(element, gpu):
        return ""
    if element in gpu.views:
        return ANOTHER
    if (element, attribute) == ("l2", "miss_penalty"):
        hit = readings.number("l2", "hit_latency")
        known = None not in (found, memory, hit) and gpu.partition is None
        return "" if known and abs((memory or 0) - (hit or 0) - (found or 0)) <= CLOSE else OF_MEMORY
    if element == "dram":
        known = None not in (found, memory) and gpu.partition is None
        lacking = WIDE if attribute == "wide_latency" else OF_MEMORY
        return "" if known and abs((memory or 0) - (found or 0)) <= CLOSE else lacking
    return OTHERWISE if element in (*gpu.caches, *gpu.tlbs) else NO_PART


def _follows_a_found_policy(element: str, gpu: GpuTable) -> bool:
    """Whether misses come from sets and a policy that were found, not assumed."""
    view = gpu.views.get(Element(element)) if element in gpu.views else None
    array = gpu.caches.get(Element(view.of.value if view else element)) if element in set(Element) else None
    return array is not None and None not in (array.index_function.source, array.replacement_policy.source)
