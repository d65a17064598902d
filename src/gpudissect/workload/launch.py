"""`Launch`: kernels that do nothing, for what starting them costs (VV16 s3.7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpudissect.errors import WorkloadError

MOST_KERNELS = 4096
MOST_RUNS = 4096


class LaunchMethod(StrEnum):
    """How kernels are started."""

    STREAM = "stream"  # one call each
    GRAPH = "graph"  # one call for a graph that was made of them before


class Clock(StrEnum):
    """Who says how long kernels took."""

    HOST = "host"
    GPU = "gpu"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """`kernels` empty kernels of one warp, one after the other, `runs` times.

    Yields `nanoseconds` (runs,). By the host's clock they last from before the first is started until it is known that
    the last has ended, on the quickest of up to eight cores of the host. By the GPU's, the global timer, from the
    begin of one more kernel before them, that notes the time, to the begin of another after them; the GPU is kept busy
    until all are queued, so that it does not wait for the host. Runs are spread over several CUDA streams: by the
    host's clock over 8, by the GPU's each of up to 256 runs has one of its own. Another `repetition` takes others.

    Raises `WorkloadError` for counts that are not positive or too large.

    """

    method: LaunchMethod
    kernels: int = 1
    runs: int = 100
    repetition: int = 0
    clock: Clock = Clock.HOST

    def __post_init__(self) -> None:
        if not 1 <= self.kernels <= MOST_KERNELS or not 1 <= self.runs <= MOST_RUNS:
            raise WorkloadError(f"1 to {MOST_KERNELS} kernels are started 1 to {MOST_RUNS} times, "
                                f"got {self.kernels} and {self.runs}")  # fmt: skip
