"""What a worker of a fleet does: list its GPUs, and measure one in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpudissect.errors import PREFIX, DeviceError, shorten_message

PROGRAM = """
import ctypes
ctypes.CDLL(None).prctl(1, 15)  # PR_SET_PDEATHSIG, SIGTERM: a killed worker must not leave a GPU in use
from gpudissect.__main__ import main
main()
"""


@dataclass(frozen=True, order=True)
class Gpu:
    """A GPU as its worker sees it: host, device spec, UUID, and why it cannot be used (or None)."""

    host: str
    spec: str
    uuid: str
    why_not: str | None


def gpus_here() -> list[Gpu]:
    """The real GPUs that this process sees; none if there is no driver."""
    from gpudissect.device.cuda.driver import list_gpus, uuid_at

    with suppress(DeviceError):
        return [Gpu(socket.gethostname(), f"cuda:{n}", uuid_at(n), why_not) for n, _, why_not in list_gpus()]
    return []


def measure_card(spec: str, options: Sequence[str], timeout_s: float) -> tuple[bytes | None, str]:
    """The result that ``gpudissect discover --json`` prints (None without one), and what went wrong, on one line.

    A GPU that hangs or falls off the bus ends that process; the worker goes on.
    """
    process = subprocess.Popen(
        (sys.executable, "-c", PROGRAM, "discover", "-d", spec, "--json", *options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        result, messages = process.communicate(timeout=timeout_s)
        problem = _last_error(messages.decode(errors="replace"), process.returncode)
    except subprocess.TimeoutExpired:
        result, problem = b"", f"it took more than {timeout_s:g} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return result or None, problem


def _last_error(messages: str, code: int) -> str:
    """The last error that a process wrote, or its exit code; empty if it ended well."""
    if code == 0:
        return ""
    errors = [line.removeprefix(PREFIX) for line in messages.splitlines() if line.startswith(PREFIX)]
    return shorten_message(errors[-1] if errors else f"its process ended with code {code}")
