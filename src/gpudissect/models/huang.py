"""Huang et al. 2014 (GPUMech), as VV16 s7.5-7.8 evaluates it: two scheduling policies, with and without bandwidth.

The model knows SMs that issue once per cycle. An SM that issues more often is modelled as several schedulers that do,
with n warps of each (VV16 s7.5).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.models.base import Floats, Loop, Machine, access_latency, latency

TRANSACTION_BYTES = 128  # VV16 s7.7


def issuers(machine: Machine) -> float:
    """Parts of an SM that issue once per cycle (VV16 s7.5): 1 on Fermi, 4 on Kepler and Maxwell."""
    return max(1.0, machine.issue)


@dataclass(frozen=True)
class RoundRobin:
    """``n (1 + alpha) / (mem_lat + alpha alu_lat)`` (VV16 s7.5): every interval is one instruction, so NO is zero."""

    key: str = "huang-rr"
    name: str = "Huang et al. 2014, round-robin"
    source: str = "VV16 s7.5 (Eq. 3, 7, 9-11 of the paper)"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`: Eq. 7. Nothing bounds it."""
        return loop.chains(warps) / latency(machine, loop)


@dataclass(frozen=True)
class GreedyThenOldest:
    """``n (1 + alpha) / (mem_lat + alpha alu_lat + NO)``: others that outlast a stall delay a warp (VV16 s7.6)."""

    key: str = "huang-gto"
    name: str = "Huang et al. 2014, greedy-then-oldest"
    source: str = "VV16 s7.6 (Eq. 12-16 of the paper)"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`: Eq. 7 with NO_mem and alpha NO_alu."""
        return loop.chains(warps) / (latency(machine, loop) + self.not_overlapped(machine, loop, warps))

    @staticmethod
    def not_overlapped(machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """NO per instruction, cycles: Eq. 16 for both kinds, with p of Eq. 9 (VV16 s7.6)."""
        n = loop.chains(warps) / issuers(machine)
        p = 1 / latency(machine, loop)
        memory, arithmetic = access_latency(machine, loop) - 1, machine.unit(loop.arithmetic).latency - 1
        total = np.zeros_like(n)
        for share, stall in ((loop.access_share, memory), (loop.arithmetic_share, arithmetic)):
            total = total + share * np.maximum(0, min(p * stall, 1) * (n - 1) - stall)
        return total


@dataclass(frozen=True)
class WithBandwidth:
    """A policy and the delays of a queue before memory (VV16 s7.7, 7.8).

    CPI_final = CPI_multithreading + Bandwidth_delay / (1 + alpha), Eq. 3 and 17. The arrival rate is computed with
    unloaded latency, so utilisation can exceed 1: then delay, time and throughput are negative, as in the paper.
    MSHR_delay (Eq. 20) is zero, as in VV16: there are enough registers.
    """

    policy: RoundRobin | GreedyThenOldest = field(default_factory=RoundRobin)
    source: str = "VV16 s7.7, 7.8 (Eq. 17-23 of the paper)"

    @property
    def key(self) -> str:
        """As `base.Model`."""
        return f"{self.policy.key}-bandwidth"

    @property
    def name(self) -> str:
        """As `base.Model`."""
        return f"{self.policy.name}, bandwidth term"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; may be negative (VV16 s7.7)."""
        alone = issuers(machine) / self.policy.throughput(machine, loop, warps)
        with np.errstate(divide="ignore"):
            return np.divide(issuers(machine), alone + loop.access_share * self.delay(machine, loop, warps))

    @staticmethod
    def utilisation(machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """Utilisation rho = lambda s, Eq. 22, 23 (VV16 s7.7): above 1 if more arrives than memory serves."""
        arrivals, service, _ = _queue(machine, loop, warps)
        return arrivals * service

    @staticmethod
    def delay(machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """Bandwidth_delay in cycles: ``min(lambda s^2 / (2 (1 - rho)), s core_reqs cores / 2)``, Eq. 21 (VV16 s7.7)."""
        arrivals, service, requests = _queue(machine, loop, warps)
        with np.errstate(divide="ignore", invalid="ignore"):
            queue = arrivals * service**2 / (2 * (1 - arrivals * service))
        return np.minimum(queue, service * requests / 2)


def _queue(machine: Machine, loop: Loop, warps: ArrayLike) -> tuple[Floats, float, Floats]:
    """Arrivals per cycle (Eq. 23), cycles to serve one, requests of the whole GPU (Eq. 18), in transactions."""
    unit = machine.unit(loop.access)
    bandwidth = float(machine.bytes_per_second(loop.access, machine.pin_throughput(loop.access)))
    service = TRANSACTION_BYTES * machine.clock_hz / bandwidth if unit.bytes else 0.0
    requests = loop.chains(warps) * unit.bytes / TRANSACTION_BYTES * machine.sms
    return requests / access_latency(machine, loop), service, requests
