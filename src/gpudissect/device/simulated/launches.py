"""Empty kernels on a simulated GPU: what the first costs, and each one more."""

from __future__ import annotations

import numpy as np

from gpudissect.device.simulated.noise import Noise
from gpudissect.errors import DeviceError
from gpudissect.simulation.sm.description import Launches
from gpudissect.trace import Array
from gpudissect.workload import Clock, Launch, LaunchMethod

RUN_TO_RUN = {Clock.HOST: 0.1, Clock.GPU: 0.002}  # standard deviation of runs, relative, at a jitter of 1
LATE = 100  # a host is that much more often late than a GPU's clock
LATE_MEAN = 10_000.0  # ns by which it then is, on average


def launch_methods(launches: Launches) -> tuple[LaunchMethod, ...]:
    """The ways of starting for which there are costs."""
    graphs = launches.graph_start is not None and launches.graph_interval is not None
    return (LaunchMethod.STREAM, LaunchMethod.GRAPH) if graphs else (LaunchMethod.STREAM,)


def run_launch(launch: Launch, launches: Launches, noise: Noise, seed: int, name: str) -> dict[str, Array]:
    """Start empty kernels: `nanoseconds` of each run. Raises `DeviceError` for a method that this GPU lacks."""
    start, interval = launches.kernel_start, launches.kernel_interval
    if launch.method is LaunchMethod.GRAPH:
        if launches.graph_start is None or launches.graph_interval is None:
            raise DeviceError(f"{name} launches no graphs: its GPU file does not describe that")
        start, interval = launches.graph_start, launches.graph_interval
    draws = np.random.default_rng([seed, noise.seed])
    by_host = launch.clock is Clock.HOST
    whole = start + (launch.kernels - 1) * interval if by_host else (launch.kernels + 1) * interval
    spread = 1 + RUN_TO_RUN[launch.clock] * noise.jitter * np.abs(draws.standard_normal(launch.runs))
    odds = min(1.0, LATE * noise.outliers) if by_host else 0.0
    late = draws.exponential(LATE_MEAN, launch.runs) * (draws.random(launch.runs) < odds)
    return {"nanoseconds": np.rint(whole * spread + late).astype(np.int64)}
