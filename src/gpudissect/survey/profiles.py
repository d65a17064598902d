"""Profiles: experiments for one purpose, with limits."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpudissect.trace import OTHER_PROCESSES, Context


class LimitReached(Exception):
    """A survey has to end with what it measured."""


@dataclass(frozen=True)
class Profile:
    """Experiments for one purpose. They give way to other processes on the GPU.

    Attributes:
        experiments: their names; those that they need run, too.
        max_seconds: after which no further workloads are run.

    """

    experiments: tuple[str, ...]
    max_seconds: float

    def check(self, seconds: float, contexts: Sequence[Context]) -> None:
        """Raise `LimitReached` after too long a time, or if the last workloads ran beside other processes."""
        if seconds > self.max_seconds:
            raise LimitReached(f"it ended after {seconds:.0f} s, allowed: {self.max_seconds:.0f} s")
        if contexts and OTHER_PROCESSES in contexts[-1].notes:
            raise LimitReached(f"it gave way to other processes on the GPU after {seconds:.1f} s")


PROFILES = {
    "health": Profile(
        (
            "bandwidth.dram.read",
            "bandwidth.dram.write",
            "bandwidth.dram.copy",
            "bandwidth.l2.read",
            "latency.l2",
            "latency.dram",
            "map.l2",
            "bandwidth.host.read",
            "bandwidth.host.write",
            "gpu_rate.ffma",
            "gpu_rate.dfma",
            "gpu_rate.mma_f16",
        ),
        60.0,
    )
}
"""By name. ``health``: what a compute centre checks between jobs."""
