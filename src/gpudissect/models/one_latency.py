"""Models that hide one latency: CUDA guide (VV16 s4.8), Agarwal and Saavedra-Barrera (s4.9), Chen & Aamodt (s4.13)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Loop, Machine, access_latency, latency
from gpudissect.models.hong_kim import instruction_time
from gpudissect.models.huang import issuers


@dataclass(frozen=True)
class CudaGuide:
    """CUDA C Programming Guide, chapter 5.2.3: ``min(n alpha / mem_lat, alu_thru)``, its peak at the warps needed.

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
