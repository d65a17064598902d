"""What the driver and NVML report about a GPU: its facts and limits, its environment, throttling and other users."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpudissect.catalogue.compute_capability import FIRST_WITH_CLUSTERS, smallest_carveout
from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.driver import dotted_version, uuid_of
from gpudissect.device.cuda.layout import TRAITS
from gpudissect.device.cuda.links import numa_node
from gpudissect.errors import KernelFailed
from gpudissect.workload import Path

_MAX_NVLINKS = 18  # of a GPU, up to Blackwell (nvml.h, NVML_NVLINK_MAX_LINKS)
_NVLINK_VERSIONS = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5}
"""Major versions of NVLink by NVML's numbers (nvml.h, nvmlNvlinkVersion_t)."""
_NVLINK_ERRORS = range(4)  # replays, recoveries, CRC errors of flits and of data (nvml.h, nvmlNvLinkErrorCounter_t)
_EXCLUSIVE_PROCESS = 3  # compute mode (cuda.h, CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
_CLUSTER_SIZES = (2, 4, 8, 16)
_THROTTLING_S = 0.02  # a query takes 0.2 ms, as long as many launches
_THROTTLE_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x400: "reliability",
}
"""Bits of NVML's clock event reasons that mean a lower clock than requested (nvml.h, nvmlClocksEventReason*)."""


def driver_facts(context: CudaContext, nvml: NvmlMonitor, clusters: dict[int, int]) -> dict[str, int | float | str]:
    """What the driver and NVML report, under the names of `DeviceInfo.facts`: all that MT22 s4.1 and MT4G list."""
    properties: Any = context.properties
    limit = context.l2_fetch_limit()
    facts = ({} if limit is None else {"l2_fetch_limit": limit}) | {
        "l2_size": properties.l2_cache_size,
        "persisting_l2_size": properties.max_persisting_l2_cache_size,
        "memory_size": context.free_memory()[1],
        "shared_per_sm": properties.max_shared_memory_per_multiprocessor,
        "shared_per_block": context.max_shared_bytes,
        "default_shared_per_block": properties.max_shared_memory_per_block,
        "reserved_shared_per_block": properties.reserved_shared_memory_per_block,
        "constant_size": properties.total_constant_memory,
        "clock_hz": properties.clock_rate * 1000,
        "memory_clock_hz": properties.memory_clock_rate * 1000,
        "memory_bus_bits": properties.global_memory_bus_width,
        "warp_size": properties.warp_size,
        "threads_per_sm": properties.max_threads_per_multiprocessor,
        "threads_per_block": properties.max_threads_per_block,
        "blocks_per_sm": properties.max_blocks_per_multiprocessor,
        "registers_per_sm": properties.max_registers_per_multiprocessor,
        "registers_per_block": properties.max_registers_per_block,
        "blocks_per_grid_x": properties.max_grid_dim_x,
        "global_l1": _yes_or_no(properties.global_l1_cache_supported),
        "local_l1": _yes_or_no(properties.local_l1_cache_supported),
        "cooperative_launch": _yes_or_no(properties.cooperative_launch),
        "concurrent_kernels": _yes_or_no(properties.concurrent_kernels),
        "compute_capability": ".".join(map(str, context.capability)),
    }
    facts |= {"cores": cores} if (cores := nvml.cores()) else {}
    facts |= nvml.pcie() | nvml.nvlinks() | numa_node(str(context.device.pci_bus_id))
    facts |= {"compute_mode": "exclusive"} if int(properties.compute_mode) == _EXCLUSIVE_PROCESS else {}
    facts |= {"cluster_size": max(clusters)} if clusters else {}
    return facts | {f"clusters_{size}": count for size, count in clusters.items()}


def _yes_or_no(is_supported: bool) -> str:
    return "yes" if is_supported else "no"


def shared_bytes_beside_l1(context: CudaContext) -> int:
    """Bytes of shared memory that a block can use without taking anything from the L1.

    Up to Pascal shared memory is an array of its own. From Volta on it is carved out of the L1's, in steps; of the
    smallest that holds a block the driver reserves some (1 KiB from Ampere on). Measured on an H200: up to 7168 B leave
    the L1 at 241 KiB, 7680 B take 9 KiB from it.
    """
    if context.capability < (7, 0):
        return context.max_shared_bytes
    smallest = smallest_carveout({"compute_capability": ".".join(map(str, context.capability))})
    return min(smallest - int(context.properties.reserved_shared_memory_per_block), context.max_shared_bytes)


