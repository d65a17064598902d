"""Coarse-grained multithreading: Agarwal 1989 and Saavedra-Barrera 1990, as VV16 s4.9 sets them beside GPUs.

A thread runs for R cycles, then waits L for memory while others run; a switch takes C. Arithmetic latency is not hidden
but part of R, and with R = (alpha + 1) / alu_thru ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Limit, Loop, Machine
from gpudissect.models.bounds import access_latency
from gpudissect.models.hong_kim import instruction_time


def threads_needed(run: float, wait: float, switch: float = 0.0) -> float:
    """``(R + L) / (R + C)``: Agarwal 1989 section 2, VV16 s4.9."""
    return (run + wait) / (run + switch)


def threads_needed_after_switch(run: float, wait: float, switch: float = 0.0) -> float:
    """``L / (R + C) + 1``: Saavedra-Barrera et al. 1990 Eq. 4, VV16 s4.9."""
    return wait / (run + switch) + 1


def prefetch_distance(latency: float, cycles: float) -> float:
    """Iterations of a loop of `cycles` cycles to prefetch ahead: l / s, Mowry et al. 1992, VV16 s4.9."""
    return latency / cycles


@dataclass(frozen=True)
class Agarwal:
    """``min(n / (R + L), 1 / (R + C))`` groups a cycle (VV16 s4.9); `switch` is C, cycles, 0 on GPUs."""

    key: str = "agarwal"
    name: str = "Agarwal 1989"
    source: str = "VV16 s4.9"
    switch: float = 0.0

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; R, L and C are per instruction."""
        run, wait, switch = self.cycles(machine, loop)
        return np.minimum(loop.chains(warps) / (run + wait), 1 / (run + switch))

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """Latency below the threads needed, then the processor (VV16 s4.9)."""
        needed = threads_needed(*self.cycles(machine, loop))
        return Limit.LATENCY if float(loop.chains(warps)) < needed else Limit.PIPELINE

    def cycles(self, machine: Machine, loop: Loop) -> tuple[float, float, float]:
        """R, L and C per instruction of the loop (VV16 s4.9)."""
        share = loop.access_share
        return instruction_time(machine, loop), share * access_latency(machine, loop), share * self.switch


@dataclass(frozen=True)
class Saavedra(Agarwal):
    """``min(n / (R + L + C), 1 / (R + C))``: a wait overlaps one switch less (VV16 s4.9). Same as Agarwal if C = 0."""

    key: str = "saavedra"
    name: str = "Saavedra-Barrera et al. 1990"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`."""
        run, wait, switch = self.cycles(machine, loop)
        return np.minimum(loop.chains(warps) / (run + wait + switch), 1 / (run + switch))

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """As Agarwal's, with its own threads needed (VV16 s4.9)."""
        needed = threads_needed_after_switch(*self.cycles(machine, loop))
        return Limit.LATENCY if float(loop.chains(warps)) < needed else Limit.PIPELINE
