"""Zhang & Owens 2011, as VV16 s7.3 and s4.11 evaluate it: arithmetic and accesses timed alone, the longer counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Limit, Loop, Machine, access_latency

FLAT_SHARE = 0.98  # of its peak, from which on a measured curve counts as flat


def rates_alone(machine: Machine, loop: Loop, warps: ArrayLike) -> tuple[Floats, Floats]:
    """alu(n) and mem(n), each alone, instructions per cycle of one SM: measured curves (VV16 s7.3, figure 7.4).

    Without a curve ``min(n / latency, throughput)`` (VV16 s4.11).
    """
    n = loop.chains(warps)

    def rate(kind: str, latency: float) -> Floats:
        curve = machine.curves.get(kind)
        return np.minimum(n / latency, machine.unit(kind).throughput) if curve is None else curve.at(n)

    arithmetic = rate(loop.arithmetic, machine.unit(loop.arithmetic).latency)
    return arithmetic, rate(loop.access, access_latency(machine, loop))


@dataclass(frozen=True)
class ZhangOwens:
    """``min(alu(n) / alpha, mem(n))`` groups per cycle (VV16 s7.3): times overlap."""

    key: str = "zhang-owens"
    name: str = "Zhang & Owens 2011"
    source: str = "VV16 s7.3, s4.11"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; time per instruction is the larger of the two (VV16 s4.11)."""
        return np.divide(1, np.maximum(*self.times(machine, loop, warps)))

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """Of the kind that takes longer: latency while its rate rises with n, then its unit (VV16 s4.11)."""
        arithmetic, access = (float(time) for time in self.times(machine, loop, warps))
        longer = int(access > arithmetic)
        unit = machine.unit((loop.arithmetic, loop.access)[longer])
        if float(rates_alone(machine, loop, warps)[longer]) < FLAT_SHARE * unit.throughput:
            return Limit.LATENCY
        return Limit.MEMORY if unit.bytes else Limit.PIPELINE

    @staticmethod
    def times(machine: Machine, loop: Loop, warps: ArrayLike) -> tuple[Floats, Floats]:
        """Cycles of one SM for arithmetic and for accesses, per instruction of the loop (VV16 s7.3)."""
        arithmetic, access = rates_alone(machine, loop, warps)
        return loop.arithmetic_share / arithmetic, loop.access_share / access


@dataclass(frozen=True)
class Added(ZhangOwens):
    """The same times added, not overlapped (VV16 s4.12, figure 4.12; s7.3, figure 7.5)."""

    key: str = "added"
    name: str = "Kothapalli et al. 2009, times added"
    source: str = "VV16 s4.12, s7.3"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`."""
        return np.divide(1, np.add(*self.times(machine, loop, warps)))
