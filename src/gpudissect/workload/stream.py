"""`Stream`: independent loads, stores or copies over a footprint, for bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpudissect.errors import WorkloadError
from gpudissect.workload.chase import MOST_BLOCKS, Path

MOST_RUNS = 1024
MOST_COPY = 64 << 10
"""Bytes of one bulk copy: three of them fit into the shared memory of a block."""
MOST_IN_FLIGHT = 32
MOST_THREADS = 1024
MOST_BYTES = 1 << 60
"""That one run moves."""
MOST_TOLD = 1 << 13
"""Blocks of a stream of which a trace tells each one's cycles: more than any GPU runs at once."""


class Transfer(StrEnum):
    """Which way the bytes go."""

    READ = "read"
    WRITE = "write"
    COPY = "copy"


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Many threads move `footprint` bytes, `ilp` independent accesses of `width` bytes each in flight.

    Yields nanoseconds and bytes of each run, and, but on CLUSTER and TMA, `cycles` (runs, blocks), of each block by its
    SM's clock, if there are no more than `MOST_TOLD`.

    Attributes:
        path: the way to memory. GLOBAL goes through the L1, GLOBAL_L2 past it: blocks take turns at tiles of `threads`
            x `ilp` x `width` bytes, each the same tiles in every pass, so that what one block reads may stay in its L1.
            SHARED: every block goes through shared memory of its own. CLUSTER: every block reads the shared memory of
            the next one of its cluster (a ring). TMA: one thread of each block starts bulk copies into its shared
            memory and awaits them.
        transfer: which way. COPY reads `footprint` bytes and writes them to others beside them.
        footprint: bytes gone through in one pass; on SHARED and CLUSTER by each block.
        blocks, threads: how many blocks, and threads of each. Blocks that do not fit onto the GPU at once run when
            others have ended.
        ilp: accesses that one thread has in flight.
        width: bytes of one access: 4, 8 or 16; on TMA of one copy, a multiple of 16.
        passes: how often one run goes through the footprint.
        repetition: tells otherwise equal streams apart.
        cluster: blocks of one cluster; 1 for none.
        runs: timed runs. One more goes before them, untimed, so that caches are warm as far as they hold the
            footprint.
        waves: how often other blocks go through the footprint again, on GLOBAL and GLOBAL_L2, each in one pass: of
            `blocks` so many parts, one after another, as far as they do not fit onto the GPU at once.

    Raises `WorkloadError` for counts or widths no GPU has.

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

    def __post_init__(self) -> None:
        if min(self.footprint, self.blocks, self.threads, self.ilp, self.passes, self.runs, self.waves) < 1:
            raise WorkloadError("footprint, blocks, threads, ilp, passes, runs and waves of a stream must be positive")
        if self.threads > MOST_THREADS or self.runs > MOST_RUNS:
            raise WorkloadError(f"a stream has at most {MOST_THREADS} threads a block and {MOST_RUNS} runs, "
                                f"got {self.threads} and {self.runs}")  # fmt: skip
        if not 1 <= self.cluster <= MOST_BLOCKS or self.blocks % self.cluster:
            raise WorkloadError(f"blocks of a stream come in whole clusters of 1 to {MOST_BLOCKS}, "
                                f"got {self.blocks} in clusters of {self.cluster}")  # fmt: skip
        if self.path is Path.TMA:
            self._check_copies()
        elif self.width not in (4, 8, 16):
            raise WorkloadError(f"access width must be 4, 8 or 16 bytes, got {self.width}")
        if self.path is not Path.TMA:
            self._check_tiles()
        if self.path is Path.CLUSTER:
            self._check_ring()
        if self.waves > 1:
            self._check_waves()
        if self.moved > MOST_BYTES:
            raise WorkloadError(f"a run of a stream moves at most 2^60 bytes, got {self.moved}")

    def _check_copies(self) -> None:
        if self.width % 16 or not 16 <= self.width <= MOST_COPY:
            raise WorkloadError(f"a bulk copy moves a multiple of 16 bytes up to {MOST_COPY}, got {self.width}")
        if self.threads != 1 or self.ilp > MOST_IN_FLIGHT or self.cluster != 1:
            raise WorkloadError("on path 'tma' one thread of each block starts the copies, "
                                f"at most {MOST_IN_FLIGHT} at a time, in no cluster")  # fmt: skip
        if self.footprint % self.width:
            raise WorkloadError(f"a footprint of {self.footprint} bytes is no whole number of copies of {self.width}")
        self._must_read()

    def _check_ring(self) -> None:
        if self.cluster < 2:
            raise WorkloadError("on path 'cluster' a block reads from its neighbour: a cluster has two blocks or more")
        self._must_read()

    def _check_waves(self) -> None:
        if self.path not in (Path.GLOBAL, Path.GLOBAL_L2) or self.passes > 1:
            raise WorkloadError("only on paths 'global' and 'global_l2' a stream goes through its footprint in waves, "
                                "and in one pass each")  # fmt: skip
        if self.blocks % self.waves:
            raise WorkloadError(f"blocks of a stream come in whole waves, got {self.blocks} in {self.waves} waves")

    def _check_tiles(self) -> None:
        tile = self.threads * self.ilp * self.width
        if self.ilp > MOST_IN_FLIGHT:
            raise WorkloadError(f"a thread has at most {MOST_IN_FLIGHT} accesses in flight, got {self.ilp}")
        if self.footprint % tile:
            raise WorkloadError(f"a footprint of {self.footprint} bytes is no multiple of what all threads "
                                f"of a block move at a time, {tile}")  # fmt: skip

    def _must_read(self) -> None:
        if self.transfer is not Transfer.READ:
            raise WorkloadError(f"a stream on path {self.path.value!r} can only read, not {self.transfer.value}")

    @property
    def blocks_per_wave(self) -> int:
        """Blocks that go through the footprint once, all together."""
        return self.blocks // self.waves

    @property
    def moved(self) -> int:
        """Bytes that one run moves: of a copy those read and those written."""
        each = self.footprint * (2 if self.transfer is Transfer.COPY else 1)
        return self.passes * self.waves * each * (self.blocks if self.path in (Path.SHARED, Path.CLUSTER) else 1)
