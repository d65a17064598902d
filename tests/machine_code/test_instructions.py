"""Decoded instructions compared with other outputs of nvdisasm: encodings, source lines, live ranges of registers."""

import re

import pytest

from gpudissect.errors import MachineCodeError
from gpudissect.machine_code import tools
from gpudissect.machine_code.instructions import decode, read_instructions
from gpudissect.machine_code.kernel import read_cubin
from gpudissect.machine_code.lines import source_lines
from gpudissect.machine_code.registers import reads, writes
from tests.machine_code.sources import ARCHITECTURES, INSTRUCTIONS, LOOP
from tests.support.machine_code import cubin_of, decoded, disassembly

NOT_IN_LIVE_RANGES = ("CALL", "RET", "R2P")  # a call clobbers; the predicates of R2P are not printed


def test_a_kernel_is_read_from_its_cubin():
    cubin = read_cubin(cubin_of(LOOP, "sm_90"))
    instructions = read_instructions(cubin, cubin.kernels[0])
    loads = [i for i in instructions if i.opcode == "LDG"]
    assert (len(loads), {i.line for i in loads}, loads[0].modifiers) == (1, {6}, ("E",))
    assert all(i.file.endswith("kernels.cu") for i in loads)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_words_and_reuse_agree_with_nvdisasm(arch):
    text = disassembly(cubin_of(INSTRUCTIONS, arch), "-c", "-hex").decode()
    printed, kernel = {}, ""
    for line in text.splitlines():
        if found := re.match(r"\.text\.(\w+):", line):
            kernel = found[1]
        elif found := re.match(r"\s+/\*([0-9a-f]{4,})\*/(.*)/\* 0x([0-9a-f]{16}) \*/", line):
            place = kernel, int(found[1], 16)
            printed[place] = [int(found[3], 16), found[2].count(".reuse")]
        elif found := re.match(r"\s+/\* 0x([0-9a-f]{16}) \*/", line):
            printed[place].append(int(found[1], 16))
    ours = {
        (name, i.address): [i.words[0], i.reuse.bit_count(), i.words[1]]
        for name, (_, instructions) in decoded(INSTRUCTIONS, arch).items()
        for i in instructions
    }
    assert ours == printed
    assert sum(count for _, count, _ in printed.values()) > 20


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_stall_counts_that_compilers_use_are_those_that_are_understood(arch):
    """Stalls above 11 come with a yield; 12 to 15 without one may be of another unit and do not occur."""
    stalls = {i.stall for _, found in decoded(INSTRUCTIONS, arch).values() for i in found if i.words[1] >> 45 & 1}
    assert stalls <= set(range(1, 12))


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_lines_agree_with_nvdisasm(arch):
    cubin = read_cubin(cubin_of(INSTRUCTIONS, arch))
    text = disassembly(cubin.data, "-c", "-g").decode()
    for kernel in cubin.kernels:
        printed, line = {}, None
        for row in text.split(f".text.{kernel.name}:")[1].split("//----")[0].splitlines():
            if found := re.search(r'//## File ".*?", line (\d+)', row):
                line = int(found[1])
            elif found := re.match(r"\s+/\*([0-9a-f]{4,})\*/", row):
                printed[int(found[1], 16)] = line
        ours = {i.address: i.line for i in decoded(INSTRUCTIONS, arch)[kernel.name][1]}
        assert ours == printed


def test_a_kernel_without_line_information_has_no_lines():
    cubin = read_cubin(cubin_of(LOOP, "sm_90", lines=False))
    assert source_lines(cubin, cubin.kernels[0]) == {}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_registers_read_and_written_agree_with_the_live_ranges_of_nvdisasm(arch):
    ranges = live_ranges(disassembly(cubin_of(INSTRUCTIONS, arch), "-c", "-plr", "-lrm", "wide").decode())
    compared = 0
    for name, (_, instructions) in decoded(INSTRUCTIONS, arch).items():
        for i in instructions:
            if i.opcode not in NOT_IN_LIVE_RANGES and i.address in ranges[name]:
                assert (reads(i), writes(i)) == ranges[name][i.address], f"{name} {i.address:#x} {i}"
                compared += 1
    assert compared > 1000


def live_ranges(text):
    """Registers that each instruction reads and writes, by kernel and address, from the columns of ``-plr``."""
    prefixes = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
    found, kernel, names, columns = {}, "", [], []
    for line in text.splitlines():
        if match := re.match(r"\.text\.(\w+):", line):
            kernel = found.setdefault(match[1], {})
        _, bar, table = line.partition("// |")
        fields = table.split("|")[:-1]
        if any(field.strip() in prefixes for field in fields):
            names = [prefixes[field.strip()] for field in fields]
        elif fields and fields[0].strip().startswith("#"):
            columns = [{m.end() - 1: m[0] for m in re.finditer(r"\d+", field)} for field in fields]
        elif bar and (match := re.match(r"\s+/\*([0-9a-f]{4,})\*/", line)):
            marks = [
                (name + column[place], field[place])
                for name, column, field in zip(names, columns, fields, strict=True)
                for place in column
                if field[place] in "v^x"
            ]
            kernel[int(match[1], 16)] = tuple(
                frozenset(register for register, mark in marks if mark in kinds) for kinds in ("vx", "^x")
            )
    return found


def test_a_listing_of_another_length_is_refused():
    kernel, _ = decoded(LOOP, "sm_90")["scale"]
    with pytest.raises(MachineCodeError, match="instructions"):
        decode(kernel, [{"opcode": "NOP"}], {})


def test_an_instruction_of_an_unknown_form_is_refused():
    kernel, instructions = decoded(LOOP, "sm_90")["scale"]
    with pytest.raises(MachineCodeError, match="unknown form"):
        decode(kernel, [{"opcode": None}] * len(instructions), {})


@pytest.fixture
def no_wheels(monkeypatch, tmp_path):
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    tools.find_tool.cache_clear()
    yield tmp_path
    tools.find_tool.cache_clear()


def test_a_missing_disassembler_is_named_with_its_package(no_wheels):
    with pytest.raises(MachineCodeError, match=r"nvdisasm.*\.\[explain\]"):
        tools.find_tool("nvdisasm")


def test_a_utility_of_a_toolkit_is_found(no_wheels):
    path = no_wheels / "bin" / "nvdisasm"
    path.parent.mkdir()
    path.touch(mode=0o755)
    assert tools.find_tool("nvdisasm") == str(path)


def test_a_utility_that_fails_is_refused_with_its_message(tmp_path):
    (tmp_path / "k.cubin").write_bytes(b"\x7fELF" + bytes(60))
    with pytest.raises(MachineCodeError, match="nvdisasm cannot read"):
        tools.run_tool("nvdisasm", ["-json", str(tmp_path / "k.cubin")])
