"""`DeviceInfo`: what is known of a device before anything is measured, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpudissect.workload import Instruction, LaunchMethod, Path


class Origin(StrEnum):
    """Where numbers come from. Never confused: it stands in every result."""

    MEASURED = "measured"
    SIMULATED = "simulated"
    REPLAYED = "replayed"  # of a recording; `DeviceInfo.recorded_origin` says of what


@dataclass(frozen=True)
class DeviceInfo:
    """What is known of a device before anything is measured.

    Attributes:
        spec: the name it was opened by: ``cuda:0``, ``sim:gtx980``, ``rec:folder``.
        name: the GPU's name.
        origin: measured, simulated or replayed.
        recorded_origin: for a replay, whether the recording is of a measured or a simulated GPU.
        catalogue: name of the catalogue entry that describes this GPU, if one is known.
        sm_count: number of SMs (compute units).
        span_limits: bytes one chase may span on each path that this device has.
        unsupported: paths it lacks, each with the reason.
        streams: paths on which it can run a `Stream`.
        instructions: those of which it can run a `Mix`; none if it runs no mixes. Not every set of them in one.
        launch_methods: how it can start the kernels of a `Launch`.
        facts: what the driver says (MT22 s4.1): ``l2_size``, ``l2_fetch_limit`` (most that one miss may bring in),
            ``memory_size``, ``shared_per_sm``, ``shared_per_block``, ``constant_size``, ``clock_hz``,
            ``memory_clock_hz``, ``memory_bus_bits``, ``memory_data_rate`` (transfers in a cycle of that clock, if they
            are not two), ``warp_size``; what an SM has room for: ``threads_per_sm``, ``blocks_per_sm``,
            ``threads_per_block``, ``registers_per_sm`` (left out where registers are no limit, as on simulated GPUs);
            ``compute_capability``, ``cluster_size`` (most blocks of a cluster, each on an SM of its own),
            ``clusters_N`` (how many clusters of N such blocks run at once); those it knows.
        environment: driver, compiler and the like, as text.

    """

    spec: str
    name: str
    origin: Origin
    sm_count: int
    span_limits: Mapping[Path, int]
    unsupported: Mapping[Path, str] = field(default_factory=dict)
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    streams: tuple[Path, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    launch_methods: tuple[LaunchMethod, ...] = ()
    recorded_origin: Origin | None = None
    catalogue: str | None = None

    def limit(self, path: Path) -> int:
        """Bytes one chase may span on `path`; 0 if the device has no such path."""
        return self.span_limits.get(path, 0)
