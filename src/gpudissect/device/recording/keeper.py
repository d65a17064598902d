"""`Keeper`: a device that hands every batch to another one and keeps what came back, to be looked at later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpudissect.device.base import Device
from gpudissect.device_info import DeviceInfo
from gpudissect.trace import Trace
from gpudissect.workload import Workload

MOST_BYTES = 1 << 30
"""Of arrays: what comes after is not kept. A whole survey of an H200 stays far below."""

Kept = tuple[Workload, Trace]


class Keeper(Device, Mapping[str, Kept]):
    """A device, and a mapping from digests of workloads to the workload and the first trace that it gave.

    It holds only what `device` ran through it, `most_bytes` of arrays at most. Closing leaves `device` open.
    """

    def __init__(self, device: Device, most_bytes: int = MOST_BYTES) -> None:
        self._device = device
        self._left = most_bytes
        self._kept: dict[str, Kept] = {}

    @property
    def info(self) -> DeviceInfo:
        """What is known of the device behind."""
        return self._device.info

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch on the device behind."""
        traces = self._device.run(batch)
        for workload, trace in zip(batch, traces, strict=True):
            size = sum(array.nbytes for array in trace.arrays.values())
            if trace.workload not in self._kept and size <= self._left:
                self._kept[trace.workload] = workload, trace
                self._left -= size
        return traces

    def __getitem__(self, digest: str) -> Kept:
        return self._kept[digest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)
