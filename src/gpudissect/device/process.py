"""`DeviceProcess`: a device in processes of its own, which measure while this one infers and prepares.

`open_apart` opens one.

Run as a module it is one of them: ``python -P -m gpudissect.device.process SPEC SEED SOCKET...``.
"""

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

from gpudissect.child_processes import end, start, usable_cores
from gpudissect.device import kinds
from gpudissect.device.base import Device
from gpudissect.device.queue import Answer, Batch, BatchQueue, run_merged
from gpudissect.device_info import DeviceInfo
from gpudissect.errors import DeviceError, GpudissectError
from gpudissect.trace import Trace
from gpudissect.workload import Workload
from gpudissect.workload.digest import digest

CLOSING_S = 20.0  # processes that take longer to release the device are killed
MERGED_WORKLOADS = 256  # batches run as one up to so many: their traces are needed to prepare the next ones
MAX_SIMULATORS = 4  # processes that simulate one GPU: each has its caches, up to some 100 MB
_END = b""


class _Lane:
    """A socket to another process. A thread for each direction: neither process waits until the other one reads."""

    def __init__(self, ours: socket.socket) -> None:
        self._connection = Connection(ours.detach())
        self._outgoing: SimpleQueue[bytes] = SimpleQueue()
        self._incoming: SimpleQueue[bytes] = SimpleQueue()
        self._threads = [Thread(target=each, daemon=True) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def put(self, message: bytes) -> None:
        """Send a message, at some time; an empty one is the last."""
        self._outgoing.put(message)

    def get(self) -> bytes:
        """Wait for the next message; empty if the other process has ended."""
        if not (message := self._incoming.get()):
            self._incoming.put(_END)  # for those who ask again
        return message

    def close(self) -> None:
        """Close the socket, once the other process has ended."""
        self.put(_END)
        for thread in self._threads:
            thread.join()
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


class DeviceProcess(Device, BatchQueue):
    """A device that other processes open and run. Its `queue` is one and the same.

    Of several processes (`count`) each has the whole device and runs a part of every batch: only for devices whose
    traces do not depend on what else they run.
    What is raised there is raised here: for a device that cannot be opened, by `info`.
    """

    command = (sys.executable, "-P", "-m", __name__)

    def __init__(self, spec: str, seed: int, count: int = 1) -> None:
        self._spec, self._next_lane = spec, 0
        pairs = [socket.socketpair() for _ in range(count)]
        theirs = [other.fileno() for _, other in pairs]
        command = [*self.command, spec, str(seed), *map(str, theirs)]
        paths = os.pathsep.join(filter(None, sys.path))
        self._process = start(command, pass_fds=theirs, env={**os.environ, "PYTHONPATH": paths})
        self._lanes = [_Lane(ours) for ours, _ in pairs]
        for _, other in pairs:
            other.close()
        self._on_their_way: deque[list[int]] = deque()  # of each batch, the lanes that have a part, in their order

    @cached_property
    def info(self) -> DeviceInfo:
        """What is known of the device before anything is measured. Raises what opening it raised."""
        *_, info = [self._receive(lane) for lane in self._lanes]
        assert isinstance(info, DeviceInfo)
        return info

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch and wait for its traces; nothing else may be in the queue."""
        self.submit(batch)
        return self.collect()

    def queue(self) -> BatchQueue:
        """The device itself."""
        return self

    def submit(self, batch: Batch) -> None:
        """Send a batch to the other processes."""
        self.info  # noqa: B018 (the first message)
        for workload in batch:  # it is sent along: they have more to do
            digest(workload)
        count = len(self._lanes)
        lanes = [(self._next_lane + number) % count for number in range(min(count, len(batch)) or 1)]
        for number, lane in enumerate(lanes):
            self._lanes[lane].put(pickle.dumps(batch[number :: len(lanes)], pickle.HIGHEST_PROTOCOL))
        self._next_lane = (lanes[-1] + 1) % count
        self._on_their_way.append(lanes)

    def collect(self) -> list[Trace]:
        """The traces of the first batch that was not collected yet. Raises what the device raised for it."""
        lanes = self._on_their_way[0]
        answers = [self._receive(self._lanes[lane]) for lane in lanes]
        self._on_their_way.popleft()
        parts: list[list[Trace]] = []
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
            assert isinstance(answer, list)
            parts.append(answer)
        traces: list[Trace] = [None] * sum(map(len, parts))  # type: ignore[list-item]
        for number, part in enumerate(parts):
            traces[number :: len(parts)] = part
        return traces

    def close(self) -> None:
        """Let the other processes release the device and end; they are killed if they measure. May be called twice."""
        if self._process.poll() is None and not self._on_their_way:
            for lane in self._lanes:
                lane.put(_END)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSING_S)
        end(self._process)
        for lane in self._lanes:
            lane.close()
        self._lanes = []

    def _receive(self, lane: _Lane) -> DeviceInfo | Answer:
        """The next answer. Raises what is the matter with the device or its process."""
        if not (message := lane.get()):
            code = self._process.wait()
            raise DeviceError(f"{self._spec}: the process that runs it ended with code {code}; measure again")
        answer: DeviceInfo | Answer = pickle.loads(message)
        if isinstance(answer, Exception) and "info" not in self.__dict__:
            raise answer
        return answer


def open_apart(spec: str, *, seed: int = 0) -> Device:
    """Open one device as `open_device` does; one that measures or simulates, in processes of its own.

    What cannot be opened there raises its error when the device's `info` is read.
    """
    if (ahead := _started_ahead.pop((spec, seed), None)) is not None:
        return ahead
    return _start(spec, kinds.check_seed(seed)) if _runs_apart(spec) else kinds.open_device(spec, seed=seed)


@contextmanager
def started_ahead(spec: str | None, seed: int) -> Iterator[None]:
    """Let the processes of a device start, for `open_apart` in the block, before what it needs there is imported."""
    if spec is not None and _runs_apart(spec):
        _started_ahead[spec, seed] = _start(spec, seed)
    try:
        yield
    finally:
        for device in _started_ahead.values():
            device.close()
        _started_ahead.clear()


_started_ahead: dict[tuple[str, int], DeviceProcess] = {}


def _runs_apart(spec: str) -> bool:
    kind, _, name = spec.partition(":")
    return kind in ("cuda", "sim") and name != "all" and os.name == "posix" and bool(sys.executable)


def _start(spec: str, seed: int) -> DeviceProcess:
    return DeviceProcess(spec, seed, min(MAX_SIMULATORS, usable_cores()) if spec.startswith("sim:") else 1)


def serve(device: Device, connection: Connection) -> None:
    """Answer each batch that comes with its traces or an exception, until an empty message.

    While none comes, the device prepares for later ones.
    """
    waiting: deque[Batch] = deque()
    is_open = True
    while is_open or waiting:
        while is_open and (not waiting or connection.poll()):
            if not connection.poll() and device.prepare():
                continue
            if message := connection.recv_bytes():
                waiting.append(pickle.loads(message))
            else:
                is_open = False
        batches: list[Batch] = []
        while waiting and (not batches or sum(map(len, batches)) + len(waiting[0]) <= MERGED_WORKLOADS):
            batches.append(waiting.popleft())
        for answer in run_merged(device.run, batches) if batches else ():
            _answer(connection, answer)


def _answer(connection: Connection, answer: DeviceInfo | Answer) -> None:
    if isinstance(answer, Exception) and not isinstance(answer, GpudissectError):
        answer = DeviceError(f"{type(answer).__name__}: {answer}")  # of a library: it might not arrive
    connection.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


def main(spec: str, seed: int, sockets: Sequence[int]) -> None:
    """Open a device and serve it on a socket; one more process, with a copy of the device, for each further socket."""
    connections = [Connection(number) for number in sockets]
    try:
        device = kinds.open_device(spec, seed=seed)
    except Exception as error:
        for connection in connections:
            _answer(connection, error)
        return
    while len(connections) > 1:
        other = connections.pop()
        if os.fork() == 0:  # this is the new process
            for connection in connections:
                connection.close()
            connections = [other]
        else:
            other.close()
    with device:
        _answer(connections[0], device.info)
        serve(device, connections[0])
    with suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP):  # the other process decides what they mean
        signal.signal(number, signal.SIG_IGN)
    with suppress(EOFError, ConnectionError):  # the other process is gone
        main(sys.argv[1], int(sys.argv[2]), [*map(int, sys.argv[3:])])
