"""A GPU file's tables converted to what a simulator runs: the `Hierarchy` and the `Processor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpudissect.catalogue.capabilities import TEXTURE_BYTES
from gpudissect.simulation.cache.geometry import (
    Cache,
    Hierarchy,
    Index,
    PageWindow,
    Partition,
    Policy,
    Prefetch,
    Route,
    Tlb,
)
from gpudissect.simulation.sm.description import (
    Bandwidth,
    Launches,
    MemorySystem,
    Operation,
    Processor,
    Scheduling,
    SharedMemory,
)
from gpudissect.units import KIB, WARP_SIZE
from gpudissect.workload import MATRIX_MULTIPLY_ADDS, Instruction, Path

if TYPE_CHECKING:
    from gpudissect.catalogue.arrays import CacheTable, IndexTable, PolicyTable, TlbTable
    from gpudissect.catalogue.quantity import Sourced
    from gpudissect.catalogue.schema import GpuTable
    from gpudissect.catalogue.tables import BandwidthTable, Element, MemoryTable, PathTable, SharedTable, UnitTable

T = TypeVar("T")
D = TypeVar("D")
MAX_CODE_BYTES = 512 * KIB  # of straight-line code that can be run, as on a CUDA GPU


def hierarchy_of(gpu: GpuTable) -> Hierarchy:
    """Build the memory hierarchy that `gpu` describes; views are resolved to their arrays."""
    window = gpu.page_window
    return Hierarchy(
        caches={str(element): _cache(table) for element, table in gpu.caches.items()},
        routes={Path.NOTHING: Route((), (0.0,), None, timer=gpu.chip.timer.value)}
        | {path: _route(gpu, table) for path, table in gpu.paths.items()},
        tlbs=tuple(_tlb(gpu.tlbs[level]) for level in sorted(gpu.tlbs)),
        tlb_walk_penalty=gpu.walk.penalty.value if gpu.walk else 0.0,
        tlb_cold_walk_penalty=_value(gpu.walk.cold_penalty, None) if gpu.walk else None,
        page_window=PageWindow(window.size.value, window.penalty.value) if window else None,
        prefetch=_prefetch(gpu),
        partition=_partition(gpu),
        sm_count=gpu.chip.sm_count.value,
        clock_hz=gpu.chip.clock_hz.value,
        limits=_limits(gpu),
        cluster_size=_value(gpu.chip.cluster_size, 1),
    )


def index_of(table: IndexTable) -> Index:
    """Build the index function that a table describes."""
    return Index(table.kind, table.bits, tuple(map(_mask, table.masks)), table.table, table.granule)


def processor_of(gpu: GpuTable) -> Processor | None:
    """Build the SM that `gpu` describes; None if its file does not describe it."""
    table, memory, bandwidth, launch = gpu.processor, gpu.memory, gpu.bandwidth, gpu.launch
    if table is None or memory is None or bandwidth is None or launch is None:
        return None
    single = frozenset(table.single.value)
    schedulers, sms, clock = table.schedulers.value, gpu.chip.sm_count.value, gpu.chip.clock_hz.value
    operations = {
        instruction: _operation(gpu, instruction, unit, 1 if unit.pipe in single else schedulers)
        for instruction, unit in gpu.units.items()
    }
    l1 = (bandwidth.l1.read_rate.value, bandwidth.l1.write_rate.value) if bandwidth.l1 else None
    return Processor(
        sms=sms,
        clock_hz=clock,
        schedulers=schedulers,
        warps=table.warps.value,
        operations=operations,
        shared=_shared(gpu.shared, operations.get(Instruction.STS)),
        memory=_memory(gpu, memory, sms),
        dram=_bandwidth(bandwidth.dram, clock),
        l2=_bandwidth(bandwidth.l2, clock) if bandwidth.l2 else None,
        l1=Bandwidth(*l1, copy=2 / (1 / l1[0] + 1 / l1[1])) if l1 else None,
        issue_interval=table.issue_interval.value,
        issue_width=table.issue_width.value,
        reissue=table.reissue.value,
        blocks=table.blocks.value,
        block_size=table.block_size.value,
        single=single,
        launches=Launches(
            kernel_start=launch.kernel_start.value,
            kernel_interval=launch.kernel_interval.value,
            graph_start=_value(launch.graph_start, None),
            graph_interval=_value(launch.graph_interval, None),
            block_replacement=launch.block_replacement.value,
        ),
        scheduling=_value(table.scheduling, Scheduling.ROUND_ROBIN),
    )


def _value(entry: Sourced[T] | None, default: D) -> T | D:
    return default if entry is None else entry.value


def _mask(bits: tuple[int, ...]) -> int:
    return sum(1 << bit for bit in set(bits))


def _array(gpu: GpuTable, element: Element) -> str:
    """Name of the array that serves `element`."""
    return str(element) if element in gpu.caches else gpu.views[element].of.value


def _limits(gpu: GpuTable) -> dict[Path, int]:
    """Bytes that one chase can span on each path of the GPU."""
    memory, shared = gpu.chip.memory_size.value, gpu.chip.shared_per_block.value
    spans = {
        Path.TEXTURE: min(memory, TEXTURE_BYTES),
        Path.CONSTANT: gpu.chip.constant_size.value,
        Path.SHARED: shared,
        Path.CLUSTER: shared,
        Path.CODE: MAX_CODE_BYTES,
    }
    return {Path.NOTHING: memory} | {path: spans.get(path, memory) for path in gpu.paths}


def _cache(table: CacheTable) -> Cache:
    return Cache(
        ways=table.ways_of_sets(),
        line=table.line_size.value,
        sector=table.fetch_granularity.value,
        index=index_of(table.index_function.value),
        policy=_policy(table.replacement_policy.value),
        scope=table.scope,
        copies=_value(table.count_per_sm, 1),
    )


def _tlb(table: TlbTable) -> Tlb:
    return Tlb(
        ways=table.ways_of_sets(),
        page=table.page_size.value,
        index=index_of(table.index_function.value),
        policy=_policy(table.replacement_policy.value),
        penalty=_value(table.penalty, 0.0),
    )


def _policy(table: PolicyTable) -> Policy:
    total = sum(table.weights)
    return Policy(table.kind, weights=tuple(weight / total for weight in table.weights))


def _route(gpu: GpuTable, table: PathTable) -> Route:
    return Route(
        caches=tuple(_array(gpu, element) for element in table.caches),
        latency=tuple(entry.value for entry in table.latency),
        memory_latency=_value(table.memory_latency, None),
        translated_from=_value(table.translated_from, 0),
        timer=(table.timer or gpu.chip.timer).value,
        tlbs_at=_value(table.tlbs_at, 0),
    )


def _partition(gpu: GpuTable) -> Partition | None:
    if (table := gpu.partition) is None:
        return None
    return Partition(
        cache=_array(gpu, table.cache),
        home=_mask(table.home.value),
        far_penalty=table.far_penalty.value,
        far_memory_penalty=_value(table.far_memory_penalty, 0.0),
    )


def _prefetch(gpu: GpuTable) -> Prefetch | None:
    if (table := gpu.prefetch) is None:
        return None
    return Prefetch(_array(gpu, table.cache), table.reach.value, _value(table.run, Prefetch.run))


def _memory_latency(gpu: GpuTable) -> float:
    """Cycles of a coalesced DRAM access on an idle GPU: as the file says, or on the path past the L1."""
    if gpu.memory is not None and gpu.memory.latency is not None:
        return gpu.memory.latency.value
    entries = (gpu.paths[path].memory_latency for path in (Path.GLOBAL_L2, Path.GLOBAL) if path in gpu.paths)
    return next((entry.value for entry in entries if entry is not None), 0.0)


def _operation(gpu: GpuTable, instruction: Instruction, unit: UnitTable, units: int) -> Operation:
    """Rates are those of an SM: each of its `units` has an equal share."""
    latency = _value(unit.latency, 0.0)
    if unit.latency is None and instruction is Instruction.LDG:
        route = gpu.paths.get(Path.GLOBAL)
        latency = route.latency[0].value if route is not None and route.latency else _memory_latency(gpu)
    return Operation(
        pipe=unit.pipe,
        interval=MATRIX_MULTIPLY_ADDS.get(instruction, WARP_SIZE) * units / unit.rate.value if unit.rate else 1.0,
        latency=latency,
        latency_to_core=_value(unit.latency_to_core, None),
        slots=_value(unit.slots, 1),
    )


def _shared(table: SharedTable, store: Operation | None) -> SharedMemory:
    width, banks = _value(table.bank_width, 4), _value(table.banks, WARP_SIZE)
    lanes = min(_value(table.lanes, WARP_SIZE), banks * width // 4)
    pass_cycles = (store.interval if store else 1.0) * lanes / WARP_SIZE  # further passes take as long
    return SharedMemory(
        banks=banks,
        width=width,
        interleave=_value(table.interleave, width),
        lanes=lanes,
        conflict_latency=_value(table.conflict_latency, pass_cycles),
        write_conflict=_value(table.write_conflict, pass_cycles),
    )


def _memory(gpu: GpuTable, table: MemoryTable, sms: int) -> MemorySystem:
    return MemorySystem(
        latency=_memory_latency(gpu),
        variability=table.variability.value,
        transactions=table.transactions.value,
        transaction_latency=table.transaction_latency.value,
        random_bandwidth=4 * table.random_rate.value * sms,
        random_variability=table.random_variability.value,
        alone=table.alone.value,
    )


def _bandwidth(table: BandwidthTable, clock: float) -> Bandwidth:
    """B/s as B/cycle."""
    rates = (table.read_bandwidth, table.write_bandwidth, table.copy_bandwidth)
    return Bandwidth(*(rate.value / clock for rate in rates))
