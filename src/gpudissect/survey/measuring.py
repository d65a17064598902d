"""How batches reach a device: at once, or in a thread of their own while plans infer from the last ones.

A GPU works while Python waits. So a survey of a real one has two batches on their way: a thread waits for the first,
and behind it stands the second. A simulated GPU is Python's own work, and a thread would gain nothing.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from gpudissect.device.base import Device
from gpudissect.device_info import Origin
from gpudissect.trace import Trace
from gpudissect.workload import Workload

SWITCH_S = 2e-4
"""After which the interpreter goes to a thread that wants it. By default it takes 5 ms, longer than most launches."""


class Measuring(Protocol):
    """A way to run batches; up to `at_once` may be on their way."""

    at_once: int

    def begin(self, batch: Sequence[Workload]) -> Future[list[Trace]]:
        """Begin to run a batch behind those begun before."""

    def end(self) -> None:
        """Run nothing more; what runs ends early."""


class Immediate:
    """Each batch runs as it begins."""

    at_once = 1

    def __init__(self, device: Device) -> None:
        self._device = device

    def begin(self, batch: Sequence[Workload]) -> Future[list[Trace]]:
        """Run a batch."""
        future: Future[list[Trace]] = Future()
        try:
            future.set_result(self._device.run(batch))
        except Exception as error:
            future.set_exception(error)
        return future

    def end(self) -> None:
        """Nothing runs any more."""


class Ahead:
    """Batches run in a thread."""

    at_once = 2

    def __init__(self, device: Device) -> None:
        self._device = device
        self._thread = ThreadPoolExecutor(1, "gpudissect-device")
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)

    def begin(self, batch: Sequence[Workload]) -> Future[list[Trace]]:
        """Begin to run a batch behind those begun before."""
        return self._thread.submit(self._device.run, batch)

    def end(self) -> None:
        """Run nothing more; what runs ends early."""
        self._device.stop()
        self._thread.shutdown(cancel_futures=True)
        sys.setswitchinterval(self._switch_s)


def measuring(device: Device) -> Measuring:
    """The way that suits a device."""
    return Ahead(device) if device.info.origin is Origin.MEASURED else Immediate(device)
