"""Models that hide one latency: CUDA guide (VV16 s4.8), Agarwal and Saavedra-Barrera (s4.9), Chen & Aamodt (s4.13)."""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Limit, Loop, Machine, access_latency, latency
from gpudissect.models.hong_kim import instruction_time
from gpudissect.models.huang import issuers


def guide_warps(machine: Machine, loop: Loop) -> float:
    """``mem_lat / (instruction time alpha)`` (VV16 s4.8); infinite without arithmetic, which the guide leaves out."""
    if not loop.alpha:
        return inf
    return access_latency(machine, loop) * machine.unit(loop.arithmetic).throughput / loop.alpha


@dataclass(frozen=True)
class CudaGuide:
    """CUDA C Programming Guide, chapter 5.2.3: ``min(n alpha / mem_lat, alu_thru)``, its peak from `guide_warps` on.

    The guide gives the number of warps only; the line through zero is what "needed" means. It has neither arithmetic
    latency nor memory bandwidth (VV16 s4.8).
    """

    key: str = "cuda-guide"
    name: str = "CUDA C Programming Guide"
    source: str = "VV16 s4.8, table 4.3"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`."""
        with np.errstate(divide="ignore"):
            bound = loop.chains(warps) / (loop.access_share * access_latency(machine, loop))
            arithmetic = np.float64(machine.unit(loop.arithmetic).throughput) / loop.arithmetic_share
        return np.minimum(bound, arithmetic)

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """Latency below the warps needed, then arithmetic (VV16 s4.8)."""
        return Limit.LATENCY if float(loop.chains(warps)) < guide_warps(machine, loop) else Limit.PIPELINE


@dataclass(frozen=True)
class Agarwal:
    """Coarse-grained multithreading: ``min(n / (R + L), 1 / (R + C))`` groups per cycle (VV16 s4.9).

    A thread runs for R cycles, then waits L for memory while others run; a switch takes C (`switch`, 0 on GPUs).
    Arithmetic latency is not hidden but part of R, and with R = (alpha + 1) / alu_thru ignored.
    """

    key: str = "agarwal"
    name: str = "Agarwal 1989"
    source: str = "VV16 s4.9"
    switch: float = 0.0  # cycles

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; R, L and C are per instruction."""
        run, wait, switch = self.cycles(machine, loop)
        return np.minimum(loop.chains(warps) / (run + wait), 1 / (run + switch))

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """Latency below the threads needed, then the processor (VV16 s4.9)."""
        needed = self.threads_needed(*self.cycles(machine, loop))
        return Limit.LATENCY if float(loop.chains(warps)) < needed else Limit.PIPELINE

    @staticmethod
    def threads_needed(run: float, wait: float, switch: float = 0.0) -> float:
        """``(R + L) / (R + C)``: Agarwal 1989 section 2, VV16 s4.9."""
        return (run + wait) / (run + switch)

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

    @staticmethod
    def threads_needed(run: float, wait: float, switch: float = 0.0) -> float:
        """``L / (R + C) + 1``: Saavedra-Barrera et al. 1990 Eq. 4, VV16 s4.9."""
        return wait / (run + switch) + 1


@dataclass(frozen=True)
class ChenAamodt:
    """Their third model: ``1 - (1 - lambda)^n``, lambda of one thread, one issue per cycle (VV16 s4.13).

    The first is lambda whatever n, the second n lambda, the latency bound of VV16 s3.5. Memory has no bandwidth.
    Schedulers that issue every cycle are modelled one by one, as in `huang`.
    """

    key: str = "chen-aamodt"
    name: str = "Chen & Aamodt 2009"
    source: str = "VV16 s4.13"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`."""
        per_issuer = loop.chains(warps) / issuers(machine)
        return issuers(machine) * np.subtract(1, (1 - 1 / latency(machine, loop)) ** per_issuer)

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """Issue where it is used more than half, else latency (VV16 s4.13)."""
        return Limit.ISSUE if float(self.throughput(machine, loop, warps)) > issuers(machine) / 2 else Limit.LATENCY
