"""What documents say of a GPU that a measurement could find: the other side of every comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpudissect.estimate import Value
from gpudissect.vocabulary import ELEMENTS, unit_of
from gpudissect.workload import Path

if TYPE_CHECKING:
    from gpudissect.catalogue.quantity import Sourced
    from gpudissect.catalogue.schema import GpuTable, PathTable
    from gpudissect.catalogue.structure import Lines

SIZES_OF_CACHE = ("capacity", "line_size", "fetch_granularity", "sets", "count_per_sm")


@dataclass(frozen=True)
class Published:
    """One published number.

    Attributes:
        element: what it is about: ``l1``, ``texture``, ``l2``, ``dram``, ``tlb_l1``, ...
        attribute: which property: ``capacity``, ``hit_latency``, ``entries``, ...
        value: the truth as far as known, in `unit`; the list of ways where sets are unequal.
        low, high: the published bracket, None where the source gives a single number or an open end.
        unit: ``B``, ``cycles``, ``B/s``; empty for counts.
        printed: what the source printed where that is known to be off (then it differs from `value`).
        source: document and table, section or figure.
        note: what a careful reader must know.
        simulated: whether the simulated GPU has this structure, so that a survey of it should find the number.

    """

    element: str
    attribute: str
    value: Value
    low: float | None
    high: float | None
    unit: str
    printed: float | None
    source: str
    note: str = ""
    simulated: bool = True


def published_of(gpu: GpuTable) -> list[Published]:
    """List every sourced number of `gpu` that a measurement could find; one an element and attribute."""
    found: dict[tuple[str, str], Published] = {}
    for element, attribute, entry in _numbers(gpu):
        if entry is None or entry.source is None:
            continue
        found.setdefault(
            (element, attribute),
            Published(
                element=element,
                attribute=attribute,
                value=float(entry.value),
                low=entry.low,
                high=entry.high,
                unit=unit_of(attribute),
                printed=entry.printed,
                source=entry.source,
                note=entry.note or "",
                simulated=entry.simulated,
            ),
        )
    derived = {(item.element, item.attribute): item for item in _derived(gpu)}
    return sorted((derived | found).values(), key=lambda item: (item.element, item.attribute))


def _numbers(gpu: GpuTable) -> Iterator[tuple[str, str, Sourced[Any] | None]]:
    split = gpu.partition.cache if gpu.partition is not None else None
    for element, table in [*gpu.caches.items(), *gpu.views.items()]:
        for attribute in SIZES_OF_CACHE:
            if element == split and attribute == "capacity":
                continue  # of one part: see below
            yield str(element), attribute, getattr(table, attribute)
    for attribute in ("capacity", "banks", "bank_width", "conflict_latency", "write_conflict"):
        yield "shared", attribute, getattr(gpu.shared, attribute)
    yield from _latencies(gpu)
    yield from _throughput(gpu)
    for level in sorted(gpu.tlbs):
        for attribute in ("entries", "page_size", "sets"):
            yield str(level), attribute, getattr(gpu.tlbs[level], attribute)
    yield "dram", "capacity", gpu.chip.memory_size
    if gpu.partition is not None:
        yield str(gpu.partition.cache), "capacity", gpu.partition.capacity
        yield str(gpu.partition.cache), "segment_size", gpu.caches[gpu.partition.cache].capacity
    for element_name, attributes in gpu.published.items():
        for attribute, entry in attributes.items():
            yield element_name, attribute, entry


def _throughput(gpu: GpuTable) -> Iterator[tuple[str, str, Sourced[Any] | None]]:
    """Rates and latencies of instructions, bandwidths, what starting costs."""
    for instruction, unit in gpu.units.items():
        for attribute in ("rate", "latency"):
            yield str(instruction), attribute, getattr(unit, attribute)
    if gpu.bandwidth is not None:
        for element, table in (("dram", gpu.bandwidth.dram), ("l2", gpu.bandwidth.l2), ("l1", gpu.bandwidth.l1)):
            for attribute in type(table).model_fields if table is not None else ():
                yield element, attribute, getattr(table, attribute)
    if gpu.launch is not None:
        for attribute in type(gpu.launch).model_fields:
            yield "launch", attribute, getattr(gpu.launch, attribute)


def _latencies(gpu: GpuTable) -> Iterator[tuple[str, str, Sourced[Any] | None]]:
    """Hit latencies: each element's on the path that is its own; L2 and memory past the L1 if there is such a path."""
    for path in (Path.GLOBAL, Path.READONLY, Path.TEXTURE, Path.CONSTANT):
        for element, entry in _own(gpu.paths.get(path)):
            if element != "l2":
                yield element, "hit_latency", entry
    for path in (Path.GLOBAL_L2, Path.GLOBAL):
        table = gpu.paths.get(path)
        if table is not None:
            yield from ((element, "hit_latency", entry) for element, entry in _own(table) if element == "l2")
            yield "dram", "hit_latency", table.memory_latency
    shared = gpu.paths.get(Path.SHARED)
    if shared is not None:
        yield "shared", "hit_latency", shared.latency[0]


