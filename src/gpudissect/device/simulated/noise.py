"""`Noise`: what a simulated clock adds to the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from gpudissect.errors import UsageError


@dataclass(frozen=True)
class Noise:
    """How far timings stray. The same noise and the same workload always give the same numbers.

    Attributes:
        seed: of all randomness, that of random replacement policies included.
        jitter: probability that an access takes one cycle more or less, half each.
        outliers: probability that an access takes much longer (an interrupt, a refresh of DRAM): by an
            exponentially distributed number of cycles with mean `OUTLIER_MEAN`.
        drift: relative amplitude of a slow swing of all latencies (sine, `DRIFT_PERIOD` accesses, random phase).

    Raises `UsageError` for probabilities outside [0, 1] or a drift outside [0, 1).

    """

    seed: int = 0
    jitter: float = 0.1
    outliers: float = 1e-4
    drift: float = 2e-4

    def __post_init__(self) -> None:
        if not (0 <= self.jitter <= 1 and 0 <= self.outliers <= 1 and self.jitter + self.outliers <= 1):
            raise UsageError(f"jitter and outliers are probabilities, together at most 1, got {self}")
        if not 0 <= self.drift < 1:
            raise UsageError(f"drift is a share of the latency in [0, 1), got {self.drift}")

    @classmethod
    def none(cls, seed: int = 0) -> Self:
        """The bare truth; `seed` still drives random replacement."""
        return cls(seed=seed, jitter=0.0, outliers=0.0, drift=0.0)


OUTLIER_MEAN = 300.0
DRIFT_PERIOD = 1 << 20
