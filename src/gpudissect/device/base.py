"""`Device`: the protocol of every device, independent of any vendor's driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from gpudissect.device_info import DeviceInfo
from gpudissect.trace import Trace
from gpudissect.workload import Workload


class Device(Protocol):
    """A device that runs workloads. Close it, or use it as a context manager."""

    @property
    def info(self) -> DeviceInfo:
        """What is known of it before anything is measured."""

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch of workloads; returns one trace per workload, in the same order.

        The workloads of a batch may run at the same time, except those marked `alone`: they run in the order of the
        batch, and over the same memory if none of them reaches further than the first.
        Raises `UnsupportedWorkload` if this device cannot run one of them, before any has run if that is known then,
        and `DeviceError` (or another subclass) when the device itself fails.
        """

    def close(self) -> None:
        """Release what the device holds; may be called twice. By default there is nothing to release."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
