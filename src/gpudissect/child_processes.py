"""Child processes with limits of time, memory and output, and temporary folders; both can be removed at any time.

A process that ends without unwinding its stack calls `remove_children` first: programs would run on, files would stay.
"""

import ctypes
import errno
import gc
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpudissect.errors import WRITE_ERRORS, UsageError
from gpudissect.interrupts import delayed

TIME_LIMIT_S = 55
MEMORY_LIMIT_BYTES = 3 << 29  # of address space, each process
MEMORY_LIMIT = f"{MEMORY_LIMIT_BYTES / (1 << 30):g} GiB"
_FILE_LIMIT_BYTES = 1 << 30
_MIN_FREE_BYTES = 32 << 10  # of the temporary folder after a program has ended: below, what it wrote may be cut off
_REMOVAL_ATTEMPTS, _REMOVAL_PAUSE_S = 20, 0.01  # a process that is being killed may still write
_LOCK_S = 1.0
KILL_TIMEOUT_S = 5.0
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG

_lock = threading.Lock()


def usable_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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

    It has a session of its own, so that its children end with it. Raises `TimeoutError` after `TIME_LIMIT_S`,
    `UsageError` if the temporary folder is full.
    """
    import resource  # of POSIX alone: other commands run without it

    process = None
    with ExitStack() as stack:
        with _temporary_files():
            source, output, messages = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            source.write(given)
            source.seek(0)
        try:
            with delayed():
                process = start_process(command, stdin=source, stdout=output, stderr=messages, cwd=folder)
                limits = {resource.RLIMIT_FSIZE: _FILE_LIMIT_BYTES, resource.RLIMIT_AS: MEMORY_LIMIT_BYTES}
                for kind, most in limits.items():
                    with suppress(OSError, ValueError):  # it has ended already
                        own = resource.getrlimit(kind)[1]
                        limit = most if own == resource.RLIM_INFINITY else min(most, own)
                        resource.prlimit(process.pid, kind, (limit, limit))
            code = process.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"more than {TIME_LIMIT_S} s") from None
        finally:
            if process is not None:
                with delayed():
                    kill_process(process)
        if shutil.disk_usage(tempfile.gettempdir()).free < _MIN_FREE_BYTES:
            raise UsageError(_full_folder())
        for file in (output, messages):
            file.seek(0)
        return Ended(code, output.read(), messages.read())


@contextmanager
def _temporary_files() -> Iterator[None]:
    """Raise `UsageError` if temporary files cannot be written in the block."""
    try:
        yield
    except FileNotFoundError:  # no folder can be written
        raise UsageError("no temporary folder can be written: set TMPDIR to a folder with free space") from None
    except OSError as error:
        if error.errno not in WRITE_ERRORS:
            raise
        raise UsageError(_full_folder(error.strerror)) from None


def _full_folder(reason: str | None = None) -> str:
    what = reason or os.strerror(errno.ENOSPC)
    return f"cannot write to the temporary folder {tempfile.gettempdir()!a}: {what}; set TMPDIR to another one"


def start_process(command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a program in its own session; pass it to `kill_process` later. `options` go to `subprocess.Popen`."""
    with delayed(), _lock:
        process = subprocess.Popen(command, start_new_session=True, **options)
        _groups.add(process.pid)
        return process


def kill_process(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program from `start_process` and its children, unless it has ended. May be called twice.

    One that hangs in a driver does not end: it is left after `KILL_TIMEOUT_S`.
    """
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILL_TIMEOUT_S)
    with _lock:
        _groups.discard(process.pid)


def collect_rarely() -> None:
    """Run the cycle collector less often: traces are many and have no reference cycles. It took 8 % of a replay."""
    gc.set_threshold(100_000)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, even if it hangs in the driver."""
    with suppress(AttributeError, OSError):  # of Linux alone
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that exists in the block. Raises `UsageError` if none can be written."""
    name = ""
    try:
        with _temporary_files(), delayed(), _lock:
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
