"""What the driver and the tools between this program and a GPU say of it, before anything is measured."""

from __future__ import annotations

from typing import Any

from gpudissect.catalogue.capabilities import smallest_carveout
from gpudissect.device.cuda.clocks import Watch
from gpudissect.device.cuda.compile import Compiler
from gpudissect.device.cuda.driver import Board
from gpudissect.device.cuda.start import driver_version
from gpudissect.workload import Path


def cluster_facts(found: dict[int, int]) -> dict[str, int | float | str]:
    """What `DeviceInfo.facts` says of clusters."""
    if not found:
        return {}
    return {"cluster_size": max(found), **{f"clusters_{size}": count for size, count in found.items()}}


def without_code(properties: Any) -> dict[Path, str]:
    """Why straight-line code cannot be run, if it cannot."""
    major, minor = properties.compute_capability_major, properties.compute_capability_minor
    if major >= 7:
        return {}
    # Up to Pascal an instruction has 8 bytes, and every fourth (of Kepler: eighth) word holds no instruction.
    return {Path.CODE: f"the code that is run is counted in instructions of 16 bytes, which compute capability "
                       f"{major}.{minor} does not have"}  # fmt: skip


def shared_free(properties: Any, largest: int) -> int:
    """Bytes of shared memory a block can use without taking anything from the L1.

    Up to Pascal shared memory is an array of its own. From Volta on it is carved out of the L1's, in steps: the
    smallest that holds a block is 8 KiB (32 KiB on Turing), of which the driver keeps some for itself (1 KiB from
    Ampere on). So measured on an H200: up to 7168 B leave the L1 at 241 KiB, 7680 B take 9 KiB from it.
    """
    major, minor = properties.compute_capability_major, properties.compute_capability_minor
    if major < 7:
        return largest
    step = smallest_carveout({"compute_capability": f"{major}.{minor}"})
    return min(step - int(properties.reserved_shared_memory_per_block), largest)


def facts(board: Board) -> dict[str, int | float | str]:
    """What the driver says, under the names of `DeviceInfo.facts`."""
    properties: Any = board.properties
    fetch_limit = board.l2_fetch_limit()
    return ({} if fetch_limit is None else {"l2_fetch_limit": fetch_limit}) | {
        "l2_size": properties.l2_cache_size,
        "memory_size": board.free_memory()[1],
        "shared_per_sm": properties.max_shared_memory_per_multiprocessor,
        "shared_per_block": properties.max_shared_memory_per_block_optin or properties.max_shared_memory_per_block,
        "constant_size": properties.total_constant_memory,
        "clock_hz": properties.clock_rate * 1000,
        "memory_clock_hz": properties.memory_clock_rate * 1000,
        "memory_bus_bits": properties.global_memory_bus_width,
        "warp_size": properties.warp_size,
        "threads_per_sm": properties.max_threads_per_multiprocessor,
        "threads_per_block": properties.max_threads_per_block,
        "blocks_per_sm": properties.max_blocks_per_multiprocessor,
        "registers_per_sm": properties.max_registers_per_multiprocessor,
        "compute_capability": f"{properties.compute_capability_major}.{properties.compute_capability_minor}",
    }


def environment(board: Board, compiler: Compiler, watch: Watch) -> dict[str, str]:
    """Versions of everything between this program and the GPU."""
    import cuda.bindings
    import cuda.core

    known = {
        "driver": watch.driver(),
        "cuda_driver": driver_version(board.driver),
        "nvrtc": compiler.version,
        "arch": compiler.arch,
        "cuda_core": cuda.core.__version__,
        "cuda_bindings": cuda.bindings.__version__,
        "ecc": "on" if board.properties.ecc_enabled else "off",
    }
    return {name: text for name, text in known.items() if text is not None}
