"""`Mix`: many warps running an instruction mix at a set occupancy (VV16 ch 5). A type only, so far."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpudissect.errors import WorkloadError


class Access(StrEnum):
    """How the lanes of a warp spread over memory."""

    STREAMING = "streaming"
    STRIDED = "strided"
    RANDOM = "random"


@dataclass(frozen=True, kw_only=True)
class Mix:
    """`warps_per_sm` warps, each `iterations` times one dependent load and `alpha` dependent instructions.

    Yields start and end cycle and SM of every warp, and sampled single latencies (cycles).
    Raises `WorkloadError` for negative or zero counts.
    """

    alpha: float
    warps_per_sm: int
    block_size: int
    iterations: int
    instruction: str = "fadd"
    access: Access = Access.STREAMING
    ilp: int = 1
    repetition: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", float(self.alpha))  # 1 and 1.0 are one workload, with one digest
        if self.alpha < 0:
            raise WorkloadError(f"alpha, instructions per load, must not be negative, got {self.alpha}")
        if min(self.warps_per_sm, self.block_size, self.iterations, self.ilp) < 1:
            raise WorkloadError("warps per SM, block size, iterations and ilp of a mix must be positive")