def active_clusters(context: CudaContext, shared: int) -> dict[int, int]:
    """Clusters that run at once, by their size, each block taking `shared` bytes, all that an SM has; empty if none."""
    if context.capability[0] < FIRST_WITH_CLUSTERS:
        return {}
    try:
        kernel = context.kernel("chase.cu", "chase_lap", TRAITS[Path.CLUSTER].macro)
        kernel.configure(shared=shared, carveout=100)
        kernel.allow_any_cluster()
    except KernelFailed:
        return {}
    counts = {size: context.max_active_clusters(kernel, size, 1, shared) for size in _CLUSTER_SIZES}
    return {size: count for size, count in counts.items() if count > 0}


def environment(context: CudaContext, nvml: NvmlMonitor) -> dict[str, str]:
    """Versions of everything between this program and the GPU."""
    import cuda.bindings
    import cuda.core

    versions = {
        "driver": nvml.driver(),
        "cuda_driver": dotted_version(context.driver.cuDriverGetVersion()[1]),
        "nvrtc": context.compiler.version,
        "arch": context.compiler.arch,
        "cuda_core": cuda.core.__version__,
        "cuda_bindings": cuda.bindings.__version__,
        "ecc": "on" if context.properties.ecc_enabled else "off",
    }
    return {name: text for name, text in versions.items() if text is not None}


def provenance(context: CudaContext, nvml: NvmlMonitor) -> dict[str, str]:
    """Card, place, time and settings of a measurement, under the names of `gpudissect.results.model.Provenance`."""
    device: Any = context.device
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "gpu_uuid": uuid_of(device),
        "pci_address": str(device.pci_bus_id),
        **nvml.settings(),
    }


def clock_rate(cycles: ArrayLike, ns: ArrayLike) -> float | None:
    """SM clock in Hz from all cycles and nanoseconds, each (n,): the global timer is too coarse for short blocks."""
    total_ns = float(np.asarray(ns, np.float64).sum())
    return float(np.asarray(cycles, np.float64).sum()) / total_ns * 1e9 if total_ns > 0 else None


def count_processes() -> int:
    """Number of compute processes on all GPUs of this machine, as NVML reports it; 0 if it is unavailable."""
    numbers = set[int]()
    with suppress(Exception):  # NVML is absent or refuses, as in containers
        from cuda.bindings import nvml

        nvml.init_v2()
        for index in range(nvml.device_get_count_v2()):
            with suppress(Exception):  # this GPU is lost
                numbers.update(_process_numbers(nvml, nvml.device_get_handle_by_index_v2(index)))
        nvml.shutdown()
    return len(numbers)


def _process_numbers(nvml: Any, handle: Any) -> list[int]:
    """Of the compute processes on a GPU; a single one comes as a plain struct, without a length."""
    numbers: list[int] = np.atleast_1d(nvml.device_get_compute_running_processes_v3(handle).pid).tolist()
    return numbers


