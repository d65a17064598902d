"""Reads of the register file: how long the operands of an instruction keep its two banks busy.

A scheduler of an H200 and an H100 has a bank of even and one of odd registers; each reads one register of a warp in a
cycle (measured with patched machine code: an FFMA of three even registers takes 3 cycles, of two even ones and an odd
one 2, of one register 1). A register named twice is read once, the factors of a wide multiply-add twice. An operand
marked ``.reuse`` stays in a cache of its slot for the next instruction of the scheduler.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from gpudissect.machine_code.instructions import Instruction
from gpudissect.machine_code.registers import destination_count, reads

_REGISTER = re.compile(r"R(\d+)")
_OPERAND = re.compile(r"[-|~!]*(R\d+)\b")
_PREDICATE = re.compile(r"[!]*U?P(\d|T)")
_WIDE = ("WIDE", "HI")
_FACTORS = (0, 1)  # slots that a wide multiply-add reads twice


class Reads(NamedTuple):
    """Cycles of the even and the odd bank; and if the instruction before it was the last of the scheduler."""

    even: float
    odd: float
    even_after: float
    odd_after: float


NO_READS = Reads(0.0, 0.0, 0.0, 0.0)


@lru_cache(8)
def reads_of(instructions: tuple[Instruction, ...]) -> tuple[Reads, ...]:
    """The reads of each instruction of a program."""
    found = []
    kept: dict[int, str] = {}
    for instruction in instructions:
        slots = _slots(instruction)
        names = [name for name in reads(instruction) if _REGISTER.fullmatch(name)]
        twice = [slots[slot] for slot in _FACTORS if slots.get(slot)] if _is_wide(instruction) else []
        reused = {name for slot, name in slots.items() if name and kept.get(slot) == name}
        plain = _by_bank([*names, *twice])
        found.append(Reads(*plain, *_by_bank([name for name in (*names, *twice) if name not in reused])))
        kept = {slot: name for slot, name in slots.items() if name and instruction.reuse >> slot & 1}
    return tuple(found)


def _is_wide(instruction: Instruction) -> bool:
    return instruction.opcode == "IMAD" and bool(set(_WIDE) & set(instruction.modifiers))


def _by_bank(names: Sequence[str]) -> tuple[float, float]:
    numbers = [int(name[1:]) for name in names]
    odd = sum(number % 2 for number in numbers)
    return float(len(numbers) - odd), float(odd)


def _slots(instruction: Instruction) -> dict[int, str]:
    """Registers by source slot, empty for another operand."""
    sources = instruction.operands[destination_count(instruction.opcode, instruction.operands) :]
    values = [operand for operand in sources if not _PREDICATE.fullmatch(operand)]
    return {slot: match[1] if (match := _OPERAND.match(operand)) else "" for slot, operand in enumerate(values)}
