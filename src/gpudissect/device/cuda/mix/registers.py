"""Multiply-adds that read chosen registers: changed in the machine code, because PTX has no names for them.

The fields of an instruction with three source registers are those of Volta and later (Jia et al., "Dissecting the
NVIDIA Volta GPU Architecture via Microbenchmarking", 2018): sources in bits 24, 32 and 64 of 128, reuse flags from 122.
"""

from collections.abc import Sequence

from gpudissect.errors import KernelFailed
from gpudissect.machine_code.kernel import INSTRUCTION_BYTES, choose_kernel, read_cubin

MACRO = "SOURCE_REGISTERS="
"""Of the macros of a mix, the one that no source reads: numbers of three registers."""
_FFMA, _OPCODE_MASK = 0x223, 0xFFF  # of three registers
_SOURCE_BITS = (24, 32, 64)
_REUSE = 0xF << 122


def registers_in(macros: Sequence[str]) -> tuple[int, ...]:
    """The chosen registers, none if a mix is run as compiled."""
    chosen = [macro.removeprefix(MACRO) for macro in macros if macro.startswith(MACRO)]
    return tuple(map(int, chosen[0].split("."))) if chosen else ()


def with_source_registers(cubin: bytes, registers: Sequence[int]) -> bytes:
    """The cubin of a mix whose multiply-adds read these registers. Raises `KernelFailed` if they cannot be changed."""
    kernel = choose_kernel(read_cubin(cubin).kernels, "mix")
    start, size = cubin.find(kernel.code), len(kernel.code)
    if start < 0 or max(registers) >= kernel.registers:
        raise KernelFailed(f"a mix of {kernel.registers} registers cannot read registers {list(registers)}")
    changed = bytearray(cubin)
    for at in range(start, start + size, INSTRUCTION_BYTES):
        word = int.from_bytes(changed[at : at + INSTRUCTION_BYTES], "little")
        if word & _OPCODE_MASK == _FFMA:
            changed[at : at + INSTRUCTION_BYTES] = _changed(word, registers).to_bytes(INSTRUCTION_BYTES, "little")
    if changed == cubin:
        raise KernelFailed("a mix has no multiply-add of three registers")
    return bytes(changed)


def _changed(word: int, registers: Sequence[int]) -> int:
    word &= ~_REUSE
    for bit, register in zip(_SOURCE_BITS, registers, strict=True):
        word = word & ~(0xFF << bit) | register << bit
    return word
