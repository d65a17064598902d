"""`DeviceInfo`: what is known of a device before it is measured, and the origin of its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpudissect.workload import Instruction, LaunchMethod, Path


class Origin(StrEnum):
    """Where numbers come from; every result states it."""

    MEASURED = "measured"
    SIMULATED = "simulated"
    REPLAYED = "replayed"  # of a recording; `DeviceInfo.recorded_origin` says of what


@dataclass(frozen=True)
class DeviceInfo:
    """What is known of a device before it is measured.

    Attributes:
        spec: the name it was opened by: ``cuda:0``, ``sim:gtx980``, ``rec:folder``.
        name: the GPU's name.
        origin: measured, simulated or replayed.
        recorded_origin: of a replay, whether the recorded GPU was measured or simulated.
        catalogue: name of the catalogue entry that describes this GPU, if there is one.
        sm_count: number of SMs (compute units).
        span_limits: bytes that one chase may span on each path of this device.
        unsupported: missing paths, each with the reason.
        streams: paths that support a `Stream`.
        instructions: those that a `Mix` may have, though not in every combination; none if there are no mixes.
        launch_methods: how it can start the kernels of a `Launch`.
        copies: paths of an `EngineCopy` that it can run.
        facts: statements of the driver, as far as known (MT22 s4.1). Each is optional: older results lack some.
            Bytes: ``l2_size``, ``l2_fetch_limit`` (most that one miss fetches), ``persisting_l2_size`` (most that can
            be set aside for persisting accesses), ``memory_size``, ``shared_per_sm``, ``shared_per_block`` (most, on
            request), ``default_shared_per_block`` (most, without request), ``reserved_shared_per_block`` (taken by the
            driver), ``constant_size``. Clocks and memory: ``clock_hz``, ``memory_clock_hz``, ``memory_bus_bits``,
            ``memory_data_rate`` (transfers per cycle of that clock, if not two). Limits: ``warp_size``,
            ``threads_per_sm``, ``blocks_per_sm``, ``threads_per_block``, ``registers_per_sm`` (of 32 bits; missing if
            registers are no limit, as on simulated GPUs), ``registers_per_block``, ``blocks_per_grid_x``,
            ``cluster_size`` (most blocks of a cluster, each on its own SM), ``clusters_N`` (number of clusters of N
            such blocks that run at once). Links: ``pcie_generation`` (the highest that GPU and slot support),
            ``pcie_lanes`` (in use), ``nvlinks`` (active ones), ``nvlink_version`` (major), ``numa_node`` (nearest),
            ``peers`` (numbers of the other GPUs whose memory it can access), ``atomic_peers`` (those whose link has
            native atomics), ``nvlink_peers`` (those that NVLink connects with it, by NVML). ``cores`` (FP32 cores of
            the GPU, by NVML), ``compute_capability``; "yes" or "no": ``global_l1`` and ``local_l1`` (whether
            the L1 caches global and local memory), ``cooperative_launch``, ``concurrent_kernels``. ``compute_mode`` is
            "exclusive" if only one process at a time can use the GPU.
        environment: versions of driver, compiler and others, as text.
        provenance: which card was measured, where, when and under which settings, as text, under the names of
            `gpudissect.results.model.Provenance`; empty for a simulated GPU.
    """

    spec: str
    name: str
    origin: Origin
    sm_count: int
    span_limits: Mapping[Path, int]
    unsupported: Mapping[Path, str] = field(default_factory=dict)
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    streams: tuple[Path, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    launch_methods: tuple[LaunchMethod, ...] = ()
    copies: tuple[Path, ...] = ()
    recorded_origin: Origin | None = None
    catalogue: str | None = None

    def limit(self, path: Path) -> int:
        """Bytes that one chase may span on `path`; 0 if the device lacks it."""
        return self.span_limits.get(path, 0)
