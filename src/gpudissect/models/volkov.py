"""The basic and the refined model of VV16: latency bound and throughput bound, merged by Little's law."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Limit, Loop, Machine
from gpudissect.models.bounds import latency, peak, tightest

HALVINGS = 60


@dataclass(frozen=True)
class Basic:
    """VV16 s4.1: ``min(n / Latency, mem_thru, alu_thru / alpha, issue_thru / (alpha + 1))``, here per instruction."""

    key: str = "basic"
    name: str = "Volkov 2016, basic"
    source: str = "VV16 s4.1, table 4.2"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; VV16 s3.5: the smaller of latency bound and throughput bound."""
        return np.minimum(self.by_latency(machine, loop, warps), peak(machine, loop))

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """Latency below the tightest throughput bound, else that (VV16 s3.5)."""
        if float(self.by_latency(machine, loop, warps)) < peak(machine, loop):
            return Limit.LATENCY
        return tightest(machine, loop)

    def by_latency(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """The latency bound alone: occupancy over warp latency (VV16 s3.5), instructions a cycle of one SM."""
        return loop.chains(warps) / _of_a_chain(machine, loop, latency(machine, loop))


@dataclass(frozen=True)
class Refined(Basic):
    """VV16 s6.5: as `Basic`, with the latency of memory under load, ``a + b x / (c - x)``, solved by bisection.

    Without coefficients for the loop's access it is the basic model.
    """

    key: str = "refined"
    name: str = "Volkov 2016, refined"
    source: str = "VV16 s6.4, 6.5, table 6.5"

    def by_latency(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """The rate that agrees with the latency under that very rate (VV16 s6.5); unique, as latency only rises."""
        contention = machine.contention.get(loop.access)
        if contention is None or isinf(loop.alpha):
            return super().by_latency(machine, loop, warps)
        chains = loop.chains(warps)
        arithmetic = loop.arithmetic_share * machine.unit(loop.arithmetic).latency
        low = np.zeros_like(chains)
        # No access is faster than an idle system's, and none beyond the ceiling.
        high = chains / _of_a_chain(machine, loop, latency(machine, loop, contention.base))
        high = np.minimum(high, contention.ceiling / loop.access_share)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            cycles = loop.access_share * contention.latency(loop.accesses(middle)) + arithmetic
            slower = chains / _of_a_chain(machine, loop, cycles) < middle
            low, high = np.where(slower, low, middle), np.where(slower, middle, high)
        found: Floats = (low + high) / 2
        return found


def _of_a_chain(machine: Machine, loop: Loop, cycles: ArrayLike) -> Floats:
    """Cycles between two instructions of a chain: a warp with many chains cannot issue faster than it reissues."""
    found: Floats = np.maximum(np.asarray(cycles, float), machine.reissue * loop.ilp)
    return found
