"""Instructions of a kernel: opcode and operands from nvdisasm, encoding and control information from the code itself.

The control information lies in the upper bits of the 128 of an instruction (Volta and later). Its layout is not
documented; it was found by Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, and
agrees with compiled code of sm_75 to sm_120 (tests).
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpudissect.child_processes import temporary_folder
from gpudissect.errors import MachineCodeError
from gpudissect.machine_code.kernel import INSTRUCTION_BYTES, Cubin, Kernel
from gpudissect.machine_code.lines import Line, source_lines
from gpudissect.machine_code.tools import run_tool
from gpudissect.printable import quoted

NO_BARRIER = 7
BARRIERS = 6
"""Scoreboard barriers of a warp, SB0 to SB5."""
_VERSION = "version 13.2 or later is needed"
_BETWEEN_OPERANDS = re.compile(r",(?![^\[{]*[\]}])")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction at a byte offset from the start of its kernel.

    `predicate` is such as ``!P0``, empty if there is none. Operands have no ``.reuse``: bit k of `reuse` is that of the
    k-th source slot. `stall`: cycles until the next instruction of the warp may issue (0: until all is done).
    `write_barrier` is set until the result is there, `read_barrier` until the sources were read (0 to 5, None for
    none). The instruction issues when the barriers in `wait_mask` are clear (bit k for SBk).
    """

    address: int
    opcode: str
    modifiers: tuple[str, ...]
    predicate: str
    operands: tuple[str, ...]
    words: tuple[int, int]
    stall: int
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int
    reuse: int
    file: str | None = None
    line: int | None = None

    @property
    def mnemonic(self) -> str:
        """Opcode with its modifiers, such as ``LDG.E.64``."""
        return ".".join((self.opcode, *self.modifiers))

    def __str__(self) -> str:
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"{guard}{self.mnemonic} {', '.join(self.operands)}".strip()


def read_instructions(cubin: Cubin, kernel: Kernel, lines: Mapping[int, Line] | None = None) -> tuple[Instruction, ...]:
    """The instructions of a kernel with their source lines: `lines`, or those of the cubin if it is None.

    Starts nvdisasm. Raises `MachineCodeError` if it is missing, fails, or does not agree with the code, and what
    `source_lines` raises.
    """
    with temporary_folder() as folder:
        file = folder / "kernel.cubin"
        file.write_bytes(cubin.data)
        output = run_tool("nvdisasm", ["-json", "-fun", str(kernel.symbol), file.name], folder)
    return decode(kernel, _listing(output, kernel), source_lines(cubin, kernel) if lines is None else lines)


def decode(kernel: Kernel, listing: list[Any], lines: Mapping[int, Line]) -> tuple[Instruction, ...]:
    """Instructions of a kernel from its disassembly (items with opcode, operands, predicate) and its code."""
    if len(listing) * INSTRUCTION_BYTES != len(kernel.code):
        count = len(kernel.code) // INSTRUCTION_BYTES
        raise MachineCodeError(
            f"nvdisasm printed {len(listing)} instructions of {quoted(kernel.name, 60)}, not {count}: {_VERSION}"
        )
    try:
        return tuple(_instructions(kernel.code, listing, lines))
    except (TypeError, KeyError, AttributeError) as error:
        raise MachineCodeError("nvdisasm printed an instruction of an unknown form") from error


def _instructions(code: bytes, listing: list[Any], lines: Mapping[int, Line]) -> Iterable[Instruction]:
    line: Line | tuple[None, None] = (None, None)
    for index, item in enumerate(listing):
        address = index * INSTRUCTION_BYTES
        low, high = (int.from_bytes(code[start : start + 8], "little") for start in (address, address + 8))
        control = high >> 41
        line = lines.get(address, line)
        opcode, *modifiers = item["opcode"].split(".")
        operands = _BETWEEN_OPERANDS.split(item["operands"]) if item.get("operands") else ()
        write, read = control >> 5 & 7, control >> 8 & 7
        yield Instruction(
            address,
            opcode,
            tuple(modifiers),
            item.get("predicate", "").lstrip("@"),
            tuple(operand.replace(".reuse", "").strip() for operand in operands),
            (low, high),
            control & 0xF,
            None if write == NO_BARRIER else write,
            None if read == NO_BARRIER else read,
            control >> 11 & 0x3F,
            control >> 17 & 0xF,
            *line,
        )


def _listing(output: bytes, kernel: Kernel) -> list[Any]:
    try:
        _, functions = json.loads(output)
        return next(list(f["sass-instructions"]) for f in functions if f["function-name"] == kernel.name)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MachineCodeError(f"nvdisasm printed no instructions in JSON: {_VERSION}") from error
    except StopIteration:
        raise MachineCodeError(f"nvdisasm printed no instructions of {quoted(kernel.name, 60)}") from None
