"""Models that time arithmetic and accesses separately: Baghsorkhi et al. (VV16 s7.2), Zhang & Owens (s7.3, 4.12)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Loop, Machine, access_latency


@dataclass(frozen=True)
class Baghsorkhi:
    """``alpha alu + max(Latency_BW, Latency_exposed)`` cycles per warp and group (VV16 s7.2), here per instruction.

    On a G80: ``max(37, x, 440 - (n - 2) x)`` with ``x = alpha max(4, 20 / n) + 4``. Accesses issue in 1 / alu_thru
    cycles (VV16 s4.10).
    """

    key: str = "baghsorkhi"
    name: str = "Baghsorkhi et al. 2010"
    source: str = "VV16 s7.2 (Eq. 3-6 of the paper)"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; the time of all warps is the sum of theirs."""
        n = loop.chains(warps)
        unit = machine.unit(loop.arithmetic)
        issue = 1 / unit.throughput
        arithmetic = loop.arithmetic_share * np.maximum(issue, unit.latency / n)  # Eq. 3
        compute = arithmetic + loop.access_share * issue  # CYC_compute
        transfer = loop.access_share / machine.unit(loop.access).throughput  # CYC_mem
        bandwidth = loop.access_share * issue + np.maximum(0, transfer - compute)  # Eq. 4
        exposed = loop.access_share * access_latency(machine, loop) - (n - 1) * compute  # Eq. 6
        return np.divide(1, arithmetic + np.maximum(bandwidth, exposed))


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
