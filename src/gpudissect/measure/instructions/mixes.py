"""What of mixes a device can run: which instructions, how many warps, in which blocks."""

from __future__ import annotations

from gpudissect.catalogue.capabilities import max_block_threads
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.measure.plan import Bench
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction
from gpudissect.workload.mix import MAX_WARPS

WARPS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64)
"""Warps of an SM at which throughput is looked at."""
FEWEST_WARPS = 16  # that an SM has room for, if it does not say
GRAIN = 8  # registers of a thread that are given out together


def why_no_mix(instruction: Instruction, bench: Bench) -> str | None:
    """Why an instruction cannot be measured on this device; None if it can."""
    info = bench.info
    if instruction in info.instructions:
        return None
    if info.instructions:
        return "this device does not have it, or cannot run it"
    if Origin.SIMULATED in (info.origin, info.recorded_origin):
        return "the file of this simulated GPU says nothing of instructions"
    return "this device runs no mixes of instructions"


def most_warps(info: DeviceInfo) -> int:
    """Warps that an SM has room for."""
    threads = info.facts.get("threads_per_sm")
    return min(MAX_WARPS, threads // WARP_SIZE) if isinstance(threads, int) else FEWEST_WARPS


def warp_counts(info: DeviceInfo) -> list[int]:
    """Numbers of warps at which to look, rising; the most there can be is the last."""
    most = most_warps(info)
    return [count for count in WARPS if count < most] + ([most] if block_of(most, info) else [])


def block_of(warps: int, info: DeviceInfo) -> int | None:
    """Threads of a block if an SM runs so many warps in as few blocks as can be; None if not evenly in 1, 2 or 4."""
    for blocks in (1, 2, 4):
        if warps % blocks == 0 and warps // blocks * WARP_SIZE <= max_block_threads(info.facts):
            return warps // blocks * WARP_SIZE
    return None


def enough_registers(warps: int, needed: int, info: DeviceInfo) -> bool:
    """Whether an SM has registers for so many warps at once, if a thread needs so many."""
    registers = info.facts.get("registers_per_sm")
    return not isinstance(registers, int) or warps * WARP_SIZE * given(needed) <= registers


def given(needed: int) -> int:
    """Registers that a thread gets if it needs so many: they are given out in eights."""
    return -(-needed // GRAIN) * GRAIN


def steps_between(low: int, high: int, info: DeviceInfo) -> list[int]:
    """Numbers of warps between two others, ends excluded, that can be run."""
    return [count for count in range(low + 1, high) if block_of(count, info)]
