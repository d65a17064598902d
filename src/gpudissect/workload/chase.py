"""`Chase`: dependent loads along a closed chain, for structure and latency (MC16 s4.1-4.2).

On the path CODE the chain is a loop of straight-line code, whose instructions are fetched one after the other. One
thread is timed. `PriorAccesses` show what shares a cache with it (MT22 s4.5-4.6): another path of the same thread,
another warp of its SM, another SM.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError, WorkloadError, unknown_name
from gpudissect.units import WARP_SIZE, parse_bytes
from gpudissect.workload.order import Explicit, Order, Sequential, Shuffled, convert_whole_numbers, has_equal, narrowed

CODE_LINE = 128
"""Bytes of code that count as one access on the path CODE: eight instructions of 16 bytes, a line of an instruction
cache (JIA18)."""
CODE_UNIT = 1024
"""Bytes by which a loop of straight-line code grows."""
MAX_ACCESSES = 2**31 - 1
"""Accesses of one chase, prior and warm-up accesses included: devices may count them in 32 bits."""
MAX_RECORDS = 2**22
"""Numbers in one trace: as text, some hundreds of megabytes."""
MAX_BLOCK_WARPS = 32
_GRANULE = 32
MAX_CLUSTER_BLOCKS = 16
MAX_PEERS = 16  # GPUs of a machine, too
ORDERS = ("sequential", "random")


class Path(StrEnum):
    """The way of a load to memory: its memory space and the caches it may use."""

    NOTHING = "nothing"  # no load: the timed window is empty (timer calibration)
    GLOBAL = "global"  # global memory through every cache
    GLOBAL_L2 = "global_l2"  # global memory through the L2, bypassing the L1
    READONLY = "readonly"  # global memory through the read-only data cache
    TEXTURE = "texture"
    CONSTANT = "constant"
    SHARED = "shared"
    CLUSTER = "cluster"  # distributed shared memory of another block of the cluster
    TMA = "tma"  # global memory by bulk copies of 16 bytes into shared memory, each awaited before the next
    HOST = "host"  # page-locked memory of the host, through the link to it, bypassing the L1
    PEER = "peer"  # memory of another GPU, through the link to it, bypassing the L1
    PEER_L1 = "peer_l1"  # the same through the L1
    CODE = "code"  # no loads: instruction fetches of a loop of straight-line code

    @property
    def link_format(self) -> tuple[int, bool]:
        """Chains over the same words with the same link format are identical in memory."""
        return self.word, self is Path.CONSTANT

    @property
    def word(self) -> int:
        """Bytes of one link: a pointer, a 4-byte index where addresses are short, or the smallest bulk copy."""
        if self is Path.TMA:
            return 16
        return 4 if self in (Path.NOTHING, Path.TEXTURE, Path.CONSTANT, Path.SHARED, Path.CODE) else 8

    @property
    def cached(self) -> bool:
        """Whether its loads leave lines in a cache that another chase may find there."""
        return self not in (Path.NOTHING, Path.SHARED, Path.CLUSTER, Path.HOST)

    @property
    def leads_to_peer(self) -> bool:
        """Whether its memory is that of another GPU."""
        return self in (Path.PEER, Path.PEER_L1)


class Timing(StrEnum):
    """What is timed.

    - EACH: every single access (MC16 listing 3), the timer's own cost included.
    - LAP: whole laps without anything between the loads (pure pointer chase).
    - COUNT: every single access, classified at once against `Bounds`; only counts are returned, so that no record
      occupies the cache under test.
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
        convert_whole_numbers(self)
        if not 0 <= self.hit_max < self.miss_min <= self.miss_max:
            raise WorkloadError(f"bounds must rise: hit_max < miss_min <= miss_max, got {self}")


