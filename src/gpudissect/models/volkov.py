"""Models of VV16: latency bound and throughput bound (basic), with latency under load (refined), with queues."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isinf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpudissect.models.base import Floats, Loop, Machine, access_latency, latency, peak

BISECTIONS = 60
MAX_WAIT_CYCLES = 1e15  # in place of the infinite latency at the ceiling of memory


@dataclass(frozen=True)
class Basic:
    """VV16 s4.1: ``min(n / Latency, mem_thru, alu_thru / alpha, issue_thru / (alpha + 1))``, here per instruction."""

    key: str = "basic"
    name: str = "Volkov 2016, basic"
    source: str = "VV16 s4.1, table 4.2"

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """See `base.Model`; VV16 s3.5: the smaller of latency bound and throughput bound."""
        return np.minimum(self.latency_bound(machine, loop, warps), peak(machine, loop))

    def latency_bound(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """Occupancy over warp latency (VV16 s3.5), instructions per cycle of one SM."""
        return loop.chains(warps) / _issue_period(machine, loop, latency(machine, loop))


@dataclass(frozen=True)
class Refined(Basic):
    """VV16 s6.5: as `Basic`, with memory latency under load, ``a + b x / (c - x)``, solved by bisection.

    Equal to the basic model if the loop's access has no coefficients.
    """

    key: str = "refined"
    name: str = "Volkov 2016, refined"
    source: str = "VV16 s6.4, 6.5, table 6.5"

    def latency_bound(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """The rate that agrees with the latency at that rate (VV16 s6.5); unique, as latency only rises."""
        contention = machine.contention.get(loop.access)
        if contention is None or isinf(loop.alpha):
            return super().latency_bound(machine, loop, warps)
        chains = loop.chains(warps)
        arithmetic = loop.arithmetic_share * machine.unit(loop.arithmetic).latency

        def rate(guess: Floats) -> Floats:
            cycles = loop.access_share * contention.latency(loop.accesses(guess)) + arithmetic
            return chains / _issue_period(machine, loop, cycles)

        idle = chains / _issue_period(machine, loop, latency(machine, loop, contention.base))
        return _fixed_point(rate, np.minimum(idle, contention.ceiling / loop.access_share))


@dataclass(frozen=True)
class Queued(Refined):
    """As `Refined`, but warps queue: for their scheduler's arithmetic units, and for units of accesses in the SM.

    The two bounds of VV16 hold as if neither disturbed the other (s3.5). Where they meet, the number of warps that are
    at the arithmetic units varies: too many slow one another, too few leave units idle. This is the machine repairman
    or time-sharing model (Scherr 1967): a closed network of two stations with throughput in closed form. With evenly
    shared units it depends on mean times alone, not on their distribution (Baskett, Chandy, Muntz, Palacios 1975), so
    it has no parameter that the refined model lacks.
    """

    key: str = "queued"
    name: str = "Volkov 2016, refined, with queues"
    source: str = "VV16 s6.5; Scherr 1967; Baskett, Chandy, Muntz & Palacios 1975"

    def latency_bound(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """Rate of the queueing network, instructions per cycle of one SM; consistent with latency under load.

        If the schedulers have unequal numbers of warps, the mean of the two neighbouring numbers counts.
        """
        if isinf(loop.alpha) or loop.alpha == 0:
            return super().latency_bound(machine, loop, warps)
        contention = machine.contention.get(loop.access)
        chains = loop.chains(warps)
        if contention is None:
            return _network_rate(machine, loop, chains, np.full(chains.shape, access_latency(machine, loop)))
        high = np.full(chains.shape, min(peak(machine, loop), contention.ceiling / loop.access_share))
        return _fixed_point(
            lambda guess: _network_rate(machine, loop, chains, contention.latency(loop.accesses(guess))), high
        )


def _issue_period(machine: Machine, loop: Loop, cycles: ArrayLike) -> Floats:
    """Cycles between two instructions of a chain: a warp with many chains is limited by its reissue interval."""
    found: Floats = np.maximum(np.asarray(cycles, float), machine.reissue * loop.ilp)
    return found


def _fixed_point(rate: Callable[[Floats], Floats], high: Floats) -> Floats:
    """The argument in (0, `high`) at which the falling function `rate` equals its argument."""
    low = np.zeros_like(high)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        slower = rate(middle) < middle
        low, high = np.where(slower, low, middle), np.where(slower, middle, high)
    found: Floats = (low + high) / 2
    return found


def _network_rate(machine: Machine, loop: Loop, chains: Floats, wait: Floats) -> Floats:
    """Instructions per cycle of one SM if an access takes `wait` cycles; shapes as `chains`."""
    access, arithmetic = machine.unit(loop.access), machine.unit(loop.arithmetic)
    issue_bound = machine.issue / (loop.alpha * arithmetic.slots + access.slots)
    peak_rate = min(arithmetic.throughput / loop.alpha, issue_bound) / machine.schedulers
    cycles = loop.alpha * arithmetic.latency
    # Memory is no station of the SM: its latency under load includes its queue.
    servers = np.full(chains.shape, inf) if access.bytes else wait * access.throughput / machine.schedulers
    per_scheduler = chains / machine.schedulers
    fewer = np.floor(per_scheduler).astype(np.int64)
    rates = [visit_rate(number, cycles, peak_rate * cycles, wait, servers) for number in (fewer, fewer + 1)]
    mean = rates[0] + (per_scheduler - fewer) * (rates[1] - rates[0])
    return np.divide(mean * machine.schedulers, loop.access_share)


def visit_rate(warps: NDArray[np.int64], cycles: float, servers: float, wait: Floats, wait_servers: Floats) -> Floats:
    """Visits per cycle of each of two stations between which `warps` circulate (any shape).

    A visit to the first takes `cycles`, longer in proportion if more than `servers` warps are there; to the second
    `wait` and `wait_servers`, shapes as `warps`. States have product-form weights (Baskett et al. 1975).
    """
    at = np.arange(int(warps.max(initial=0)) + 1)
    wait = np.minimum(wait, MAX_WAIT_CYCLES)
    served = np.minimum(at, servers)
    first = at * np.log(cycles) - np.concatenate([[0.0], np.cumsum(np.log(served[1:]))])
    others = warps[..., None] - at
    second = at * np.log(wait[..., None])
    second[..., 1:] -= np.cumsum(np.log(np.minimum(at[1:], wait_servers[..., None])), axis=-1)
    weights = np.where(others >= 0, first + np.take_along_axis(second, np.maximum(others, 0), axis=-1), -inf)
    weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
    found: Floats = (weights * served).sum(axis=-1) / weights.sum(axis=-1) / cycles
    return found
