"""The refined model of VV16 with queues: warps come back from memory at random, and some must wait for their turn.

Of VV16's two bounds the smaller counts, as if neither disturbed the other (its s3.5). That holds where one of them is
much the smaller. Where they meet some warps are always waiting for an access and others are adding, now more, now
fewer: when more are adding than the arithmetic units can serve at full pace they slow one another, and when fewer are
the units stand idle.

This is the machine repairman, or a time-sharing system with so many terminals (Scherr 1967): a closed network of two
stations, of which the throughput is known in closed form. With units that are shared evenly it depends on the mean
times alone, not on how they are distributed (Baskett, Chandy, Muntz, Palacios 1975). So it has no parameter that the
refined model lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpudissect.models.base import Floats, Limit, Loop, Machine
from gpudissect.models.bounds import access_latency, peak
from gpudissect.models.volkov import HALVINGS, Refined

FOR_EVER = 1e15  # cycles: at the ceiling of memory latency has no end


@dataclass(frozen=True)
class Queued(Refined):
    """As `Refined`, but each scheduler's warps queue for its arithmetic units, and for units of accesses in the SM."""

    key: str = "queued"
    name: str = "Volkov 2016, refined, with queues"
    source: str = "VV16 s6.5; Scherr 1967; Baskett, Chandy, Muntz & Palacios 1975"

    def by_latency(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """What the queues leave, instructions a cycle of one SM; with latency under load the rate that agrees with it.

        Warps that are not equally many for every scheduler count by a mean of the two numbers next to it.
        """
        if isinf(loop.alpha) or loop.alpha == 0:
            return super().by_latency(machine, loop, warps)
        contention = machine.contention.get(loop.access)
        chains = loop.chains(warps)
        if contention is None:
            return _throughput(machine, loop, chains, np.full(chains.shape, access_latency(machine, loop)))
        low = np.zeros(chains.shape)
        high = np.full(chains.shape, min(peak(machine, loop), contention.ceiling / loop.access_share))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            slower = _throughput(machine, loop, chains, contention.latency(loop.accesses(middle))) < middle
            low, high = np.where(slower, low, middle), np.where(slower, middle, high)
        found: Floats = (low + high) / 2
        return found

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """The nearer of the two bounds that meet here: with queues neither is quite reached."""
        return Refined().limit(machine, loop, warps)


def _throughput(machine: Machine, loop: Loop, chains: Floats, waiting: Floats) -> Floats:
    """Instructions a cycle of one SM, if an access takes so many cycles; shapes as `chains`."""
    unit, adding = machine.unit(loop.access), machine.unit(loop.arithmetic)
    started = machine.issue / (loop.alpha * adding.slots + unit.slots)
    fastest = min(adding.throughput / loop.alpha, started) / machine.schedulers
    cycles = loop.alpha * adding.latency
    # Memory is no station of the SM: how soon it is full its latency under load says.
    places = np.full(chains.shape, inf) if unit.bytes else waiting * unit.throughput / machine.schedulers
    each = chains / machine.schedulers
    fewer = np.floor(each).astype(np.int64)
    rates = [visits(number, cycles, fastest * cycles, waiting, places) for number in (fewer, fewer + 1)]
    found: Floats = (rates[0] + (each - fewer) * (rates[1] - rates[0])) * machine.schedulers / loop.access_share
    return found


def visits(warps: NDArray[np.int64], cycles: float, places: float, waiting: Floats, waiting_places: Floats) -> Floats:
    """How often a cycle warps that go round between two stations visit each.

    `warps`: how many go round, shape any. At the first station a visit takes `cycles` if no more than `places` are
    there, else longer in that proportion; at the second `waiting` and `waiting_places`, shapes as `warps`. Numbers of
    warps at the first station have weights that are products over stations (Baskett et al. 1975).
    """
    most = int(warps.max(initial=0))
    at = np.arange(most + 1)
    waiting = np.minimum(waiting, FOR_EVER)
    served = np.minimum(at, places)
    first = at * np.log(cycles) - np.concatenate([[0.0], np.cumsum(np.log(served[1:]))])
    others = warps[..., None] - at
    there = np.minimum(at[1:], waiting_places[..., None])
    second = at * np.log(waiting[..., None])
    second[..., 1:] -= np.cumsum(np.log(there), axis=-1)
    weights = np.where(others >= 0, first + np.take_along_axis(second, np.maximum(others, 0), axis=-1), -inf)
    weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
    found: Floats = (weights * served).sum(axis=-1) / weights.sum(axis=-1) / cycles
    return found
