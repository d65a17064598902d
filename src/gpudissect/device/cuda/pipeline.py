"""`Pipeline`: the batch queue of a GPU. The host prepares tasks while the GPU runs others, also those of other batches.

The GPU runs one task after the other. Each batch is answered as soon as its own tasks have ended.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpudissect.device.cuda.compile import Code
from gpudissect.device.queue import MERGED_WORKLOADS, Batch, BatchQueue
from gpudissect.trace import Trace
from gpudissect.workload import Workload

_MIN_AHEAD = 2  # tasks on their way, below which batches are planned: the later, the more of them share tasks


class Runner(Protocol):
    """Runs tasks of one kind."""

    @property
    def at_once(self) -> int:
        """Tasks that may be on their way."""

    def queue(self, content: Any) -> Any:
        """Queue a task; what `finish` takes. Raises `DeviceError`."""

    def finish(self, queued: Any) -> Sequence[Trace]:
        """Wait for a task; its traces. Tasks are finished in the order in which they were queued."""


@dataclass(frozen=True, eq=False)
class Task:
    """What the GPU runs in one piece: the `content` for a `runner`, and what it needs compiled.

    It gives the traces of the workloads at `indices` of those that were planned together.
    """

    runner: Runner
    content: Any
    indices: tuple[int, ...]
    codes: tuple[Code, ...] = ()


class TaskDevice(Protocol):
    """A device that runs tasks."""

    def activate(self) -> None:
        """Called before a series of other calls."""

    def drain(self) -> None:
        """Wait for what an interrupted queue left on its way."""

    def plan(self, workloads: Sequence[Workload]) -> list[Task]:
        """Distribute workloads over tasks, in the order in which they are to run. Raises `DeviceError`."""

    def start(self, task: Task) -> Any:
        """Queue a task; what `finish` takes. Raises `DeviceError`."""

    def finish(self, task: Task, queued: Any) -> Sequence[Trace]:
        """Wait for a task; its traces. Raises `DeviceError`."""


@dataclass(eq=False)
class _Ticket:
    """A batch on its way. It is planned together with others at first, and alone if any task of it failed."""

    batch: Batch
    is_alone: bool = False
    error: Exception | None = None
    traces: dict[int, Trace] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return self.error is not None or len(self.traces) == len(self.batch)


@dataclass(eq=False)
class _Part:
    """A task, and for each of its traces the ticket and the index in its batch."""

    task: Task
    owners: list[tuple[_Ticket, int]]
    was_alone: bool  # whether it was planned for one ticket
    queued: Any = None

    @property
    def tickets(self) -> list[_Ticket]:
        """Those that still want its traces."""
        wanted = dict.fromkeys(ticket for ticket, _ in self.owners)
        return [each for each in wanted if not each.has_ended and each.is_alone == self.was_alone]


class Pipeline(BatchQueue):
    """Batches on a device. A failure affects only the batches of the task that failed: each of them runs again alone.

    A KeyboardInterrupt discards the batches that run.
    """

    def __init__(self, device: TaskDevice) -> None:
        self._device = device
        self._is_drained = False
        self._tickets: deque[_Ticket] = deque()  # not yet collected
        self._waiting: deque[_Ticket] = deque()  # not yet planned
        self._parts: deque[_Part] = deque()  # not yet queued
        self._in_flight: deque[_Part] = deque()

    def submit(self, batch: Batch) -> None:
        """Add a batch; it may run together with others."""
        ticket = _Ticket(batch)
        self._tickets.append(ticket)
        self._waiting.append(ticket)

    def collect(self) -> list[Trace]:
        """The traces of the first batch that has not been collected. Raises what the device raised for it."""
        ticket = self._tickets[0]
        self._device.activate()
        while ticket in self._waiting or not ticket.has_ended:
            self._step()
        self._tickets.popleft()
        if ticket.error is not None:
            raise ticket.error
        return [ticket.traces[index] for index in range(len(ticket.batch))]

    def _step(self) -> None:
        """Plan, queue or finish something, whichever keeps the GPU busy."""
        if not self._parts and self._waiting and len(self._in_flight) < _MIN_AHEAD:
            self._plan()
        elif self._parts and self._has_room(self._parts[0].task.runner):
            self._start(self._parts.popleft())
        else:
            self._finish(self._in_flight.popleft())

    def _has_room(self, runner: Runner) -> bool:
        return sum(part.task.runner is runner for part in self._in_flight) < runner.at_once

    def _plan(self) -> None:
        """Plan the next batches together."""
        group = [self._waiting.popleft()]
        while self._waiting and not (group[0].is_alone or self._waiting[0].is_alone):
            if sum(len(each.batch) for each in (*group, self._waiting[0])) > MERGED_WORKLOADS:
                break
            group.append(self._waiting.popleft())
        group[0].is_alone |= len(group) == 1
        owners = [(ticket, index) for ticket in group for index in range(len(ticket.batch))]
        try:
            if not self._is_drained:
                self._device.drain()
                self._is_drained = True
            tasks = self._device.plan([ticket.batch[index] for ticket, index in owners])
        except Exception as error:
            self._fail(group, error)
        else:
            for task in tasks:
                self._parts.append(_Part(task, [owners[index] for index in task.indices], group[0].is_alone))

    def _start(self, part: _Part) -> None:
        if not part.tickets:
            return
        try:
            part.queued = self._device.start(part.task)
        except Exception as error:
            self._fail(part.tickets, error)
        else:
            self._in_flight.append(part)

    def _finish(self, part: _Part) -> None:
        try:
            traces = self._device.finish(part.task, part.queued)
        except Exception as error:
            self._fail(part.tickets, error)
        else:
            wanted = part.tickets
            for (ticket, index), trace in zip(part.owners, traces, strict=True):
                if ticket in wanted:
                    ticket.traces[index] = trace

    def _fail(self, tickets: Sequence[_Ticket], error: Exception) -> None:
        """Give each ticket another try alone; the error is final for one that had it."""
        for ticket in reversed(tickets):
            if ticket.is_alone:
                ticket.error = error
            else:
                ticket.is_alone, ticket.traces = True, {}
                self._waiting.appendleft(ticket)
