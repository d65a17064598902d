"""Machine code of the kernels: compiled with NVRTC, read with nvdisasm. Needs no GPU and no driver.

To start the disassembler takes several times as long as to compile a kernel, so what it said is kept: in a folder for
all processes that run tests, under a name that changes with the sources, the compiler and the disassembler.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath

from gpudissect.device.cuda.chase.layout import TRAITS
from gpudissect.device.cuda.compile import CubinCache, compile_cubin, compiler_version, cubin_key
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
        """Ordinary registers named, in order; a 64-bit value by its first."""
        return re.findall(r"(?<![A-Z])R\d+", self.operands)

    @property
    def target(self) -> int | None:
        """Index of the instruction that a branch goes to."""
        found = re.search(r"0x[0-9a-f]+", self.operands) if self.name == "BRA" else None
        return int(found[0], 16) // 16 if found else None

    @property
    def reads_clock(self) -> bool:
        return "SR_CLOCK" in self.operands

    def __str__(self) -> str:
        return f"{'@' + self.predicate + ' ' if self.predicate else ''}{self.opcode} {self.operands}"


@cache
def nvdisasm() -> str:
    """The disassembler, of its wheel or of a toolkit. Raises `FileNotFoundError` if there is none."""
    wheel = FilePath(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin" / "nvdisasm"
    found = str(wheel) if wheel.exists() else shutil.which("nvdisasm")
    if found is None:
        raise FileNotFoundError("no nvdisasm: pip install nvidia-cuda-nvdisasm")
    return found


@cache
def _kept() -> tuple[CubinCache, str]:
    """What was disassembled before, and what tells this disassembler from others."""
    folder = FilePath(tempfile.gettempdir()) / f"gpudissect-sass-{os.getuid()}"
    return CubinCache(folder), hashlib.sha256(FilePath(nvdisasm()).read_bytes()).hexdigest()


def kernels(path: Path, arch: str, *macros: str) -> dict[str, list[Instruction]]:
    """The kernels of ``chase.cu`` for this path and architecture, by name."""
    return kernels_of("chase.cu", (TRAITS[path].macro, *macros), arch)


@cache
def kernels_of(source: str, macros: tuple[str, ...], arch: str) -> dict[str, list[Instruction]]:
    """Every function of a source, compiled with macros for an architecture, by name."""
    kept, disassembler = _kept()
    key = cubin_key(source, macros, arch, f"{compiler_version()} {disassembler}")
    text = kept.get(key, lambda: _disassembled(compile_cubin(source, macros, arch)))
    _, functions = json.loads(text)
    return {
        function["function-name"]: [
            Instruction(i["opcode"], i.get("operands", ""), i.get("predicate", "").lstrip("@"))
            for i in function["sass-instructions"]
        ]
        for function in functions
    }


def _disassembled(cubin: bytes) -> bytes:
    """What the disassembler says of a cubin, as JSON."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([nvdisasm(), "-json", file.name], check=True, capture_output=True).stdout
