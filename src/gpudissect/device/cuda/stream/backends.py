"""What a stream needs on each path: a kernel, how it is launched, and a check that all bytes were moved.

Words of a stream depend on their position and, by a salt, on the run, as ``kernels/words.cuh`` computes them: what an
earlier run left is noticed.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.catalogue.compute_capability import MAX_THREAD_REGISTERS, SM_REGISTERS
from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.context import CudaContext, Kernel
from gpudissect.device.cuda.layout import TRAITS
from gpudissect.device.cuda.memory import Arena, place
from gpudissect.errors import KernelFailed, UnsupportedWorkload
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Path, Stream, Transfer

_LOW_32 = 0xFFFFFFFF
_WORD_STEP = 0x9E3779B9
"""From one word to the next (2^32 over the golden ratio: no two of 2^32 words are equal)."""
_SALT_STEP = 0x85EBCA6B
SOURCE_RUN, _UNWRITTEN_RUN = -2, -3  # run numbers of the source's words, and of those in place before the first run
_OTHER_REGISTERS = 24  # of a thread, at most, besides those it loads into: read from the machine code
_BLOCK_SIZES = (1024, 512, 256)  # threads for which kernels are compiled: one has registers for all that is possible
_MAX_CLUSTER_LOADS = 4  # of a thread in flight: with more the assembler waits for some before it starts the others
_MAX_TILES = 2**32 - 1
WORDS: Code = ("stream_words.cu",)
GRID, THREADS = (1024, 1), 256  # of kernels that write or check a footprint
_BARRIER_BYTES = 8  # one behind the buffers for each copy in flight


class Backend(ABC):
    """One stream, ready to run, every block of which writes a `STREAM_REPORT`."""

    kernel: Kernel
    shared: int  # bytes of dynamic shared memory of a block
    carveout = 100  # percent of the on-chip array preferred as shared memory
    source = (0, 0)  # address and bytes of words of run `SOURCE_RUN` that it reads, if any

    def __init__(self, stream: Stream, context: CudaContext, arena: Arena, max_shared: int) -> None:
        self._stream, self._context = stream, context
        self._prepare(stream, context, arena, max_shared)

    @abstractmethod
    def _prepare(self, stream: Stream, context: CudaContext, arena: Arena, max_shared: int) -> None:
        """Load the kernel and find what it reads. Raises `DeviceError` for a stream that it cannot run."""

    @abstractmethod
    def arguments(self, reports: int, run: int) -> list[int]:
        """Arguments of the kernel for run number `run`; `reports` is the address of the blocks' reports."""

    def spoil(self) -> None:
        """Queue other words to where the next run writes, so that it cannot pass for having written the last one's."""
        return None

    def written_words(self, run: int) -> tuple[int, int, int, int] | None:
        """What run number `run` left to be checked: its address, number of words, mask and first word."""
        return None

    def is_wrong(self, outcomes: NDArray[Any], run: int) -> bool:
        """Whether anything was not moved in run number `run`, or came from elsewhere: blocks counted wrong words.

        `outcomes` has the sum and the rank that each block reported.
        """
        return bool(outcomes["sum"].any())


def stream_code(stream: Stream) -> Code:
    """What the kernel of a stream is compiled of. Raises `UnsupportedWorkload` if a block has too few registers."""
    if stream.path is Path.CLUSTER:
        return ("stream_cluster.cu", f"WIDTH={stream.width}", f"ILP={stream.ilp}", f"THREADS={stream.threads}")
    return ("stream_tma.cu",) if stream.path is Path.TMA else _tile_code(stream)


