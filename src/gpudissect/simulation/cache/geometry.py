"""The geometry of a memory hierarchy as plain data, for the catalogue, the simulator and inference."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpudissect.workload import Path

PARTITION_COUNT = 2
"""Partitions of a partitioned cache, if no number is given."""
TAG_BITS = 31


class IndexKind(StrEnum):
    """How a line number becomes a set number."""

    BITS = "bits"  # set bit i is byte-address bit bits[i]
    XOR = "xor"  # set bit i is the parity of byte address & masks[i]
    MODULO = "modulo"  # (address // granule) mod number of sets
    TABLE = "table"  # table[(address // granule) mod len(table)]


@dataclass(frozen=True)
class Index:
    """An index function over byte addresses."""

    kind: IndexKind
    bits: tuple[int, ...] = ()  # of BITS
    masks: tuple[int, ...] = ()  # of XOR
    table: tuple[int, ...] = ()  # of TABLE
    granule: int = 0  # bytes, of MODULO and TABLE; 0 for the line size


class PolicyKind(StrEnum):
    """Which way of a full set is replaced.

    Common to all: a line that is not in its set takes the lowest-numbered invalid way; only a full set replaces. A way
    stays valid until the whole cache is reset. A sector miss (line present, sector absent) uses the line as a hit does.
    A use is a hit or a fill.

    - LRU: the way whose last use is longest ago.
    - FIFO: the way that was filled longest ago; hits change nothing.
    - PLRU: tree pseudo-LRU. A binary tree over the ways with one bit per node; each use flips the bits on the way's
      path away from it; the victim is found by following the bits from the root. All bits initially point to way 0.
      Ways must be a power of two (Al-Zoubi et al. 2004, "Performance evaluation of cache replacement policies",
      section 2).
    - NRU: one reference bit per way, set by a use. Victim: the lowest way with a clear bit; if none is clear, *at that
      moment* all are cleared and way 0 is replaced. (Lazy clearing; Jaleel et al. 2010, section 2.)
    - MRU: also called bit-PLRU. One bit per way, set by a use; the use that would leave every bit set clears all others
      *at once*, keeping its own. Victim: the lowest way with a clear bit. (Eager clearing: the most recently used way
      is never the victim, hence the name; Malamy et al. 1994, US patent 5353425; "MRU" in Grund & Reineke 2010 and in
      nanoBench.) With two ways MRU is LRU, NRU is not: after filling A, B and using B, A, a miss replaces B under MRU
      and A under NRU.
    - SRRIP: 2-bit re-reference predictions, hit priority (Jaleel et al. 2010, section 4): filled with 2, a hit sets 0.
      Victim: the lowest way with 3; while there is none all are raised by one.
    - SLRU: segmented LRU (Karedla, Love & Wherry 1994, "Caching strategies to improve disk system performance", IEEE
      Computer 27(3)). A line enters a probationary segment; a hit makes it the most recent of a protected segment of
      half the ways (rounded down), whose least recent line falls back, if it is full, to the most recent place of the
      other. Victim: the least recent probationary line. At most 64 ways.
    - LAST_TWO_HITS: LRU, but a new line enters the order of recency behind the lines of the last two hits in its set:
      two lines, one if it was hit twice in a row. At most 64 ways. (The L1 of an H100 and an H200, as observed.)
    - LIP: LRU with insertion at the other end (Qureshi et al. 2007, "Adaptive insertion policies for high performance
      caching", section 4): a new line is the next victim until it is hit. Victims are chosen as by LRU.
    - BIP: as LIP, but one new line in 32, at random, is inserted as by LRU (ibid., bimodal insertion).
    - RANDOM: every way with the same probability.
    - WEIGHTED: way i with probability weights[i] (MC16 s4.5).
    - ORDER: the ways in a fixed order, over and over; each set has its own place in it, which hits and fills of invalid
      ways do not move, and begins with the first (MC16 fig 11: 2 3 2 1 2 4). The order 1 2 3 ... is FIFO.

    The random policies take one number per replacement, BIP one per fill, uniform in [0, 1), from a SplitMix64 stream
    of the cache's own (Steele et al. 2014, "Fast splittable pseudorandom number generators", fig 16): the victim is the
    first way whose cumulative probability exceeds it; BIP inserts as LRU if the number is below 1/32.
    """

    LRU = "lru"
    FIFO = "fifo"
    PLRU = "plru"
    NRU = "nru"
    MRU = "mru"
    SRRIP = "srrip"
    SLRU = "slru"
    LAST_TWO_HITS = "last-two-hits"
    LIP = "lip"
    BIP = "bip"
    RANDOM = "random"
    WEIGHTED = "weighted"
    ORDER = "order"


RANDOM_POLICIES = (PolicyKind.RANDOM, PolicyKind.WEIGHTED)
"""Policies with random victims."""
ROOM_POLICIES = (PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.LAST_TWO_HITS)
"""Policies with which a cache with more tags than room is simulated."""


@dataclass(frozen=True)
class Policy:
    """A replacement policy; `weights` (one per way, summing to 1) only for WEIGHTED, `order` only for ORDER."""

    kind: PolicyKind
    weights: tuple[float, ...] = ()
    order: tuple[int, ...] = ()  # one period of victims; ways are numbered from 1

    def __str__(self) -> str:
        """As reported: ``lru``, ``weighted 0.167 0.500 0.167 0.167``, ``order 2 3 2 1 2 4``."""
        numbers = (*(f"{weight:.3f}" for weight in self.weights), *map(str, self.order))
        return " ".join([self.kind.value, *numbers])


class Scope(StrEnum):
    """What shares a cache."""

    SM = "sm"
    GPU = "gpu"


class Fill(StrEnum):
    """What brings lines into a cache that is not the nearest of a route; the nearest is filled by its misses.

    - MISSES: the sectors that miss in it.
    - VICTIMS: the valid sectors of lines that the cache before it on the route evicts.
    - EXCLUSIVE: as VICTIMS, and a sector that hits moves to the cache before it.
    """

    MISSES = "misses"
    VICTIMS = "victims"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True)
class Room:
    """Room for the data of fewer lines than there are tags (observed: each bank of the L1 of H200s, ``docs/l1.md``).

    One line beyond `lines` is accepted. While it is present, an access visits the next sets in numerical order, and
    each evicts its next victim: 1 set after a hit, 2 if a line is replaced, 5 if a line enters a free way. Empty sets
    are skipped and do not count. A miss never evicts its own line: where that line is the next victim, the visit evicts
    nothing but counts, unless the line is new and the visit is the first. Only with `ROOM_POLICIES`.
    """

    lines: int


@dataclass(frozen=True)
class Cache:
    """One cache array."""

    ways: tuple[int, ...]  # lines of each set; sets may be unequal
    line: int  # bytes of a line (covered by one tag)
    sector: int  # bytes that one miss fetches; divides the line
    index: Index
    policy: Policy
    scope: Scope = Scope.SM  # what shares it
    copies: int = 1  # independent arrays per SM (MT22 s4.6); warp w uses number w mod copies
    room: Room | None = None  # None: room for every way
    fill: Fill = Fill.MISSES

    @property
    def sets(self) -> int:
        """Number of sets."""
        return len(self.ways)

    @property
    def capacity(self) -> int:
        """Bytes of one array."""
        return (sum(self.ways) if self.room is None else self.room.lines) * self.line


@dataclass(frozen=True)
class Tlb:
    """One TLB level: a cache of pages. `penalty` (cycles) is added when it misses and the next level hits.

    Beside it may be a miss cache (Jouppi 1990, "Improving direct-mapped cache performance by the addition of a small
    fully-associative cache and prefetch buffers", section 3.1): fully associative and LRU. Both are searched, and a hit
    is a use of the page in each that holds it. A page that misses in both is filled into both. (Observed: beside the
    second TLB of H200s, with 16 entries.)
    """

    ways: tuple[int, ...]
    page: int
    index: Index
    policy: Policy
    penalty: float
    miss_cache: int = 0  # its entries; 0: there is none
    by_sm: tuple[int, ...] = ()  # the number, from 0, of the one that each SM uses; empty: all use the same

    @property
    def count(self) -> int:
        """Number of TLBs of this level; each has its own miss cache."""
        return 1 + max(self.by_sm, default=0)

    def of_sm(self, sm: int) -> int:
        """The number of the one that an SM uses; `sm` is taken modulo the number of SMs."""
        return self.by_sm[sm % len(self.by_sm)] if self.by_sm else 0

    def as_cache(self) -> Cache:
        """The same as a cache whose lines are pages."""
        return Cache(self.ways, self.page, self.page, self.index, self.policy)

    def miss_cache_as_cache(self) -> Cache:
        """The miss cache, if there is one, as a cache of pages."""
        return Cache((self.miss_cache,), self.page, self.page, Index(IndexKind.MODULO), Policy(PolicyKind.LRU))


@dataclass(frozen=True)
class PageWindow:
    """A page walk outside the active window costs `penalty` cycles more, and moves the window (MC16 s5.2, P6).

    Windows are aligned blocks of `size` bytes; the first is active when a chase begins.
    """

    size: int
    penalty: float


@dataclass(frozen=True)
class Prefetch:
    """After `run` equal small steps from cold miss to cold miss the next `reach` bytes are fetched (MC16 s4.6).

    So a sequential first lap has run + 1 slow accesses; see `models` for the terms. With a `run` of 0, every miss
    fetches them, cold or not: the next lines.
    """

    cache: str
    reach: int
    run: int = 2


@dataclass(frozen=True)
class Partition:
    """Partitions of a cache of scope GPU, each an array of its geometry and the home of an equal part of memory.

    An SM accesses its near partition (SM s: number ``s mod count``). A line that is missing there comes from memory if
    that partition is its home, else from its home, which keeps it as well. So a partition holds lines at home in it and
    copies of others. With a `granule`, that many bytes after another are at home in consecutive partitions; without,
    there are two partitions.
    """

    cache: str
    home_mask: int  # the home of a line is the parity of byte address & home_mask; 0 with a `granule`
    far_penalty: float  # extra cycles of a hit in a far partition
    far_memory_penalty: float = 0.0  # extra cycles of memory behind a far partition
    count: int = PARTITION_COUNT
    granule: int = 0  # bytes; 0: the home goes by `home_mask`


@dataclass(frozen=True)
class Rows:
    """Rows of the DRAM, open one to a bank: an access to the open row takes `saving` cycles less.

    Consecutive rows of `size` bytes belong to consecutive banks.
    """

    size: int
    banks: int
    saving: float


@dataclass(frozen=True)
class Distance:
    """Distance of SMs from a cache of scope GPU: cycles added to each load that reaches it or memory behind it.

    A hit takes the route's latency plus the cycles of its SM and its slice: the additive model of a latency map. Slices
    of a partitioned cache are listed partition after partition, and loads arrive at a slice of the near partition.
    """

    cache: str
    by_sm: tuple[float, ...] = ()  # cycles of each SM, or empty for none
    by_slice: tuple[float, ...] = ()  # cycles of each slice, all partitions together, or empty for none
    index: Index = Index(IndexKind.MODULO)  # from lines to slices of a partition


@dataclass(frozen=True)
class Route:
    """Caches and latencies of the loads of one path.

    A path that ends before memory (shared memory) has no `memory_latency` and no caches, and one `latency` for the
    array itself; on path CLUSTER one by rank of the accessed block, the last for all further ranks. `tlbs_at` is the
    cache beside the TLBs: a load that misses the first TLB takes at least as long as a hit in it (MC16 s5.2 finding 3:
    Fermi's TLBs sit at the L2, so an L1 TLB miss costs an L1 hit 288 cycles, an L2 hit only 27). `index` is the index
    function that this path uses in its nearest cache; None: that of the cache.
    """

    caches: tuple[str, ...]  # names of the arrays, nearest first
    latency: tuple[float, ...]  # cycles from load to use when served by each of `caches`
    memory_latency: float | None  # cycles when served by memory
    translated_from: int = 0  # position in `caches` before which the TLBs are accessed (MC16 s5.2: 1 on Maxwell)
    timer: float = 0.0  # cycles that timing a single access adds (MC16 s4.2)
    tlbs_at: int = 0  # position in `caches`
    index: Index | None = None


@dataclass(frozen=True)
class Hierarchy:
    """The memory of a GPU: arrays by name, routes by path, TLB levels in the order of access.

    `tlb_walk_penalty` (cycles) is the cost of a miss in every TLB level, instead of the levels' own penalties;
    `tlb_cold_walk_penalty` that when the data come from memory, as then the page table does too (MC14 table 3: P5 costs
    far more than P3 and P4 explain). None: no difference. `tlb_walk_interval` (cycles of the GPU) is the time between
    two walks at full load, all SMs together, which limits random accesses (VV16 s6.7); None for no limit.
    """

    caches: Mapping[str, Cache]
    routes: Mapping[Path, Route]
    tlbs: tuple[Tlb, ...] = ()
    tlb_walk_penalty: float = 0.0
    tlb_cold_walk_penalty: float | None = None
    tlb_walk_interval: float | None = None
    page_window: PageWindow | None = None
    prefetch: Prefetch | None = None
    rows: Rows | None = None
    partition: Partition | None = None
    distance: Distance | None = None
    sm_count: int = 1
    cluster_size: int = 1
    clock_hz: float = 1e9
    limits: Mapping[Path, int] = field(default_factory=dict)

    def reach(self, route: Route) -> int:
        """End of the byte offsets that can be simulated on a route: lines and pages have numbers of `TAG_BITS`."""
        sizes = [*(self.caches[name].line for name in route.caches), *(tlb.page for tlb in self.tlbs)]
        return min(sizes, default=1 << TAG_BITS) << TAG_BITS
