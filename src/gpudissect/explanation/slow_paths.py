"""PTX that counts operands for which divisions and roots take the slow path of their machine code.

The assembler writes these instructions as a fast path, a check of the operands, and a call for exceptional ones. No
block of the PTX shows this call, so the check is made in inserted code. Divisions of 64-bit integers need none: their
call is unconditional.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpudissect.explanation.insertion import PTX, Names
from gpudissect.explanation.ptx import Function, Instruction

COUNTERS = 2
"""Words of an instruction: warps and threads."""
_FAST: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class SlowCount(NamedTuple):
    """Executions of the slow path of a PTX instruction, by its number in the module, by warps and by threads."""

    instruction: int
    warps: int
    threads: int


def slow_instructions(function: Function) -> Iterator[tuple[int, int]]:
    """Block and index of each instruction whose machine code has a slow path, in their order."""
    for number, block in enumerate(function.blocks):
        for index in range(block.start, block.end):
            if _fast_code(function.instructions[index]):
                yield number, index


def count_code(names: Names, instruction: Instruction, warps: int) -> str:
    """Code before an instruction that counts the warps and threads whose operands take the slow path.

    The counters are at the offset `warps` in bytes.
    """
    operands = dict(zip("ab", instruction.operands[1:], strict=False))
    code = names.fill(PTX["elect"]) + names.fill(_fast_code(instruction), **operands)
    if instruction.guard:
        code += names.fill(PTX["count_guarded"], guard=instruction.guard)
    else:
        code += names.fill("mov.u32 {r}r3, {r}r0;")
    return code + names.fill(PTX["count_slow"], warps=warps, threads=warps + 8)


def _fast_code(instruction: Instruction) -> str:
    return _FAST.get(instruction.opcode.replace(".ftz.f32", ".f32"), "")
