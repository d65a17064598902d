"""`Stream`: independent loads, stores or copies over a footprint, for bandwidth. A type only, so far."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpudissect.errors import WorkloadError
from gpudissect.workload.chase import Path


class Transfer(StrEnum):
    """Which way the bytes go."""

    READ = "read"
    WRITE = "write"
    COPY = "copy"


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Many threads move `footprint` bytes, `ilp` independent accesses of `width` bytes each in flight.

    Yields seconds and bytes moved. Raises `WorkloadError` for counts or widths no GPU has.
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

    def __post_init__(self) -> None:
        if min(self.footprint, self.blocks, self.threads, self.ilp, self.passes) < 1:
            raise WorkloadError("footprint, blocks, threads, ilp and passes of a stream must be positive")
        if self.width not in (4, 8, 16):
            raise WorkloadError(f"access width must be 4, 8 or 16 bytes, got {self.width}")
