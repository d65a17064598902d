"""Hong & Kim 2009, as VV16 s7.1 evaluates it: memory warps and computation warps; arithmetic latency is ignored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Limit, Loop, Machine
from gpudissect.models.bounds import access_latency


def instruction_time(machine: Machine, loop: Loop) -> float:
    """Cycles in which every instruction is taken to execute: 1 / alu_thru, 4 on a GT200 (VV16 s4.9)."""
    return 1 / machine.unit(loop.arithmetic).throughput


def mwp_peak_bw(machine: Machine, loop: Loop) -> float:
    """Accesses of an SM under way at pin bandwidth, read as warps (Eq. 6, 7; VV16 s7.1: 12.4 on the GTX280)."""
    # It counts warps, so one at least, also where a single access keeps memory busy for longer than its latency.
    return max(1.0, access_latency(machine, loop) * machine.pin_throughput(loop.access))


def cwp_full(machine: Machine, loop: Loop) -> float:
    """Computation periods that fit into one memory access and its own (Eq. 8; VV16 s7.1: 4.3 at alpha = 32)."""
    return 1 + loop.access_share * access_latency(machine, loop) / instruction_time(machine, loop)


@dataclass(frozen=True)
class HongKim:
    """MWP = min(n, MWP_peak_bw), CWP = min(n, CWP_full); their order tells the mode (VV16 s7.1).

    Terms that vanish in a long loop (epsilon in VV16) are left out. VV16 does not print the memory-bound time; Eq. 23
    of the paper, mem_lat n / MWP, is recalled, and is what makes the model exact without arithmetic, as VV16 says.
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
        found: Floats = n / np.where((mwp == n) & (cwp == n), memory + compute, saturated)
        return found

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """The mode: CWP = MWP = n latency, MWP < CWP memory, else computation (VV16 s7.1)."""
        n = float(loop.chains(warps))
        memory, compute = mwp_peak_bw(machine, loop), cwp_full(machine, loop)
        if n <= min(memory, compute):
            return Limit.LATENCY
        return Limit.MEMORY if memory < compute else Limit.PIPELINE
