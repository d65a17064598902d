"""What an SM and the memory behind it are made of, as far as throughput goes (VV16 ch 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction


class Pipe(StrEnum):
    """Functional units that instructions of several kinds share."""

    CORE = "core"  # single-precision arithmetic, and the integers that share its cores
    INTEGER = "integer"  # integers with cores of their own
    HALF = "half"
    DOUBLE = "double"
    SPECIAL = "special"  # reciprocals, roots, transcendental functions
    CONVERT = "convert"
    MATRIX = "matrix"
    MEMORY = "memory"  # load-store units: shared memory, its atomics, shuffles, hits in the L1
    BARRIER = "barrier"


class Scheduling(StrEnum):
    """Which of the warps that could issue does."""

    ROUND_ROBIN = "round_robin"  # the next one after the one that issued last
    OLDEST = "oldest"  # the one whose block began first, nearly the order that Huang 2014 models (VV16 s7.6)


@dataclass(frozen=True)
class Operation:
    """What one instruction costs.

    Attributes:
        pipe: which units execute it.
        interval: cycles for which one warp's instruction keeps one such unit, free of conflicts; may be a fraction.
        latency: cycles until an instruction that needs its result can be issued, free of conflicts.
        latency_to_core: the same if that one is executed by the cores; None for no difference (VV16 s4.7).
        slots: issue cycles it takes of its scheduler (VV16 s4.7).

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
        banks: how many.
        width: bytes that a bank reads at a time.
        interleave: bytes that lie side by side in one bank: the next ones are in the next bank (Kepler: 4 or 8).
        lanes: of a warp that are served at once: 32, or half of them (G80, GT200); never more than all banks have words
            for.
        conflict_latency: cycles that each further turn of the banks takes until the result is there. Half warps take
            their turns one after the other: a 2-way conflict is one further turn of a warp, or two of its halves.
        write_conflict: cycles that each adds to the time between two stores of a warp.

    """

    banks: int = 32
    width: int = 4
    interleave: int = 4
    lanes: int = WARP_SIZE
    conflict_latency: float = 0.0
    write_conflict: float = 0.0


@dataclass(frozen=True)
class MemorySystem:
    """DRAM and the way there, as one queue for each SM with its share of the bandwidth.

    An access takes `latency` when it is alone: a constant way there and back and one mean service. Services are served
    one after the other; their times vary, so that throughput saturates gradually (VV16 s6.4).

    Attributes:
        latency: cycles of a coalesced access that is alone.
        variability: how long accesses wait, over how long they would if services were exponentially distributed: half
            of one plus the squared coefficient of variation (Pollaczek and Khinchine). 0.5: all services are equal.
        transactions: into which a coalesced access of a warp is split; one that diverges has 32.
        transaction_latency: cycles that each further one takes (VV16 table 6.7).
        random_bandwidth: bytes a cycle of the whole GPU when each lane of 32 asks for 4 bytes of another line.
        random_variability: as `variability`, of such accesses.
        alone: how much more than an equal share of bandwidth one SM can have.

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
    """Bytes a cycle (of the SM's clock) of one tier: of the whole GPU, or of one SM if it is private.

    What an L1 takes (`write`) it hands on as well: whoever stores through it waits for the slower of the two.
    """

    read: float
    write: float
    copy: float


@dataclass(frozen=True)
class Launches:
    """What starting work costs: kernels in nanoseconds, the replacement of a block in cycles."""

    kernel_start: float = 5000.0
    kernel_interval: float = 2000.0
    graph_start: float | None = None
    graph_interval: float | None = None
    block_replacement: float = 200.0


@dataclass(frozen=True)
class Processor:
    """An SM, and how many of them there are.

    Attributes:
        sms: SMs of the GPU.
        clock_hz: of the SM.
        schedulers: of an SM; warp number w belongs to scheduler w modulo that.
        issue_interval: cycles from one issue of a scheduler to the next.
        issue_width: instructions of one warp, independent of one another, that may be issued at once.
        reissue: cycles from one issue of a warp to its next, even of an independent instruction (VV16 s3.7).
        warps, blocks: most of them that an SM holds.
        block_size: most threads of a block.
        operations: what it can execute.
        single: the pipes of which there is one an SM, shared by all schedulers; of the others each has its own.
        shared: its banks.
        memory: what lies behind.
        dram, l2: bandwidth of the whole GPU; l1: of one SM. None where there is no such level.
        launches: cost of starting.
        scheduling: which warp goes first.

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
