"""The tiers of memory that serve loads and stores of many warps: what each holds, its latency, what it moves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpudissect.simulation.cache.geometry import Hierarchy, Scope
from gpudissect.simulation.sm.description import Bandwidth, Processor
from gpudissect.workload import Path, Transfer

L2_VARIABILITY = 0.6  # of the services of an L2, see `MemorySystem`: nearly equal


@dataclass(frozen=True)
class Tier:
    """A cache on a path, or the memory behind them.

    Attributes:
        name: ``l1``, ``l2`` or ``dram``.
        capacity: bytes; infinite for memory.
        latency: cycles of an access that is alone.
        bandwidth: B/cycle of one SM if the level is `private`, else of the whole GPU.
        private: whether every SM has one.
        variability: of its services.

    """

    name: str
    capacity: float
    latency: float
    bandwidth: Bandwidth
    private: bool
    variability: float

    def rate(self, transfer: Transfer) -> float:
        """B/cycle for one kind of transfer."""
        return {
            Transfer.READ: self.bandwidth.read,
            Transfer.WRITE: self.bandwidth.write,
            Transfer.COPY: self.bandwidth.copy,
        }[transfer]


def tiers_on(path: Path, processor: Processor, hierarchy: Hierarchy) -> list[Tier]:
    """The tiers of a path for which the processor has bandwidths, nearest first, memory last."""
    route, tiers = hierarchy.routes[path], []
    for name, latency in zip(route.caches, route.latency, strict=True):
        cache, private = hierarchy.caches[name], hierarchy.caches[name].scope is Scope.SM
        bandwidth = processor.l1 if private else processor.l2
        if bandwidth is None:
            continue
        parts = 2 if hierarchy.partition is not None and hierarchy.partition.cache == name else 1
        element = "l1" if private else "l2"
        tiers.append(Tier(element, parts * cache.capacity, latency, bandwidth, private, L2_VARIABILITY))
    memory = processor.memory
    tiers.append(Tier("dram", math.inf, memory.latency, processor.dram, False, memory.variability))
    return tiers


def share_of(processor: Processor, part: float) -> float:
    """The part of a GPU's bandwidth that one SM gets which asks for `part` of all: no more than its way there holds."""
    return min(part, processor.memory.alone / processor.sms)
