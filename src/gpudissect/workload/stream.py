"""`Stream`: independent loads, stores or copies over a footprint, for bandwidth."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gpudissect.errors import WorkloadError
from gpudissect.workload.chase import MAX_CLUSTER_BLOCKS, MAX_PEERS, Path
from gpudissect.workload.order import convert_whole_numbers

MAX_RUNS = 1024
MAX_COPY_BYTES = 64 << 10
"""Of one bulk copy: three of them fit into the shared memory of a block."""
ACCESS_WIDTHS = (1, 2, 4, 8, 16)
"""Bytes of one load or store of a thread."""
READ_PATHS = (Path.READONLY, Path.TEXTURE, Path.CLUSTER, Path.TMA)
"""Paths on which a stream can only read."""
ADD_PATHS = (Path.GLOBAL_L2, Path.PEER)
"""Paths on which a stream can add: atomics are executed where the memory is."""
ADD_WIDTH = 4
MAX_IN_FLIGHT = 32
MAX_THREADS = 1024
MAX_RUN_BYTES = 1 << 60
MAX_TIMED_BLOCKS = 1 << 13
"""Blocks of a stream whose cycles are traced one by one: more than any GPU runs at once."""


class Transfer(StrEnum):
    """Direction of a transfer."""

    READ = "read"
    WRITE = "write"
    COPY = "copy"
    ADD = "add"  # an atomic addition to every word, which returns nothing (CUDA: red.add)


MOVES = (Transfer.READ, Transfer.WRITE, Transfer.COPY)
"""Transfers of which the survey measures the bandwidth."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Many threads move `footprint` bytes, each with `ilp` independent accesses of `width` bytes in flight.

    Its trace has nanoseconds and bytes of each run and, except on CLUSTER and TMA, `cycles` (runs, blocks) of every
    block by the clock of its SM, if there are at most `MAX_TIMED_BLOCKS` blocks.

    Attributes:
        path: the way to memory. GLOBAL goes through the L1, GLOBAL_L2 bypasses it: blocks alternate in tiles of
            `threads` x `ilp` x `width` bytes, each with the same tiles in every pass, so that they may stay in its L1.
            So they do on READONLY and on TEXTURE, where an access fetches a texel of `width` bytes. SHARED: every block
            traverses its own shared memory. HOST and PEER: as GLOBAL_L2, over memory of the host or of another GPU; a
            copy uses both directions of the link at once. CLUSTER: every block reads the shared memory of the next
            block of its cluster. TMA: one thread per block starts bulk copies into its shared memory and awaits them.
        transfer: direction. COPY reads `footprint` bytes and writes them elsewhere. ADD adds to words of 4 bytes, on
            GLOBAL_L2 and PEER.
        footprint: bytes traversed in one pass; on SHARED and CLUSTER per block.
        blocks, threads: number of blocks, and threads per block. Blocks that do not fit onto the GPU at once run when
            others have ended.
        ilp: accesses in flight per thread.
        width: bytes of one access: 1, 2, 4, 8 or 16 (on CLUSTER from 4 on); on TMA of one copy, a multiple of 16.
        passes: traversals of the footprint by each wave of a run.
        repetition: distinguishes streams that are otherwise equal.
        cluster: blocks per cluster; 1 for none.
        runs: timed runs, after an untimed one that warms the caches.
        waves: on GLOBAL and GLOBAL_L2, number of block waves, each of which traverses the footprint: `blocks`
            are divided into so many waves, one after the other as far as they do not fit onto the GPU at once.
        peer: on path PEER, the number of the GPU whose memory is accessed.

    Raises `WorkloadError` for counts or widths that no GPU supports.
    """

    path: Path
    transfer: Transfer
    footprint: int
    blocks: int
    threads: int
    ilp: int = 1
    width: int = 4
    passes: int = 1
    repetition: int = 0
    cluster: int = 1
    runs: int = 1
    waves: int = 1
    peer: int = 1

    def __post_init__(self) -> None:
        convert_whole_numbers(self)
        for problem in self._problems():
            raise WorkloadError(problem)

    def _problems(self) -> Iterator[str]:
        if min(self.footprint, self.blocks, self.threads, self.ilp, self.passes, self.runs, self.waves) < 1:
            yield "footprint, blocks, threads, ilp, passes, runs and waves of a stream must be positive"
        if self.threads > MAX_THREADS or self.runs > MAX_RUNS:
            limits = f"{MAX_THREADS} threads per block and {MAX_RUNS} runs"
            yield f"a stream has at most {limits}, got {self.threads} and {self.runs}"
        if not 1 <= self.cluster <= MAX_CLUSTER_BLOCKS or self.blocks % self.cluster:
            clusters = f"whole clusters of 1 to {MAX_CLUSTER_BLOCKS} blocks"
            yield f"a stream has {clusters}, got {self.blocks} blocks in clusters of {self.cluster}"
        yield from self._copy_problems() if self.path is Path.TMA else self._tile_problems()
        if self.path is Path.CLUSTER and self.cluster < 2:
            yield "on path 'cluster' every block reads from the next one: a cluster needs two blocks or more"
        if self.path in READ_PATHS and self.transfer is not Transfer.READ:
            yield f"a stream on path {self.path.value!r} can only read, not {self.transfer.value}"
        if self.transfer is Transfer.ADD and (self.path not in ADD_PATHS or self.width != ADD_WIDTH):
            paths = " or ".join(map(repr, map(str, ADD_PATHS)))
            got = f"got width {self.width} on path {self.path.value!r}"
            yield f"additions need width {ADD_WIDTH} and path {paths}: {got}"
        if self.waves > 1 and self.path not in (Path.GLOBAL, Path.GLOBAL_L2):
            yield "waves are supported only on paths 'global' and 'global_l2'"
        if not 0 <= self.peer < MAX_PEERS or (self.path is not Path.PEER and self.peer != 1):
            yield f"'peer' is an option of path 'peer', the number of a GPU in [0, {MAX_PEERS}), got {self.peer}"
        if self.blocks % self.waves:
            yield f"a stream has whole waves of blocks, got {self.blocks} blocks in {self.waves} waves"
        if self.moved > MAX_RUN_BYTES:
            yield f"a run of a stream moves at most 2^60 bytes, got {self.moved}"

    def _copy_problems(self) -> Iterator[str]:
        if self.width % 16 or not 16 <= self.width <= MAX_COPY_BYTES:
            yield f"a bulk copy moves a multiple of 16 bytes up to {MAX_COPY_BYTES}, got {self.width}"
        if self.threads != 1 or self.ilp > MAX_IN_FLIGHT or self.cluster != 1:
            in_flight = f"at most {MAX_IN_FLIGHT} at a time"
            yield f"on path 'tma' one thread per block starts the copies, {in_flight}, in no cluster"
        if self.footprint % self.width:
            yield f"a footprint of {self.footprint} bytes is not a whole number of copies of {self.width} bytes"

    def _tile_problems(self) -> Iterator[str]:
        if self.width not in ACCESS_WIDTHS or (self.path is Path.CLUSTER and self.width < 4):
            yield f"access width must be 1, 2, 4, 8 or 16 bytes (on path 'cluster' 4 or more), got {self.width}"
        if self.threads * self.width % 4:
            yield f"the threads of a block access whole words of 4 bytes, got {self.threads} of {self.width} bytes"
        if self.ilp > MAX_IN_FLIGHT:
            yield f"a thread has at most {MAX_IN_FLIGHT} accesses in flight, got {self.ilp}"
        if self.footprint % (tile := self.threads * self.ilp * self.width):
            yield f"a footprint of {self.footprint} bytes is not a multiple of a tile of {tile} bytes"

    @property
    def blocks_per_wave(self) -> int:
        """Blocks that traverse the footprint once, all together."""
        return self.blocks // self.waves

    @property
    def moved(self) -> int:
        """Bytes moved by one run; of a copy those read plus those written."""
        traversed = self.footprint * (2 if self.transfer is Transfer.COPY else 1)
        return self.passes * self.waves * traversed * (self.blocks if self.path in (Path.SHARED, Path.CLUSTER) else 1)
