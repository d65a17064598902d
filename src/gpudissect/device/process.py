"""`DeviceProcess`: a device in a process of its own, which measures while this one infers and prepares.

Run as a module it is that process: ``python -P -m gpudissect.device.process SOCKET SPEC SEED``.
"""

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

from gpudissect.child_processes import end, start
from gpudissect.device import kinds
from gpudissect.device.base import Device
from gpudissect.device.queue import Answer, Batch, BatchQueue, run_merged
from gpudissect.device_info import DeviceInfo
from gpudissect.errors import DeviceError, GpudissectError
from gpudissect.trace import Trace
from gpudissect.workload import Workload

CLOSING_S = 20.0  # a process that takes longer to release the device is killed
MERGED_WORKLOADS = 256  # batches run as one up to so many: their traces are needed to prepare the next ones
_STOPPED = b""
BUSY = 0.0


class DeviceProcess(Device, BatchQueue):
    """A device that another process opens and runs. Its `queue` is one and the same.

    What the other process raises is raised here: for a device that cannot be opened, by `info`.
    """

    def __init__(self, spec: str, seed: int) -> None:
        self._spec = spec
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), spec, str(seed)]
            paths = os.pathsep.join(filter(None, sys.path))
            self._process = start(command, pass_fds=(theirs.fileno(),), env={**os.environ, "PYTHONPATH": paths})
        self._connection = Connection(ours.detach())
        self._to_send: SimpleQueue[bytes] = SimpleQueue()
        self._received: SimpleQueue[bytes] = SimpleQueue()
        self._on_its_way = 0
        self._threads = [Thread(target=each, daemon=True) for each in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    @cached_property
    def info(self) -> DeviceInfo:
        """What is known of the device before anything is measured. Raises what opening it raised."""
        answer: DeviceInfo | Exception = self._next()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch and wait for its traces; nothing else may be in the queue."""
        self.submit(batch)
        return self.collect()

    def queue(self) -> BatchQueue:
        """The device itself."""
        return self

    def submit(self, batch: Batch) -> None:
        """Send a batch to the other process."""
        self.info  # noqa: B018 (the first message)
        self._to_send.put(pickle.dumps(batch, pickle.HIGHEST_PROTOCOL))
        self._on_its_way += 1

    def collect(self) -> list[Trace]:
        """The traces of the first batch that was not collected yet. Raises what the device raised for it."""
        answer: Answer = self._next()
        self._on_its_way -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Let the other process release the device and end; it is killed if it measures. May be called twice."""
        if self._process.poll() is None and not self._on_its_way:
            self._to_send.put(_STOPPED)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSING_S)
        end(self._process)
        self._to_send.put(_STOPPED)
        for thread in self._threads:
            thread.join()
        self._connection.close()

    def _next(self) -> object:
        if not (message := self._received.get()):
            self._received.put(_STOPPED)  # for those who ask again
            code = self._process.wait()
            return DeviceError(f"{self._spec}: the process that runs it ended with code {code}; measure again")
        return pickle.loads(message)  # noqa: S301 (of our own process)

    def _send(self) -> None:
        with suppress(OSError):
            while message := self._to_send.get():
                self._connection.send_bytes(message)
            self._connection.send_bytes(_STOPPED)

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._received.put(self._connection.recv_bytes())
        self._received.put(_STOPPED)


import time as _t
def serve(connection: Connection, spec: str, seed: int) -> None:
    """Open a device, and answer each batch that comes with its traces or an exception, until an empty message."""
    try:
        device = kinds.open_device(spec, seed=seed)
    except Exception as error:
        _answer(connection, error)
        return
    with device:
        _answer(connection, device.info)
        waiting: deque[Batch] = deque()
        is_open = True
        while is_open or waiting:
            while is_open and (not waiting or connection.poll()):
                if message := connection.recv_bytes():
                    waiting.append(pickle.loads(message))  # noqa: S301 (of our own process)
                else:
                    is_open = False
            batches: list[Batch] = []
            while waiting and (not batches or sum(map(len, batches)) + len(waiting[0]) <= MERGED_WORKLOADS):
                batches.append(waiting.popleft())
            _b=_t.perf_counter()
            ans = run_merged(device.run, batches)
            global BUSY
            BUSY += _t.perf_counter()-_b
            for answer in ans:
                _answer(connection, answer)


def _answer(connection: Connection, answer: DeviceInfo | Answer) -> None:
    if isinstance(answer, Exception) and not isinstance(answer, GpudissectError):
        answer = DeviceError(f"{type(answer).__name__}: {answer}")  # of a library: it might not arrive
    connection.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP):  # the other process decides what they mean
        signal.signal(number, signal.SIG_IGN)
    with suppress(EOFError, ConnectionError):  # the other process is gone
        serve(Connection(int(sys.argv[1])), sys.argv[2], int(sys.argv[3]))
    print("child busy", BUSY, "cpu", _t.process_time(), file=sys.stderr)
