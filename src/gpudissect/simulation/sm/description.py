"""Description of an SM and the memory behind it, as far as throughput depends on it (VV16 ch 2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction


def lane_addresses(stride: int) -> NDArray[np.int64]:
    """Byte addresses of the operands of a warp's lanes, `stride` 4-byte words apart, shape (32,)."""
    return np.arange(WARP_SIZE, dtype=np.int64) * 4 * stride


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
    """Cost of one instruction; `slots` and `latency_to_core`: VV16 s4.7."""

    pipe: Pipe  # units that execute it
    interval: float  # cycles of one unit per instruction of a warp, without conflicts; may be a fraction
    latency: float  # cycles until a dependent instruction can be issued, without conflicts
    latency_to_core: float | None = None  # the same for a dependent instruction of the cores; None for no difference
    slots: int = 1  # issue cycles of its scheduler


@dataclass(frozen=True)
class SharedMemory:
    """Banks of shared memory (VV16 table 2.5, MC16 s6).

    Half warps are served one after the other: a 2-way conflict is one extra bank pass of a warp, or two of its halves.
    """

    banks: int
    width: int  # bytes that a bank reads at a time
    interleave: int  # contiguous bytes of one bank; the next ones are in the next bank (Kepler: 4 or 8)
    lanes: int  # served together: 32, or 16 (G80, GT200); at most as many as all banks have words for
    conflict_latency: float = 0.0  # cycles by which each extra bank pass delays the result
    write_conflict: float = 0.0  # cycles that each extra bank pass adds to the time between two stores of a warp

    def passes(self, lanes: NDArray[np.int64], width: int = 4, *, merged: bool = True) -> int:
        """Bank passes of one access of a warp (VV16 s2.6).

        In each pass a bank reads one row of `width` bytes of its own. Lanes are served in groups: at most as many as
        all banks together can serve.

        Args:
            lanes: byte address of each lane's operand, shape (32,), multiples of `width`.
            width: bytes of one operand.
            merged: whether a row is read once for all lanes of a group that access it; atomics are not merged.
        """
        group = self._group_size(width)
        groups = (lanes[first : first + group] for first in range(0, lanes.size, group))
        return sum(self._group_passes(group, width, merged) for group in groups)

    def conflict_ways(self, lanes: NDArray[np.int64], width: int = 4, *, merged: bool = True) -> float:
        """Passes relative to an access of 4-byte words without a conflict: 2.0 for a 2-way conflict."""
        return self.passes(lanes, width, merged=merged) / -(-WARP_SIZE // self._group_size(4))

    def extra_passes(self, lanes: NDArray[np.int64], width: int = 4, *, merged: bool = True) -> int:
        """Passes beyond those of an access of 4-byte words without a conflict (VV16 s2.6, s6.2)."""
        return self.passes(lanes, width, merged=merged) - -(-WARP_SIZE // self._group_size(4))

    def _group_size(self, width: int) -> int:
        return min(self.lanes, max(1, self.banks * self.width // width))

    def _group_passes(self, lanes: NDArray[np.int64], width: int, merged: bool) -> int:
        """Largest number of rows (of accesses, if not merged) in one bank."""
        rows_by_bank: dict[int, list[int]] = {}
        for start in lanes.tolist():
            for piece in range(start // self.interleave, (start + width - 1) // self.interleave + 1):
                row = piece // self.banks // (self.width // self.interleave)
                rows_by_bank.setdefault(piece % self.banks, []).append(row)
        return max(len(set(rows)) if merged else len(rows) for rows in rows_by_bank.values())


@dataclass(frozen=True)
class MemorySystem:
    """DRAM and the path to it, as one queue per SM with its share of the bandwidth.

    A single access takes `latency`: a constant time on the path and one mean service. Services follow one another;
    their times vary, so that throughput saturates gradually (VV16 s6.4). `variability` is the waiting time relative to
    that with exponentially distributed services: half of one plus the squared coefficient of variation (Pollaczek and
    Khinchine); 0.5 if all services are equal.
    """

    latency: float  # cycles of a single coalesced access
    variability: float
    transactions: int  # of a coalesced access of a warp; a divergent one has 32
    transaction_latency: float  # cycles of each further transaction (VV16 table 6.7)
    random_bandwidth: float  # B/cycle of the GPU when each of 32 lanes loads 4 bytes of another line
    random_variability: float  # as `variability`, of such accesses
    alone: float  # bandwidth of a single SM relative to an equal share


@dataclass(frozen=True)
class Bandwidth:
    """Bytes per cycle (of the SM's clock) of one tier: of the whole GPU, or of one SM if it is private.

    An L1 writes through: stores are limited by its `write` and by that of the next tier.
    """

    read: float
    write: float
    copy: float


@dataclass(frozen=True)
class Fetches:
    """Texture fetches of one SM that hit its texture cache."""

    read_rate: float  # B/cycle
    access_interval: float  # cycles from one fetch of a warp to the next, at least


@dataclass(frozen=True)
class Launches:
    """Cost of starting work: kernels in nanoseconds, the replacement of a block in cycles."""

    kernel_start: float
    kernel_interval: float
    block_replacement: float
    graph_start: float | None = None
    graph_interval: float | None = None


@dataclass(frozen=True)
class Processor:
    """The SMs of a GPU. Warp w belongs to scheduler w modulo their number."""

    sms: int
    clock_hz: float
    schedulers: int  # per SM
    warps: int  # maximum of an SM
    blocks: int  # maximum of an SM
    block_size: int  # maximum threads of a block
    operations: Mapping[Instruction, Operation]
    shared: SharedMemory
    memory: MemorySystem
    dram: Bandwidth  # of the whole GPU
    launches: Launches
    l2: Bandwidth | None = None  # of the whole GPU; None without an L2
    host: Bandwidth | None = None  # of the link to the host; None if not described
    l1: Bandwidth | None = None  # of one SM; None without an L1
    texture: Fetches | None = None  # None if not described
    issue_interval: int = 1  # cycles from one issue of a scheduler to the next
    issue_width: int = 1  # independent instructions of one warp that may be issued at once
    register_banks: int | None = None  # of a scheduler; each reads one register per cycle. None for no limit
    banked_l1: bool = False  # loads that hit the L1 conflict in its banks, which are those of shared memory
    reissue: int = 1  # cycles from one issue of a warp to its next, even if independent (VV16 s3.7)
    loads_in_flight: int | None = None  # of a warp at once, from memory (VV16 s3.7, listing 3.2); None for no limit
    single: frozenset[Pipe] = frozenset({Pipe.MEMORY, Pipe.BARRIER})  # shared by all schedulers; others have their own
    scheduling: Scheduling = Scheduling.ROUND_ROBIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "operations", MappingProxyType(dict(self.operations)))
