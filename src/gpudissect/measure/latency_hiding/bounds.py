"""What accesses and additions of latency hiding cannot exceed, whatever was measured; instructions a cycle of an SM."""

from __future__ import annotations

from gpudissect.catalogue.capabilities import special_function_rate, warp_issues
from gpudissect.device_info import DeviceInfo
from gpudissect.measure.latency_hiding.mixes import Kind
from gpudissect.measure.throughput.rate_estimates import MEMORY, Bound, Unbounded, peak_bandwidth
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction

BANKED = 1.0  # accesses of a warp that shared memory serves in a cycle: each of 32 banks gives one word or row
NOT_STATED = Unbounded("")


def starts(info: DeviceInfo) -> Bound | Unbounded:
    """What the schedulers can start, and so the most of anything."""
    found = warp_issues(info.facts)
    return NOT_STATED if found is None else Bound(float(found), "the schedulers")


def access_bound(kind: Kind, moved: int, info: DeviceInfo) -> Bound | Unbounded:
    """Of accesses alone: the units that execute them, or the memory behind, from which each takes `moved` bytes."""
    if kind.of_memory:
        bound, clock = peak_bandwidth(info), info.facts.get("clock_hz")
        if isinstance(bound, Unbounded) or not (isinstance(clock, int | float) and clock > 0):
            return NOT_STATED
        return Bound(bound.rate / (moved * info.sm_count * float(clock)), MEMORY)
    if kind.instruction is Instruction.LDS:
        return Bound(BANKED, "the banks")
    found = special_function_rate(info.facts)
    return NOT_STATED if found is None else Bound(found / WARP_SIZE, "the units for special functions")
