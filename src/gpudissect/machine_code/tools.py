"""NVIDIA's binary utilities as processes: nvdisasm and cuobjdump, from their wheels or from a CUDA toolkit.

They read files of strangers, so their time, memory and output are limited.
"""

import os
import re
import shutil
import signal
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gpudissect.child_processes import MEMORY_LIMIT, run_limited
from gpudissect.errors import MachineCodeError

_NEWER = re.compile(r"Unsupported \.version .* current version is '(\d+\.\d+)'")  # of ptxas
_MAX_MESSAGE_BYTES = 10_000
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


class ToolTimeoutError(MachineCodeError):
    """A binary utility took longer than the limit."""


def run_tool(name: str, arguments: Sequence[str], folder: Path | None = None) -> bytes:
    """Standard output of a binary utility run in `folder`.

    Raises `MachineCodeError` if it fails or exceeds a limit of `run_limited`.
    """
    try:
        ended = run_limited([find_tool(name), *arguments], folder=folder)
    except TimeoutError as error:
        raise ToolTimeoutError(f"{name} took {error}: give a smaller file, or use a less busy machine") from None
    if ended.code:
        lines = ended.messages[:_MAX_MESSAGE_BYTES].decode("ascii", "backslashreplace").splitlines()
        reason = ascii(" ".join(_reason(lines).split()))[1:-1][:200]
        if ended.code == -signal.SIGXFSZ:
            reason = "it wrote a larger file than the limit allows (ulimit -f)"
        elif ended.code < 0 or "memory" in reason.lower():
            reason = f"it crashed, or needed more than {MEMORY_LIMIT} of memory"
        what = f"{name} {_FAILURES.get(name, _UNREADABLE)}"
        raise MachineCodeError(f"{what}: {reason}" if reason else f"{name} failed (exit code {ended.code})")
    return ended.output


def _reason(lines: Sequence[str]) -> str:
    """The message that says why a tool failed: the first one of an error, but for the summary that follows it."""
    if newest := next(filter(None, map(_NEWER.search, lines)), None):
        return f"this ptxas is older than the compiler that wrote the PTX, and reads up to {newest[1]}: {_INSTALL}"
    errors = [line for line in lines if ("error" in line or "fatal" in line) and "aborted due to" not in line]
    return next(filter(str.strip, errors or lines), "")
