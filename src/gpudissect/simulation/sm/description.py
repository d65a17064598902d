"""Description of an SM and the memory behind it, as far as throughput depends on it (VV16 ch 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction


class Pipe(StrEnum):
    """Functional units shared by instructions of several kinds."""

    CORE = "core"  # single precision, and integers that share its cores
    INTEGER = "integer"  # integers with their own cores
    HALF = "half"
    DOUBLE = "double"
    SPECIAL = "special"  # reciprocals, roots, transcendental functions
    CONVERT = "convert"
    MATRIX = "matrix"
    MEMORY = "memory"  # load-store units: shared memory, its atomics, shuffles, hits in the L1
    BARRIER = "barrier"


class Scheduling(StrEnum):
    """Which of the eligible warps issues."""

    ROUND_ROBIN = "round_robin"  # the next after the one that issued last
    OLDEST = "oldest"  # of the block that began first, nearly the order modelled by Huang 2014 (VV16 s7.6)


@dataclass(frozen=True)
class Operation:
    """Cost of one instruction.

    Attributes:
        pipe: units that execute it.
        interval: cycles of one unit per instruction of a warp, without conflicts; may be a fraction.
        latency: cycles until a dependent instruction can be issued, without conflicts.
        latency_to_core: the same for a dependent instruction of the cores; None for no difference (VV16 s4.7).
        slots: issue cycles of its scheduler (VV16 s4.7).
    """

    pipe: Pipe
    interval: float
    latency: float
    latency_to_core: float | None = None
    slots: int = 1


@dataclass(frozen=True)
class SharedMemory:
    """Banks of shared memory (VV16 table 2.5, MC16 s6).

    Attributes:
        banks: number of banks.
        width: bytes that a bank reads at a time.
        interleave: contiguous bytes of one bank; the next ones are in the next bank (Kepler: 4 or 8).
        lanes: lanes of a warp served together: 32, or half of them (G80, GT200); at most as many as all banks have
            words for.
        conflict_latency: cycles by which each extra bank pass delays the result. Half warps are served one after the
            other: a 2-way conflict is one extra pass of a warp, or two of its halves.
        write_conflict: cycles that each extra bank pass adds to the time between two stores of a warp.
    """

    banks: int = 32
    width: int = 4
    interleave: int = 4
    lanes: int = WARP_SIZE
    conflict_latency: float = 0.0
    write_conflict: float = 0.0


@dataclass(frozen=True)
class MemorySystem:
    """DRAM and the path to it, as one queue per SM with its share of the bandwidth.

    A single access takes `latency`: a constant time on the path and one mean service. Services follow one another;
    their times vary, so that throughput saturates gradually (VV16 s6.4).

    Attributes:
        latency: cycles of a single coalesced access.
        variability: waiting time relative to that with exponentially distributed services: half of one plus the squared
            coefficient of variation (Pollaczek and Khinchine). 0.5: all services are equal.
        transactions: transactions of a coalesced access of a warp; a divergent one has 32.
        transaction_latency: cycles of each further transaction (VV16 table 6.7).
        random_bandwidth: bytes per cycle of the whole GPU when each of 32 lanes loads 4 bytes of another line.
        random_variability: as `variability`, of such accesses.
        alone: bandwidth of a single SM relative to an equal share.
    """

    latency: float
    variability: float = 1.0
    transactions: int = 4
    transaction_latency: float = 6.0
    random_bandwidth: float = 1.0
    random_variability: float = 0.6
    alone: float = 4.0


@dataclass(frozen=True)
class Bandwidth:
    """Bytes per cycle (of the SM's clock) of one tier: of the whole GPU, or of one SM if it is private.

    An L1 writes through: stores are limited by its `write` and by that of the next tier.
    """

    read: float
    write: float
    copy: float


@dataclass(frozen=True)
class Launches:
    """Cost of starting work: kernels in nanoseconds, the replacement of a block in cycles."""

    kernel_start: float = 5000.0
    kernel_interval: float = 2000.0
    graph_start: float | None = None
    graph_interval: float | None = None
    block_replacement: float = 200.0


@dataclass(frozen=True)
class Processor:
    """The SMs of a GPU.

    Attributes:
        sms: number of SMs.
        clock_hz: of the SM.
        schedulers: per SM; warp w belongs to scheduler w modulo their number.
        issue_interval: cycles from one issue of a scheduler to the next.
        issue_width: independent instructions of one warp that may be issued at once.
        reissue: cycles from one issue of a warp to its next, even of an independent instruction (VV16 s3.7).
        warps, blocks: limits of an SM.
        block_size: maximum threads of a block.
        operations: supported instructions.
        single: pipes that all schedulers of an SM share; of the others each has its own.
        shared: banks of shared memory.
        memory: memory behind the SM.
        dram, l2: bandwidth of the whole GPU; l1: of one SM. None without such a level.
        launches: cost of starting.
        scheduling: order of eligible warps.
    """

    sms: int
    clock_hz: float
    schedulers: int
    warps: int
    operations: Mapping[Instruction, Operation]
    shared: SharedMemory
    memory: MemorySystem
    dram: Bandwidth
    l2: Bandwidth | None = None
    l1: Bandwidth | None = None
    issue_interval: int = 1
    issue_width: int = 1
    reissue: int = 1
    blocks: int = 16
    block_size: int = 1024
    single: frozenset[Pipe] = frozenset({Pipe.MEMORY, Pipe.BARRIER})
    launches: Launches = field(default_factory=Launches)
    scheduling: Scheduling = Scheduling.ROUND_ROBIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "operations", MappingProxyType(dict(self.operations)))
