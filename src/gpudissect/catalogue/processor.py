"""The tables of a GPU file that say how fast things go: schedulers, units, bandwidths, launches.

All of them come with ``[processor]``, and only with it: a GPU whose file has none runs chases only.

====================  ======================================================================================
``[processor]``       schedulers of an SM, how they issue, how much an SM holds (`ProcessorTable`)
``[units.NAME]``      NAME is an instruction: rate, latency, and the units that execute it (`UnitTable`)
``[memory]``          the queue before DRAM (`MemoryTable`)
``[bandwidth.NAME]``  dram and l2: of the whole GPU, B/s; l1: of one SM, B/cycle
``[launch]``          what starting work costs (`LaunchTable`)
====================  ======================================================================================
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpudissect.catalogue.quantity import Count, Cycles, Number, Sourced, Table
from gpudissect.simulation.sm.description import Pipe, Scheduling

Rate = Annotated[float, Field(strict=True, gt=0, le=1e6, allow_inf_nan=False)]  # a cycle
BytesPerSecond = Annotated[float, Field(strict=True, ge=1e6, le=1e15, allow_inf_nan=False)]
Variability = Annotated[float, Field(strict=True, ge=0.5, le=100, allow_inf_nan=False)]
Step = Annotated[int, Field(strict=True, ge=1, le=64)]  # cycles
Schedulers = Annotated[int, Field(strict=True, ge=1, le=16)]
Warps = Annotated[int, Field(strict=True, ge=1, le=128)]
Nanoseconds = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]


class ProcessorTable(Table):
    """An SM's schedulers and what it holds (VV16 tables 2.6, 2.8); see `simulation.sm.description.Processor`."""

    schedulers: Sourced[Schedulers]
    issue_interval: Sourced[Step]
    issue_width: Sourced[Step]
    reissue: Sourced[Step]
    warps: Sourced[Warps]
    blocks: Sourced[Warps]
    block_size: Sourced[Count]
    single: Sourced[tuple[Pipe, ...]]
    scheduling: Sourced[Scheduling] | None = None


class UnitTable(Table):
    """One instruction.

    `rate`: operations of single threads (of matrix instructions: multiply-adds) a cycle of one SM, at most; `latency`:
    cycles to a dependent instruction, `latency_to_core` if the cores execute that; `slots`: issue cycles.
    Of ``ldg`` both may be left out: the L1 (or what serves in its place) has them.
    """

    pipe: Pipe
    rate: Sourced[Rate] | None = None
    latency: Sourced[Cycles] | None = None
    latency_to_core: Sourced[Cycles] | None = None
    slots: Sourced[Step] | None = None


class MemoryTable(Table):
    """The queue before DRAM, see `simulation.sm.description.MemorySystem`; `random_rate` as `UnitTable.rate`.

    Without `latency` it is that of the path to memory past the L1.
    """

    latency: Sourced[Cycles] | None = None
    variability: Sourced[Variability]
    transactions: Sourced[Step]
    transaction_latency: Sourced[Cycles]
    random_rate: Sourced[Rate]
    random_variability: Sourced[Variability]
    alone: Sourced[Number]


class BandwidthTable(Table):
    """Bandwidths of a level that all SMs share, B/s; of a copy bytes read and bytes written."""

    read_bandwidth: Sourced[BytesPerSecond]
    write_bandwidth: Sourced[BytesPerSecond]
    copy_bandwidth: Sourced[BytesPerSecond]


class RateTable(Table):
    """Bandwidths of a level that each SM has, B/cycle."""

    read_rate: Sourced[Rate]
    write_rate: Sourced[Rate]


class BandwidthTables(Table):
    """Of every level that there is."""

    dram: BandwidthTable
    l2: BandwidthTable | None = None
    l1: RateTable | None = None


class LaunchTable(Table):
    """What an empty kernel and one more of them take, ns; cycles until a block that ended is replaced."""

    kernel_start: Sourced[Nanoseconds]
    kernel_interval: Sourced[Nanoseconds]
    block_replacement: Sourced[Cycles]
    graph_start: Sourced[Nanoseconds] | None = None
    graph_interval: Sourced[Nanoseconds] | None = None
