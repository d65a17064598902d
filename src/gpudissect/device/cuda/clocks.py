"""The clock the SMs ran at, and what else was going on: throttling, other users of the GPU.

The rate comes from the kernels themselves (cycles of the SM over nanoseconds of the global timer). The rest is
asked of NVML, which may be absent or refuse, as in containers: then nothing is said.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x400: "reliability",
}
"""Bits of NVML's clock event reasons that mean a lower clock than asked for (nvml.h, nvmlClocksEventReason*)."""


def clock_rate(cycles: ArrayLike, ns: ArrayLike) -> float | None:
    """SM clock in Hz from what blocks, or runs of them, saw on both clocks, each (n,); None if the timer stood still.

    Of all together: the timer moves in steps, so that of a short block alone it tells too much or too little.
    """
    took = float(np.sum(np.asarray(ns, np.float64)))
    return float(np.sum(np.asarray(cycles, np.float64))) / took * 1e9 if took > 0 else None


class Watch:
    """What NVML says of one GPU."""

    def __init__(self, pci_bus_id: str) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self._counted = -math.inf  # when
        self._others = 0
        try:
            from cuda.bindings import nvml

            nvml.init_v2()
            self._handle = nvml.device_get_handle_by_pci_bus_id_v2(pci_bus_id)
            self._nvml = nvml
        except Exception:  # not installed, not permitted, too old: many kinds, all of them fine
            return

    def driver(self) -> str | None:
        """Version of the driver, such as ``580.159.03``."""
        version: str | None = self._ask(lambda nvml: str(nvml.system_get_driver_version()))
        return version

    def throttling(self) -> str | None:
        """Why the clock is lower than asked for at this moment, None if it is not or nobody knows."""
        bits = self._ask(lambda nvml: int(nvml.device_get_current_clocks_event_reasons(self._handle)))
        return ", ".join(text for bit, text in _REASONS.items() if (bits or 0) & bit) or None

    def others(self) -> str | None:
        """How many other processes have a context on this GPU, None if none has or nobody knows.

        Asked at most once a second: it takes longer than most launches.
        """
        now = time.monotonic()
        if now - self._counted >= 1:
            self._counted = now
            found = self._ask(lambda nvml: _length(nvml.device_get_compute_running_processes_v3(self._handle)))
            self._others = max(found - 1, 0) if found is not None else 0
        return str(self._others) if self._others else None

    def close(self) -> None:
        """Let go of NVML."""
        self._ask(lambda nvml: nvml.shutdown())
        self._nvml = None

    def _ask(self, question: Any) -> Any:
        if self._nvml is None:
            return None
        try:
            return question(self._nvml)
        except Exception:  # "not supported" and "no permission" are everyday answers of NVML
            return None


def _length(found: Any) -> int:
    try:
        return len(found)
    except TypeError:  # a lone struct
        return 1
