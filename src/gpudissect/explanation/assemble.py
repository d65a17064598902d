"""PTX to machine code without a GPU, with ptxas."""

import re
import tempfile
from pathlib import Path

from gpudissect.errors import MachineCodeError, PtxError
from gpudissect.machine_code.kernel import Cubin, read_cubin
from gpudissect.machine_code.tools import run_tool

_SPECIFIC = re.compile(r"^\s*\.target\s+(sm_\d+)([af])\b", re.MULTILINE)  # code for this architecture or family alone
_NEWER = re.compile(r"Unsupported \.version .* current version is '(\d+\.\d+)'")  # of ptxas


def assemble(ptx: str, architecture: str, max_registers: int | None = None, kernel: str | None = None) -> Cubin:
    """The cubin of a module of PTX for an architecture such as ``sm_90``, with its line information.

    Of all kernels, or of one alone, whose machine code is the same. A thread has at most `max_registers`, where the PTX
    itself does not state the size of a block. PTX of a newer version than ptxas knows is assembled as one of the newest
    that it knows, PTX of ``sm_90a`` for that.

    Raises `MachineCodeError` with the first error of ptxas, or if it is missing or does not finish in time.
    """
    if not re.fullmatch(r"sm_\d{2,3}[af]?", architecture):
        raise PtxError(f"no architecture of a GPU: {architecture[:20]!a}; valid: such as sm_90")
    if (specific := _SPECIFIC.search(ptx)) and specific[1] == architecture:
        architecture += specific[2]
    try:
        return _assemble(ptx, architecture, max_registers, kernel)
    except MachineCodeError as error:
        newest = _NEWER.search(str(error))
        if newest is None:
            raise
        older = re.sub(r"(?m)^\s*\.version\s.*$", f".version {newest[1]}", ptx, count=1)
        return _assemble(older, architecture, max_registers, kernel)


def _assemble(ptx: str, architecture: str, max_registers: int | None, kernel: str | None) -> Cubin:
    with tempfile.TemporaryDirectory() as name:
        source, cubin = Path(name, "kernel.ptx"), Path(name, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        limit = [f"-maxrregcount={max_registers}"] if max_registers else []
        limit += ["--entry", kernel] if kernel else []
        run_tool("ptxas", [f"-arch={architecture}", "-lineinfo", *limit, "-o", cubin.name, source.name], Path(name))
        return read_cubin(cubin.read_bytes())
