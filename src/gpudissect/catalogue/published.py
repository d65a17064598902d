"""Published numbers of a GPU that a measurement can find: the reference of every comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpudissect.catalogue.build import index_of
from gpudissect.estimate import Value
from gpudissect.simulation.cache.index import canonical
from gpudissect.vocabulary import ELEMENTS, EVERY_ACCESS, MISSES_ONLY, PATHS, TRANSLATED, unit_of
from gpudissect.workload import Path

if TYPE_CHECKING:
    from gpudissect.catalogue.arrays import Lines
    from gpudissect.catalogue.quantity import Sourced
    from gpudissect.catalogue.schema import GpuTable
    from gpudissect.catalogue.tables import PathTable

Entries = Iterator[tuple[str, str, "Sourced[Any] | None"]]
"""Element, attribute and number."""
CACHE_ATTRIBUTES = ("capacity", "line_size", "fetch_granularity", "sets", "count_per_sm")
SHARED_ATTRIBUTES = ("capacity", "banks", "bank_width", "conflict_latency", "write_conflict")
TLB_ATTRIBUTES = ("entries", "page_size", "sets", "miss_cache")


@dataclass(frozen=True)
class Published:
    """One published number; fields as in `Sourced`."""

    element: str  # such as l1, texture, tlb_l1
    attribute: str  # such as capacity, hit_latency
    value: Value  # the truth as far as known, in `unit`; a list of ways if the sets are unequal
    low: float | None = None
    high: float | None = None
    unit: str = ""  # such as B, cycles, B/s; empty for counts
    printed: float | None = None
    source: str = ""
    note: str = ""
    simulated: bool = True  # whether a survey of the simulated GPU should find the number


def published_of(gpu: GpuTable) -> list[Published]:
    """List every sourced number of `gpu` that a measurement can find; one per element and attribute."""
    derived = {(item.element, item.attribute): item for item in _derived(gpu)}
    stated: dict[tuple[str, str], Published] = {}
    for element, attribute, entry in _numbers(gpu):
        if entry is not None and entry.source is not None and (element, attribute) not in stated:
            bracket = {name: getattr(entry, name) for name in ("low", "high", "printed", "simulated")}
            stated[element, attribute] = _published(element, attribute, float(entry.value), entry, **bracket)
    return sorted((derived | stated).values(), key=lambda item: (item.element, item.attribute))


def alternatives_of(gpu: GpuTable) -> Iterator[Published]:
    """Lines, sets and ways of the alternative structures of caches and TLBs."""
    for element, cache in gpu.caches.items():
        if (array := cache.alternative) is not None:
            yield _published(element, "line_size", float(array.line_size.value), array.line_size)
            yield from _alternative(element, array, array.line_size.value)
    for element, tlb in gpu.tlbs.items():
        if tlb.alternative is not None:
            yield from _alternative(element, tlb.alternative, tlb.page_size.value)


def _alternative(element: str, table: Lines, line: int) -> Iterator[Published]:
    yield _published(element, "sets", float(table.sets.value), table.sets)
    yield from _structure(element, table, line)


def _published(element: str, attribute: str, value: Value, entry: Sourced[Any], **fields: Any) -> Published:
    origin = {"unit": unit_of(attribute), "source": entry.source or "", "note": entry.note or ""}
    return Published(element, attribute, value, **(origin | fields))


def _of(element: str, table: Any, attributes: tuple[str, ...]) -> Entries:
    return ((element, attribute, getattr(table, attribute)) for attribute in attributes)


def _numbers(gpu: GpuTable) -> Entries:
    """Numbers that stand in a table; the first of an element and attribute counts."""
    partition = gpu.partition
    if partition is not None:
        element = partition.cache
        yield element, "capacity", partition.capacity
        yield element, "segment_size", gpu.caches[partition.cache].capacity
    for element, table in [*gpu.caches.items(), *gpu.views.items()]:
        is_partition = partition is not None and element == partition.cache  # has half of the capacity
        yield from _of(element, table, CACHE_ATTRIBUTES[1:] if is_partition else CACHE_ATTRIBUTES)
    yield from _of("shared", gpu.shared, SHARED_ATTRIBUTES)
    yield from _latencies(gpu)
    for instruction, unit in gpu.units.items():
        yield from _of(str(instruction), unit, ("rate", "latency"))
    if gpu.bandwidth is not None:
        tables = gpu.bandwidth
        levels = (("dram", tables.dram), ("l2", tables.l2), ("l1", tables.l1), ("host", tables.host))
        for element, level in levels:
            if level is not None:
                yield from _of(element, level, tuple(type(level).model_fields))
    if gpu.launch is not None:
        yield from _of("launch", gpu.launch, tuple(type(gpu.launch).model_fields))
    for tlb, table in gpu.tlbs.items():
        yield from _of(tlb, table, TLB_ATTRIBUTES)
    if gpu.page_window is not None:
        yield "page_table", "window", gpu.page_window.size
        yield "page_table", "switch_penalty", gpu.page_window.penalty
    yield "dram", "capacity", gpu.chip.memory_size
    for name, attributes in gpu.published.items():
        yield from ((name, attribute, entry) for attribute, entry in attributes.items())


def _latencies(gpu: GpuTable) -> Entries:
    """Hit latencies: of each element on its own path; of L2 and memory past the L1 if there is such a path."""
    for path in (Path.GLOBAL, Path.READONLY, Path.TEXTURE, Path.CONSTANT):
        yield from ((name, "hit_latency", entry) for name, entry in _hits(gpu.paths.get(path)) if name != "l2")
    for path in (Path.GLOBAL_L2, Path.GLOBAL):
        if (table := gpu.paths.get(path)) is not None:
            yield from ((name, "hit_latency", entry) for name, entry in _hits(table) if name == "l2")
            yield "dram", "hit_latency", table.memory_latency
    for path in (Path.SHARED, Path.HOST):
        if (ending := gpu.paths.get(path)) is not None:
            yield path.value, "hit_latency", ending.latency[0]


def _hits(table: PathTable | None) -> list[tuple[str, Sourced[float]]]:
    return [] if table is None else list(zip(table.caches, table.latency, strict=True))


def _derived(gpu: GpuTable) -> Iterator[Published]:
    """Ways of each set, index functions and policies as text, shared arrays, penalties and reach of TLBs."""
    tables: list[tuple[str, Lines, int]] = [(name, c, c.line_size.value) for name, c in gpu.caches.items()]
    tables += [(level, tlb, tlb.page_size.value) for level, tlb in gpu.tlbs.items()]
    for element, table, line in tables:
        yield from _structure(element, table, line)
    yield from _tlb_penalties(gpu)
    yield from _translated(gpu)
    for element, view in gpu.views.items():
        if view.of.source is not None:
            yield from _shared_with(gpu, element, view.of)
    for level, tlb in gpu.tlbs.items():
        if tlb.entries.source and tlb.page_size.source:
            reach = float(tlb.entries.value * tlb.page_size.value)
            yield _published(level, "reach", reach, tlb.entries, note="entries x page size")


def _structure(element: str, table: Lines, line: int) -> Iterator[Published]:
    """Ways, index and policy. No index table of a TLB: the numbers of its sets are arbitrary."""
    index, policy, is_tlb = table.index_function, table.replacement_policy, element.startswith("tlb")
    if index.source is not None and not (is_tlb and index.value.table):
        text = canonical(index_of(index.value), line, table.sets.value)
        yield _published(element, "index_function", text.replace("line", "page") if is_tlb else text, index)
    if policy.source is not None:
        yield _published(element, "replacement_policy", str(policy.value.policy()), policy)
    if table.ways.source is not None:
        ways = tuple(map(float, table.ways_of_sets()))
        yield _published(element, "ways", ways[0] if min(ways) == max(ways) else ways, table.ways)


def _shared_with(gpu: GpuTable, element: str, of: Sourced[str]) -> Iterator[Published]:
    """That a view and the owner of its array share it, each with all others that do."""
    sharing = [of.value, *(view for view, table in gpu.views.items() if table.of.value == of.value)]
    for name in (element, of.value):
        others = [other for other in ELEMENTS if other in sharing and other != name]
        yield Published(name, "shared_with", ", ".join(others), source=of.source or "")


def _translated(gpu: GpuTable) -> Iterator[Published]:
    """Which accesses to the nearest cache of a path are translated."""
    for path, (element, *_) in PATHS.items():
        table = gpu.paths.get(Path(path))
        entry = table.translated_from if table is not None and element in table.caches else None
        if entry is not None and entry.source is not None and element in TRANSLATED:
            yield _published(element, "translated", EVERY_ACCESS if entry.value == 0 else MISSES_ONLY, entry)


def _tlb_penalties(gpu: GpuTable) -> Iterator[Published]:
    """Cycles of a miss more than a hit in the same TLB; documents count from a hit in the first."""
    previous = 0.0
    for level in sorted(gpu.tlbs):
        is_last = level == max(gpu.tlbs)
        entry = gpu.walk.penalty if is_last and gpu.walk is not None else gpu.tlbs[level].penalty
        if entry is None:
            continue
        if entry.source is not None:
            note = entry.note or ("less the penalty of the previous TLB" if previous else "")
            yield _published(level, "miss_penalty", float(entry.value) - previous, entry, note=note)
        previous = float(entry.value)