def _tile_code(stream: Stream) -> Code:
    """Source and macros for a stream of tiles in global or shared memory."""
    words = max(1, stream.width // 4) * (stream.ilp if stream.transfer in (Transfer.READ, Transfer.COPY) else 1)
    needed = words + _OTHER_REGISTERS
    threads = next(size for size in _BLOCK_SIZES if needed <= min(SM_REGISTERS // size, MAX_THREAD_REGISTERS))
    if stream.threads > threads:
        raise UnsupportedWorkload(
            f"{stream.ilp} loads of {stream.width} bytes in flight take more registers than a thread has in a block "
            f"of {stream.threads}: at most {threads} threads"
        )
    shape = (f"WIDTH={stream.width}", f"ILP={stream.ilp}", f"LANES={_lanes(stream.threads)}", f"THREADS={threads}")
    source = ("stream_shared.cu",) if stream.path is Path.SHARED else ("stream_global.cu", TRAITS[stream.path].macro)
    return (*source, *shape, f"TRANSFER_{stream.transfer.name}")


class GlobalStream(Backend):
    """Paths GLOBAL, GLOBAL_L2, READONLY, HOST, PEER: blocks take the tiles of a footprint one after the other.

    What was read is summed up and compared. What the last run wrote, copied or added to is read back; other words were
    there before it.

    A run that writes is timed until the L2 has the words: those that the L2 keeps are not in DRAM by then. But each run
    finds the L2 as full of unwritten words as it leaves it, and has to have those written first. Over a footprint of
    several times the L2, as much goes to DRAM in a run as the run writes.
    """

    shared = 0
    carveout = 0  # the largest L1

    def _prepare(self, stream: Stream, context: CudaContext, arena: Arena, max_shared: int) -> None:
        tile = stream.threads * stream.ilp * stream.width
        tiles = stream.footprint // tile
        if tiles > _MAX_TILES:
            raise UnsupportedWorkload(f"a footprint has at most {_MAX_TILES} tiles of {tile} bytes, got {tiles}")
        source, *options = stream_code(stream)
        self.kernel = context.kernel(source, "stream_global", *options)
        copies = 2 if stream.transfer is Transfer.COPY else 1
        regions, size = place([stream.footprint] * copies)
        base = arena.reserve(size)
        self._source, self._target = base + regions[0], base + regions[-1]
        self._tiles = tiles
        self._sums: NDArray[np.uint64] | None = None
        if stream.transfer in (Transfer.READ, Transfer.COPY):
            self.source = self._source, stream.footprint
        if stream.transfer is Transfer.READ:
            sums = _sums_of_tiles(tile // 4, tiles, stream.blocks_per_wave, salt(SOURCE_RUN))
            self._sums = np.tile(sums * np.uint64(stream.passes & _LOW_32) & np.uint64(_LOW_32), stream.waves)

    def spoil(self) -> None:
        """WRITE, COPY and ADD."""
        if self._stream.transfer is not Transfer.READ:
            self._launch("write_words", self._target, _LOW_32, salt(_UNWRITTEN_RUN))

    def arguments(self, reports: int, run: int) -> list[int]:
        """As ``kernels/stream_global.cu`` takes them."""
        stream = self._stream
        return [reports, self._source, self._target, self._tiles, stream.blocks_per_wave, stream.passes, salt(run)]

    def written_words(self, run: int) -> tuple[int, int, int, int] | None:
        """WRITE, COPY and ADD: all of them."""
        stream = self._stream
        if stream.transfer is Transfer.READ:
            return None
        mask, start = _LOW_32, salt(SOURCE_RUN)
        if stream.transfer is Transfer.WRITE:  # all warps leave the same words, each pass the next ones
            mask = _lanes(stream.threads) * stream.width // 4 - 1
            start = salt(run) + stream.passes - 1 & _LOW_32
        elif stream.transfer is Transfer.ADD:
            start = salt(_UNWRITTEN_RUN) + stream.passes * stream.waves * salt(run) & _LOW_32
        return self._target, stream.footprint // 4, mask, start

    def is_wrong(self, outcomes: NDArray[Any], run: int) -> bool:
        """READ: whether a block's sum differs from that of its tiles. Else blocks report none."""
        return self._sums is not None and bool((outcomes["sum"] != self._sums).any())

    def _launch(self, name: str, address: int, *arguments: int) -> None:
        kernel = self._context.kernel(*WORDS, name)
        self._context.launch(kernel, GRID, THREADS, 0, address, self._stream.footprint // 4, *arguments)


class TextureStream(GlobalStream):
    """Path TEXTURE: blocks fetch the tiles of a footprint, one texel of `width` bytes for each access."""

    def _prepare(self, stream: Stream, context: CudaContext, arena: Arena, max_shared: int) -> None:
        super()._prepare(stream, context, arena, max_shared)
        self._texture = context.create_texture(self._source, stream.footprint, stream.width)

    def arguments(self, reports: int, run: int) -> list[int]:
        """As ``kernels/stream_global.cu`` takes them."""
        reports, _, *others = super().arguments(reports, run)
        return [reports, self._texture, *others]


class SharedStream(Backend):
    """Path SHARED: every block traverses shared memory of its own."""

    def _prepare(self, stream: Stream, context: CudaContext, arena: Arena, max_shared: int) -> None:
        self.shared = stream.footprint * (2 if stream.transfer is Transfer.COPY else 1)
        check_shared(self.shared, max_shared)
        source, *options = stream_code(stream)
        self.kernel = context.kernel(source, "stream_shared", *options)

    def arguments(self, reports: int, run: int) -> list[int]:
        """As ``kernels/stream_shared.cu`` takes them."""
        return [reports, self._stream.footprint, self._stream.passes, salt(run)]

    def is_wrong(self, outcomes: NDArray[Any], run: int) -> bool:
        """READ: whether a block's sum differs from that of its words."""
        stream = self._stream
        if stream.transfer is not Transfer.READ:
            return super().is_wrong(outcomes, run)
        words = stream.footprint // 4
        # Block b has words of salt ~(salt + b), which is -1 - salt - b.
        first = stream.passes * _sum_of_words(0, words, -1 - salt(run)) & _LOW_32
        less = np.arange(stream.blocks, dtype=np.uint64) * np.uint64(stream.passes * words & _LOW_32)
        return bool((outcomes["sum"] != np.uint64(first) - less & np.uint64(_LOW_32)).any())


class ClusterStream(Backend):
    """Path CLUSTER: every block, on an SM of its own, reads the shared memory of the next one of its cluster."""

    def _prepare(self, stream: Stream, context: CudaContext, arena: Arena, max_shared: int) -> None:
        check_shared(stream.footprint, max_shared)
        if stream.ilp > _MAX_CLUSTER_LOADS:
            raise UnsupportedWorkload(
                f"a thread has at most {_MAX_CLUSTER_LOADS} loads in flight on path 'cluster', got {stream.ilp}"
            )
        source, *options = stream_code(stream)
        self.kernel = context.kernel(source, "stream_cluster", *options)
        self.kernel.allow_any_cluster()
        self.shared = max_shared  # so that no two blocks share an SM
        self._ranks = np.arange(stream.blocks) % stream.cluster
        # Word i of the block of rank r is i + (r + 1) * _WORD_STEP.
        words, neighbors = stream.footprint // 4, [(rank + 1) % stream.cluster for rank in range(stream.cluster)]
        totals = [words * (words - 1) // 2 + words * (rank + 1) * _WORD_STEP for rank in neighbors]
        self._sums = np.array([stream.passes * total & _LOW_32 for total in totals], np.uint64)[self._ranks]

    def arguments(self, reports: int, run: int) -> list[int]:
        """As ``kernels/stream_cluster.cu`` takes them."""
        return [reports, self._stream.footprint, self._stream.passes]

    def is_wrong(self, outcomes: NDArray[Any], run: int) -> bool:
        """Whether a block read anything but its neighbor's words. Raises `KernelFailed` for blocks at other ranks."""
        if not (outcomes["rank"] == self._ranks).all():
            raise KernelFailed("a stream in clusters: ranks of blocks do not follow from their numbers")
        return bool((outcomes["sum"] != self._sums).any())


class BulkStream(Backend):
    """Path TMA: bulk copies from global into shared memory."""

    def _prepare(self, stream: Stream, context: CudaContext, arena: Arena, max_shared: int) -> None:
        self.shared = stream.ilp * (stream.width + _BARRIER_BYTES)
        check_shared(self.shared, max_shared)
        self._source = arena.reserve(stream.footprint)
        fill, self.kernel = (context.kernel("stream_tma.cu", name) for name in ("fill", "stream_tma"))
        context.launch(fill, GRID, THREADS, 0, self._source, stream.footprint // 8)

    def arguments(self, reports: int, run: int) -> list[int]:
        """As ``kernels/stream_tma.cu`` takes them."""
        stream = self._stream
        return [self._source, reports, stream.footprint, stream.passes, stream.width, stream.ilp]


BACKENDS: dict[Path, type[Backend]] = {
    Path.GLOBAL: GlobalStream,
    Path.GLOBAL_L2: GlobalStream,
    Path.READONLY: GlobalStream,
    Path.TEXTURE: TextureStream,
    Path.SHARED: SharedStream,
    Path.HOST: GlobalStream,
    Path.PEER: GlobalStream,
    Path.CLUSTER: ClusterStream,
    Path.TMA: BulkStream,
}


def check_shared(needed: int, available: int) -> None:
    """Raise `UnsupportedWorkload` if a block needs more shared memory than it can have."""
    if needed > available:
        size, limit = format_bytes(needed), format_bytes(available)
        raise UnsupportedWorkload(f"a block of this stream needs {size} of shared memory, this device has {limit}")


def salt(run: int) -> int:
    """The first word of run number `run`."""
    return (run + 1) * _SALT_STEP & _LOW_32


def _lanes(threads: int) -> int:
    """Threads whose accesses are contiguous: a warp, or the largest power of two that divides a block's threads."""
    return min(threads & -threads, WARP_SIZE)


def _sum_of_words(first: int, count: int, start: int) -> int:
    """Sum of `count` words from number `first` on, where word 0 is `start` (not yet modulo 2^32)."""
    return count * start + _WORD_STEP * (count * first + count * (count - 1) // 2)


def _sums_of_tiles(words: int, tiles: int, blocks: int, start: int) -> NDArray[np.uint64]:
    """Sum of the tiles of each block modulo 2^32, shape (blocks,): block b has tiles b, b + `blocks`, ...

    A tile has `words` words; word 0 of tile 0 is `start`.
    """
    block = np.arange(blocks)
    counts = np.where(block < tiles, (tiles - block - 1) // blocks + 1, 0)
    numbers = (counts * block + blocks * (counts * (counts - 1) // 2)).astype(np.uint64)  # of its tiles, summed up
    tile, step = _sum_of_words(0, words, start) & _LOW_32, _WORD_STEP * words * words & _LOW_32
    sums = counts.astype(np.uint64) * np.uint64(tile) + np.uint64(step) * (numbers & np.uint64(_LOW_32))
    return np.asarray(sums & np.uint64(_LOW_32), np.uint64)
