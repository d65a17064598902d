"""`Launch`: empty kernels, for the cost of starting them (VV16 s3.7)."""

from dataclasses import dataclass
from enum import StrEnum

from gpudissect.errors import WorkloadError
from gpudissect.workload.order import convert_whole_numbers

MAX_KERNELS = 4096
MAX_RUNS = 4096


class LaunchMethod(StrEnum):
    """How kernels are started."""

    STREAM = "stream"  # one call per kernel
    GRAPH = "graph"  # one call for a graph of all kernels


class Clock(StrEnum):
    """The clock that times the kernels."""

    HOST = "host"
    GPU = "gpu"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """`kernels` empty kernels of one warp, one after the other, `runs` times.

    Its trace has `nanoseconds` (runs,). The clock of the host runs from before the first start until the end of the
    last kernel is known. The clock of the GPU, the global timer, runs from the begin of one more kernel before them to
    the begin of another after them; the GPU is kept busy until all are queued, so that it never waits for the host.
    `repetition` distinguishes equal launches.

    Raises `WorkloadError` for counts that are not positive or too large.
    """

    method: LaunchMethod
    kernels: int = 1
    runs: int = 100
    repetition: int = 0
    clock: Clock = Clock.HOST

    def __post_init__(self) -> None:
        convert_whole_numbers(self)
        if not 1 <= self.kernels <= MAX_KERNELS or not 1 <= self.runs <= MAX_RUNS:
            limits = f"1 to {MAX_KERNELS} kernels and 1 to {MAX_RUNS} runs"
            raise WorkloadError(f"a launch has {limits}, got {self.kernels} and {self.runs}")
