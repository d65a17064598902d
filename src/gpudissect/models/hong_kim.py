"""Hong & Kim 2009 (VV16 s7.1), memory and computation warps, and Sim et al. 2012 (s7.4), the same with ALU latency."""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Loop, Machine, access_latency


def instruction_time(machine: Machine, loop: Loop) -> float:
    """Cycles in which every instruction is taken to execute: 1 / alu_thru, 4 on a GT200 (VV16 s4.9)."""
    return 1 / machine.unit(loop.arithmetic).throughput


def mwp_peak_bw(machine: Machine, loop: Loop) -> float:
    """Accesses of an SM in flight at pin bandwidth, in warps (Eq. 6, 7; VV16 s7.1: 12.4 on the GTX280).

    At least one, even if a single access keeps memory busy for longer than its latency.
    """
    return max(1.0, access_latency(machine, loop) * machine.pin_throughput(loop.access))


def cwp_full(machine: Machine, loop: Loop) -> float:
    """Computation periods that fit into one memory access, plus its own (Eq. 8; VV16 s7.1: 4.3 at alpha = 32)."""
    return 1 + loop.access_share * access_latency(machine, loop) / instruction_time(machine, loop)


@dataclass(frozen=True)
class HongKim:
    """MWP = min(n, MWP_peak_bw), CWP = min(n, CWP_full); their order selects the mode (VV16 s7.1).

    Terms that vanish in a long loop (epsilon in VV16) are left out. VV16 does not print the memory-bound time; Eq. 23
    of the paper, mem_lat n / MWP, is recalled, and makes the model exact without arithmetic, as VV16 says.
    """

    key: str = "hong-kim"
    name: str = "Hong & Kim 2009"
    source: str = "VV16 s7.1 (Eq. 6-9, 22-24 of the paper)"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; n over the time of n warps, Eq. 22, 23 or 24, per instruction."""
        n = loop.chains(warps)
        memory = loop.access_share * access_latency(machine, loop)
        compute = instruction_time(machine, loop)
        mwp = np.minimum(n, mwp_peak_bw(machine, loop))
        cwp = np.minimum(n, cwp_full(machine, loop))
        saturated = np.where(mwp < cwp, memory * n / mwp, compute * n)
        return np.divide(n, np.where((mwp == n) & (cwp == n), memory + compute, saturated))


@dataclass(frozen=True)
class Sim:
    """T_comp and T_mem of n warps: the larger counts, with T_comp / n added where CWP <= MWP (VV16 s7.4)."""

    key: str = "sim"
    name: str = "Sim et al. 2012"
    source: str = "VV16 s7.4 (Eq. 1-6, 11-17, A.1-A.5 of the paper)"
    departure_delay: float = 0.0  # cycles between two accesses of an SM, caps MWP (Eq. A.5); 0: no cap, as in VV16
    stalled: float = 1.0  # warps that Eq. 15 subtracts from CWP; VV16 s7.4: 0 removes a factor of two

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; n over T_exec (Eq. 1, 16, 17)."""
        n = loop.chains(warps)
        compute, memory = self.times(machine, loop, warps)
        cwp = np.minimum(n, self.cwp_full(machine, loop, warps))
        extra = np.where(cwp > self.mwp(machine, loop, warps), 0.0, compute / n)
        return np.divide(n, np.maximum(compute, memory + extra))

    def times(self, machine: Machine, loop: Loop, warps: ArrayLike) -> tuple[Floats, Floats]:
        """T_comp (Eq. 2-6) and T_mem (Eq. 11-15), cycles for n warps per instruction of each (VV16 s7.4)."""
        n = loop.chains(warps)
        cwp = np.minimum(n, self.cwp_full(machine, loop, warps))
        overlapped = np.minimum(self.mwp(machine, loop, warps), np.maximum(1, cwp - self.stalled))
        memory = np.divide(loop.access_share * n * access_latency(machine, loop), overlapped)
        return np.multiply(n, self.arithmetic_time(machine, loop, warps)), memory

    def mwp(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """``min(n, MWP_peak_bw, mem_lat / departure delay)``: Eq. A.5, VV16 s7.4."""
        departures = access_latency(machine, loop) / self.departure_delay if self.departure_delay else inf
        return np.minimum(loop.chains(warps), min(self.mwp_peak_bw(machine, loop), departures))

    @staticmethod
    def mwp_peak_bw(machine: Machine, loop: Loop) -> float:
        """Accesses of an SM in flight at the best sustained throughput (VV16 s7.4, table 7.1)."""
        return access_latency(machine, loop) * machine.unit(loop.access).throughput

    @staticmethod
    def arithmetic_time(machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """``max(alu_lat / n, 1 / alu_thru)`` cycles per instruction (VV16 s4.10)."""
        unit = machine.unit(loop.arithmetic)
        return np.maximum(unit.latency / loop.chains(warps), 1 / unit.throughput)

    @classmethod
    def cwp_full(cls, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """``1 + mem_lat / ((alpha + 1) arithmetic time(n))``: Eq. 4, 5, A.1-A.4, VV16 s4.10, s7.4."""
        return 1 + loop.access_share * access_latency(machine, loop) / cls.arithmetic_time(machine, loop, warps)
