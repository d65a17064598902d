"""Warps needed to hide latency that VV16 compares with models: the cusp, measured ones, refined rules of the guide."""

from collections.abc import Sequence
from math import inf
from operator import itemgetter

from gpudissect.models.base import Loop, Machine, Model, access_latency, peak
from gpudissect.models.evaluation import Measurement, warps_needed


def cusp(model: Model, machine: Machine, loops: Sequence[Loop], share: float = 1.0) -> tuple[Loop, float] | None:
    """The one of `loops` that needs the most warps, and how many; None if none of them reaches the share."""
    needed = ((loop, warps_needed(model, machine, loop, share)) for loop in loops)
    reached = [(loop, warps) for loop, warps in needed if warps is not None]
    return max(reached, key=itemgetter(1), default=None)


def warps_observed(machine: Machine, measurement: Measurement, share: float) -> float | None:
    """Minimum occupancy measured to give `share` of `base.peak` (VV16 s4.5); None if there is none.

    The dots of VV16 figures 4.6 and 7.14.
    """
    reached = measurement.warps[measurement.rate >= share * peak(machine, measurement.loop)]
    return float(reached.min()) if reached.size else None


def guide_warps(machine: Machine, loop: Loop) -> float:
    """``mem_lat / (instruction time alpha)`` (VV16 s4.8); infinite without arithmetic, which the guide leaves out."""
    if not loop.alpha:
        return inf
    return access_latency(machine, loop) * machine.unit(loop.arithmetic).throughput / loop.alpha


def guide_warps_with_access(machine: Machine, loop: Loop) -> float:
    """`guide_warps` with the stalled warp and the access itself counted (VV16 s4.8, "refined")."""
    return 1 + access_latency(machine, loop) * machine.unit(loop.arithmetic).throughput * loop.access_share


def guide_warps_with_arithmetic(machine: Machine, loop: Loop) -> float:
    """`guide_warps` with arithmetic latency: ``mem_lat alu_thru / alpha + alu_lat alu_thru`` (VV16 s4.6, s4.8)."""
    unit = machine.unit(loop.arithmetic)
    return guide_warps(machine, loop) + unit.latency * unit.throughput
