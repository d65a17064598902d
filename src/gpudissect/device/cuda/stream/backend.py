"""What a stream needs of its path: a kernel, how it is started, and how to tell whether all bytes came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from gpudissect.catalogue.capabilities import MAX_THREAD_REGISTERS, SM_REGISTERS
from gpudissect.device.cuda.driver import Kernel
from gpudissect.errors import UnsupportedWorkload
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Stream, Transfer

Kernels = Callable[..., Kernel]
"""Gives a kernel of a source by its name, compiled with macros."""
_BESIDE = 24  # registers a thread needs at most beside those it loads into: read from the machine code
_BLOCK_SIZES = (1024, 512, 256)  # threads for which kernels are compiled: one has room for all that fits


class Way(Protocol):
    """One stream, ready to run."""

    @property
    def kernel(self) -> Kernel:
        """The kernel of which every block writes a `STREAM_REPORT`."""

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory that a block of it takes."""

    @property
    def carveout(self) -> int:
        """Percent of the largest shared memory that an SM should keep from its L1."""

    def arguments(self, reports: int, run: int) -> list[int]:
        """What the kernel of run number `run` is given; `reports` is the address of the blocks' reports."""

    def wrong(self, reports: NDArray[Any], run: int) -> bool:
        """After run number `run`: did anything not come, or come from elsewhere?  `reports` are the blocks' own."""


def macros(stream: Stream) -> tuple[str, ...]:
    """Macros of ``kernels/round.cuh`` for this stream.

    Raises `DeviceError` if a block of so many threads has too few registers for what each of them has in flight.
    """
    words = stream.width // 4 * (1 if stream.transfer is Transfer.WRITE else stream.ilp)
    most = next(size for size in _BLOCK_SIZES if words + _BESIDE <= min(SM_REGISTERS // size, MAX_THREAD_REGISTERS))
    if stream.threads > most:
        raise UnsupportedWorkload(
            f"{stream.ilp} loads of {stream.width} bytes in flight take more registers than a thread "
            f"has in a block of {stream.threads}: at most {most} threads"
        )
    return (
        f"WIDTH={stream.width}", f"ILP={stream.ilp}", f"LANES={team(stream.threads)}", f"THREADS={most}",
        f"TRANSFER_{stream.transfer.name}",
    )  # fmt: skip


def team(threads: int) -> int:
    """Threads whose accesses lie together: a warp, or the largest power of two that divides the threads of a block."""
    return min(threads & -threads, WARP_SIZE)


def check_shared(wanted: int, there: int) -> None:
    """Raises `DeviceError` if a block wants more shared memory than there is."""
    if wanted > there:
        raise UnsupportedWorkload(f"a block of this stream needs {format_bytes(wanted)} of shared memory, "
                    f"this device has {format_bytes(there)}")  # fmt: skip
