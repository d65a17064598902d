"""NVIDIA's binary utilities as processes: nvdisasm and cuobjdump, from their wheels or from a CUDA toolkit.

They read files of strangers, so their time, memory and output are limited.
"""

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gpudissect.errors import MachineCodeError

TIME_LIMIT_S = 120
_MEMORY_LIMIT_BYTES = 8 << 30
_FILE_LIMIT_BYTES = 1 << 30
_TOOLKIT = "/usr/local/cuda"  # where a toolkit is, unless CUDA_HOME names another folder
_FAILURES = {"nvcc": "cannot compile the source", "ptxas": "cannot assemble the PTX"}
_UNREADABLE = "cannot read the device code"
_INSTALL = "pip install '.[explain]' in a clone of gpudissect"


@cache
def find_tool(name: str) -> str:
    """Path of a binary utility: of its wheel, on PATH, or of a toolkit. Raises `MachineCodeError` without one."""
    spec = find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    wheels = [str(path) for folder in folders for path in sorted(Path(folder).glob(f"cu*/bin/{name}"), reverse=True)]
    found = next((path for path in wheels if shutil.which(path)), None) or shutil.which(name)
    found = found or shutil.which(name, path=str(Path(os.environ.get("CUDA_HOME", _TOOLKIT), "bin")))
    if found is None:
        raise MachineCodeError(f"{name} was not found: {_INSTALL}")
    return found


def run_tool(name: str, arguments: Sequence[str], folder: Path | None = None) -> bytes:
    """Standard output of a binary utility run in `folder`.

    Raises `MachineCodeError` if it fails, runs longer than `TIME_LIMIT_S`, or its output exceeds the limit.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(
            [find_tool(name), *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=messages, cwd=folder
        )
        with suppress(OSError, ValueError):  # it has ended already, or a lower limit holds
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_FILE_LIMIT_BYTES, _FILE_LIMIT_BYTES))
            resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY_LIMIT_BYTES, _MEMORY_LIMIT_BYTES))
        try:
            code = process.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise MachineCodeError(f"{name} did not finish within {TIME_LIMIT_S} s") from error
        finally:
            process.kill()
            process.wait()
        for file in (output, messages):
            file.seek(0)
        if code:
            lines = messages.read(10_000).decode("ascii", "backslashreplace").splitlines()
            reason = " ".join(_reason(lines, code).split())
            raise MachineCodeError(f"{name} {_FAILURES.get(name, _UNREADABLE)}: {ascii(reason)[1:-1][:200]}")
        return output.read()


def _reason(lines: Sequence[str], code: int) -> str:
    """The message that says why a tool failed: the first one of an error, but for the summary that follows it."""
    if any("Unsupported .version" in line for line in lines):
        return f"this ptxas is older than the compiler that wrote the PTX: {_INSTALL}"
    errors = [line for line in lines if ("error" in line or "fatal" in line) and "aborted due to" not in line]
    return next(iter(errors or lines), f"exit code {code}")
