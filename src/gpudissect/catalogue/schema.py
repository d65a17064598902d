"""The schema of a GPU file (TOML, ``format = 1``); `README.md` beside this file shows one with comments.

Every number is an inline table: ``{ value = 32, source = "MC16 table 5" }`` or
``{ value = 32, assumed = "why" }``; see `Sourced`. Nothing of a file is ever evaluated.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpudissect.catalogue import arrays, tables
from gpudissect.catalogue.compute_capability import max_block_threads, min_blocks_per_sm
from gpudissect.catalogue.quantity import Number, Sourced, Table, Text, name_among, wrong
from gpudissect.catalogue.tables import Element
from gpudissect.simulation.cache.geometry import PARTITION_COUNT, Scope
from gpudissect.units import WARP_SIZE
from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, TLBS
from gpudissect.workload import Instruction, Path

OPTIONAL_PATHS = (Path.CLUSTER, Path.TMA, Path.HOST, Path.PEER, Path.PEER_L1, Path.CODE)
"""Paths that a file need not mention."""
TlbLevel = Annotated[str, name_among(TLBS)]
"""A TLB level; levels are looked up in the order of their names."""
Published = dict[Annotated[str, name_among(ELEMENTS)], dict[Annotated[str, name_among(ATTRIBUTES)], Sourced[Number]]]


class GpuTable(Table):
    """A whole file. `run`: of a file written by ``gpudissect export``, the run that it describes."""

    format: Literal[1]
    name: Text
    architecture: Text
    run: Text | None = None
    family: tuple[Text, ...] = ()
    note: Annotated[str, Field(strict=True)] = ""
    chip: tables.ChipTable
    caches: dict[Element, arrays.CacheTable]
    views: dict[Element, arrays.ViewTable] = Field(default_factory=dict)
    shared: tables.SharedTable
    paths: dict[Path, tables.PathTable]
    unsupported: dict[Path, Text] = Field(default_factory=dict)
    tlbs: dict[TlbLevel, arrays.TlbTable] = Field(default_factory=dict)
    walk: tables.WalkTable | None = None
    page_window: tables.WindowTable | None = None
    partition: tables.PartitionTable | None = None
    prefetch: tables.PrefetchTable | None = None
    rows: tables.RowsTable | None = None
    distance: tables.DistanceTable | None = None
    processor: tables.ProcessorTable | None = None
    units: dict[Instruction, tables.UnitTable] = Field(default_factory=dict)
    memory: tables.MemoryTable | None = None
    bandwidth: tables.BandwidthTables | None = None
    launch: tables.LaunchTable | None = None
    published: Published = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> GpuTable:
        _check_views(self)
        _check_paths(self)
        _check_tlbs(self)
        _check_partition(self)
        _check_distance(self)
        _check_processor(self)
        if self.prefetch is not None and self.prefetch.cache not in self.caches:
            wrong("prefetch.cache", self.prefetch.cache, f"one of {', '.join(self.caches)}")
        return self


def _check_views(gpu: GpuTable) -> None:
    for element, view in gpu.views.items():
        owner = view.of.value
        if element in gpu.caches:
            wrong(f"views.{element}", element, "an element is in [caches] or in [views], not in both")
        if owner not in gpu.caches:
            wrong(f"views.{element}.of.value", owner, f"one of {', '.join(gpu.caches)}")
        array = gpu.caches[owner]
        for field in ("capacity", "line_size", "fetch_granularity", "sets", "count_per_sm"):
            repeated, original = getattr(view, field), getattr(array, field)
            if repeated is not None and (original is None or repeated.value != original.value):
                expected = original.value if original else "none"
                wrong(f"views.{element}.{field}.value", repeated.value, f"as in caches.{owner}: {expected}")


def _check_partition(gpu: GpuTable) -> None:
    if gpu.partition is None:
        return
    cache = gpu.caches.get(gpu.partition.cache)
    if cache is None or cache.scope is not Scope.GPU:
        possible = [element for element, table in gpu.caches.items() if table.scope is Scope.GPU]
        wrong("partition.cache", gpu.partition.cache, f"a cache of scope gpu: {', '.join(possible)}")
    count = _partition_count(gpu)
    if gpu.partition.capacity.value != count * cache.capacity.value:
        allowed = f"{count} partitions = {count * cache.capacity.value}"
        wrong("partition.capacity.value", gpu.partition.capacity.value, allowed)
    home, granule, line = gpu.partition.home, gpu.partition.granule, cache.line_size.value
    if (home is None) == (granule is None):
        wrong("partition.home", home and "both", "exactly one of home (address bits) and granule (bytes)")
    if granule is not None and granule.value % line:
        wrong("partition.granule.value", granule.value, f"a multiple of the line, {line} B")
    if home is None:
        return
    if count != PARTITION_COUNT or line & (line - 1):
        wrong("partition.home", "address bits", "granule: bits select one of two partitions, and lines of 2^n bytes")
    lowest = line.bit_length() - 1
    if not home.value or min(home.value) < lowest:
        allowed = f"address bits from {lowest} (above the line) to 47, at least one"
        wrong("partition.home.value", list(home.value), allowed)


def _check_distance(gpu: GpuTable) -> None:
    if gpu.distance is None:
        return
    cache, by_sm, by_slice = gpu.caches.get(gpu.distance.cache), gpu.distance.by_sm, gpu.distance.by_slice
    if cache is None or cache.scope is not Scope.GPU:
        wrong("distance.cache", gpu.distance.cache, "a cache of scope gpu")
    if by_sm is not None and len(by_sm.value) != gpu.chip.sm_count.value:
        wrong("distance.by_sm.value", f"{len(by_sm.value)} entries", f"one for each SM, {gpu.chip.sm_count.value}")
    is_partitioned = gpu.partition is not None and gpu.partition.cache == gpu.distance.cache
    count = _partition_count(gpu) if is_partitioned else 1
    if by_slice is not None and (not by_slice.value or len(by_slice.value) % count):
        wrong("distance.by_slice.value", f"{len(by_slice.value)} entries", f"a multiple of the partitions, {count}")


def _partition_count(gpu: GpuTable) -> int:
    return gpu.partition.count.value if gpu.partition and gpu.partition.count else PARTITION_COUNT


def _check_processor(gpu: GpuTable) -> None:
    for name in ("units", "memory", "bandwidth", "launch"):
        if bool(getattr(gpu, name)) != (gpu.processor is not None):
            wrong(name, "a table" if getattr(gpu, name) else None, "a table with [processor], and only with it")
    if gpu.processor is None or gpu.bandwidth is None:
        return
    threads, limit = gpu.chip.threads_per_sm, WARP_SIZE * gpu.processor.warps.value
    if threads is not None and threads.value > limit:
        wrong("chip.threads_per_sm.value", threads.value, f"up to {limit}, {WARP_SIZE} for each of processor.warps")
    facts = {"compute_capability": gpu.chip.compute_capability.value}
    for name, least in (("blocks", min_blocks_per_sm(facts)), ("block_size", max_block_threads(facts))):
        if (given := getattr(gpu.processor, name).value) < least:
            wrong(f"processor.{name}.value", given, f"at least {least} with this compute capability")
    for instruction, unit in gpu.units.items():
        if instruction is not Instruction.LDG and (unit.rate is None or unit.latency is None):
            wrong(f"units.{instruction}", "at most one of them", "rate and latency")
    if (gpu.bandwidth.l2 is None) != ("l2" not in gpu.caches):
        wrong("bandwidth.l2", gpu.bandwidth.l2 and "a table", "a table if there is an L2, and only then")
    if gpu.bandwidth.host is not None and Path.HOST not in gpu.paths:
        wrong("bandwidth.host", "a table", "none without [paths.host]")
    banks, width, interleave = gpu.shared.banks, gpu.shared.bank_width, gpu.shared.interleave
    if banks is None or width is None:
        wrong("shared.banks", banks and banks.value, "banks and bank_width, with [processor]")
    if interleave is not None and (width.value % interleave.value or interleave.value < 4):
        wrong("shared.interleave.value", interleave.value, f"at least 4 bytes, a divisor of bank_width {width.value}")


def _check_tlbs(gpu: GpuTable) -> None:
    if bool(gpu.tlbs) != (gpu.walk is not None):
        wrong("walk", gpu.walk and "a table", "[walk] with [tlbs], and only with them: cycles of a miss in all of them")
    for level, table in gpu.tlbs.items():
        penalty, is_last = table.penalty, level == max(gpu.tlbs)
        if (penalty is None) != is_last:
            allowed = "none: [walk] has the cycles of a miss in the last level" if is_last else "cycles of a miss"
            wrong(f"tlbs.{level}.penalty", penalty and penalty.value, allowed)
        numbers, sms = table.tlb_by_sm.value if table.tlb_by_sm else (), gpu.chip.sm_count.value
        if numbers and (len(numbers) != sms or {*numbers} != {*range(max(numbers) + 1)}):
            allowed = f"numbers from 0, none left out, one for each SM, {sms}"
            wrong(f"tlbs.{level}.tlb_by_sm.value", f"{len(numbers)} entries", allowed)


def _check_paths(gpu: GpuTable) -> None:
    for path in Path:
        if path is Path.NOTHING or (path in OPTIONAL_PATHS and path not in gpu.paths):
            continue
        if (path in gpu.paths) == (path in gpu.unsupported):
            given = "both" if path in gpu.paths else "neither"
            wrong(f"paths.{path}", given, "every path is in [paths] or, with the reason, in [unsupported]")
    if Path.NOTHING in gpu.paths or Path.NOTHING in gpu.unsupported:
        wrong("paths.nothing", "a table", "the empty path follows from chip.timer")
    for path, table in gpu.paths.items():
        if path is Path.CLUSTER and (gpu.chip.cluster_size is None or not table.ends_before_memory):
            wrong("paths.cluster", "a table", "with chip.cluster_size; latencies by rank, no caches, no memory")
        if path.leads_to_peer:
            wrong(f"paths.{path}", "a table", "none: GPUs are simulated one by one")
        if path is Path.HOST and not table.ends_before_memory:
            wrong("paths.host.caches", "caches or memory_latency", "one latency, of a load")
        if path is not Path.CLUSTER and table.ends_before_memory and len(table.latency) != 1:
            wrong(f"paths.{path}.latency", f"{len(table.latency)} entries", "one for each of caches, 1")
        for element in table.caches:
            if element not in gpu.caches and element not in gpu.views:
                known = ", ".join([*gpu.caches, *gpu.views])
                wrong(f"paths.{path}.caches", element, f"elements with an array or a view: {known}")
        if table.index_function is not None:
            nearest = gpu.caches[
                gpu.views[table.caches[0]].of.value if table.caches[0] in gpu.views else table.caches[0]
            ]
            place = f"paths.{path}.index_function.value"
            table.index_function.value.check(nearest.sets.value, nearest.line_size.value, place)