class NvmlMonitor:
    """What NVML reports of one GPU; None where it is absent or refuses, as in containers."""

    def __init__(self, pci_bus_id: str) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self._processes_at = self._throttling_at = -math.inf
        self._throttling: str | None = None
        self._other_processes = 0
        try:
            from cuda.bindings import nvml

            nvml.init_v2()
            self._handle = nvml.device_get_handle_by_pci_bus_id_v2(pci_bus_id)
            self._nvml = nvml
        except Exception:  # not installed, not permitted, too old: many kinds, none of which matters
            return

    def driver(self) -> str | None:
        """Version of the driver, such as ``580.159.03``."""
        version: str | None = self._query(lambda nvml: str(nvml.system_get_driver_version()))
        return version

    def cores(self) -> int | None:
        """FP32 cores of the whole GPU; None if unknown, or if this is an instance (MIG), which has a part of them."""
        if self.settings().get("mig") == "on":
            return None
        return self._query(lambda nvml: int(nvml.device_get_num_gpu_cores(self._handle))) or None

    def pcie(self) -> dict[str, int]:
        """Facts of the PCIe link; none where NVML does not give them. An idle link is slower than its generation."""
        facts = {
            "pcie_generation": self._query(lambda nvml: nvml.device_get_max_pcie_link_generation(self._handle)),
            "pcie_lanes": self._query(lambda nvml: nvml.device_get_curr_pcie_link_width(self._handle)),
        }
        return {name: int(value) for name, value in facts.items() if value}

    def nvlinks(self) -> dict[str, int]:
        """Number of active NVLinks, and their version; none where there are none, or NVML does not give them."""
        if not (active := self._active_nvlinks()):
            return {}
        number = self._query(lambda nvml: min(nvml.device_get_nvlink_version(self._handle, link) for link in active))
        version = _NVLINK_VERSIONS.get(number)
        return {"nvlinks": len(active)} | ({"nvlink_version": version} if version else {})

    def nvlink_peers(self, peers: Sequence[int], address_of: Callable[[int], str]) -> dict[str, str]:
        """The fact ``nvlink_peers``: those of these GPUs that NVLink connects with it. `address_of`: PCI address."""

        def is_linked(nvml: Any, number: int) -> bool:
            other = nvml.device_get_handle_by_pci_bus_id_v2(address_of(number))
            status = nvml.device_get_p2p_status(self._handle, other, nvml.GpuP2PCapsIndex.NVLINK)
            return bool(status == nvml.GpuP2PStatus.OK)

        linked = [number for number in peers if self._query(partial(is_linked, number=number))]
        return {"nvlink_peers": " ".join(map(str, linked))} if linked else {}

    def _active_nvlinks(self) -> list[int]:
        def is_active(link: int) -> bool:
            return bool(self._query(lambda nvml: nvml.device_get_nvlink_state(self._handle, link)))

        return [link for link in range(_MAX_NVLINKS) if is_active(link)]

    def _nvlink_errors(self, nvml: Any) -> str | None:
        """Errors of all active NVLinks, as NVML counts them; None without any link."""
        pairs = [(link, kind) for link in self._active_nvlinks() for kind in _NVLINK_ERRORS]
        counts = [nvml.device_get_nvlink_error_counter(self._handle, link, kind) for link, kind in pairs]
        return str(sum(counts)) if counts else None

    def settings(self) -> dict[str, str]:
        """Power limit, temperature, clocks, modes and errors now, as text; without those that NVML does not give."""
        state = {0: "off", 1: "on"}
        queries: dict[str, Callable[[Any], str | None]] = {
            "driver": lambda nvml: str(nvml.system_get_driver_version()),
            "power_limit": lambda nvml: f"{nvml.device_get_enforced_power_limit(self._handle) / 1000:g} W",
            "temperature": lambda nvml: f"{nvml.device_get_temperature_v(self._handle, 0)} C at the start",
            "sm_clock": lambda nvml: self._clock(nvml, nvml.ClockType.CLOCK_SM),
            "memory_clock": lambda nvml: self._clock(nvml, nvml.ClockType.CLOCK_MEM),
            "throttling": lambda nvml: self.throttling() or "none at the start",
            "mig": lambda nvml: state[nvml.device_get_mig_mode(self._handle)[0]],
            "ecc": lambda nvml: state[int(nvml.device_get_ecc_mode(self._handle)[0])],
            "persistence": lambda nvml: state[int(nvml.device_get_persistence_mode(self._handle))],
            "remapped_rows": lambda nvml: str(sum(nvml.device_get_remapped_rows(self._handle)[:2])),
            "nvlink_errors": self._nvlink_errors,
        }
        texts = {name: self._query(query) for name, query in queries.items()}
        return {name: text for name, text in texts.items() if text is not None}

    def _clock(self, nvml: Any, clock: Any) -> str:
        """The requested and the highest clock of a domain."""
        target = nvml.device_get_clock(self._handle, clock, nvml.ClockId.APP_CLOCK_TARGET)
        return f"requested {target} MHz, highest {nvml.device_get_max_clock_info(self._handle, clock)} MHz"

    def clocks(self) -> tuple[float | None, float | None]:
        """Clocks of the SMs and of the memory now, in Hz."""
        sm = self._query(lambda nvml: 1e6 * nvml.device_get_clock_info(self._handle, nvml.ClockType.CLOCK_SM))
        memory = self._query(lambda nvml: 1e6 * nvml.device_get_clock_info(self._handle, nvml.ClockType.CLOCK_MEM))
        return sm, memory

    def throttling(self) -> str | None:
        """Why the clock is lower than requested now, None if it is not or not known. Queried every `_THROTTLING_S`."""
        now = time.monotonic()
        if now - self._throttling_at >= _THROTTLING_S:
            self._throttling_at = now
            bits = self._query(lambda nvml: int(nvml.device_get_current_clocks_event_reasons(self._handle)))
            self._throttling = ", ".join(text for bit, text in _THROTTLE_REASONS.items() if (bits or 0) & bit) or None
        return self._throttling

    def other_processes(self) -> str | None:
        """Number of other processes on this GPU, None if 0 or unknown. Queried once a second: that takes long.

        The process that started this one does not count: it may hold the arrays that a kernel is explained with.
        """
        now = time.monotonic()
        if now - self._processes_at >= 1:
            self._processes_at = now
            numbers = self._query(lambda nvml: _process_numbers(nvml, self._handle)) or []
            self._other_processes = max(len(numbers) - (os.getppid() in numbers) - 1, 0)
        return str(self._other_processes) if self._other_processes else None

    def close(self) -> None:
        """Shut NVML down."""
        self._query(lambda nvml: nvml.shutdown())
        self._nvml = None

    def _query(self, call: Callable[[Any], Any]) -> Any:
        if self._nvml is None:
            return None
        try:
            return call(self._nvml)
        except Exception:  # "not supported" and "no permission" are common answers of NVML
            return None
