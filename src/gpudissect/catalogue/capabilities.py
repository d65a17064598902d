"""What is documented of an SM by compute capability: every table of the package that is keyed by it.

A key is a capability ("8.6") or a major version ("8"). Source, unless another is named: CUDA C Programming Guide,
"Compute Capabilities" (technical specifications) and "Arithmetic Instructions" (table of throughputs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")
Facts = Mapping[str, object]
"""`DeviceInfo.facts`, of which ``compute_capability`` is used."""

_SCHEDULERS = {"1": 1, "2": 2, "6.0": 2}  # VV16 table 2.6; others 4
_WARP_ISSUES = dict.fromkeys(("5", "6", "7", "8", "9", "10", "12"), 4) | {"1": 1, "2.0": 2, "2.1": 4, "3": 8, "6.0": 2}
_SPECIAL_RESULTS = dict.fromkeys(("6.0", "7", "8", "9", "10", "12"), 16)  # also VV16 table 6.1
_SPECIAL_RESULTS |= {"1": 2, "2.0": 4, "2.1": 8} | dict.fromkeys(("3", "5", "6"), 32)
_BLOCKS_PER_SM = {"1": 8, "2": 8}  # of all GPUs of later capabilities at least 16
_BLOCK_THREADS = {"1": 512}  # others 1024
_SM_THREADS = {"7.5": 1024} | dict.fromkeys(("8.6", "8.7", "8.9", "12"), 1536)  # from Volta on; others 2048
_STORES_CROSS_L1 = dict.fromkeys(("7", "8", "9", "10", "12"), True)  # Nsight Compute, "L1TEX"
_SMALLEST_CARVEOUT = {"7.5": 32 << 10}  # bytes; others from Volta on 8 KiB, as measured on an H200

SM_REGISTERS = 65536
"""32-bit registers of an SM from Volta on."""
MAX_THREAD_REGISTERS = 255
TEXTURE_BYTES = 4 << 27
"""Largest linear 1D texture: 2^27 texels of 4 bytes."""
FIRST_WITH_CLUSTERS = 9
"""Major capability from which on there are thread block clusters and bulk copies (TMA)."""
NEEDS_CLUSTERS = "needs compute capability 9.0"
USUAL_CORES, USUAL_BLOCKS, USUAL_BLOCK_THREADS = 128, 32, 1024
"""FP32 lanes and blocks of an SM, threads of a block: usual values since capability 5.0."""


def schedulers(facts: Facts) -> int:
    """Warp schedulers of an SM; 4 if the capability is unknown."""
    return _lookup(_SCHEDULERS, facts) or 4


def warp_issues(facts: Facts) -> int | None:
    """Warp instructions that an SM starts per cycle: an upper bound, None if unknown.

    On capabilities 2.1 and 3 each scheduler starts two. On 1.x and 2.x one takes several cycles: the bound is loose.
    """
    return _lookup(_WARP_ISSUES, facts)


def special_function_rate(facts: Facts) -> int | None:
    """Results per cycle of an SM's special function units, None if unknown."""
    return _lookup(_SPECIAL_RESULTS, facts)


def min_blocks_per_sm(facts: Facts) -> int:
    """Blocks that an SM of this capability can hold for sure."""
    return _lookup(_BLOCKS_PER_SM, facts) or 16


def max_block_threads(facts: Facts) -> int:
    """Threads that a block can have."""
    return _lookup(_BLOCK_THREADS, facts) or 1024


def allocated_registers(needed: int) -> int:
    """Registers that a thread gets: they are allocated in units of 8."""
    return -(-needed // 8) * 8


def max_sm_threads(facts: Facts) -> int:
    """Threads that an SM can hold, from Volta on."""
    return _lookup(_SM_THREADS, facts) or 2048


def stores_cross_l1(facts: Facts) -> bool:
    """Whether all stores of an SM pass through its L1, those that bypass its tags included."""
    return _lookup(_STORES_CROSS_L1, facts) or False


def smallest_carveout(facts: Facts) -> int:
    """Bytes of the smallest share of the L1's array that shared memory takes, from Volta on."""
    return _lookup(_SMALLEST_CARVEOUT, facts) or 8 << 10


def _lookup(table: Mapping[str, T], facts: Facts) -> T | None:
    """The entry of a capability, else that of its major version, else None."""
    capability = str(facts.get("compute_capability", ""))
    return table.get(capability, table.get(capability.partition(".")[0]))
