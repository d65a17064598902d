"""Chen & Aamodt 2009: throughput of n threads from that of one, as VV16 s4.13 sums it up. Memory has no bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Limit, Loop, Machine
from gpudissect.models.bounds import latency
from gpudissect.models.huang import issuers


@dataclass(frozen=True)
class ChenAamodt:
    """Their third model: ``1 - (1 - lambda)^n``, lambda of one thread, issue once a cycle (VV16 s4.13).

    The first is lambda whatever n, the second n lambda, which is the latency bound of VV16 s3.5. Schedulers that issue
    every cycle are taken one by one, as `huang` does.
    """

    key: str = "chen-aamodt"
    name: str = "Chen & Aamodt 2009"
    source: str = "VV16 s4.13"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`."""
        each = loop.chains(warps) / issuers(machine)
        found: Floats = issuers(machine) * (1 - (1 - 1 / latency(machine, loop)) ** each)
        return found

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """Issue where it is used more than half, else latency (VV16 s4.13)."""
        return Limit.ISSUE if float(self.throughput(machine, loop, warps)) > issuers(machine) / 2 else Limit.LATENCY
