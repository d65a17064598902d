"""`DeviceProcess`: a device in processes of its own, which measure while this one infers and prepares.

`open_in_process` opens one.
"""

import itertools
import os
import pickle
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from gpudissect.child_processes import die_with_parent, kill_process
from gpudissect.device import kinds
from gpudissect.device.base import Device
from gpudissect.device.child import Child, needs_process, start_child, take_early
from gpudissect.device.queue import Answer, Batch, BatchQueue, answer_of, do_nothing, traces_of
from gpudissect.device_info import DeviceInfo
from gpudissect.errors import DeviceError, GpudissectError
from gpudissect.trace import Trace
from gpudissect.workload import Access, Mix, Workload
from gpudissect.workload.digest import digest

T = TypeVar("T")
CLOSE_TIMEOUT_S = 20.0
_EXIT_S = 1.0
_END = b""


class _Channel:
    """A socket to another process. A thread for each direction: neither process waits until the other one reads.

    Its messages are put into `incoming`; an empty one if the other process has ended.
    """

    def __init__(self, descriptor: int, incoming: "SimpleQueue[bytes]") -> None:
        self._connection = Connection(descriptor)
        self._incoming = incoming
        self._outgoing: SimpleQueue[bytes] = SimpleQueue()
        self._threads = [Thread(target=each, daemon=True) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def put(self, message: bytes) -> None:
        """Queue a message for sending; an empty one ends the stream."""
        self._outgoing.put(message)

    def close(self) -> None:
        """Close the socket, once the other process has ended; one that hangs in a driver keeps it open."""
        self.put(_END)
        for thread in self._threads:
            thread.join(_EXIT_S)
        if not any(thread.is_alive() for thread in self._threads):
            self._connection.close()

    def _send(self) -> None:
        with suppress(OSError):
            while message := self._outgoing.get():
                self._connection.send_bytes(message)
            self._connection.send_bytes(_END)

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._incoming.put(self._connection.recv_bytes())
        self._incoming.put(_END)


@dataclass(frozen=True)
class _InFlight:
    """A batch, its priority, and for its shares by their numbers: the positions of their workloads, and their answers.

    An answer is None until it arrives.
    """

    batch: Batch
    priority: int
    parts: dict[int, list[int]]
    answers: dict[int, Answer | None]

    @property
    def collect_order(self) -> tuple[int, int]:
        """Of several that are answered, the lowest is collected first: highest priority, then smallest."""
        return -self.priority, len(self.batch)


class _Share(NamedTuple):
    """A share of a batch in flight: the channel that runs it, its number of workloads, and their priority."""

    batch: int
    channel: int
    size: int
    priority: int


class DeviceProcess(Device, BatchQueue):
    """A device that runs in child processes. `queue` returns the object itself.

    With several processes, each has a copy of the device and runs shares of the batches. This requires a device whose
    traces depend only on their workload. Exceptions of the children are raised by `collect`; if the device cannot be
    opened, by `info`.
    """

    def __init__(self, spec: str, child: Child) -> None:
        self._spec, self._process = spec, child.process
        self._infos: list[DeviceInfo] = []  # the first message of each channel
        self._numbers = itertools.count()
        self._in_flight: dict[int, _InFlight] = {}
        self._shares: dict[int, _Share] = {}
        self._incoming: SimpleQueue[bytes] = SimpleQueue()
        self._channels: list[_Channel] = []
        try:
            for ours in child.sockets:
                self._channels.append(_Channel(ours.detach(), self._incoming))
        except RuntimeError as error:  # no more threads
            child.kill()
            raise DeviceError(f"{spec!a:.60}: its process could not be started: {error}") from None

    @cached_property
    def info(self) -> DeviceInfo:
        """What is known of the device before anything is measured. Raises what opening it raised."""
        while len(self._infos) < len(self._channels):
            answer = self._receive()
            if isinstance(answer, Exception):
                raise answer
            assert isinstance(answer, DeviceInfo)
            self._infos.append(answer)
        return self._infos[0]

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch and wait for its traces; nothing else may be in the queue."""
        self.submit(batch)
        return traces_of(self.collect()[1])

    def queue(self) -> BatchQueue:
        """The device itself."""
        return self

    def submit(self, batch: Batch, priority: int = 0) -> int:
        """Send a batch to the other processes. Returns its number."""
        self.info  # noqa: B018 (the first message)
        for workload in batch:  # pickled with the workload: this process has more time than the others
            digest(workload)
        channels = len(self._channels)
        parts = {next(self._numbers): part for part in _parts(batch, channels)}
        messages = {
            share: pickle.dumps((share, [batch[n] for n in part], priority), pickle.HIGHEST_PROTOCOL)
            for share, part in parts.items()
        }
        number = next(self._numbers)
        self._in_flight[number] = _InFlight(batch, priority, parts, dict.fromkeys(parts))
        loads = Counter(range(channels))
        for each in self._shares.values():
            if each.priority >= priority:  # this one may overtake others
                loads[each.channel] += each.size
        for share, part in parts.items():
            channel = min(loads, key=loads.__getitem__)
            loads[channel] += len(part)
            self._shares[share] = _Share(number, channel, len(part), priority)
            self._channels[channel].put(messages[share])
        return number

    def collect(self, meanwhile: Callable[[], None] = do_nothing) -> tuple[int, Answer]:
        """Wait until a batch is answered; its number and its answer. Of several, that of highest priority."""
        while not (answered := self._answered()) or not self._incoming.empty():
            try:
                share, answer = self._receive()
            except Exception as error:  # the process is gone, or its answer too large
                kill_process(self._process)
                if answered:
                    break
                number = next(iter(self._in_flight))
                del self._in_flight[number]
                return number, error
            if flight := self._in_flight.get(self._shares.pop(share).batch):
                flight.answers[share] = answer
        number = min(answered, key=lambda each: self._in_flight[each].collect_order)
        flight = self._in_flight.pop(number)
        answers = [answer for answer in flight.answers.values() if answer is not None]
        return number, answer_of(partial(_joined, [*flight.parts.values()], answers), flight.batch)

    def _answered(self) -> list[int]:
        return [number for number, flight in self._in_flight.items() if None not in flight.answers.values()]

    def close(self) -> None:
        """Close the device and end its processes. May be called twice.

        They are killed while they start or a batch is in flight, or if closing takes longer than `CLOSE_TIMEOUT_S`.
        """
        is_idle = bool(self._infos) and not self._in_flight
        if is_idle and self._process.poll() is None:
            for channel in self._channels:
                channel.put(_END)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_TIMEOUT_S)
        kill_process(self._process)
        for channel in self._channels:
            channel.close()
        self._channels = []

    def _receive(self) -> Any:
        """The next message: first a `DeviceInfo` of each process, then numbers of shares with their answers.

        Raises `DeviceError` if a process has ended.
        """
        if not (message := self._incoming.get()):
            self._incoming.put(_END)  # later calls must return, too
            with suppress(subprocess.TimeoutExpired):  # another one of several processes may have ended
                self._process.wait(_EXIT_S)
            kill_process(self._process)
            code = self._process.returncode
            what = "cannot be killed: it may hang in the driver" if code is None else f"exited with code {code}"
            raise DeviceError(f"{self._spec}: the device process {what}; run the survey again")
        return pickle.loads(message)


def _parts(batch: Batch, count: int) -> list[list[int]]:
    """Split the positions of the workloads into at most `count` shares.

    Repetitions of a mix with resident operands share one, so that a simulated GPU runs the mix once.
    """
    if count == 1:
        return [[*range(len(batch))]]
    groups: dict[object, int] = {}
    parts: list[list[int]] = [[] for _ in range(count)]
    for position, workload in enumerate(batch):
        group: object = position
        if isinstance(workload, Mix) and workload.access is Access.RESIDENT:
            group = workload.without_repetition
        parts[groups.setdefault(group, len(groups)) % count].append(position)
    return [part for part in parts if part] or [[]]


def _joined(parts: Sequence[Sequence[int]], answers: Sequence[Answer], batch: Batch) -> list[Trace]:
    """The traces of a batch from those of its shares. Raises the first exception."""
    traces: list[Trace] = [None] * len(batch)  # type: ignore[list-item]
    for part, answer in zip(parts, answers, strict=True):
        for position, trace in zip(part, traces_of(answer), strict=True):
            traces[position] = trace
    return [trace.completed(workload) for workload, trace in zip(batch, traces, strict=True)]


def open_in_process(spec: str, *, seed: int = 0, prepares: bool = True) -> Device:
    """Open one device as `open_device` does; one that measures or simulates, in processes of its own.

    `prepares`: see `start_child`. What cannot be opened there raises its error when the device's `info` is read.
    """
    if (early := take_early(spec, seed)) is not None:
        return DeviceProcess(spec, early)
    if not needs_process(spec):
        return kinds.open_device(spec, seed=seed)
    return DeviceProcess(spec, start_child(spec, kinds.check_seed(seed), prepares=prepares))


def serve(device: Device, connection: Connection, *, prepares: bool = True) -> None:
    """Send back the number and the answer of each batch, until an empty message arrives.

    Between batches, a device that `prepares` does so for later ones.
    """
    queue, numbers, is_open = device.queue(), dict[int, int](), True  # of the sender, by the number in the queue

    def receive() -> None:
        nonlocal is_open
        if message := connection.recv_bytes():
            number, batch, priority = pickle.loads(message)
            numbers[queue.submit(batch, priority)] = number
        else:
            is_open = False

    def receive_all() -> None:
        while is_open and connection.poll():
            receive()

    while is_open or numbers:
        while is_open and (not numbers or connection.poll()):
            if not (prepares and not connection.poll() and device.prepare()):
                receive()
        if numbers:
            number, answer = queue.collect(receive_all)
            if isinstance(answer, list):
                answer = [trace.measured() for trace in answer]
            _send(connection, (numbers.pop(number), _sendable(answer)))


def _sendable(answer: T) -> T | DeviceError:
    """An answer; exceptions of libraries, which may not unpickle, as `DeviceError`."""
    if isinstance(answer, Exception) and not isinstance(answer, GpudissectError):
        return DeviceError(f"{type(answer).__name__}: {answer}")
    return answer


def _send(connection: Connection, message: object) -> None:
    connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def main(spec: str, seed: int, sockets: Sequence[int], *, prepares: bool = True) -> None:
    """Open a device and serve it on the first socket; fork a copy of it for each further socket.

    The device is not closed: what it holds is freed when the process ends, which takes half as long on an H200.
    """
    connections = [Connection(number) for number in sockets]
    try:
        device = kinds.open_device(spec, seed=seed)
    except Exception as error:
        for connection in connections:
            _send(connection, _sendable(error))
        return
    others: list[int] = []
    if len(connections) > 1:
        device.prepare()  # once for all copies
    while len(connections) > 1:
        other = connections.pop()
        try:
            others.append(os.fork())
        except OSError as error:
            _send(other, DeviceError(f"no further process can be started: {error}"))
        if others and others[-1] == 0:
            die_with_parent()
            for connection in connections:
                connection.close()
            connections, others = [other], []
        else:
            other.close()
    _send(connections[0], device.info)
    serve(device, connections[0], prepares=prepares)
    for process in others:  # not for compilers, which end once this process does
        os.waitpid(process, 0)
