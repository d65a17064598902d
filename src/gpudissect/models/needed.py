"""How many warps a loop needs according to a model, and at which alpha it needs the most (VV16 s4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.models.base import Loop, Machine, Model
from gpudissect.models.bounds import peak

MOST = 1024  # warps of an SM up to which is looked: many times what any GPU holds
STEPS = 48  # halvings of one warp
ALPHAS = tuple(float(alpha) for alpha in 2 ** (np.arange(19) / 2))
"""1 to 512 in steps of sqrt 2 (VV16 s7.9)."""


@dataclass(frozen=True)
class Cusp:
    """Where a loop needs the most warps."""

    alpha: float
    warps: float


def needed(model: Model, machine: Machine, loop: Loop, share: float = 1.0) -> float | None:
    """Least warps of an SM, not rounded, at which throughput is `share` of `bounds.peak`; None where no number is.

    The peak is the machine's, not the model's own, as VV16 s4.5 and s7.10 compare them. The first crossing counts.
    """
    target = share * peak(machine, loop) * (1 - 1e-12)
    whole = np.arange(1, MOST + 1, dtype=float)
    reached = np.flatnonzero(model.throughput(machine, loop, whole) >= target)
    if not reached.size:
        return None
    high = float(whole[reached[0]])
    low = high - 1
    for _ in range(STEPS):
        middle = (low + high) / 2
        if middle and float(model.throughput(machine, loop, middle)) >= target:
            high = middle
        else:
            low = middle
    return high


def cusp(model: Model, machine: Machine, loops: Sequence[Loop], share: float = 1.0) -> Cusp | None:
    """Of `loops`, the one that needs the most warps; None where none of them reaches the share."""
    found = [(loop.alpha, needed(model, machine, loop, share)) for loop in loops]
    known = [Cusp(alpha, warps) for alpha, warps in found if warps is not None]
    return max(known, key=lambda each: each.warps, default=None)
