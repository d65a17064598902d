"""A GPU file's tables converted to what a simulator runs: the `Hierarchy` and the `Processor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpudissect.catalogue.compute_capability import TEXTURE_BYTES
from gpudissect.simulation.cache import geometry
from gpudissect.simulation.sm import description as sm
from gpudissect.units import GIB, KIB, WARP_SIZE
from gpudissect.workload import MATRIX_MULTIPLY_ADDS, Instruction, Path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpudissect.catalogue.arrays import CacheTable, IndexTable, Lines
    from gpudissect.catalogue.quantity import Table
    from gpudissect.catalogue.schema import GpuTable
    from gpudissect.catalogue.tables import BandwidthTable, MemoryTable, PathTable, RateTable, SharedTable, UnitTable

MAX_HOST_BYTES = GIB  # of the host's memory, as on a CUDA GPU
MAX_CODE_BYTES = 512 * KIB  # of straight-line code that can be run, as on a CUDA GPU


def hierarchy_of(gpu: GpuTable, alternative: bool = False) -> geometry.Hierarchy:
    """Build the memory hierarchy that `gpu` describes, with the alternative structures of arrays if requested.

    Views are resolved to their arrays.
    """
    chip, walk, window, prefetch, distance = gpu.chip, gpu.walk, gpu.page_window, gpu.prefetch, gpu.distance
    return geometry.Hierarchy(
        caches={element: _cache((alternative and table.alternative) or table) for element, table in gpu.caches.items()},
        routes={Path.NOTHING: geometry.Route((), (0.0,), None, timer=chip.timer.value)}
        | {path: _route(gpu, table) for path, table in gpu.paths.items()},
        tlbs=tuple(_tlbs(gpu, alternative)),
        tlb_walk_penalty=walk.penalty.value if walk else 0.0,
        tlb_cold_walk_penalty=walk.cold_penalty.value if walk and walk.cold_penalty else None,
        tlb_walk_interval=walk.interval.value if walk and walk.interval else None,
        page_window=geometry.PageWindow(**_values(window)) if window else None,
        prefetch=geometry.Prefetch(_array(gpu, prefetch.cache), **_values(prefetch)) if prefetch else None,
        rows=geometry.Rows(**_values(gpu.rows)) if gpu.rows else None,
        partition=_partition(gpu),
        distance=geometry.Distance(_array(gpu, distance.cache), **_values(distance)) if distance else None,
        limits=_limits(gpu),
        **_values(chip, "sm_count", "clock_hz", "cluster_size"),
    )


def index_of(table: IndexTable) -> geometry.Index:
    """Build the index function that a table describes."""
    return geometry.Index(table.kind, table.bits, tuple(map(_mask, table.masks)), table.table, table.granule)


def processor_of(gpu: GpuTable) -> sm.Processor | None:
    """Build the SM that `gpu` describes; None if its file does not describe it."""
    table, memory, bandwidth, launch = gpu.processor, gpu.memory, gpu.bandwidth, gpu.launch
    if table is None or memory is None or bandwidth is None or launch is None:
        return None
    single, schedulers = frozenset(table.single.value), table.schedulers.value
    sms, clock, l1 = gpu.chip.sm_count.value, gpu.chip.clock_hz.value, bandwidth.l1
    texture = _values(bandwidth.texture) if bandwidth.texture else None
    operations = {
        instruction: _operation(gpu, instruction, unit, 1 if unit.pipe in single else schedulers)
        for instruction, unit in gpu.units.items()
    }
    return sm.Processor(
        sms=sms,
        clock_hz=clock,
        operations=operations,
        shared=_shared(gpu.shared, operations.get(Instruction.STS)),
        memory=_memory(gpu, memory, sms),
        dram=_bandwidth(bandwidth.dram, clock),
        l2=_bandwidth(bandwidth.l2, clock) if bandwidth.l2 else None,
        host=_bandwidth(bandwidth.host, clock) if bandwidth.host else None,
        l1=_private_bandwidth(l1) if l1 else None,
        texture=sm.Fetches(**texture) if texture else None,
        launches=sm.Launches(**_values(launch)),
        **(_values(table) | {"single": single}),
    )


def _values(table: Table, *names: str) -> dict[str, Any]:
    """The given values of a table, of all its sourced fields or of those named."""
    entries = {name: getattr(table, name) for name in names or type(table).model_fields}
    return {name: entry.value for name, entry in entries.items() if hasattr(entry, "source")}


def _mask(bits: tuple[int, ...]) -> int:
    return sum(1 << bit for bit in set(bits))


def _array(gpu: GpuTable, element: str) -> str:
    """Name of the array that serves `element`."""
    return element if element in gpu.caches else gpu.views[element].of.value


def _limits(gpu: GpuTable) -> dict[Path, int]:
    """Bytes that one chase can span on each path of the GPU."""
    memory, shared = gpu.chip.memory_size.value, gpu.chip.shared_per_block.value
    spans = {
        Path.TEXTURE: min(memory, TEXTURE_BYTES),
        Path.CONSTANT: gpu.chip.constant_size.value,
        Path.SHARED: shared,
        Path.CLUSTER: shared,
        Path.HOST: MAX_HOST_BYTES,
        Path.CODE: MAX_CODE_BYTES,
    }
    return {Path.NOTHING: memory} | {path: spans.get(path, memory) for path in gpu.paths}


def _cache(table: CacheTable) -> geometry.Cache:
    line, sector = table.line_size.value, table.fetch_granularity.value
    copies = table.count_per_sm.value if table.count_per_sm else 1
    room = geometry.Room(table.room.value.lines) if table.room else None
    return geometry.Cache(
        line=line, sector=sector, scope=table.scope, copies=copies, room=room, fill=table.fill, **_structure(table)
    )


def _tlbs(gpu: GpuTable, alternative: bool) -> Iterator[geometry.Tlb]:
    tables = [gpu.tlbs[level] for level in sorted(gpu.tlbs)]
    are_private = any(table.tlb_by_sm for table in tables[1:])  # the first ones, then
    for number, table in enumerate(tables):
        by_sm = tuple(range(gpu.chip.sm_count.value)) if are_private and number == 0 else ()
        yield geometry.Tlb(
            page=table.page_size.value,
            penalty=table.penalty.value if table.penalty else 0.0,
            miss_cache=table.miss_cache.value if table.miss_cache else 0,
            by_sm=table.tlb_by_sm.value if table.tlb_by_sm else by_sm,
            **_structure((alternative and table.alternative) or table),
        )


def _structure(table: Lines) -> dict[str, Any]:
    """Ways, index and policy, for the descriptions of caches and TLBs."""
    policy = table.replacement_policy.value.policy()
    return {"ways": table.ways_of_sets(), "index": index_of(table.index_function.value), "policy": policy}


def _route(gpu: GpuTable, table: PathTable) -> geometry.Route:
    return geometry.Route(
        caches=tuple(_array(gpu, element) for element in table.caches),
        latency=tuple(entry.value for entry in table.latency),
        memory_latency=table.memory_latency.value if table.memory_latency else None,
        timer=(table.timer or gpu.chip.timer).value,
        index=index_of(table.index_function.value) if table.index_function else None,
        **_values(table, "translated_from", "tlbs_at"),
    )


def _partition(gpu: GpuTable) -> geometry.Partition | None:
    if (table := gpu.partition) is None:
        return None
    values = _values(table, "far_penalty", "far_memory_penalty", "count", "granule")
    return geometry.Partition(_array(gpu, table.cache), _mask(table.home.value) if table.home else 0, **values)


def _memory_latency(gpu: GpuTable) -> float:
    """Cycles of a coalesced DRAM access on an idle GPU: as the file says, or on the path past the L1."""
    if gpu.memory is not None and gpu.memory.latency is not None:
        return gpu.memory.latency.value
    entries = (gpu.paths[path].memory_latency for path in (Path.GLOBAL_L2, Path.GLOBAL) if path in gpu.paths)
    return next((entry.value for entry in entries if entry is not None), 0.0)


def _operation(gpu: GpuTable, instruction: Instruction, unit: UnitTable, units: int) -> sm.Operation:
    """Rates are those of an SM: each of its `units` has an equal share."""
    latency = unit.latency.value if unit.latency else 0.0
    if unit.latency is None and instruction is Instruction.LDG:
        route = gpu.paths.get(Path.GLOBAL)
        latency = route.latency[0].value if route is not None and route.latency else _memory_latency(gpu)
    operations = MATRIX_MULTIPLY_ADDS.get(instruction, WARP_SIZE)
    interval = operations * units / unit.rate.value if unit.rate else 1.0
    return sm.Operation(unit.pipe, interval, latency, **_values(unit, "latency_to_core", "slots"))


def _shared(table: SharedTable, store: sm.Operation | None) -> sm.SharedMemory:
    values: dict[str, Any] = {"banks": WARP_SIZE, "bank_width": 4, "lanes": WARP_SIZE} | _values(table)
    width = values.pop("bank_width")
    lanes = min(values["lanes"], values["banks"] * width // 4)
    pass_cycles = (store.interval if store else 1.0) * lanes / WARP_SIZE  # further passes take as long
    defaults = {"interleave": width, "conflict_latency": pass_cycles, "write_conflict": pass_cycles}
    del values["capacity"]
    return sm.SharedMemory(width=width, **(defaults | values | {"lanes": lanes}))


def _memory(gpu: GpuTable, table: MemoryTable, sms: int) -> sm.MemorySystem:
    values = _values(table)
    random_bandwidth = 4 * values.pop("random_rate") * sms
    return sm.MemorySystem(**(values | {"latency": _memory_latency(gpu)}), random_bandwidth=random_bandwidth)


def _bandwidth(table: BandwidthTable, clock: float) -> sm.Bandwidth:
    """B/s as B/cycle."""
    rates = (table.read_bandwidth, table.write_bandwidth, table.copy_bandwidth)
    return sm.Bandwidth(*(rate.value / clock for rate in rates))


def _private_bandwidth(table: RateTable) -> sm.Bandwidth:
    read, write = table.read_rate.value, table.write_rate.value
    return sm.Bandwidth(read, write, copy=2 / (1 / read + 1 / write))
