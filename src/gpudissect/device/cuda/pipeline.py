"""`Pipeline`: the batch queue of a GPU. The host prepares tasks while the GPU runs others, also those of other batches.

The GPU runs one task at a time, by priority. Within a priority, tasks of one kind run in the order of batches. Tasks
overtake those whose kernels are still being compiled. If one kind of task keeps the GPU busy and another kind the host,
both are in flight at once. Each batch is answered as soon as its own tasks have ended.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.memory import Slots
from gpudissect.device.queue import MERGED_WORKLOADS, Answer, Batch, BatchQueue, do_nothing
from gpudissect.errors import DeviceError
from gpudissect.trace import Trace
from gpudissect.workload import Workload


class Runner(Protocol):
    """Runs tasks of one kind."""

    @property
    def at_once(self) -> int:
        """Maximum number of tasks in flight."""

    @property
    def slots(self) -> Slots[Any]:
        """Memory of its tasks."""

    def queue(self, content: Any) -> Any:
        """Queue a task; what `finish` takes, with the `memory` of its slot. Raises `DeviceError`."""

    def finish(self, queued: Any) -> Sequence[Trace]:
        """Wait for a task; its traces. Tasks are finished in the order in which they were queued."""

    def release(self) -> None:
        """Free what its tasks need."""


@dataclass(frozen=True, eq=False)
class Task:
    """What the GPU runs in one piece: the `content` for a `runner`, and what it needs compiled.

    It gives the traces of the workloads at `indices` of those that were planned together. From the start of the
    first task of a batch with `keeps_place` until the start of the last, no task of another batch that may move their
    memory starts.
    """

    runner: Runner
    content: Any
    indices: tuple[int, ...]
    codes: tuple[Code, ...] = ()
    keeps_place: bool = False


class TaskDevice(Protocol):
    """A device that runs tasks."""

    def activate(self) -> None:
        """Called before a series of other calls."""

    def drain(self) -> None:
        """Wait for what an interrupted queue left in flight."""

    def plan(self, workloads: Sequence[Workload]) -> list[Task]:
        """Distribute workloads over tasks, in the order in which they are to run. Raises `DeviceError`."""

    def is_ready(self, task: Task) -> bool:
        """Whether no kernel of a task is still to be compiled, or being compiled, in advance."""

    def moves_memory(self, task: Task) -> bool:
        """Whether a task may move the memory of others when it starts."""

    def start(self, task: Task) -> Any:
        """Queue a task; what `finish` takes. Raises `DeviceError`."""

    def finish(self, task: Task, queued: Any) -> Sequence[Trace]:
        """Wait for a task; its traces. Raises `DeviceError`."""


@dataclass(eq=False)
class _Ticket:
    """A batch in flight. It is planned together with others at first, and alone if any task of it failed."""

    number: int
    batch: Batch
    priority: int
    is_planned: bool = False
    is_alone: bool = False
    error: Exception | None = None
    traces: dict[int, Trace] = field(default_factory=dict)
    in_place: int = 0  # tasks not yet started that keep their place in memory

    @property
    def has_ended(self) -> bool:
        return self.error is not None or (self.is_planned and len(self.traces) == len(self.batch))


@dataclass(eq=False)
class _Part:
    """A task, and for each of its traces the ticket and the index in its batch."""

    start_order: tuple[int, int]  # lowest first: negative priority, number in the order of planning
    task: Task
    owners: list[tuple[_Ticket, int]]
    was_alone: bool  # whether it was planned for one ticket
    queued: Any = None

    @property
    def tickets(self) -> list[_Ticket]:
        """Those that still want its traces."""
        wanted = dict.fromkeys(ticket for ticket, _ in self.owners)
        return [each for each in wanted if not each.has_ended and each.is_alone == self.was_alone]

    @property
    def keeper(self) -> _Ticket | None:
        """The ticket whose tasks keep their place, if this is one of them."""
        return self.owners[0][0] if self.task.keeps_place else None


class Pipeline(BatchQueue):
    """Batches on a device. If a task fails, each of its batches runs again alone; others go on, unless the GPU is lost.

    Batches are answered as they end, in any order. A KeyboardInterrupt discards the batches that run.
    """

    def __init__(self, device: TaskDevice) -> None:
        self._device = device
        self._is_drained = False
        self._tickets: deque[_Ticket] = deque()  # not yet collected
        self._waiting: deque[_Ticket] = deque()  # not yet planned
        self._parts: dict[Runner, list[_Part]] = {}  # not yet queued, in the order in which they are to start
        self._in_flight: deque[_Part] = deque()
        self._ticket_numbers, self._part_numbers = count(), count()
        self._keepers: set[_Ticket] = set()  # with some, but not all, tasks with `keeps_place` started

    def submit(self, batch: Batch, priority: int = 0) -> int:
        """Add a batch; it may run together with others of its priority. Returns its number."""
        ticket = _Ticket(next(self._ticket_numbers), batch, priority)
        self._tickets.append(ticket)
        self._waiting.append(ticket)
        return ticket.number

    def collect(self, meanwhile: Callable[[], None] = do_nothing) -> tuple[int, Answer]:
        """Wait until a batch has ended; its number and its answer. `meanwhile` is called between tasks."""
        try:
            self._attempt(self._device.activate)
            while not any(each.has_ended for each in self._tickets):
                self._attempt(self._step)
                meanwhile()
        except BaseException:  # an interrupt, or an error of `meanwhile`
            self._tickets = deque(each for each in self._tickets if each in self._waiting)
            self._discard()
            raise
        ticket = min((each for each in self._tickets if each.has_ended), key=lambda each: -each.priority)
        self._tickets.remove(ticket)
        if ticket.error is not None:
            return ticket.number, ticket.error
        return ticket.number, [ticket.traces[index] for index in range(len(ticket.batch))]

    def _attempt(self, action: Callable[[], None]) -> None:
        """Answer every batch with an error that is not of a task."""
        try:
            action()
        except Exception as error:
            for each in self._tickets:
                each.error = each.error if each.has_ended else error
            self._waiting.clear()
            self._discard()

    def _discard(self) -> None:
        """Forget all tasks; the device is drained before the next one."""
        self._parts.clear()
        self._in_flight.clear()
        self._keepers.clear()
        self._is_drained = False
        for each in self._waiting:
            each.in_place = 0

    def _step(self) -> None:
        """Do the first of these that is possible.

        Plan waiting batches if they have a higher priority than the next ready task, or none is ready; queue the next
        ready task; wait for the GPU; queue a task once its kernels are compiled.
        """
        part = self._next(self._device.is_ready)
        if self._waiting and (part is None or -part.start_order[0] < max(each.priority for each in self._waiting)):
            self._plan()
        elif part:
            self._start(part)
        elif self._in_flight:
            self._finish(self._in_flight.popleft())
        elif part := self._next(lambda _: True):
            self._start(part)
        else:
            raise DeviceError("no task is left for a batch that has no answer")

    def _next(self, is_ready: Callable[[Task], bool]) -> _Part | None:
        """The first ready task whose runner takes more. If it has to wait for memory in place, the first one there."""
        with_room = [runner for runner in self._parts if self._has_room(runner)]

        def first(may_start: Callable[[_Part], bool]) -> _Part | None:
            of_runners = (next(filter(may_start, self._candidates(runner)), None) for runner in with_room)
            return min((part for part in of_runners if part), key=lambda each: each.start_order, default=None)

        part = first(lambda each: is_ready(each.task))
        if part is None or not self._disturbs(part):
            return part
        return first(lambda each: each.keeper in self._keepers and is_ready(each.task) and not self._disturbs(each))

    def _candidates(self, runner: Runner) -> Iterator[_Part]:
        """Tasks of a runner that are not yet queued; of those of a batch that keep its place, the first."""
        keepers = set[_Ticket]()
        for part in self._parts[runner]:
            if part.keeper not in keepers:
                yield part
            if part.keeper is not None:
                keepers.add(part.keeper)

    def _disturbs(self, part: _Part) -> bool:
        """Whether a task, or a later one of a batch that begins to keep its place, may move memory that others keep."""
        if not self._keepers or self._keepers == {part.keeper}:
            return False
        begins = part.keeper is not None and part.keeper not in self._keepers
        parts = [each for each in self._parts[part.task.runner] if each.keeper is part.keeper] if begins else [part]
        return any(self._device.moves_memory(each.task) for each in parts)

    def _has_room(self, runner: Runner) -> bool:
        return sum(part.task.runner is runner for part in self._in_flight) < runner.at_once

    def _plan(self) -> None:
        """Plan waiting batches of the highest priority together."""
        priority = max(each.priority for each in self._waiting)
        group = list[_Ticket]()
        for each in [each for each in self._waiting if each.priority == priority]:
            if group and (group[0].is_alone or each.is_alone):
                break
            if group and sum(len(other.batch) for other in (*group, each)) > MERGED_WORKLOADS:
                break
            group.append(each)
            self._waiting.remove(each)
        group[0].is_alone |= len(group) == 1
        owners = [(ticket, index) for ticket in group for index in range(len(ticket.batch))]
        try:
            tasks = self._device.plan([ticket.batch[index] for ticket, index in owners])
        except Exception as error:
            self._fail(group, error)
        else:
            for ticket in group:
                ticket.is_planned = True
            for task in tasks:
                start_order = -priority, next(self._part_numbers)
                part = _Part(start_order, task, [owners[index] for index in task.indices], group[0].is_alone)
                insort(self._parts.setdefault(task.runner, []), part, key=lambda each: each.start_order)
                if part.keeper is not None:
                    part.keeper.in_place += 1

    def _start(self, part: _Part) -> None:
        self._take(part)
        try:
            if not self._is_drained:
                self._device.drain()
                self._is_drained = True
            part.queued = self._device.start(part.task)
        except Exception as error:
            while self._in_flight:  # what was queued of this task is behind them, and each has a limit of its own
                self._finish(self._in_flight.popleft())
            self._is_drained = False
            self._fail(part.tickets, error)
        else:
            self._in_flight.append(part)

    def _take(self, part: _Part) -> None:
        """Remove a task from those that are not yet queued."""
        self._parts[part.task.runner].remove(part)
        if (keeper := part.keeper) is not None:
            keeper.in_place -= 1
            self._keepers.add(keeper)
            if not keeper.in_place:
                self._keepers.remove(keeper)

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
                ticket.is_planned, ticket.is_alone, ticket.traces = False, True, {}
                self._waiting.appendleft(ticket)
        for part in [part for parts in self._parts.values() for part in parts if not part.tickets]:
            self._take(part)