def _own(table: PathTable | None) -> list[tuple[str, Sourced[float]]]:
    if table is None:
        return []
    return [(str(element), entry) for element, entry in zip(table.caches, table.latency, strict=True)]


def _shared(gpu: GpuTable, element: str, array: str, source: str) -> Iterator[Published]:
    """That a view and the owner of its array share it, each with all the others that do."""
    together = [array, *(str(view) for view, table in gpu.views.items() if table.of.value == array)]
    for each in (element, array):
        others = [other for other in ELEMENTS if other in together and other != each]
        yield Published(
            element=each,
            attribute="shared_with",
            value=", ".join(others),
            low=None,
            high=None,
            unit=unit_of("shared_with"),
            printed=None,
            source=source,
        )


def _in_words(element: str, attribute: str, words: str, entry: Sourced[Any]) -> Published:
    return Published(element=element, attribute=attribute, value=words, low=None, high=None, unit=unit_of(attribute),
                     printed=None, source=entry.source or "", note=entry.note or "")  # fmt: skip


def _mappings(gpu: GpuTable) -> Iterator[Published]:
    """Index functions and policies in words, those of findings. Of TLBs no tables: nobody numbers sets alike."""
    from gpudissect.catalogue.build import index_of
    from gpudissect.simulation.cache.index import canonical

    tables: list[tuple[str, Lines, int]] = [
        (str(name), each, each.line_size.value) for name, each in gpu.caches.items()
    ]
    tables += [(str(level), tlb, tlb.page_size.value) for level, tlb in gpu.tlbs.items()]
    for element, table, line in tables:
        index, policy = table.index_function, table.replacement_policy
        if index.source is not None and not (element.startswith("tlb") and index.value.table):
            words = canonical(index_of(index.value), line, table.sets.value)
            words = words.replace("line", "page") if element.startswith("tlb") else words
            yield _in_words(element, "index_function", words, index)
        if policy.source is not None:
            weights = [f"{weight:.3f}" for weight in policy.value.weights]
            yield _in_words(element, "replacement_policy", " ".join([policy.value.kind, *weights]), policy)


def _tlb_penalties(gpu: GpuTable) -> Iterator[Published]:
    """What a miss costs more than a hit in the same TLB: the documents count from a hit in the first."""
    before = 0.0
    for level in sorted(gpu.tlbs):
        last = level == max(gpu.tlbs) and gpu.walk is not None
        entry = gpu.walk.penalty if last and gpu.walk is not None else gpu.tlbs[level].penalty
        if entry is None:
            continue
        if entry.source is not None:
            note = entry.note or ("less what the TLB before costs" if before else "")
            yield Published(element=str(level), attribute="miss_penalty", value=float(entry.value) - before, low=None,
                            high=None, unit="cycles", printed=None, source=entry.source, note=note)  # fmt: skip
        before = float(entry.value)


def _derived(gpu: GpuTable) -> Iterator[Published]:
    """Ways of each set (of unequal sets their list), maps and policies in words, penalties and reach of TLBs."""
    yield from _mappings(gpu)
    yield from _tlb_penalties(gpu)
    tables: list[tuple[str, Lines]] = [(str(name), cache) for name, cache in gpu.caches.items()]
    tables += [(str(level), tlb) for level, tlb in gpu.tlbs.items()]
    for element, table in tables:
        if table.ways.source is None:
            continue
        ways = table.ways_of_sets()
        equal = min(ways) == max(ways)
        yield Published(
            element=element,
            attribute="ways",
            value=float(ways[0]) if equal else tuple(float(each) for each in ways),
            low=None,
            high=None,
            unit=unit_of("ways"),
            printed=None,
            source=table.ways.source,
            note=table.ways.note or "",
        )
    for element, view in gpu.views.items():
        if view.of.source is not None:
            yield from _shared(gpu, str(element), view.of.value, view.of.source)
    for level, tlb in gpu.tlbs.items():
        if tlb.entries.source and tlb.page_size.source:
            yield Published(
                element=str(level),
                attribute="reach",
                value=float(tlb.entries.value * tlb.page_size.value),
                low=None,
                high=None,
                unit=unit_of("reach"),
                printed=None,
                source=tlb.entries.source,
                note="entries x page size",
            )
