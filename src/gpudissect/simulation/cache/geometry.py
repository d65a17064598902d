"""The shape of a memory hierarchy: plain data, shared by the catalogue, the simulator and the inference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpudissect.workload import Path

PARTS = 2
"""Of a cache in parts."""


class IndexKind(StrEnum):
    """How a line number becomes a set number."""

    BITS = "bits"  # set bit i is byte-address bit bits[i]
    XOR = "xor"  # set bit i is the parity of byte address & masks[i]
    MODULO = "modulo"  # (address // granule) mod number of sets
    TABLE = "table"  # table[(address // granule) mod len(table)]


@dataclass(frozen=True)
class Index:
    """An index function over byte addresses.

    `bits` for BITS, `masks` for XOR, `table` for TABLE; `granule` (bytes) for MODULO and TABLE, where 0 means
    the line size.
    """

    kind: IndexKind
    bits: tuple[int, ...] = ()
    masks: tuple[int, ...] = ()
    table: tuple[int, ...] = ()
    granule: int = 0


class PolicyKind(StrEnum):
    """Which way of a full set is replaced; `policy` defines each to the letter. An invalid way is filled first."""

    LRU = "lru"
    FIFO = "fifo"
    PLRU = "plru"  # binary tree of bits; ways must be a power of two
    NRU = "nru"  # one reference bit a way; first clear way goes; if none is clear then, all are cleared
    MRU = "mru"  # bit-PLRU: as NRU, but the use that would set the last clear bit clears all others at once
    SRRIP = "srrip"  # 2-bit re-reference prediction, hit priority (Jaleel 2010)
    SLRU = "slru"  # LRU in two halves: a line is new until its second use, and only as many again are protected
    RANDOM = "random"
    WEIGHTED = "weighted"  # way i with probability weights[i] (MC16 fig 11)


@dataclass(frozen=True)
class Policy:
    """A replacement policy; `weights` (summing to 1, one a way) only for WEIGHTED."""

    kind: PolicyKind
    weights: tuple[float, ...] = ()


class Scope(StrEnum):
    """Who shares a cache."""

    SM = "sm"
    GPU = "gpu"


@dataclass(frozen=True)
class Cache:
    """One cache array.

    Attributes:
        ways: lines of each set, one entry a set (unequal sets are the list of them).
        line: bytes of a line (what one tag covers).
        sector: bytes that one miss fetches; divides the line.
        scope: who shares it.
        copies: independent arrays an SM has (MT22 s4.6); warp w uses number w mod copies.

    """

    ways: tuple[int, ...]
    line: int
    sector: int
    index: Index
    policy: Policy
    scope: Scope = Scope.SM
    copies: int = 1

    @property
    def sets(self) -> int:
        """Number of sets."""
        return len(self.ways)

    @property
    def capacity(self) -> int:
        """Bytes of one array."""
        return sum(self.ways) * self.line


@dataclass(frozen=True)
class Tlb:
    """One TLB level: a cache of pages. `penalty` (cycles) is added when it misses and the next level hits."""

    ways: tuple[int, ...]
    page: int
    index: Index
    policy: Policy
    penalty: float


@dataclass(frozen=True)
class PageWindow:
    """A page walk outside the active window costs `penalty` cycles more, and moves it (MC16 s5.2, P6).

    Windows are aligned blocks of `size` bytes; the first is active when a chase begins.
    """

    size: int
    penalty: float


@dataclass(frozen=True)
class Prefetch:
    """After `run` equal small steps from cold miss to cold miss the next `reach` bytes are fetched (MC16 s4.6).

    So a sequential first lap sees run + 1 slow accesses; see `hierarchy` for cold and small.
    """

    cache: str
    reach: int
    run: int = 2


@dataclass(frozen=True)
class Partition:
    """A cache of scope GPU in two parts, each an array of its geometry; memory belongs half to one, half to the other.

    An SM asks the part near to it (SM s: part ``s mod 2``). What that lacks comes from memory, if the line's home is
    near; else from the far part, which keeps it, too. So a part holds lines of its own home and copies of others.

    Attributes:
        cache: which cache.
        home: the home of a line is the parity of ``byte address & home``.
        far_penalty: cycles that a hit in the far part takes longer than one in the near part.
        far_memory_penalty: cycles that memory behind the far part takes longer than memory behind the near part.

    """

    cache: str
    home: int
    far_penalty: float
    far_memory_penalty: float = 0.0


@dataclass(frozen=True)
class Distance:
    """How far a cache of scope GPU lies from every SM: cycles on top of each load that gets there, or beyond it.

    So a hit takes the route's latency and what its SM and its slice add: the additive model of a map of latencies.
    The slices of a cache in two parts lie one part after the other, and loads arrive at a slice of the near part.

    Attributes:
        cache: which cache.
        by_sm: cycles of each SM, or empty for none.
        by_slice: cycles of each slice, all parts together, or empty for none.
        index: which slice of a part a line belongs to, as an index function says which set.

    """

    cache: str
    by_sm: tuple[float, ...] = ()
    by_slice: tuple[float, ...] = ()
    index: Index = Index(IndexKind.MODULO)


@dataclass(frozen=True)
class Route:
    """What a load on one path goes through.

    Attributes:
        caches: names of the arrays, nearest first; may be empty.
        latency: cycles from load to use when served by each of `caches`.
        memory_latency: cycles when served by memory, None for a path that ends before (shared memory: then
            `latency` has one entry for the array itself and `caches` is empty; on path CLUSTER one by rank of the
            block that is asked, the last for all further ranks).
        translated_from: position in `caches` from which on the TLBs are asked: 0 before the first, 1 after a
            miss in the first, ... (MC16 s5.2: Maxwell's L1 hits are not translated).
        timer: cycles that timing a single access adds (MC16 s4.2).
        tlbs_at: position in `caches` of the one beside which the TLBs sit: a load that misses the first TLB takes
            at least as long as if that cache had served it (MC16 s5.2 finding 3: Fermi's TLBs sit at the L2, so
            an L1 TLB miss costs an L1 hit 288 cycles, an L2 hit only 27).

    """

    caches: tuple[str, ...]
    latency: tuple[float, ...]
    memory_latency: float | None
    translated_from: int = 0
    timer: float = 0.0
    tlbs_at: int = 0


@dataclass(frozen=True)
class Hierarchy:
    """A GPU's memory, complete: arrays by name, routes by path, TLB levels in the order they are asked.

    `tlb_walk_penalty` (cycles) is what a miss in every TLB level costs, instead of the levels' own penalties;
    `tlb_cold_walk_penalty` when the data come from memory: then the page table does as well (MC14 table 3: P5 costs
    far more than P3 and P4 explain). None: no difference.
    """

    caches: Mapping[str, Cache]
    routes: Mapping[Path, Route]
    tlbs: tuple[Tlb, ...] = ()
    tlb_walk_penalty: float = 0.0
    tlb_cold_walk_penalty: float | None = None
    page_window: PageWindow | None = None
    prefetch: Prefetch | None = None
    partition: Partition | None = None
    distance: Distance | None = None
    sm_count: int = 1
    cluster_size: int = 1
    clock_hz: float = 1e9
    limits: Mapping[Path, int] = field(default_factory=dict)
