"""The raw trace of empty kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpudissect.device_info import DeviceInfo
from gpudissect.trace import Trace
from gpudissect.views.traces.trace import Columns
from gpudissect.workload import Launch


@dataclass(frozen=True)
class LaunchTrace:
    """Starts of empty kernels, the trace they gave and the device that gave it."""

    info: DeviceInfo
    launch: Launch
    trace: Trace

    def columns(self) -> Columns:
        """Each run."""
        return {"run": np.arange(self.trace.nanoseconds.size), "nanoseconds": self.trace.nanoseconds}

    def described(self) -> dict[str, Any]:
        """The launch."""
        return {"launch": vars(self.launch)}

    def summary(self) -> str:
        """How long a run takes."""
        low, middle, high = np.quantile(self.trace.nanoseconds, [0, 0.5, 1])
        return (f"{self.launch.kernels} empty kernels by {self.launch.method}: median {middle:.4g} ns "
                f"({low:.4g} .. {high:.4g})")  # fmt: skip
