"""`Device`, the protocol of every device; `Keeper` and `Described`, which wrap another one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import heappop, heappush
from typing import Protocol, Self

from gpudissect.device.queue import Answer, Batch, BatchQueue, Deferred, Observed
from gpudissect.device_info import DeviceInfo
from gpudissect.trace import Trace
from gpudissect.workload import Workload

EVIDENCE_BYTES = 256 << 20  # of traces kept for a result's series; half a survey of an H200 has 34 million
MAX_KEPT_BYTES = 1 << 30
"""Of arrays; later traces are not kept. A whole survey of an H200 needs far less."""
Kept = tuple[Workload, Trace]


class Device(Protocol):
    """A device that runs workloads. Close it, or use it as a context manager."""

    @property
    def info(self) -> DeviceInfo:
        """What is known of it before anything is measured."""

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch of workloads; returns one trace per workload, in the same order.

        The workloads of a batch may run at the same time, except those marked `alone`: they run in the order of the
        batch, and over the same memory if all of the batch are alone and none reaches further than the first.
        Raises `UnsupportedWorkload` if this device cannot run one of them, before any has run if that is known then,
        and `DeviceError` (or another subclass) when the device itself fails.
        """

    def queue(self) -> BatchQueue:
        """A new batch queue. By default, batches run in this process when their traces are collected."""
        return Deferred(self.run)

    def prepare(self) -> bool:
        """Do one step of preparation while no batch is waiting. Return whether there was one to do."""
        return False

    def close(self) -> None:
        """Release what the device holds; may be called twice. By default there is nothing to release."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Described(Device):
    """A device whose `info` is replaced by `describe(info)`. Closing it leaves `device` open."""

    def __init__(self, device: Device, describe: Callable[[DeviceInfo], DeviceInfo]) -> None:
        self._device, self._describe = device, describe

    @cached_property
    def info(self) -> DeviceInfo:
        """The replaced description."""
        return self._describe(self._device.info)

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch on the device."""
        return self._device.run(batch)

    def queue(self) -> BatchQueue:
        """A queue of the device."""
        return self._device.queue()


def without_host(info: DeviceInfo) -> DeviceInfo:
    """A description that does not name the host."""
    return replace(info, provenance={name: text for name, text in info.provenance.items() if name != "host"})


class Keeper(Device, Mapping[str, Kept]):
    """A device, and a mapping from digests of workloads to the workload and its first trace.

    It keeps up to `max_bytes` of arrays (`Trace.nbytes`), the smallest ones, whatever their order. Closing leaves
    `device` open.
    """

    def __init__(self, device: Device, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._device = device
        self._free_bytes = max_bytes
        self._kept: dict[str, Kept] = {}
        self._seen: set[str] = set()
        self._largest_first: list[tuple[int, str]] = []  # a heap of negative sizes and digests

    @property
    def info(self) -> DeviceInfo:
        """What is known of the other device."""
        return self._device.info

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch on the other device."""
        traces = self._device.run(batch)
        self._keep(batch, traces)
        return traces

    def queue(self) -> BatchQueue:
        """A queue of the other device, whose traces are kept."""
        return Observed(self._device.queue(), self._keep)

    def _keep(self, batch: Batch, answer: Answer) -> None:
        if isinstance(answer, Exception):
            return
        for workload, trace in zip(batch, answer, strict=True):
            if trace.workload not in self._seen:
                self._seen.add(trace.workload)
                self._kept[trace.workload] = workload, trace
                self._free_bytes -= trace.nbytes
                heappush(self._largest_first, (-trace.nbytes, trace.workload))
            while self._free_bytes < 0:
                size, digest = heappop(self._largest_first)
                self._free_bytes -= size
                del self._kept[digest]

    def __getitem__(self, digest: str) -> Kept:
        return self._kept[digest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)
