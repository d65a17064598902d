"""`Chase`: dependent loads round a ring, the workload behind every structure and latency (MC16 s4.1-4.2).

Instructions are fetched one after the other, too: on the path CODE the ring is a loop of straight-line code.
One thread is timed. `PriorAccesses` show what shares a cache with it (MT22 s4.5-4.6): another path of the same thread,
another warp of its SM, another SM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from gpudissect.errors import WorkloadError
from gpudissect.workload.order import Explicit, Order, Sequential

CODE_LINE = 128
"""Bytes of code that count as one access on the path CODE: eight instructions of 16 bytes, a line of an instruction
cache (JIA18)."""

CODE_UNIT = 1024
"""Bytes that a loop of straight-line code grows by."""


class Path(StrEnum):
    """The way a load takes to memory: its space and which caches it may use."""

    NOTHING = "nothing"  # no load at all: the timed window is empty (timer calibration)
    GLOBAL = "global"  # global memory through every cache there is
    GLOBAL_L2 = "global_l2"  # global memory past the L1, through the L2
    READONLY = "readonly"  # global memory through the read-only data cache
    TEXTURE = "texture"
    CONSTANT = "constant"
    SHARED = "shared"
    CLUSTER = "cluster"  # shared memory of a block of the same cluster, through the window that all of it shares
    TMA = "tma"  # global memory by bulk copies into shared memory, 16 bytes each, one awaited after the other
    CODE = "code"  # no loads: what a loop of straight-line code over the ring's bytes fetches of its own instructions

    @property
    def links(self) -> tuple[int, bool]:
        """What the links of a ring look like: rings over the same words with the same links are one ring."""
        return self.word, self is Path.CONSTANT

    @property
    def word(self) -> int:
        """Bytes of one link of the chain: pointers, 4-byte words where addresses are short, or the least of a copy."""
        if self is Path.TMA:
            return 16
        return 8 if self in (Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.CLUSTER) else 4

    @property
    def cached(self) -> bool:
        """Whether loads of it leave something behind that a later load may find."""
        return self not in (Path.NOTHING, Path.SHARED, Path.CLUSTER)


class Timing(StrEnum):
    """What is timed.

    - EACH: every access by itself (MC16 listing 3); includes the timer's own cost.
    - LAP: whole laps, nothing between the loads (pure pointer chase).
    - COUNT: every access by itself, classified at once against `Bounds`; only the counts come back, so
      nothing needs to be stored while the cache is under test.
    """

    EACH = "each"
    LAP = "lap"
    COUNT = "count"


@dataclass(frozen=True)
class Bounds:
    """Classes of a timed access, in cycles as `Timing.EACH` reports them (timer included).

    hit: cycles <= hit_max; miss: miss_min <= cycles <= miss_max; everything else is unknown.
    """

    hit_max: int
    miss_min: int
    miss_max: int

    def __post_init__(self) -> None:
        if not 0 <= self.hit_max < self.miss_min <= self.miss_max:
            raise WorkloadError(f"bounds must rise: hit_max < miss_min <= miss_max, got {self}")


MOST_ACCESSES = 2**31 - 1
"""Accesses of one chase, laps before timing included: devices may count them in 32 bits."""

MOST_RECORDS = 2**26
"""Numbers that one trace may hold."""


MOST_WARPS = 32
"""Warps of one block."""

MOST_BLOCKS = 16
"""Blocks of one cluster."""


@dataclass(frozen=True, kw_only=True)
class PriorAccesses:
    """Laps that somebody runs before a chase begins.

    Attributes:
        path: the way to memory; memory is the same whichever way leads there, but for constant memory and code.
        order: the ring, byte offsets within the same memory as the chase's own. Its words must not be those of another
            ring of the chase, unless it is that very ring.
        laps: how many.
        warp: whose turn it is: warp 0 of its SM is the one that is timed later.
        sm: where: 0 is the SM that is timed, any other number another SM.

    Raises `WorkloadError` if the fields do not fit together.

    """

    path: Path
    order: Order
    laps: int = 1
    warp: int = 0
    sm: int = 0

    def __post_init__(self) -> None:
        if not self.path.cached or self.path is Path.TMA:
            raise WorkloadError(f"a turn goes through a cache by loads, not through path {self.path.value!r}")
        if self.path is Path.CODE:
            _check_code(self.order)
        if self.laps < 1 or not 0 <= self.warp < MOST_WARPS or self.sm < 0:
            raise WorkloadError(f"a turn needs laps >= 1, 0 <= warp < {MOST_WARPS}, sm >= 0, got {self}")


@dataclass(frozen=True, kw_only=True)
class Chase:
    """One thread follows a ring of dependent loads, or, on the path CODE, of lines of straight-line code.

    Code runs through in order, from offset 0 on, in whole units; only whole laps can be timed, and whose turn it was
    before cannot be said. No flush reaches the instruction caches, and there is no carve-out to ask for.

    Attributes:
        path: the way to memory.
        order: the ring, byte offsets within memory of the chase's own.
        timing: what is timed, see `Timing`.
        warmup: laps before timing starts (0: the first timed access is the first touch).
        laps: timed laps.
        picks: with EACH, only these positions of a lap (sorted, 0-based) are reported, None for all.
        bounds: with COUNT, the classes.
        carveout: share of the on-chip array asked for as shared memory, in percent, None for the device's
            default (as little as possible). A wish, which no call lets one check; the trace's notes
            say what the driver took for its preference.
        alone: nothing else of the batch may run meanwhile: for caches that all SMs share.
        flush: every cache is emptied of the chase's data before it starts. The caches private to an SM are
            always cold at the start of a chase.
        repetition: tells otherwise equal chases apart.
        before: turns taken one after the other, after the flush and before the chase's own laps.
        sm: the SM that must run it, by the hardware's own number (CUDA: ``%smid``), None where the device may choose.
            Not together with turns, which only count SMs from the one that is timed.
        peer: on path CLUSTER, rank of the block whose shared memory holds the ring; rank 0 is the one that is timed,
            and asks for its own memory through the same window. The cluster is the largest that the device takes.

    Raises `WorkloadError` if the fields do not fit together.

    """

    path: Path
    order: Order
    timing: Timing
    warmup: int = 1
    laps: int = 1
    picks: tuple[int, ...] | None = None
    bounds: Bounds | None = None
    carveout: int | None = None
    alone: bool = False
    flush: bool = False
    repetition: int = 0
    before: tuple[PriorAccesses, ...] = ()
    sm: int | None = None
    peer: int = 1

    def __post_init__(self) -> None:
        for path, order in self.rings:
            _check_aligned(path, order)
        if self.before:
            _check_apart(self.rings)
        if self.path is Path.CODE:
            _check_code(self.order)
            if self.timing is not Timing.LAP or self.before or self.flush or self.carveout is not None:
                raise WorkloadError(
                    "a chase on path 'code' has timing 'lap', no turns before it, no flush, no carveout"
                )
        if self.before and not self.path.cached:
            raise WorkloadError(f"nobody can have a turn on path {self.path.value!r} before a chase: it has no cache")
        if self.sm is not None and self.sm < 0:
            raise WorkloadError(f"SMs are numbered from 0, got {self.sm}")
        if self.sm is not None and (self.before or self.path is Path.CLUSTER):
            raise WorkloadError("a chase with turns before it, or in a cluster, runs where the device likes: leave out "
                                "its SM")  # fmt: skip
        if self.before and self.path is Path.TMA:
            raise WorkloadError("nobody can have a turn before a chase on path 'tma'")
        if self.path is Path.TMA and self.timing is not Timing.LAP:
            raise WorkloadError("path 'tma' takes timing 'lap' only: a copy is several instructions, and what readies "
                                "the first would be timed with it")  # fmt: skip
        if self.path is not Path.CLUSTER and self.peer != 1:
            raise WorkloadError(f"a peer belongs to path 'cluster', not to {self.path.value!r}")
        if not 0 <= self.peer < MOST_BLOCKS:
            raise WorkloadError(f"peer is a rank in a cluster, in [0, {MOST_BLOCKS}), got {self.peer}")
        if self.warmup < 0 or self.laps < 1:
            raise WorkloadError(f"a chase needs warmup >= 0 and laps >= 1, got {self.warmup} and {self.laps}")
        if self.timing is Timing.COUNT and self.bounds is None:
            raise WorkloadError("timing 'count' needs bounds: what is a hit and what a miss")
        if self.timing is not Timing.COUNT and self.bounds is not None:
            raise WorkloadError(f"bounds belong to timing 'count', not to {self.timing.value!r}")
        accesses = (self.warmup + self.laps) * self.order.count
        accesses += sum(turn.laps * turn.order.count for turn in self.before)
        if accesses > MOST_ACCESSES:
            raise WorkloadError(f"a chase of {accesses} accesses is longer than {MOST_ACCESSES}: ask for fewer laps")
        if self.picks is not None:
            if self.timing is not Timing.EACH:
                raise WorkloadError("picks belong to timing 'each'")
            if not self.picks or list(self.picks) != sorted(set(self.picks)):
                raise WorkloadError("picks must be rising positions of a lap, at least one")
            if self.picks[0] < 0 or self.picks[-1] >= self.order.count:
                raise WorkloadError(f"picks must lie in [0, {self.order.count}), got {self.picks[0]}..{self.picks[-1]}")
        if self.records > MOST_RECORDS:
            raise WorkloadError(f"a trace of {self.records} numbers is more than {MOST_RECORDS}: ask for fewer laps")
        if self.carveout is not None and not 0 <= self.carveout <= 100:
            raise WorkloadError(f"carveout is a percentage, got {self.carveout}")

    @property
    def rings(self) -> list[tuple[Path, Order]]:
        """The chase's own ring, then those of the turns before it."""
        return [(self.path, self.order), *((turn.path, turn.order) for turn in self.before)]

    @property
    def span(self) -> int:
        """Bytes of memory that its rings reach into."""
        return max(self.order.span, *(turn.order.span for turn in self.before), 0)

    @property
    def timed_per_lap(self) -> int:
        """Accesses that one lap reports with timing EACH."""
        return self.order.count if self.picks is None else len(self.picks)

    @property
    def records(self) -> int:
        """Numbers that its trace holds: timed accesses (EACH) or laps."""
        return self.laps * self.timed_per_lap if self.timing is Timing.EACH else self.laps


