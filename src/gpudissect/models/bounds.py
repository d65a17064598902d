"""The bounds of a loop: its latency, and the rates that schedulers, functional units and memory allow (VV16 s4.1)."""

from __future__ import annotations

from collections import defaultdict

from gpudissect.models.base import Limit, Loop, Machine


def access_latency(machine: Machine, loop: Loop) -> float:
    """Mean cycles of one access of the loop, unloaded.

    Where the dependent instruction matters (VV16 s4.7), accesses are followed by arithmetic as often as there is any:
    always from alpha = 1 on.
    """
    unit = machine.unit(loop.access)
    if unit.latency_to_core is None:
        return unit.latency
    followed = min(loop.alpha, 1.0)
    return followed * unit.latency_to_core + (1 - followed) * unit.latency


def latency(machine: Machine, loop: Loop, memory_latency: float | None = None) -> float:
    """Mean cycles from one instruction of a chain to the next: (mem_lat + alpha alu_lat) / (alpha + 1), VV16 s4.1.

    `memory_latency` stands in for the unloaded one (VV16 s6.5).
    """
    access = access_latency(machine, loop) if memory_latency is None else memory_latency
    arithmetic = machine.unit(loop.arithmetic).latency
    return loop.access_share * access + loop.arithmetic_share * arithmetic


def throughput_bounds(machine: Machine, loop: Loop) -> dict[str, tuple[Limit, float]]:
    """Most instructions a cycle of one SM by each resource, and ``issue``: VV16 s4.1, per instruction.

    ``min(mem_thru, alu_thru / alpha, issue_thru / (alpha + 1))`` there is per access.
    """
    use: defaultdict[str, float] = defaultdict(float)
    kind: dict[str, Limit] = {}
    slots = 0.0
    for name, share in ((loop.arithmetic, loop.arithmetic_share), (loop.access, loop.access_share)):
        unit = machine.unit(name)
        if share:
            use[unit.resource] += share / unit.throughput
            kind[unit.resource] = Limit.MEMORY if unit.bytes else Limit.PIPELINE
            slots += share * unit.slots
    bounds = {resource: (kind[resource], 1 / cycles) for resource, cycles in use.items()}
    bounds["issue"] = (Limit.ISSUE, machine.issue / slots)
    return bounds


def peak(machine: Machine, loop: Loop) -> float:
    """The tightest of them: what no number of warps exceeds (VV16 s4.1), instructions a cycle of one SM."""
    return min(rate for _, rate in throughput_bounds(machine, loop).values())


def tightest(machine: Machine, loop: Loop) -> Limit:
    """Which that is; of equals the one nearest to the instruction: a unit before the schedulers."""
    return min(throughput_bounds(machine, loop).values(), key=lambda bound: bound[1])[0]
