"""A GPU file's tables turned into the `Processor` that a simulator runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudissect.simulation.sm.description import (
    Bandwidth,
    Launches,
    MemorySystem,
    Operation,
    Processor,
    Scheduling,
    SharedMemory,
)
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Path
from gpudissect.workload.instruction import PRODUCTS

if TYPE_CHECKING:
    from gpudissect.catalogue.processor import BandwidthTable, LaunchTable, MemoryTable, RateTable, UnitTable
    from gpudissect.catalogue.schema import GpuTable, SharedTable


def processor_of(gpu: GpuTable) -> Processor | None:
    """Build the SM that `gpu` describes; None if its file does not."""
    table, memory, bandwidth, launch = gpu.processor, gpu.memory, gpu.bandwidth, gpu.launch
    if table is None or memory is None or bandwidth is None or launch is None:
        return None
    single = frozenset(table.single.value)
    schedulers, sms, clock = table.schedulers.value, gpu.chip.sm_count.value, gpu.chip.clock_hz.value
    operations = {
        instruction: _operation(gpu, instruction, unit, 1 if unit.pipe in single else schedulers)
        for instruction, unit in gpu.units.items()
    }
    return Processor(
        sms=sms,
        clock_hz=clock,
        schedulers=schedulers,
        warps=table.warps.value,
        operations=operations,
        shared=_shared(gpu.shared, operations.get(Instruction.STS)),
        memory=_memory(gpu, memory, sms),
        dram=_of_gpu(bandwidth.dram, clock),
        l2=_of_gpu(bandwidth.l2, clock) if bandwidth.l2 else None,
        l1=_of_sm(bandwidth.l1) if bandwidth.l1 else None,
        issue_interval=table.issue_interval.value,
        issue_width=table.issue_width.value,
        reissue=table.reissue.value,
        blocks=table.blocks.value,
        block_size=table.block_size.value,
        single=single,
        launches=_launches(launch),
        scheduling=table.scheduling.value if table.scheduling else Scheduling.ROUND_ROBIN,
    )


def memory_latency(gpu: GpuTable) -> float:
    """Cycles of a coalesced access to DRAM that is alone: as the file says, or on the way past the L1."""
    if gpu.memory is not None and gpu.memory.latency is not None:
        return gpu.memory.latency.value
    for path in (Path.GLOBAL_L2, Path.GLOBAL):
        route = gpu.paths.get(path)
        if route is not None and route.memory_latency is not None:
            return route.memory_latency.value
    return 0.0


def _operation(gpu: GpuTable, instruction: Instruction, unit: UnitTable, units: int) -> Operation:
    """Rates are of an SM: each of its `units` has an equal part."""
    ops = PRODUCTS.get(instruction, WARP_SIZE)
    latency = unit.latency.value if unit.latency else 0.0
    if unit.latency is None and instruction is Instruction.LDG:
        route = gpu.paths.get(Path.GLOBAL)
        latency = route.latency[0].value if route is not None and route.latency else memory_latency(gpu)
    return Operation(
        pipe=unit.pipe,
        interval=ops * units / unit.rate.value if unit.rate else 1.0,
        latency=latency,
        latency_to_core=unit.latency_to_core.value if unit.latency_to_core else None,
        slots=unit.slots.value if unit.slots else 1,
    )


def _shared(table: SharedTable, store: Operation | None) -> SharedMemory:
    width = table.bank_width.value if table.bank_width else 4
    banks = table.banks.value if table.banks else WARP_SIZE
    lanes = min(table.lanes.value if table.lanes else WARP_SIZE, banks * width // 4)
    each = (store.interval if store else 1.0) * lanes / WARP_SIZE  # further passes take as long
    return SharedMemory(
        banks=banks,
        width=width,
        interleave=table.interleave.value if table.interleave else width,
        lanes=lanes,
        conflict_latency=table.conflict_latency.value if table.conflict_latency else each,
        write_conflict=table.write_conflict.value if table.write_conflict else each,
    )


def _memory(gpu: GpuTable, table: MemoryTable, sms: int) -> MemorySystem:
    return MemorySystem(
        latency=memory_latency(gpu),
        variability=table.variability.value,
        transactions=table.transactions.value,
        transaction_latency=table.transaction_latency.value,
        random_bandwidth=4 * table.random_rate.value * sms,
        random_variability=table.random_variability.value,
        alone=table.alone.value,
    )


def _of_gpu(table: BandwidthTable, clock: float) -> Bandwidth:
    return Bandwidth(
        read=table.read_bandwidth.value / clock,
        write=table.write_bandwidth.value / clock,
        copy=table.copy_bandwidth.value / clock,
    )


def _of_sm(table: RateTable) -> Bandwidth:
    read, write = table.read_rate.value, table.write_rate.value
    return Bandwidth(read=read, write=write, copy=2 / (1 / read + 1 / write))


def _launches(table: LaunchTable) -> Launches:
    return Launches(
        kernel_start=table.kernel_start.value,
        kernel_interval=table.kernel_interval.value,
        graph_start=table.graph_start.value if table.graph_start else None,
        graph_interval=table.graph_interval.value if table.graph_interval else None,
        block_replacement=table.block_replacement.value,
    )
