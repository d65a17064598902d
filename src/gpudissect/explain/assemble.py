"""PTX to machine code without a GPU, with nvJitLink in a process of limited time and memory."""

import re
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gpudissect.errors import PtxError
from gpudissect.machine_code.kernel import Cubin, read_cubin
from gpudissect.machine_code.tools import run_limited


@cache
def find_assembler() -> str:
    """Path of libnvJitLink in the wheel nvidia-nvjitlink. Raises `PtxError` without it."""
    spec = find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    found = [str(path) for folder in folders for path in Path(folder).glob("*/lib/libnvJitLink.so.*")]
    if not found:
        raise PtxError("libnvJitLink was not found: pip install 'gpudissect[explain]'")
    return max(found)


def assemble(ptx: str, architecture: str) -> Cubin:
    """The cubin of a module of PTX for an architecture such as ``sm_90``, with its line information.

    Raises `MachineCodeError` with the first error of the compiler, or if it does not finish in time.
    """
    if not re.fullmatch(r"sm_\d{2,3}[af]?", architecture):
        raise PtxError(f"no architecture of a GPU: {architecture[:20]!a}; valid: such as sm_90")
    script = Path(__file__).with_name("nvjitlink.py")
    with tempfile.NamedTemporaryFile(suffix=".ptx") as file:
        file.write(ptx.encode())
        file.flush()
        options = [f"-arch={architecture}", "-lineinfo"]
        command = [sys.executable, "-I", str(script), find_assembler(), file.name, *options]
        return read_cubin(run_limited("nvJitLink", command))
