"""The protocol every device keeps. Nothing here knows of any vendor's driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from gpudissect.device_info import DeviceInfo
from gpudissect.trace import Trace
from gpudissect.workload import Workload


class Device(Protocol):
    """Something that runs workloads. Close it, or use it as a context manager."""

    @property
    def info(self) -> DeviceInfo:
        """What is known of it before anything is measured."""

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch and give one trace a workload, in the order of the batch.

        The workloads of a batch may run at the same time, except those marked `alone`: they run in the order of the
        batch, and over the same memory if none of them reaches further than the first.
        Raises `UnsupportedWorkload` if this device cannot run one of them, before any has run if that is known then,
        and `DeviceError` (or another subclass) when the device itself fails.
        """

    def close(self) -> None:
        """Give back what the device holds; may be called twice."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class NothingHeld:
    """What holds nothing open: a device to be closed, or used as a context manager, all the same."""

    def close(self) -> None:
        """Nothing to give back; may be called any number of times."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
