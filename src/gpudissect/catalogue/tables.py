"""The tables of a GPU file that are no arrays: chip, shared memory, paths, and the processor.

All of ``[processor]``, ``[units.NAME]``, ``[memory]``, ``[bandwidth.NAME]`` and ``[launch]`` come together: a GPU
without them runs chases only.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from gpudissect.catalogue.arrays import IndexTable
from gpudissect.catalogue.quantity import (
    Bit,
    Count,
    Cycles,
    Hertz,
    Number,
    Position,
    Size,
    Sourced,
    Table,
    Text,
    name_among,
    wrong,
)
from gpudissect.simulation.cache.check import MAX_PARTITIONS
from gpudissect.simulation.sm.description import Pipe, Scheduling
from gpudissect.vocabulary import CACHES
from gpudissect.workload.chase import MAX_CLUSTER_BLOCKS

Element = Annotated[str, name_among((*CACHES, "texture_l2", "icache_l0", "icache_l1", "icache_l15", "victim"))]
"""An element of ``[caches]`` and ``[views]``."""
Partitions = Annotated[int, Field(strict=True, ge=2, le=MAX_PARTITIONS)]
Rate = Annotated[float, Field(strict=True, gt=0, le=1e6, allow_inf_nan=False)]  # per cycle
BytesPerSecond = Annotated[float, Field(strict=True, ge=1e6, le=1e15, allow_inf_nan=False)]
Variability = Annotated[float, Field(strict=True, ge=0.5, le=100, allow_inf_nan=False)]
Step = Annotated[int, Field(strict=True, ge=1, le=64)]  # cycles
Schedulers = Annotated[int, Field(strict=True, ge=1, le=16)]
Warps = Annotated[int, Field(strict=True, ge=16, le=128)]
Blocks = Annotated[int, Field(strict=True, ge=1, le=128)]
BlockSize = Annotated[int, Field(strict=True, ge=32, le=4096, multiple_of=32)]
SmCount = Annotated[int, Field(strict=True, ge=1, le=512)]  # 16 blocks on each are a stream of MAX_TIMED_BLOCKS
SmThreads = Annotated[int, Field(strict=True, ge=32, le=4096, multiple_of=32)]
MemorySize = Annotated[int, Field(strict=True, ge=2**24, le=2**44)]  # bytes
ConstantSize = Annotated[int, Field(strict=True, ge=2**14, le=2**20)]
SharedSize = Annotated[int, Field(strict=True, ge=2**10, le=2**20)]
ClusterSize = Annotated[int, Field(strict=True, ge=1, le=MAX_CLUSTER_BLOCKS)]
Nanoseconds = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]


class ChipTable(Table):
    """Facts of the chip and its driver. Sizes in bytes, clocks in Hz (memory: as printed).

    `memory_data_rate`: transfers per cycle of the memory clock as printed: 2 of the clock that drivers state, 4 of the
    command clock of GDDR5 (MC16 s5.1). `cluster_size`: maximum blocks per cluster, if there are clusters.
    """

    compute_capability: Sourced[Text]
    sm_count: Sourced[SmCount]
    clock_hz: Sourced[Hertz]
    memory_size: Sourced[MemorySize]
    shared_per_block: Sourced[SharedSize]
    constant_size: Sourced[ConstantSize]
    timer: Sourced[Cycles]
    shared_per_sm: Sourced[SharedSize] | None = None
    memory_clock_hz: Sourced[Hertz] | None = None
    memory_bus_bits: Sourced[Count] | None = None
    memory_data_rate: Sourced[Count] | None = None
    warp_size: Sourced[Count] | None = None
    threads_per_sm: Sourced[SmThreads] | None = None
    registers_per_sm: Sourced[Count] | None = None
    cluster_size: Sourced[ClusterSize] | None = None


class SharedTable(Table):
    """Shared memory: default bytes per SM, banks, their width in bytes, cycles that each further bank pass adds.

    `interleave`: bytes side by side in one bank, if less than its width; `lanes` of a warp served at once, if not all;
    `write_conflict`: cycles that a pass adds between two stores of a warp, if not as many as the banks need.
    """

    capacity: Sourced[Size]
    banks: Sourced[Count] | None = None
    bank_width: Sourced[Size] | None = None
    conflict_latency: Sourced[Cycles] | None = None
    interleave: Sourced[Size] | None = None
    lanes: Sourced[Count] | None = None
    write_conflict: Sourced[Cycles] | None = None


class PathTable(Table):
    """A path to memory: elements nearest first, and cycles from load to use for a hit in each.

    `translated_from`, `tlbs_at`: positions in `caches`, see `gpudissect.simulation.cache.geometry.Route`. Without
    `memory_latency` the path ends before memory: one latency, on path cluster one per rank. `index_function`: of the
    nearest cache for this path, if it differs from the one given with the cache.
    """

    caches: tuple[Element, ...] = ()
    latency: tuple[Sourced[Cycles], ...] = ()
    memory_latency: Sourced[Cycles] | None = None
    translated_from: Sourced[Position] | None = None
    tlbs_at: Sourced[Position] | None = None
    index_function: Sourced[IndexTable] | None = None
    timer: Sourced[Cycles] | None = None

    @property
    def ends_before_memory(self) -> bool:
        """Whether the path has neither caches nor memory."""
        return not self.memory_latency and not self.caches

    @model_validator(mode="after")
    def _check_latencies(self) -> PathTable:
        expected = 1 if self.ends_before_memory else len(self.caches)
        if len(self.latency) != expected and not (self.ends_before_memory and self.latency):
            wrong("latency", f"{len(self.latency)} entries", f"one for each of caches, {expected}")
        if self.caches and self.memory_latency is None:
            wrong("memory_latency", None, "cycles of an access that misses in all of caches")
        entries = [*self.latency, self.memory_latency] if self.memory_latency else self.latency
        cycles = [entry.value for entry in entries]
        if cycles != sorted(cycles):
            wrong("latency", cycles, "cycles that rise from the nearest cache to memory")
        if self.translated_from is not None and self.translated_from.value > len(self.caches):
            wrong("translated_from.value", self.translated_from.value, f"0..{len(self.caches)}")
        if self.tlbs_at is not None and self.tlbs_at.value >= len(self.caches):
            wrong("tlbs_at.value", self.tlbs_at.value, f"a position in caches, below {len(self.caches)}")
        if self.index_function is not None and not self.caches:
            wrong("index_function", "a table", "none: the path has no caches")
        return self


class WalkTable(Table):
    """Cycles of a miss in every TLB level, penalties included; `cold_penalty` instead if memory serves the data.

    `interval`: cycles between two walks at full load, all SMs together.
    """

    penalty: Sourced[Cycles]
    cold_penalty: Sourced[Cycles] | None = None
    interval: Sourced[Cycles] | None = None


class WindowTable(Table):
    """Pages outside a window of `size` bytes cost `penalty` more cycles."""

    size: Sourced[Size]
    penalty: Sourced[Cycles]


class PartitionTable(Table):
    """A cache in `count` partitions, two if not given, and the extra cycles of a far one.

    Either `home`, the address bits whose XOR selects the home of a line in one of two partitions, or `granule`, the
    bytes at home in a partition before the next one follows. `capacity` is that of all, in bytes; see
    `gpudissect.simulation.cache.geometry.Partition`.
    """

    cache: Element = "l2"
    capacity: Sourced[Size]
    home: Sourced[tuple[Bit, ...]] | None = None
    count: Sourced[Partitions] | None = None
    granule: Sourced[Size] | None = None
    far_penalty: Sourced[Cycles]
    far_memory_penalty: Sourced[Cycles] | None = None


class PrefetchTable(Table):
    """After `run` cold misses in a row (2 if not given; 0: any miss) the next `reach` bytes go into `cache`."""

    cache: Element = "l2"
    reach: Sourced[Size]
    run: Sourced[Position] | None = None


class DistanceTable(Table):
    """Cycles that each SM, and each slice of `cache`, adds to a load that reaches it; lines alternate over slices."""

    cache: Element = "l2"
    by_sm: Sourced[tuple[Cycles, ...]] | None = None
    by_slice: Sourced[tuple[Cycles, ...]] | None = None


class RowsTable(Table):
    """Rows of DRAM of `size` bytes in `banks`: an access to the open row of its bank takes `saving` cycles less."""

    size: Sourced[Size]
    banks: Sourced[Count]
    saving: Sourced[Cycles]


class ProcessorTable(Table):
    """Schedulers and limits of an SM (VV16 tables 2.6, 2.8); see `simulation.sm.description.Processor`."""

    schedulers: Sourced[Schedulers]
    issue_interval: Sourced[Step]
    issue_width: Sourced[Step]
    reissue: Sourced[Step]
    loads_in_flight: Sourced[Step] | None = None
    warps: Sourced[Warps]
    blocks: Sourced[Blocks]
    block_size: Sourced[BlockSize]
    single: Sourced[tuple[Pipe, ...]]
    scheduling: Sourced[Scheduling] | None = None


class UnitTable(Table):
    """One instruction.

    `rate`: peak thread operations (of matrix instructions: multiply-adds) per cycle of one SM; `latency`: cycles to a
    dependent instruction, `latency_to_core` if the cores execute that; `slots`: issue cycles.
    ``ldg`` may lack both: the L1 (or what replaces it) has them.
    """

    pipe: Pipe
    rate: Sourced[Rate] | None = None
    latency: Sourced[Cycles] | None = None
    latency_to_core: Sourced[Cycles] | None = None
    slots: Sourced[Step] | None = None


class MemoryTable(Table):
    """The queue before DRAM, see `simulation.sm.description.MemorySystem`; `random_rate` as `UnitTable.rate`.

    Without `latency` that of the path to memory past the L1 holds.
    """

    latency: Sourced[Cycles] | None = None
    variability: Sourced[Variability]
    transactions: Sourced[Step]
    transaction_latency: Sourced[Cycles]
    random_rate: Sourced[Rate]
    random_variability: Sourced[Variability]
    alone: Sourced[Number]


class BandwidthTable(Table):
    """Bandwidths of a level that all SMs share, B/s; a copy counts bytes read and bytes written."""

    read_bandwidth: Sourced[BytesPerSecond]
    write_bandwidth: Sourced[BytesPerSecond]
    copy_bandwidth: Sourced[BytesPerSecond]


class RateTable(Table):
    """Bandwidths of a level that is private to an SM, B/cycle."""

    read_rate: Sourced[Rate]
    write_rate: Sourced[Rate]


class FetchTable(Table):
    """Texture fetches of an SM that hit its texture cache: B/cycle, and cycles from one of a warp to the next."""

    read_rate: Sourced[Rate]
    access_interval: Sourced[Cycles]


class BandwidthTables(Table):
    """Bandwidths by level; `host`: of the link to the host."""

    dram: BandwidthTable
    l2: BandwidthTable | None = None
    host: BandwidthTable | None = None
    l1: RateTable | None = None
    texture: FetchTable | None = None


class LaunchTable(Table):
    """Time of an empty kernel and of one more, ns; cycles until a finished block is replaced."""

    kernel_start: Sourced[Nanoseconds]
    kernel_interval: Sourced[Nanoseconds]
    block_replacement: Sourced[Cycles]
    graph_start: Sourced[Nanoseconds] | None = None
    graph_interval: Sourced[Nanoseconds] | None = None
