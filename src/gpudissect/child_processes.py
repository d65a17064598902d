"""Child processes with limits of time, memory and output, and temporary folders; both can be removed at any time.

A process that ends without unwinding its stack calls `remove_children` first: programs would run on, files would stay.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpudissect.interrupts import delayed

TIME_LIMIT_S = 55
MEMORY_LIMIT_BYTES = 3 << 29  # of address space, each process
MEMORY_LIMIT = f"{MEMORY_LIMIT_BYTES / (1 << 30):g} GiB"
_FILE_LIMIT_BYTES = 1 << 30
_REMOVAL_ATTEMPTS, _REMOVAL_PAUSE_S = 20, 0.01  # a process that is being killed may still write
_LOCK_S = 1.0

_lock = threading.Lock()
_groups = set[int]()
_folders = set[str]()


@dataclass(frozen=True)
class Ended:
    """A process that has ended: exit code (the negative number of the signal that ended it) and what it wrote."""

    code: int
    output: bytes
    messages: bytes


def run_limited(command: Sequence[str], *, folder: Path | None = None, given: bytes = b"") -> Ended:
    """Run a program in `folder`, with `given` on its standard input.

    It has a session of its own, so that its children end with it. Raises `TimeoutError` after `TIME_LIMIT_S`.
    """
    import resource  # of POSIX alone: other commands run without it

    process = None
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        source.write(given)
        source.seek(0)
        try:
            with delayed(), _lock:
                process = subprocess.Popen(
                    command, stdin=source, stdout=output, stderr=messages, cwd=folder, start_new_session=True
                )
                _groups.add(process.pid)
                with suppress(OSError, ValueError):  # it has ended already, or a lower limit holds
                    for kind, limit in (
                        (resource.RLIMIT_FSIZE, _FILE_LIMIT_BYTES),
                        (resource.RLIMIT_AS, MEMORY_LIMIT_BYTES),
                    ):
                        resource.prlimit(process.pid, kind, (limit, limit))
            code = process.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"more than {TIME_LIMIT_S} s") from None
        finally:
            if process is not None:
                with delayed():
                    _end(process)
        for file in (output, messages):
            file.seek(0)
        return Ended(code, output.read(), messages.read())


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with _lock:
        _groups.discard(process.pid)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that exists in the block."""
    name = ""
    try:
        with delayed(), _lock:
            name = tempfile.mkdtemp(prefix="gpudissect-")
            _folders.add(name)
        yield Path(name)
    finally:
        if name:
            with delayed():
                shutil.rmtree(name, ignore_errors=True)
                with _lock:
                    _folders.discard(name)


def end_children() -> None:
    """End all children: those that wait for them in other threads go on, as if these had failed."""
    for group in tuple(_groups):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def remove_children() -> None:
    """End all children and remove the temporary folders. No others are made afterwards: those who try wait forever."""
    _lock.acquire(timeout=_LOCK_S)
    end_children()
    for name in _folders:
        for _ in range(_REMOVAL_ATTEMPTS):
            shutil.rmtree(name, ignore_errors=True)
            if not os.path.exists(name):
                break
            time.sleep(_REMOVAL_PAUSE_S)
