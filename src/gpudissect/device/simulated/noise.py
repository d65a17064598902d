"""`Noise`: deviations of a simulated clock from the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from gpudissect.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OUTLIER_MEAN = 300.0
DRIFT_PERIOD = 1 << 20
MAX_OTHER_USERS = 1 << 20  # accesses


@dataclass(frozen=True)
class Noise:
    """Deviations of timings. The same noise and the same workload always give the same numbers.

    Attributes:
        seed: of all randomness, that of random replacement policies included.
        jitter: probability that an access takes one cycle more or less, half each.
        outliers: probability that an access is delayed (an interrupt, a DRAM refresh) by an exponentially distributed
            number of cycles with mean `OUTLIER_MEAN`.
        drift: relative amplitude of a slow oscillation of all latencies (sine, `DRIFT_PERIOD` accesses, random phase).
        other_users: accesses of other users of the GPU before each chase, to random lines behind its memory: the L2 and
            the TLBs are not empty when it starts.

    Raises `UsageError` for probabilities outside [0, 1], a drift outside [0, 1) or an impossible number of accesses.
    """

    seed: int = 0
    jitter: float = 0.1
    outliers: float = 1e-4
    drift: float = 2e-4
    other_users: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.jitter <= 1 and 0 <= self.outliers <= 1 and self.jitter + self.outliers <= 1):
            raise UsageError(f"jitter and outliers are probabilities, together at most 1, got {self}")
        if not 0 <= self.drift < 1:
            raise UsageError(f"drift is a share of the latency in [0, 1), got {self.drift}")
        if not 0 <= self.other_users <= MAX_OTHER_USERS:
            raise UsageError(f"accesses of other users are in [0, {MAX_OTHER_USERS}], got {self.other_users}")

    @classmethod
    def none(cls, seed: int = 0) -> Self:
        """No deviation; `seed` is that of random replacement."""
        return cls(seed=seed, jitter=0.0, outliers=0.0, drift=0.0)

    def disturb(self, durations: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Durations in cycles, shape (rows, n), with noise: jitter and outliers of each, a drift of each row."""
        import numpy as np

        jitter = np.sign(rng.random(durations.shape) - 0.5) * (rng.random(durations.shape) < self.jitter)
        delays = rng.exponential(OUTLIER_MEAN, durations.shape) * (rng.random(durations.shape) < self.outliers)
        drift = 1 + self.drift * np.sin(2 * np.pi * rng.random((durations.shape[0], 1)))
        disturbed: NDArray[np.float64] = np.maximum(durations * drift + jitter + delays, 0.0)
        return disturbed