@dataclass(frozen=True, kw_only=True)
class PriorAccesses:
    """Laps that one thread, or many, run before a chase begins.

    Attributes:
        path: the way to memory. All paths lead to the same memory, except constant memory, code, and the memory of
            another GPU.
        order: the chain, in the memory of the chase: one of its other chains, or without a common word.
        laps: number of laps.
        warp: the warp that runs them; warp 0 of SM 0 is the one that is timed later.
        sm: 0 for the timed SM, any other number for another SM; if `Chase.sm` names the timed one, the number is added
            to its own, modulo the number of SMs.
        threads: 1 for the first thread of the warp. More threads, from thread 0 of warp 0 on, run a lap together: each
            has a part of the chain, and no order holds between the parts. It takes a fraction of the time.

    Raises `WorkloadError` if the fields do not fit together.
    """

    path: Path
    order: Order
    laps: int = 1
    warp: int = 0
    sm: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        convert_whole_numbers(self)
        if not self.path.cached or self.path is Path.TMA:
            raise WorkloadError(f"prior accesses are loads through a cache, not on path {self.path.value!r}")
        if self.path is Path.CODE:
            _check_code(self.order)
        if self.laps < 1 or not 0 <= self.warp < MAX_BLOCK_WARPS or self.sm < 0:
            limits = f"laps >= 1, 0 <= warp < {MAX_BLOCK_WARPS}, sm >= 0"
            raise WorkloadError(f"prior accesses need {limits}, got {self}")
        most = 1 if self.path is Path.CODE or self.warp else min(self.order.count, MAX_BLOCK_WARPS * WARP_SIZE)
        if not 1 <= self.threads <= most:
            limits = "a thread for each link, 1024 in all, from warp 0 on; code by one"
            raise WorkloadError(f"threads of prior accesses: at most {most} here ({limits}), got {self.threads}")

    @property
    def parts(self) -> NDArray[np.int64]:
        """Positions in the chain at which the parts of the threads begin, and its end: shape (threads + 1,)."""
        size, longer = divmod(self.order.count, self.threads)  # the first parts are longer by a link
        threads = np.arange(self.threads + 1)
        return threads * size + np.minimum(threads, longer)

    def offsets(self) -> NDArray[np.int64]:
        """Byte offsets of a lap, in order; of many threads, as if all advanced at the same pace. Shape (count,)."""
        return self.first_offsets(self.order.count)

    def first_offsets(self, count: int) -> NDArray[np.int64]:
        """The first `count` of `offsets`, or all if there are fewer."""
        count = min(count, self.order.count)
        begins, sizes = self.parts[:-1], np.diff(self.parts)
        steps = np.arange(-(-count // self.threads) + 1)[:, None]
        positions = np.where(steps < sizes, begins + steps, -1).ravel()
        return self.order.offsets_at(positions[positions >= 0][:count])


@dataclass(frozen=True, kw_only=True)
class Chase:
    """One thread follows a chain of dependent loads or, on the path CODE, runs a loop of straight-line code.

    Code is run in order from offset 0, in whole units. Only whole laps of it can be timed, without prior accesses,
    flush (none reaches the instruction caches) or carve-out.

    Attributes:
        path: the way to memory.
        order: the chain, as byte offsets in memory that belongs to the chase.
        timing: what is timed, see `Timing`.
        warmup: laps before timing starts (0: the first timed access is the first touch).
        laps: timed laps.
        picks: with EACH, the reported positions of a lap (sorted, from 0); None for all.
        bounds: with COUNT, the classes.
        carveout: percentage of the on-chip memory requested as shared memory; None for the device's default (as little
            as possible). Drivers may ignore it, and no call returns the one in force; notes of the trace hold the
            driver's preference.
        alone: nothing else of the batch runs meanwhile: for caches that all SMs share.
        flush: caches hold no data of the chase when it starts. Caches private to an SM are always cold then.
        repetition: distinguishes chases that are otherwise equal.
        before: prior accesses, one after the other, after the flush and before the chase's own laps.
        sm: the SM that must run it, by the hardware's number (CUDA: ``%smid``); None for any.
        peer: on path CLUSTER, the rank of the block whose shared memory holds the chain; rank 0 is the timed block, and
            reaches its own memory in the same way. The cluster is the largest that the device supports. On paths PEER
            and PEER_L1, the number of the GPU whose memory holds the chain.

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
        convert_whole_numbers(self)
        for path, order in self.chains:
            _check_aligned(path, order)
        if self.path is Path.CODE:
            _check_code(self.order)
        for problem in self._problems():
            raise WorkloadError(problem)

    def _problems(self) -> Iterator[str]:
        path = self.path.value
        plain = not self.before and not self.flush and self.carveout is None and self.timing is Timing.LAP
        if self.path is Path.CODE and not plain:
            yield "a chase on path 'code' has timing 'lap', no prior accesses, no flush and no carveout"
        if self.before and (not self.path.cached or self.path is Path.TMA):
            reason = "use a path of cached loads" if self.path is Path.TMA else "it has no cache"
            yield f"'before' is not supported on path {path!r}: {reason}"
        if self.before and _overlap(self.chains):
            yield "two chains of a chase and its prior accesses need the same word: move one by a word"
        if self.path is Path.TMA and self.timing is not Timing.LAP:
            yield "path 'tma' supports timing 'lap' only: a copy is several instructions, all of which would be timed"
        if self.sm is not None and self.sm < 0:
            yield f"SMs are numbered from 0, got {self.sm}"
        if self.sm is not None and self.path is Path.CLUSTER:
            yield "a chase in a cluster runs on any SM: leave out 'sm'"
        if self.path is not Path.CLUSTER and not self.path.leads_to_peer and self.peer != 1:
            yield f"'peer' is an option of paths 'cluster', 'peer' and 'peer_l1', not of {path!r}"
        if any(prior.path.leads_to_peer is not self.path.leads_to_peer for prior in self.before):
            yield "a chase and its prior accesses must use memory of the same GPU: this one or the other one"
        if not 0 <= self.peer < MAX_PEERS:
            yield f"'peer' is a rank in a cluster or the number of a GPU, in [0, {MAX_PEERS}), got {self.peer}"
        if self.warmup < 0 or self.laps < 1:
            yield f"a chase needs warmup >= 0 and laps >= 1, got {self.warmup} and {self.laps}"
        if (self.timing is Timing.COUNT) != (self.bounds is not None):
            yield f"timing 'count' needs bounds of hits and misses, other timings have none; got {self.timing.value!r}"
        if self.accesses > MAX_ACCESSES:
            yield f"a chase of {self.accesses} accesses exceeds {MAX_ACCESSES}: use fewer laps"
        if self.picks is not None:
            if self.timing is not Timing.EACH:
                yield f"picks are an option of timing 'each', not of {self.timing.value!r}"
            if not self.picks or list(self.picks) != sorted(set(self.picks)):
                yield "picks must be rising positions of a lap, at least one"
            if self.picks[0] < 0 or self.picks[-1] >= self.order.count:
                yield f"picks must be in [0, {self.order.count}), got {self.picks[0]}..{self.picks[-1]}"
        if self.records > MAX_RECORDS:
            yield f"a trace of {self.records} numbers exceeds {MAX_RECORDS}: use fewer laps, or time whole laps"
        if self.carveout is not None and not 0 <= self.carveout <= 100:
            yield f"carveout is a percentage, got {self.carveout}"

    @property
    def chains(self) -> list[tuple[Path, Order]]:
        """The chase's own chain, then those of the prior accesses."""
        return [(self.path, self.order), *((prior.path, prior.order) for prior in self.before)]

    @cached_property
    def span(self) -> int:
        """Bytes of memory that its chains reach into."""
        return max(order.span for _, order in self.chains)

    @property
    def accesses(self) -> int:
        """All its accesses, prior and warm-up accesses included."""
        prior_accesses = sum(prior.laps * prior.order.count for prior in self.before)
        return prior_accesses + (self.warmup + self.laps) * self.order.count

    @property
    def timed_per_lap(self) -> int:
        """Accesses that one lap reports with timing EACH."""
        return self.order.count if self.picks is None else len(self.picks)

    def visited(self) -> NDArray[np.int64]:
        """Byte offset of every access that is reported with timing EACH, lap after lap, shape (records,)."""
        lap = self.order.offsets() if self.picks is None else self.order.offsets_at(np.array(self.picks))
        return np.tile(lap, self.laps)

    @property
    def records(self) -> int:
        """Numbers in its trace: timed accesses (EACH) or laps."""
        return self.laps * self.timed_per_lap if self.timing is Timing.EACH else self.laps


def _check_aligned(path: Path, order: Order) -> None:
    if path is Path.NOTHING:
        return
    bits = order.bits if isinstance(order, Explicit) else order.start | order.stride
    if bits % path.word:
        raise WorkloadError(f"offsets on path {path} must be multiples of {path.word} bytes, the size of a link")


def _check_code(order: Order) -> None:
    if not isinstance(order, Sequential) or order.start or order.stride != CODE_LINE or order.span % CODE_UNIT:
        raise WorkloadError(
            f"code runs in order: Sequential(count, {CODE_LINE}) from offset 0, in units of {CODE_UNIT} B, "
            f"not {type(order).__name__} of {order.count} offsets over {order.span} B"
        )


def _overlap(chains: list[tuple[Path, Order]]) -> bool:
    """Whether two different chains share a 4-byte word. Constant memory and code are separate from other memory."""
    different = dict.fromkeys((path.link_format, order) for path, order in chains if path is not Path.CODE)
    places = [_places(word, order) for (word, _), order in different]
    if sum(map(len, places)) == len(set().union(*places)):
        return False  # whatever the offsets
    for constant in (True, False):
        alike = [(word, order) for (word, in_constant), order in different if in_constant is constant]
        spans = sorted((order.start, -(-order.span // word) * word) for word, order in alike)
        if all(end <= start for (_, end), (start, _) in pairwise(spans)):
            continue
        words = [order.offsets() // 4 + part for word, order in alike for part in range(word // 4)]
        if has_equal(narrowed(np.concatenate(words))):
            return True
    return False


def _places(word: int, order: Order) -> set[int]:
    """Which 4-byte words of a granule of `_GRANULE` bytes the words of a chain take, or may take."""
    first: Iterable[int]
    if isinstance(order, Explicit):
        always, ever = int(np.bitwise_and.reduce(order.sequence)) % _GRANULE, order.bits
        first = (place for place in range(0, _GRANULE, 4) if place & always == always and place & ever == place)
    else:
        first = [order.start % _GRANULE] if order.stride % _GRANULE == 0 else range(0, _GRANULE, 4)
    return {(place + part) % _GRANULE // 4 for place in first for part in range(0, word, 4)}


def parse_chase(
    *,
    path: str,
    size: str | int,
    stride: str | int,
    order: str,
    seed: int,
    timing: str,
    bounds: str | None,
    **options: Any,
) -> Chase:
    """A chase of one thread over `size` bytes in steps of `stride` bytes; `options` are further ones of `Chase`.

    `order` is sequential or random; `seed` that of a random one. Raises `UsageError` for an unknown name, a footprint
    without a single stride, or impossible options.
    """
    footprint, step = parse_bytes(str(size)), parse_bytes(str(stride))
    if step < 1 or footprint < step:
        raise UsageError(f"the footprint must hold at least one stride, got size {size} and stride {stride}")
    for kind, name, known in (("path", path, Path), ("order", order, ORDERS), ("timing", timing, Timing)):
        if name not in list(known):
            raise unknown_name(kind, name, known)
    count = footprint // step
    return Chase(
        path=Path(path),
        order=Sequential(count, step) if order == "sequential" else Shuffled(count, step, seed),
        timing=Timing(timing),
        bounds=None if bounds is None else _bounds(bounds),
        alone=True,
        **options,
    )


def _bounds(text: str) -> Bounds:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"--bounds takes three whole numbers of cycles such as 60,180,400, got {text!r}")
    return Bounds(*map(int, parts))
