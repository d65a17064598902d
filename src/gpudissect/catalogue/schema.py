"""The schema of a GPU file (TOML, ``format = 1``); `README.md` beside this file shows one with comments.

Every number is an inline table: ``{ value = 32, source = "MC16 table 5" }`` or
``{ value = 32, assumed = "why" }``; see `Sourced`. The tables:

=================  ==========================================================================================
``[chip]``         what the driver says: SMs, clock, sizes (`ChipTable`)
``[caches.NAME]``  one array each; NAME is an element: l1, readonly, texture, constant_l1, constant_l15, l2, icache_l0
``[views.NAME]``   an element that looks into another's array (Kepler: readonly and texture are one)
``[shared]``       shared memory
``[paths.NAME]``   global, global_l2, readonly, texture, constant, shared: caches on the way, cycles at each;
                   cluster: cycles by rank of the block asked (the last for all further ones); tma;
                   code: cycles are those of 128 bytes of instructions
``[unsupported]``  paths that the GPU lacks, each with the reason; every path stands here or in ``[paths]``,
                   but for cluster, tma and code: a GPU whose file is silent about them has none
``[tlbs.NAME]``    tlb_l1, tlb_l2, ...: asked in the order of their names
``[walk]``         cycles a load costs more when every TLB misses
``[page_window]``  pages outside it cost more (MC16 s5.2, P6)
``[partition]``    a cache in two parts, near and far; its table in ``[caches]`` then describes one of them
``[prefetch]``     what cold misses fetch ahead (MC16 s4.6)
``[published.X]``  further published numbers about element X, for comparison only
=================  ==========================================================================================

How fast things go: ``[processor]`` and the tables that come with it, see `gpudissect.catalogue.processor`.

Nothing of a file is ever evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpudissect.catalogue.processor import BandwidthTables, LaunchTable, MemoryTable, ProcessorTable, UnitTable
from gpudissect.catalogue.quantity import Bit, Count, Cycles, Hertz, Number, Position, Size, Sourced, Table, Text, wrong
from gpudissect.catalogue.structure import CacheTable, TlbTable, ViewTable
from gpudissect.errors import suggest
from gpudissect.simulation.cache.geometry import Scope
from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS
from gpudissect.workload import Instruction, Path

NEWER = (Path.CLUSTER, Path.TMA)
"""Paths that came later than the others: a file need not mention them."""
SHOWN = 6  # of the words that are known, where there are many


class Element(StrEnum):
    """Parts of the hierarchy that caches and views describe."""

    L1 = "l1"
    READONLY = "readonly"
    TEXTURE = "texture"
    TEXTURE_L2 = "texture_l2"
    CONSTANT_L1 = "constant_l1"
    CONSTANT_L15 = "constant_l15"
    L2 = "l2"
    ICACHE_L0 = "icache_l0"
    ICACHE_L1 = "icache_l1"
    ICACHE_L15 = "icache_l15"


class TlbLevel(StrEnum):
    """TLB levels, in the order in which they are asked."""

    L1 = "tlb_l1"
    L2 = "tlb_l2"
    L3 = "tlb_l3"


class ChipTable(Table):
    """Facts of the chip and its driver. Sizes in bytes, clocks in Hz (memory: as printed).

    `cluster_size`: most blocks of a cluster, where there are clusters. `memory_data_rate`: transfers in a cycle of the
    memory's clock as printed: 2 of the clock that drivers state, 4 of the command clock of GDDR5 (MC16 s5.1).
    """

    compute_capability: Sourced[Text]
    sm_count: Sourced[Count]
    clock_hz: Sourced[Hertz]
    memory_size: Sourced[Size]
    shared_per_block: Sourced[Size]
    constant_size: Sourced[Size]
    timer: Sourced[Cycles]
    shared_per_sm: Sourced[Size] | None = None
    memory_clock_hz: Sourced[Hertz] | None = None
    memory_bus_bits: Sourced[Count] | None = None
    memory_data_rate: Sourced[Count] | None = None
    warp_size: Sourced[Count] | None = None
    threads_per_sm: Sourced[Count] | None = None
    registers_per_sm: Sourced[Count] | None = None
    cluster_size: Sourced[Count] | None = None


class SharedTable(Table):
    """Shared memory: bytes an SM has by default, banks, their width in bytes, cycles that each further turn
    of the banks adds.

    `interleave`: bytes that lie side by side in one bank, if not all of its width; `lanes` of a warp that are served at
    once, if not all; `write_conflict`: cycles that a turn adds to the time between two stores of a warp, if not as many
    as the banks need.
    """

    capacity: Sourced[Size]
    banks: Sourced[Count] | None = None
    bank_width: Sourced[Size] | None = None
    conflict_latency: Sourced[Cycles] | None = None
    interleave: Sourced[Size] | None = None
    lanes: Sourced[Count] | None = None
    write_conflict: Sourced[Cycles] | None = None


class PathTable(Table):
    """A way to memory: elements nearest first and the cycles from load to use when each serves.

    `translated_from`, `tlbs_at`: positions in `caches`, see `gpudissect.simulation.cache.geometry.Route`. Without
    `memory_latency` the path ends before memory: one latency, on path cluster one by rank.
    """

    caches: tuple[Element, ...] = ()
    latency: tuple[Sourced[Cycles], ...] = ()
    memory_latency: Sourced[Cycles] | None = None
    translated_from: Sourced[Position] | None = None
    tlbs_at: Sourced[Position] | None = None
    timer: Sourced[Cycles] | None = None

    @model_validator(mode="after")
    def _rises(self) -> PathTable:
        expected = len(self.caches) if self.memory_latency or self.caches else 1
        ends_before = not self.memory_latency and not self.caches
        if len(self.latency) != expected and not (ends_before and self.latency):
            wrong("latency", f"{len(self.latency)} entries", f"one for each of caches, {expected}")
        cycles = [entry.value for entry in self.latency]
        if self.memory_latency is not None:
            cycles.append(self.memory_latency.value)
        if cycles != sorted(cycles):
            wrong("latency", cycles, "cycles that rise from the nearest cache to memory")
        if self.translated_from is not None and self.translated_from.value > len(self.caches):
            wrong("translated_from.value", self.translated_from.value, f"0..{len(self.caches)}")
        if self.tlbs_at is not None and self.tlbs_at.value >= len(self.caches):
            wrong("tlbs_at.value", self.tlbs_at.value, f"a position in caches, below {len(self.caches)}")
        return self


class WalkTable(Table):
    """Cycles a miss in every TLB level costs, all told; `cold_penalty` instead when memory serves the data."""

    penalty: Sourced[Cycles]
    cold_penalty: Sourced[Cycles] | None = None


class WindowTable(Table):
    """Pages outside a window of `size` bytes cost `penalty` cycles more."""

    size: Sourced[Size]
    penalty: Sourced[Cycles]


class PartitionTable(Table):
    """A cache in two parts: `home`, the address bits whose XOR says to which a line belongs; cycles that the far costs.

    `capacity` is that of both parts, in bytes; see `gpudissect.simulation.cache.geometry.Partition`.
    """

    cache: Element = Element.L2
    capacity: Sourced[Size]
    home: Sourced[tuple[Bit, ...]]
    far_penalty: Sourced[Cycles]
    far_memory_penalty: Sourced[Cycles] | None = None


class PrefetchTable(Table):
    """After `run` cold misses in a row (2 if not given) the next `reach` bytes are fetched into `cache`."""

    cache: Element = Element.L2
    reach: Sourced[Size]
    run: Sourced[Count] | None = None


class GpuTable(Table):
    """A whole file. `run`: of a file that ``gpudissect export`` wrote, the run that it is of."""

    format: Literal[1]
    name: Text
    architecture: Text
    run: Text | None = None
    family: tuple[Text, ...] = ()
    note: Annotated[str, Field(strict=True)] = ""
    chip: ChipTable
    caches: dict[Element, CacheTable]
    views: dict[Element, ViewTable] = Field(default_factory=dict)
    shared: SharedTable
    paths: dict[Path, PathTable]
    unsupported: dict[Path, Text] = Field(default_factory=dict)
    tlbs: dict[TlbLevel, TlbTable] = Field(default_factory=dict)
    walk: WalkTable | None = None
    page_window: WindowTable | None = None
    partition: PartitionTable | None = None
    prefetch: PrefetchTable | None = None
    processor: ProcessorTable | None = None
    units: dict[Instruction, UnitTable] = Field(default_factory=dict)
    memory: MemoryTable | None = None
    bandwidth: BandwidthTables | None = None
    launch: LaunchTable | None = None
    published: dict[str, dict[str, Sourced[Number]]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> GpuTable:
        _check_views(self)
        _check_paths(self)
        _check_tlbs(self)
        _check_partition(self)
        _check_processor(self)
        for element, attributes in self.published.items():
            if element not in ELEMENTS:
                wrong(f"published.{element}", element, _like(element, ELEMENTS))
            for attribute in attributes:
                if attribute not in ATTRIBUTES:
                    wrong(f"published.{element}.{attribute}", attribute, _like(attribute, ATTRIBUTES))
        if self.prefetch is not None and self.prefetch.cache not in self.caches:
            wrong("prefetch.cache", self.prefetch.cache.value, f"one of {', '.join(self.caches)}")
        return self


def _like(word: str, known: Iterable[str]) -> str:
    """Of many known words those that look like this one, or the first few."""
    words = list(known)
    return f"one of {', '.join(suggest(word, words, count=SHOWN, cutoff=0.4) or words[:SHOWN])}, ..."


def _check_views(gpu: GpuTable) -> None:
    for element, view in gpu.views.items():
        if element in gpu.caches:
            wrong(f"views.{element}", element.value, "an element is in [caches] or in [views], not in both")
        if view.of.value not in gpu.caches:
            wrong(f"views.{element}.of.value", view.of.value, f"one of {', '.join(gpu.caches)}")
        array = gpu.caches[Element(view.of.value)]
        for field in ("capacity", "line_size", "fetch_granularity", "sets", "count_per_sm"):
            mine, theirs = getattr(view, field), getattr(array, field)
            if mine is not None and (theirs is None or mine.value != theirs.value):
                there = theirs.value if theirs else "none"
                wrong(f"views.{element}.{field}.value", mine.value, f"caches.{view.of.value} has {there}")


def _check_partition(gpu: GpuTable) -> None:
    if gpu.partition is None:
        return
    part = gpu.caches.get(gpu.partition.cache)
    if part is None or part.scope is not Scope.GPU:
        whole = [element for element, cache in gpu.caches.items() if cache.scope is Scope.GPU]
        wrong("partition.cache", gpu.partition.cache.value, f"a cache of scope gpu: {', '.join(whole)}")
    if gpu.partition.capacity.value != 2 * part.capacity.value:
        wrong("partition.capacity.value", gpu.partition.capacity.value, f"two parts = {2 * part.capacity.value}")
    lowest = part.line_size.value.bit_length() - 1
    bits = gpu.partition.home.value
    if not bits or min(bits) < lowest:
        wrong("partition.home.value", list(bits), f"address bits from {lowest} (above the line) to 47, at least one")


def _check_processor(gpu: GpuTable) -> None:
    for name in ("units", "memory", "bandwidth", "launch"):
        if bool(getattr(gpu, name)) != (gpu.processor is not None):
            wrong(name, "a table" if getattr(gpu, name) else None, "a table with [processor], and only with it")
    if gpu.processor is None or gpu.bandwidth is None:
        return
    for instruction, unit in gpu.units.items():
        if instruction is not Instruction.LDG and (unit.rate is None or unit.latency is None):
            wrong(f"units.{instruction}", "neither or one of them", "rate and latency")
    if (gpu.bandwidth.l2 is None) != (Element.L2 not in gpu.caches):
        wrong("bandwidth.l2", gpu.bandwidth.l2 and "a table", "a table if there is an L2, and only then")
    shared = gpu.shared
    banks, width = shared.banks, shared.bank_width
    if banks is None or width is None:
        wrong("shared.banks", banks and banks.value, "banks and bank_width, with [processor]")
    if (apart := shared.interleave) is not None and (width.value % apart.value or apart.value < 4):
        wrong("shared.interleave.value", apart.value, f"at least 4 bytes, a whole part of bank_width {width.value}")


def _check_tlbs(gpu: GpuTable) -> None:
    if bool(gpu.tlbs) != (gpu.walk is not None):
        wrong("walk", gpu.walk and "a table", "[walk] with [tlbs], and only with them: what a miss in all costs")
    levels = sorted(gpu.tlbs)
    for level in levels:
        penalty = gpu.tlbs[level].penalty
        if (penalty is None) != (level == levels[-1]):
            allowed = "none: [walk] says what a miss in the last level costs" if penalty else "cycles of a miss"
            wrong(f"tlbs.{level}.penalty", penalty and penalty.value, allowed)


def _check_paths(gpu: GpuTable) -> None:
    for path in Path:
        if path is Path.NOTHING or (path is Path.CODE and path not in gpu.paths):
            continue
        if path in NEWER and path not in gpu.paths:
            continue
        if (path in gpu.paths) == (path in gpu.unsupported):
            given = "both" if path in gpu.paths else "neither"
            wrong(f"paths.{path}", given, "every path is in [paths] or, with the reason, in [unsupported]")
    if Path.NOTHING in gpu.paths or Path.NOTHING in gpu.unsupported:
        wrong("paths.nothing", "a table", "the empty path follows from chip.timer")
    for path, table in gpu.paths.items():
        ends_before = not table.memory_latency and not table.caches
        if path is not Path.CLUSTER and ends_before and len(table.latency) != 1:
            wrong(f"paths.{path}.latency", f"{len(table.latency)} entries", "one for each of caches, 1")
        if path is Path.CLUSTER and (gpu.chip.cluster_size is None or not ends_before):
            wrong("paths.cluster", "a table", "with chip.cluster_size; latencies by rank, no caches, no memory")
        for element in table.caches:
            if element not in gpu.caches and element not in gpu.views:
                known = ", ".join([*gpu.caches, *gpu.views])
                wrong(f"paths.{path}.caches", element.value, f"elements with an array or a view: {known}")
