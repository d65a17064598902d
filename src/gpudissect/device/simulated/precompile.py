"""Compiles loops of the simulator in another process: each takes some seconds.

That process runs a workload on a GPU of the catalogue, which compiles a loop and stores its machine code.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

SMS = """
from gpudissect.device.kinds import open_device
from gpudissect.workload import Instruction, Mix, Step
open_device("sim:gtx980").run([Mix(body=(Step(Instruction.FFMA, 1),), warps=1, block_size=32, iterations=1)])
"""
CACHES = """
from gpudissect.device.kinds import open_device
from gpudissect.workload import Chase, Path, Sequential, Timing
open_device("sim:gtx980").run([Chase(path=Path.GLOBAL, order=Sequential(1, 128), timing=Timing.EACH)])
"""
_processes: dict[str, "subprocess.Popen[bytes]"] = {}  # that were started here, by what they run


def start_sms_if_missing() -> None:
    """Compile the loop of SMs, while this process compiles those of caches."""
    from gpudissect.simulation.sm._engine import simulate

    _start(SMS, simulate)


def start_caches_if_missing() -> None:
    """Compile the loops of caches, which the analysis of a GPU's traces needs late in a survey."""
    from gpudissect.simulation.cache._kernel import walk

    _start(CACHES, walk)


def is_compiling() -> bool:
    """Whether a process that was started here still compiles."""
    return any(process.poll() is None for process in _processes.values())


def _start(code: str, function: Callable[..., Any]) -> None:
    """Start a process that compiles this function and others, once, if it is not stored yet."""
    from gpudissect.simulation.cache import compiled

    if (os.cpu_count() or 1) > 1 and code not in _processes and compiled.is_missing(function):
        command = [sys.executable, "-P", "-c", code]  # -P: import no modules from the working folder
        null = subprocess.DEVNULL
        with suppress(OSError):  # no more processes possible
            _processes[code] = subprocess.Popen(command, stdin=null, stdout=null, stderr=null)
