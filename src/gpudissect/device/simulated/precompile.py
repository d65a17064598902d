"""Compiles the loop of SMs in a second process, while this one compiles that of caches: each takes some seconds.

That process runs a mix on a GPU of the catalogue, which compiles the loop and stores its machine code.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

from gpudissect.workload import Chase, Workload

CODE = """
from gpudissect.device.kinds import open_device
from gpudissect.workload import Instruction, Mix, Step
open_device("sim:gtx980").run([Mix(body=(Step(Instruction.FFMA, 1),), warps=1, block_size=32, iterations=1)])
"""


def start_if_missing(batch: Iterable[Workload]) -> None:
    """Start the second process if a batch needs both loops and that of SMs is not stored yet."""
    if (os.cpu_count() or 1) < 2 or len({isinstance(workload, Chase) for workload in batch}) < 2:
        return
    from gpudissect.simulation.cache import compiled
    from gpudissect.simulation.sm._engine import simulate

    if compiled.is_missing(simulate):
        command = [sys.executable, "-P", "-c", CODE]  # -P: import no modules from the working folder
        null = subprocess.DEVNULL
        with suppress(OSError):  # no more processes possible
            compiled.compile_elsewhere(simulate, subprocess.Popen(command, stdin=null, stdout=null, stderr=null))
