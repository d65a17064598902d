"""The CUDA C Programming Guide's estimate of the warps that hide memory latency (its chapter 5.2.3; VV16 s4.8)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Limit, Loop, Machine
from gpudissect.models.bounds import access_latency


def warps_needed(machine: Machine, loop: Loop) -> float:
    """``mem_lat / (instruction time alpha)`` (VV16 s4.8); infinite without arithmetic, which the guide leaves out."""
    if not loop.alpha:
        return inf
    return access_latency(machine, loop) * machine.unit(loop.arithmetic).throughput / loop.alpha


def warps_needed_counting_all(machine: Machine, loop: Loop) -> float:
    """The same with the stalled warp and the access itself counted (VV16 s4.8, "refined")."""
    return 1 + access_latency(machine, loop) * machine.unit(loop.arithmetic).throughput * loop.access_share


def warps_needed_for_both(machine: Machine, loop: Loop) -> float:
    """With arithmetic latency: ``mem_lat alu_thru / alpha + alu_lat alu_thru`` (VV16 s4.6, s4.8)."""
    unit = machine.unit(loop.arithmetic)
    return warps_needed(machine, loop) + unit.latency * unit.throughput


@dataclass(frozen=True)
class CudaGuide:
    """Arithmetic at its peak from `warps_needed` on, and in proportion below: ``min(n alpha / mem_lat, alu_thru)``.

    The guide gives the number of warps only; the line through zero is what "needed" means. Neither arithmetic latency
    nor memory bandwidth is in it (VV16 s4.8).
    """

    key: str = "cuda-guide"
    name: str = "CUDA C Programming Guide"
    source: str = "VV16 s4.8, table 4.3"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`."""
        with np.errstate(divide="ignore"):
            latency = loop.chains(warps) / (loop.access_share * access_latency(machine, loop))
            arithmetic = np.float64(machine.unit(loop.arithmetic).throughput) / loop.arithmetic_share
        return np.minimum(latency, arithmetic)

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """Latency below the warps needed, then arithmetic (VV16 s4.8)."""
        return Limit.LATENCY if float(loop.chains(warps)) < warps_needed(machine, loop) else Limit.PIPELINE
