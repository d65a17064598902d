"""Machine instructions of mixes that no PTX gives: multiply-adds of chosen registers, and branches to the next one.

The fields of an instruction with three source registers are those of Volta and later (Jia et al., "Dissecting the
NVIDIA Volta GPU Architecture via Microbenchmarking", 2018): sources in bits 24, 32 and 64 of 128, reuse flags from 122,
the scoreboards that it waits for from 116. An assembler removes every branch to the next instruction, so that mixes are
compiled with a trigger of a performance event in its place.
"""

from collections.abc import Callable, Sequence
from functools import partial

from gpudissect.errors import KernelFailed
from gpudissect.machine_code.kernel import INSTRUCTION_BYTES, choose_kernel, read_cubin

SOURCE_REGISTERS = "SOURCE_REGISTERS="
"""Of the macros of a mix, one that no source reads: numbers of three registers."""
BRANCHES = "BRANCHES"
"""Another: events are branches."""
_FFMA, _EVENT, _OPCODE_MASK = 0x223, 0x801, 0xFFF
_SOURCE_BITS = (24, 32, 64)
_REUSE, _WAITS = 0xF << 122, 0x3F << 116
_BRANCH = 0x000FEA0003800000_0000000000007947  # to the next instruction, as the assembler would write it

Change = Callable[[int], int]


def patched(cubin: bytes, macros: Sequence[str]) -> bytes:
    """The cubin of a mix with the instructions that its macros ask for. Raises `KernelFailed` if it cannot have them.

    The cubin itself if they ask for none.
    """
    if BRANCHES in macros:
        return _changed(cubin, _EVENT, lambda word: _BRANCH | word & _WAITS)
    chosen = [macro.removeprefix(SOURCE_REGISTERS) for macro in macros if macro.startswith(SOURCE_REGISTERS)]
    if not chosen:
        return cubin
    registers = tuple(map(int, chosen[0].split(".")))
    available = choose_kernel(read_cubin(cubin).kernels, "mix").registers
    if max(registers) >= available:
        raise KernelFailed(f"a mix of {available} registers cannot read registers {list(registers)}")
    return _changed(cubin, _FFMA, partial(_with_registers, registers))


def _with_registers(registers: Sequence[int], word: int) -> int:
    word &= ~_REUSE
    for bit, register in zip(_SOURCE_BITS, registers, strict=True):
        word = word & ~(0xFF << bit) | register << bit
    return word


def _changed(cubin: bytes, opcode: int, change: Change) -> bytes:
    """The cubin with every instruction of an opcode changed."""
    kernel = choose_kernel(read_cubin(cubin).kernels, "mix")
    start, size = cubin.find(kernel.code), len(kernel.code)
    result = bytearray(cubin)
    for at in range(start, start + size if start >= 0 else start, INSTRUCTION_BYTES):
        word = int.from_bytes(result[at : at + INSTRUCTION_BYTES], "little")
        if word & _OPCODE_MASK == opcode:
            result[at : at + INSTRUCTION_BYTES] = change(word).to_bytes(INSTRUCTION_BYTES, "little")
    if result == cubin:
        raise KernelFailed(f"a mix has no instruction of opcode {opcode:#x} that could be changed")
    return bytes(result)
