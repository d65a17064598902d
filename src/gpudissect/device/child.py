"""Starts the processes of a device, if wanted before slow imports (numpy alone takes 0.1 s)."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import gpudissect
from gpudissect.child_processes import kill_process, start_process, usable_cores
from gpudissect.errors import DeviceError

COMMAND = (sys.executable, "-P", "-m", "gpudissect.device")
MAX_SIMULATORS = 4  # of one simulated GPU, at most; each holds its own caches, up to about 100 MB


@dataclass(frozen=True)
class Child:
    """The first process of a device, which starts the others, and a socket to each of them."""

    process: "subprocess.Popen[bytes]"
    sockets: tuple[socket.socket, ...]

    def kill(self) -> None:
        """End all processes. May be called twice."""
        kill_process(self.process)
        for each in self.sockets:
            each.close()


def needs_process(spec: str) -> bool:
    """Whether a device runs in processes of its own: one that measures or simulates."""
    kind, _, name = spec.partition(":")
    return kind in ("cuda", "sim") and name != "all" and os.name == "posix" and bool(sys.executable)


def start_child(spec: str, seed: int, count: int | None = None, *, prepares: bool = True) -> Child:
    """Start `count` processes of a device, by default as many as it can use. Raises `DeviceError`.

    `prepares`: whether they prepare for later batches of a survey while none is waiting.
    """
    import fcntl  # of POSIX alone: other devices run without it

    if count is None:
        count = min(MAX_SIMULATORS, usable_cores()) if spec.startswith("sim:") else 1
    sockets, descriptors, null = list[socket.socket](), list[int](), subprocess.DEVNULL
    with ExitStack() as ours, ExitStack() as theirs:
        try:
            for _ in range(count):
                one, other = socket.socketpair()
                sockets.append(ours.enter_context(one))
                theirs.enter_context(other)
                # From 3 on: the caller may have closed a standard stream.
                descriptors.append(fcntl.fcntl(other, fcntl.F_DUPFD_CLOEXEC, 3))
                theirs.callback(os.close, descriptors[-1])
            command = [*COMMAND, spec, str(seed), str(int(prepares)), *map(str, descriptors)]
            process = start_process(command, pass_fds=descriptors, stdin=null, stdout=null, env=_environment())
        except (OSError, ValueError) as error:  # no more processes or files, or an impossible name
            raise DeviceError(f"{spec!a:.60}: its process could not be started: {error}") from None
        ours.pop_all()
        return Child(process, tuple(sockets))


def _environment() -> dict[str, str]:
    """Environment in which the other process imports what this one does."""
    own = os.path.dirname(os.path.dirname(gpudissect.__file__))
    paths = [own, *(path for path in sys.path if isinstance(path, str) and path)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def started_early(spec: str | None, seed: int) -> Iterator[None]:
    """Start the processes of a device before slow imports in the block; `take_early` hands them over.

    If they cannot be started now, opening the device reports why.
    """
    if spec is not None and needs_process(spec):
        with suppress(DeviceError):
            _early[spec, seed] = start_child(spec, seed)
    try:
        yield
    finally:
        for child in _early.values():
            child.kill()
        _early.clear()


_early: dict[tuple[str, int], Child] = {}


def take_early(spec: str, seed: int) -> Child | None:
    """What `started_early` started; None when called again."""
    return _early.pop((spec, seed), None)