def _check_aligned(path: Path, order: Order) -> None:
    if path is Path.NOTHING:
        return
    steps = order.offsets() if isinstance(order, Explicit) else np.array([order.start, order.stride])
    if (steps % path.word).any():
        raise WorkloadError(f"offsets on path {path} must be multiples of {path.word} bytes: a link is that long")


def _check_code(order: Order) -> None:
    if not isinstance(order, Sequential) or order.start or order.stride != CODE_LINE or order.span % CODE_UNIT:
        raise WorkloadError(
            f"code runs through in order: Sequential(count, {CODE_LINE}) from offset 0, in units of {CODE_UNIT} B, "
            f"not {type(order).__name__} of {order.count} offsets over {order.span} B"
        )


def _check_apart(rings: Sequence[tuple[Path, Order]]) -> None:
    """No word may belong to two rings; constant memory is other memory, and code yet another, where all run alike."""
    loads = [(path, order) for path, order in rings if path is not Path.CODE]
    different: dict[tuple[tuple[int, bool], Order], None] = dict.fromkeys((path.links, order) for path, order in loads)
    for constant in (True, False):
        words = [
            order.offsets() // 4 + i
            for (word, in_constant), order in different
            if in_constant is constant
            for i in range(word // 4)
        ]
        if words and np.unique(np.concatenate(words)).size < sum(each.size for each in words):
            raise WorkloadError("two rings of a chase and its turns need the same word: move one by a word")
