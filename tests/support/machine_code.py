"""Machine code of the kernels: compiled with NVRTC, read with nvdisasm. Needs no GPU and no driver.

Starting the disassembler takes several times as long as compiling a kernel, so its output is cached in a folder for all
processes that run tests, under a name that depends on the sources, the compiler and the disassembler.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath

from gpudissect.device.cuda.compile import CubinCache, compile_cubin, compiler_version, cubin_key
from gpudissect.device.cuda.layout import TRAITS
from gpudissect.machine_code import instructions as machine_code
from gpudissect.machine_code.kernel import Kernel, read_cubin
from gpudissect.machine_code.lines import source_lines
from gpudissect.machine_code.tools import find_tool, run_tool
from gpudissect.workload import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction: `LDG.E.64 R2, desc[UR4][R2.64]` under `@!P0`."""

    opcode: str
    operands: str
    predicate: str

    @property
    def name(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def registers(self) -> list[str]:
        """Ordinary registers in order; a 64-bit value by its first."""
        return re.findall(r"(?<![A-Z])R\d+", self.operands)

    @property
    def target(self) -> int | None:
        """Index of the target of a branch, None for other instructions."""
        found = re.search(r"0x[0-9a-f]+", self.operands) if self.name == "BRA" else None
        return int(found[0], 16) // 16 if found else None

    @property
    def reads_clock(self) -> bool:
        return "SR_CLOCK" in self.operands

    def __str__(self) -> str:
        return f"{'@' + self.predicate + ' ' if self.predicate else ''}{self.opcode} {self.operands}"


@cache
def _cache() -> tuple[CubinCache, str]:
    """Cached output, and a hash of the disassembler."""
    folder = FilePath(tempfile.gettempdir()) / f"gpudissect-sass-{os.getuid()}"
    return CubinCache(folder), hashlib.sha256(FilePath(find_tool("nvdisasm")).read_bytes()).hexdigest()


def kernels(path: Path, arch: str, *macros: str) -> dict[str, list[Instruction]]:
    """The kernels of ``chase.cu`` for this path and architecture, by name."""
    return kernels_of("chase.cu", (TRAITS[path].macro, *macros), arch)


@cache
def kernels_of(source: str, macros: tuple[str, ...], arch: str) -> dict[str, list[Instruction]]:
    """Every function of a source, compiled with macros for an architecture, by name."""
    outputs, disassembler = _cache()
    key = cubin_key(source, macros, arch, f"{compiler_version()} {disassembler}")
    text = outputs.get(key, lambda: _disassemble(compile_cubin(source, macros, arch)))
    _, functions = json.loads(text)
    return {
        function["function-name"]: [
            Instruction(i["opcode"], i.get("operands", ""), i.get("predicate", "").lstrip("@"))
            for i in function["sass-instructions"]
        ]
        for function in functions
    }


@cache
def cubin_of(text: str, arch: str, lines: bool = True) -> bytes:
    """The cubin of a CUDA source given as text, with line information unless `lines` is False."""
    from cuda.core import Program, ProgramOptions

    outputs, _ = _cache()
    key = hashlib.sha256(f"{text}\0{arch}\0{lines}\0{compiler_version()}".encode()).hexdigest()[:20]
    options = ProgramOptions(std="c++17", arch=arch, lineinfo=lines, name="kernels.cu")
    return outputs.get(key, lambda: bytes(Program(text, "c++", options).compile("cubin").code))


def decoded(text: str, arch: str) -> dict[str, tuple[Kernel, tuple[machine_code.Instruction, ...]]]:
    """The kernels of a CUDA source given as text with their decoded instructions, by name."""
    return decoded_cubin(cubin_of(text, arch))


@cache
def decoded_cubin(data: bytes) -> dict[str, tuple[Kernel, tuple[machine_code.Instruction, ...]]]:
    """The kernels of a cubin with their decoded instructions, by name."""
    cubin, (_, functions) = read_cubin(data), json.loads(disassembly(data, "-json"))
    listings = {function["function-name"]: function["sass-instructions"] for function in functions}
    return {
        kernel.name: (kernel, machine_code.decode(kernel, listings[kernel.name], source_lines(cubin, kernel)))
        for kernel in cubin.kernels
    }


@cache
def disassembly(cubin: bytes, *options: str) -> bytes:
    """Output of nvdisasm for a cubin."""
    outputs, disassembler = _cache()
    key = hashlib.sha256(b"\0".join([cubin, disassembler.encode(), *map(str.encode, options)])).hexdigest()[:20]
    return outputs.get(key, lambda: _disassemble(cubin, *options))


def _disassemble(cubin: bytes, *options: str) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return run_tool("nvdisasm", [*(options or ("-json",)), file.name])
