"""Near and far memory: which lines belong to the part of the GPU that is near to an SM, by their first touches.

Where an L2 has two parts, each keeps what lies in the memory behind it. A first touch then takes one of two times,
and which of them is a property of the line: however often it is touched anew, and in whichever order. Noise, misses of
a TLB or a refresh of the memory are none. Once the home of a line is known, thresholds tell every kind of access from
every other, though a far hit of the L2 is about as slow as the nearest memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST = 0.2  # share of the lines that either home must have
DISTANCE = 0.08  # of the near latency: two homes must be further apart
GAP = 0.15  # of their distance, to either side of the threshold ...
IN_GAP = 0.03  # ... where so few lines may lie
AGREEMENT = 0.95  # share of the lines whose home must come out the same from either half of the touches


@dataclass(frozen=True, eq=False)
class Homes:
    """First touches of near and far lines.

    Attributes:
        threshold: cycles of a line's fastest first touch above which its home is far.
        near, far: medians of first touches of near and of far lines, cycles, timer included.
        near_samples, far_samples: the touches themselves.
    """

    threshold: float
    near: float
    far: float
    near_samples: NDArray[np.int64]
    far_samples: NDArray[np.int64]

    def are_far(self, touches: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which lines are far, from first touches (repetitions, lines) in cycles."""
        return np.asarray(touches.min(axis=0) > self.threshold)


def find_homes(touches: NDArray[np.int64]) -> Homes | None:
    """Homes from first touches of the same lines, shape (repetitions, lines), cycles; None if lines do not differ so.

    Raises `ValueError` for fewer than two repetitions.
    """
    if touches.ndim != 2 or len(touches) < 2:
        raise ValueError(f"homes show when lines are touched anew: got first touches of shape {touches.shape}")
    fastest = touches.min(axis=0)
    threshold = _threshold(fastest)
    above = fastest > threshold
    if not FEWEST <= above.mean() <= 1 - FEWEST:
        return None
    near, far = float(np.median(fastest[~above])), float(np.median(fastest[above]))
    if far - near < DISTANCE * near:
        return None
    if np.mean(np.abs(fastest - threshold) < GAP * (far - near)) > IN_GAP:
        return None
    half = len(touches) // 2
    first, second = (part.min(axis=0) > threshold for part in (touches[:half], touches[half:]))
    if np.mean(first == second) < AGREEMENT:
        return None
    near_samples, far_samples = touches[:, ~above].ravel(), touches[:, above].ravel()
    return Homes(threshold, float(np.median(near_samples)), float(np.median(far_samples)), near_samples, far_samples)


def _threshold(values: NDArray[np.int64]) -> float:
    """The middle between two means that has the nearest values on either side (2-means; Lloyd 1982)."""
    threshold = float(np.mean(np.quantile(values, [0.05, 0.95])))
    for _ in range(50):
        above = values > threshold
        if above.all() or not above.any():
            return threshold
        middle = float((values[above].mean() + values[~above].mean()) / 2)
        if middle == threshold:
            break
        threshold = middle
    return threshold
