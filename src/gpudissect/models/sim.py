"""Sim et al. 2012, as VV16 s7.4 evaluates it: Hong & Kim with arithmetic latency."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Limit, Loop, Machine
from gpudissect.models.bounds import access_latency


def mwp_peak_bw(machine: Machine, loop: Loop) -> float:
    """Accesses of an SM under way at the best sustained throughput (VV16 s7.4, table 7.1)."""
    return access_latency(machine, loop) * machine.unit(loop.access).throughput


def arithmetic_time(machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
    """``max(alu_lat / n, 1 / alu_thru)`` cycles an instruction (VV16 s4.10)."""
    unit = machine.unit(loop.arithmetic)
    return np.maximum(unit.latency / loop.chains(warps), 1 / unit.throughput)


def cwp_full(machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
    """``1 + mem_lat / ((alpha + 1) arithmetic time(n))``: Eq. 4, 5, A.1-A.4, VV16 s4.10, s7.4."""
    wait = loop.access_share * access_latency(machine, loop)
    return 1 + wait / arithmetic_time(machine, loop, warps)


@dataclass(frozen=True)
class Sim:
    """T_comp and T_mem of n warps, the larger counts, with T_comp / n added where CWP <= MWP (VV16 s7.4).

    Attributes:
        departure_delay: cycles between two accesses of an SM, caps MWP (Eq. A.5); 0 leaves the cap out, as VV16 does.
        stalled: warps that Eq. 15 takes off CWP. VV16 s7.4 shows that with 0 instead of 1 a factor of two goes.

    """

    key: str = "sim"
    name: str = "Sim et al. 2012"
    source: str = "VV16 s7.4 (Eq. 1-6, 11-17, A.1-A.5 of the paper)"
    departure_delay: float = 0.0
    stalled: float = 1.0

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; n over T_exec (Eq. 1, 16, 17)."""
        n = loop.chains(warps)
        compute, memory = self.times(machine, loop, warps)
        cwp = np.minimum(n, cwp_full(machine, loop, warps))
        extra = np.where(cwp > self.mwp(machine, loop, warps), 0.0, compute / n)
        found: Floats = n / np.maximum(compute, memory + extra)
        return found

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """Memory or arithmetic, whichever takes longer; latency where its own cap is not reached (VV16 s7.4)."""
        n = float(loop.chains(warps))
        compute, memory = (float(time) for time in self.times(machine, loop, warps))
        if compute >= memory:
            unit = machine.unit(loop.arithmetic)
            return Limit.LATENCY if n < unit.latency * unit.throughput else Limit.PIPELINE
        if min(n, float(cwp_full(machine, loop, warps))) - self.stalled < self.mwp(machine, loop, inf):
            return Limit.LATENCY
        return Limit.MEMORY if machine.unit(loop.access).bytes else Limit.PIPELINE

    def mwp(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """``min(n, MWP_peak_bw, mem_lat / departure delay)``: Eq. A.5, VV16 s7.4."""
        departures = access_latency(machine, loop) / self.departure_delay if self.departure_delay else inf
        return np.minimum(loop.chains(warps), min(mwp_peak_bw(machine, loop), departures))

    def times(self, machine: Machine, loop: Loop, warps: ArrayLike) -> tuple[Floats, Floats]:
        """T_comp (Eq. 2-6) and T_mem (Eq. 11-15), cycles for n warps per instruction of each (VV16 s7.4)."""
        n = loop.chains(warps)
        cwp = np.minimum(n, cwp_full(machine, loop, warps))
        overlapped = np.minimum(self.mwp(machine, loop, warps), np.maximum(1, cwp - self.stalled))
        memory: Floats = loop.access_share * n * access_latency(machine, loop) / overlapped
        compute: Floats = n * arithmetic_time(machine, loop, warps)
        return compute, memory
