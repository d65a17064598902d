"""Baghsorkhi et al. 2010, as VV16 s7.2 evaluates it: warp "latencies" that are summed over all warps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Limit, Loop, Machine, access_latency


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
        arithmetic, bandwidth, exposed, _ = self.parts(machine, loop, warps)
        return np.divide(1, arithmetic + np.maximum(bandwidth, exposed))

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """The larger of exposed latency and bandwidth; arithmetic if neither adds anything (VV16 s7.2)."""
        _, bandwidth, exposed, compute = (float(part) for part in self.parts(machine, loop, warps))
        if exposed > bandwidth:
            return Limit.LATENCY
        access, arithmetic = machine.unit(loop.access), machine.unit(loop.arithmetic)
        if loop.access_share / access.throughput > compute:
            return Limit.MEMORY if access.bytes else Limit.PIPELINE
        is_latency = loop.chains(warps) < arithmetic.latency * arithmetic.throughput
        return Limit.LATENCY if is_latency else Limit.PIPELINE

    @staticmethod
    def parts(machine: Machine, loop: Loop, warps: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
        """Cycles per instruction: ``alpha alu``, Latency_BW (Eq. 4), Latency_exposed (Eq. 6), NBC_avg (Eq. 5)."""
        n = loop.chains(warps)
        unit = machine.unit(loop.arithmetic)
        issue = 1 / unit.throughput
        arithmetic = loop.arithmetic_share * np.maximum(issue, unit.latency / n)  # Eq. 3
        compute = arithmetic + loop.access_share * issue  # CYC_compute
        transfer = loop.access_share / machine.unit(loop.access).throughput  # CYC_mem
        bandwidth = loop.access_share * issue + np.maximum(0, transfer - compute)
        exposed = loop.access_share * access_latency(machine, loop) - (n - 1) * compute
        return arithmetic, bandwidth, exposed, compute
