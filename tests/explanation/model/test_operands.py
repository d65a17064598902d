"""Reads of the banks of registers by instructions."""

import pytest

from gpudissect.explanation.model.operands import reads_of
from gpudissect.machine_code.instructions import Instruction


def instruction(text, reuse=0):
    mnemonic, _, operands = text.partition(" ")
    opcode, *modifiers = mnemonic.split(".")
    parts = tuple(each.strip() for each in operands.split(","))
    return Instruction(0, opcode, tuple(modifiers), "", parts, (0, 0), 1, None, None, 0, reuse)


@pytest.mark.parametrize(
    ("text", "even", "odd"),
    [
        ("FFMA R0, R2, R4, R6", 3, 0),
        ("FFMA R0, R2, R4, R7", 2, 1),
        ("FFMA R0, R2, R2, R2", 1, 0),
        ("FADD R1, R3, RZ", 0, 1),
        ("FADD R1, R3, 1", 0, 1),
        ("IADD3 R1, -R3, R4, UR4", 1, 1),
        ("DFMA R0, R2, R4, R6", 3, 3),
        ("ISETP.GE.AND P0, PT, R4, R5, PT", 1, 1),
        ("IMAD.WIDE R6, R4, 0x4, R8", 3, 1),
        ("IMAD.WIDE R6, R4, R5, R8", 3, 3),
    ],
)
def test_each_bank_reads_its_registers_once(text, even, odd):
    (found,) = reads_of((instruction(text),))
    assert (found.even, found.odd) == (even, odd)
    assert (found.even_after, found.odd_after) == (even, odd)


def test_an_operand_kept_in_its_slot_is_not_read_again():
    first = instruction("FFMA R0, R2, R4, R6", reuse=0b001)
    after, other = instruction("FFMA R8, R2, R4, R8"), instruction("FFMA R8, R10, R2, R8")
    kept = reads_of((first, after))[1]
    assert (kept.even, kept.even_after) == (3, 2)
    in_another_slot = reads_of((first, other))[1]
    assert (in_another_slot.even, in_another_slot.even_after) == (3, 3)
