"""PTX to machine code without a GPU, with ptxas."""

import re
import tempfile
from pathlib import Path

from gpudissect.errors import PtxError
from gpudissect.machine_code.kernel import Cubin, read_cubin
from gpudissect.machine_code.tools import run_tool


def assemble(ptx: str, architecture: str, max_registers: int | None = None) -> Cubin:
    """The cubin of a module of PTX for an architecture such as ``sm_90``, with its line information.

    A thread has at most `max_registers`, where the PTX itself does not state the size of a block.

    Raises `MachineCodeError` with the first error of ptxas, or if it is missing or does not finish in time.
    """
    if not re.fullmatch(r"sm_\d{2,3}[af]?", architecture):
        raise PtxError(f"no architecture of a GPU: {architecture[:20]!a}; valid: such as sm_90")
    with tempfile.TemporaryDirectory() as name:
        source, cubin = Path(name, "kernel.ptx"), Path(name, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        limit = [f"-maxrregcount={max_registers}"] if max_registers else []
        run_tool("ptxas", [f"-arch={architecture}", "-lineinfo", *limit, "-o", cubin.name, source.name], Path(name))
        return read_cubin(cubin.read_bytes())
