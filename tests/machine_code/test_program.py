"""A kernel as one value; damaged code, lines and operands."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.errors import MachineCodeError
from gpudissect.machine_code import registers
from gpudissect.machine_code.elf import read_elf
from gpudissect.machine_code.instructions import Instruction
from gpudissect.machine_code.kernel import choose_kernel, read_cubin
from gpudissect.machine_code.lines import UnreadableLinesError, source_lines
from gpudissect.machine_code.program import MAX_INSTRUCTIONS, describe, read_program
from tests.machine_code.sources import ARCHITECTURES, INSTRUCTIONS, LOOP, RESOURCES
from tests.support.machine_code import cubin_of, decoded

MNEMONICS = """
LDG.E.128 STG.E.64 ATOMG.E.CAS.64 LDS.U.64 LDSM.16.M88.4 LDC.64 ULDC.64 LDGSTS.E.BYPASS.128 IMAD.WIDE.U32 IADD3.X DFMA
ISETP.GE.AND F2I.S64.F64 I2F.F64.U64 FRND.F64 VOTE.ANY SHFL.BFLY MATCH.ALL R2P P2R BAR.RED PLOP3.LUT CALL.REL RET.REL
HMMA.16816.F32 HMMA.1688.F32.TF32 HMMA.SP.16832.F32 IMMA DMMA.8x8x4 HGMMA.64x8x16.F32 HGMMA UTMALDG.3D UBLKCP.S.G
TEX.LL TXD TLD4.SCR.G SULD.D.BA.2D SUST.D.2D LDTM.x4 STTM.x2 DEPBAR.LE SYNCS.ARRIVE.TRANS64 CS2R.32 MOVM.U4TO8.M832 ?
"""
OPERANDS = [
    *("R2", "RZ", "-R4", "|R6|", "R254", "UR4", "URZ", "P0", "!P1", "PT", "UP0", "!UPT", "PR", "B0", "SB0", "SR_TID.X"),
    *("[R2.64+0x10]", "[R2+UR4]", "[R2.U32+UR4]", "desc[UR4][R2.64]", "gdesc[UR8]", "tmem[UR4]", "[R0][R2.64]", "[]"),
    *(
        "c[0x0][0x160]",
        "c[0x2][R4]",
        "cx[UR4][0x10]",
        "0x1f",
        "1.5",
        "+INF",
        "2D",
        "ARRAY_2D",
        "CUBE",
        "",
        "0x",
        "gsb0",
    ),
]


@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
def test_a_program_is_read_from_a_cubin(arch):
    cubin = read_cubin(cubin_of(LOOP, arch))
    program = read_program(cubin, choose_kernel(cubin.kernels, None))
    assert [loop.name for loop in program.loops.loops] == ["kernels.cu:5"]
    assert len(program.uses) == len(program.instructions) == len(program.kernel.code) // 16
    assert [program.uses[n].space for n, i in enumerate(program.instructions) if i.opcode == "STG"] == ["global"]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_all_kernels_are_described(arch):
    for kernel, instructions in decoded(INSTRUCTIONS, arch).values():
        program = describe(kernel, instructions)
        assert program.dependences.dependences
        assert not program.loops.has_irreducible


def test_code_that_is_no_instruction_is_refused_or_read():
    data = cubin_of(LOOP, "sm_90")
    code = read_cubin(data).kernels[0].code
    cubin = read_cubin(data.replace(code[:64], b"\xfe" * 64))
    with pytest.raises(MachineCodeError) as error:
        read_program(cubin, cubin.kernels[0])
    assert "\n" not in str(error.value)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_line_information_gives_lines_or_one_error(changes):
    data = cubin_of(RESOURCES, "sm_90")
    section = read_elf(data).content(".debug_line")
    damaged = bytearray(section)
    for place, value in changes:
        damaged[place % len(damaged)] = value
    cubin = read_cubin(data.replace(section, bytes(damaged)))
    try:
        lines = source_lines(cubin, cubin.kernels[0])
    except UnreadableLinesError as error:
        assert str(error).startswith("line information not readable")
        return
    assert all(isinstance(file, str) and isinstance(line, int) for file, line in lines.values())


def test_a_program_without_readable_lines_says_so():
    data = cubin_of(LOOP, "sm_90")
    section = read_elf(data).content(".debug_line")
    damaged = read_cubin(data.replace(section, b"\x21" * len(section)))
    whole, program = (read_program(each, choose_kernel(each.kernels, None)) for each in (read_cubin(data), damaged))
    assert (whole.has_readable_lines, program.has_readable_lines) == (True, False)
    assert whole.lines and not program.lines and len(program.instructions) == len(whole.instructions)


def test_only_functions_of_the_compiler_are_slow_paths():
    source = """
    __device__ __noinline__ float slowpath_of_mine(float x) { return x * x + 1; }
    extern "C" __global__ void mediumpath(float* x) { x[threadIdx.x] = slowpath_of_mine(x[1]) / x[0]; }
    """
    cubin = read_cubin(cubin_of(source, "sm_90"))
    program = read_program(cubin, choose_kernel(cubin.kernels, None))
    ends = program.flow.entries[1:]
    names = {each.start: each.name for each in program.kernel.functions}
    slow = {names[program.instructions[program.flow.blocks[n].start].address] for n in program.slow_paths & {*ends}}
    assert len(slow) == 1 and "$__internal_" in next(iter(slow))
    assert any("slowpath_of_mine" in name for name in names.values()) and 0 not in program.slow_paths


@given(st.sampled_from(MNEMONICS.split()), st.lists(st.sampled_from(OPERANDS), max_size=7))
def test_registers_of_any_operands_are_found(mnemonic, operands):
    opcode, *modifiers = mnemonic.split(".")
    instruction = Instruction(0, opcode, tuple(modifiers), "", tuple(operands), (0, 0), 1, None, None, 0, 0)
    for found in (registers.reads(instruction), registers.writes(instruction)):
        assert all(re.fullmatch(r"U?[RP]\d+", register) for register in found)


def test_a_kernel_of_more_instructions_than_are_supported_is_refused():
    cubin = read_cubin(cubin_of(LOOP, ARCHITECTURES[0]))
    kernel = replace(cubin.kernels[0], code=bytes(16 * (MAX_INSTRUCTIONS + 1)))
    with pytest.raises(MachineCodeError, match=f"up to {MAX_INSTRUCTIONS}"):
        read_program(cubin, kernel)
