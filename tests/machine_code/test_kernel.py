"""Resources that a cubin declares; damaged files."""

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.errors import MachineCodeError
from gpudissect.machine_code.device_code import find_kernel, read_device_code
from gpudissect.machine_code.elf import read_elf
from gpudissect.machine_code.kernel import _indirect_targets, choose_kernel, read_cubin
from gpudissect.machine_code.names import MAX_DEMANGLED, choose_name, declaration, short_name, source_name
from gpudissect.machine_code.program import read_program
from tests.machine_code.sources import ARCHITECTURES, LOOP, RESOURCES
from tests.support.machine_code import cubin_of


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_resources_are_those_of_the_source(arch):
    cubin = read_cubin(cubin_of(RESOURCES, arch))
    kernel = choose_kernel(cubin.kernels, "resources")
    assert cubin.architecture == kernel.architecture == arch
    assert (kernel.shared_bytes, kernel.max_threads) == (96 * 4, 256)
    assert kernel.stack_bytes >= 400
    assert 0 < kernel.registers <= 255
    assert choose_kernel(cubin.kernels, "space::scaled").shared_bytes == 0


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZN5space6scaledIfEEvPT_S1_", "space::scaled"),
        ("_Z3addPfi", "add"),
        ("kernel", "kernel"),
        ("_ZN12_GLOBAL__N_13addEv", "(anonymous namespace)::add"),
        ("_Z99999x", "_Z99999x"),
        ("_ZL3addv", "_ZL3addv"),
    ],
)
def test_short_names(mangled, name):
    assert short_name(mangled) == name


@pytest.mark.parametrize(
    ("mangled", "source", "whole"),
    [
        ("_Z5scaleIfEvPT_PKS0_S0_i", "scale<float>", "scale<float>(float*, float const*, float, int)"),
        (
            "_ZN12_GLOBAL__N_15innerIiEEvPT_",
            "(anonymous namespace)::inner<int>",
            "(anonymous namespace)::inner<int>(int*)",
        ),
        ("_Z1kILi4EXadL_Z1fvEEEvv", "k<4, &(f())>", "k<4, &(f())>()"),
        ("_Z1kPFvvE", "k", "k(void (*)())"),
        ("_Z99999x", "_Z99999x", "_Z99999x"),
        ("plain", "plain", "plain"),
        ("_Z1k" + "S0_" * 31, "k", "_Z1k" + "S0_" * 31),
    ],
)
def test_names_of_source_code(mangled, source, whole):
    assert (source_name(mangled), declaration(mangled)) == (source, whole)


SCALES = ["_Z5scaleIfEvPT_PKS0_S0_i", "_Z5scaleIdEvPT_PKS0_S0_i", "_Z3addPf", "_Z3addi"]


@pytest.mark.parametrize(
    "name", [SCALES[1], "scale<double>", "scale< double >", "scale<double>(double*,double const*,double,int)"]
)
def test_an_instance_of_a_template_is_chosen_by_its_source_name(name):
    assert choose_name(SCALES, name) == SCALES[1]


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        (None, ["4 kernels", "'scale<float>'", "'add(int)'"]),
        ("scale", ["2 kernels called 'scale'", "'scale<double>'"]),
        ("add", ["'add(float*)'", "'add(int)'"]),
        ("scale<flaot>", ["did you mean scale<float>"]),
    ],
)
def test_kernels_are_listed_by_names_that_choose_them(name, facts):
    with pytest.raises(MachineCodeError) as error:
        choose_name(SCALES, name)
    assert all(fact in str(error.value) for fact in facts)


@pytest.mark.parametrize(
    ("name", "facts"),
    [(None, ["2 kernels", "resources", "scaled"]), ("resource", ["no such kernel", "resources"]), ("\n", [r"'\n'"])],
)
def test_an_ambiguous_or_unknown_name_is_refused_with_the_names(name, facts):
    with pytest.raises(MachineCodeError) as error:
        choose_kernel(read_cubin(cubin_of(RESOURCES, "sm_90")).kernels, name)
    assert all(fact in str(error.value) for fact in facts)
    assert "\n" not in str(error.value)


def test_files_without_device_code_are_refused(tmp_path):
    (tmp_path / "text").write_text("kernel")
    for path in (tmp_path, tmp_path / "text", tmp_path / "absent"):
        with pytest.raises(MachineCodeError):
            read_device_code(path)


def test_a_cubin_of_another_architecture_is_refused_with_both(tmp_path):
    path = tmp_path / "k.cubin"
    path.write_bytes(cubin_of(RESOURCES, "sm_90"))
    assert len(read_device_code(path, "sm_90")) == 1
    with pytest.raises(MachineCodeError, match=r"sm_80.*sm_90"):
        read_device_code(path, "sm_80")


def test_cubins_in_a_fatbin_are_found_by_architecture(tmp_path):
    path = tmp_path / "kernels.fatbin"
    path.write_bytes(fatbin([cubin_of(RESOURCES, arch) for arch in ("sm_80", "sm_90")]))
    assert [cubin.architecture for cubin in read_device_code(path)] == ["sm_80", "sm_90"]
    assert [len(cubin.kernels) for cubin in read_device_code(path, "sm_90")] == [2]
    with pytest.raises(MachineCodeError, match=r"sm_75.*sm_80, sm_90"):
        read_device_code(path, "sm_75")


def test_a_host_executable_without_device_code_is_refused():
    with pytest.raises(MachineCodeError, match="device code"):
        read_device_code(Path(sys.executable).resolve())


def test_a_truncated_host_executable_is_refused(tmp_path):
    whole = Path(sys.executable).resolve().read_bytes()
    for size in (30, len(whole) // 2):
        (tmp_path / "half").write_bytes(whole[:size])
        with pytest.raises(MachineCodeError, match="truncated ELF file 'half'"):
            read_device_code(tmp_path / "half")


def test_a_kernel_is_found_with_its_cubin(tmp_path):
    path = tmp_path / "kernels.fatbin"
    path.write_bytes(fatbin([cubin_of(LOOP, "sm_90"), cubin_of(RESOURCES, "sm_90")]))
    cubin, kernel = find_kernel(read_device_code(path, "sm_90a"), "scale")
    assert (cubin.data, kernel.name) == (cubin_of(LOOP, "sm_90"), "scale")
    with pytest.raises(MachineCodeError, match="3 kernels"):
        find_kernel(read_device_code(path), None)


def test_a_cubin_of_cuda_12_is_read():
    """ABI version 7: architecture and registers stand elsewhere (data/cuda12_sm_75.ptx, ptxas 12.9)."""
    cubin = read_cubin((Path(__file__).parent / "data" / "cuda12_sm_75.cubin").read_bytes())
    (kernel,) = cubin.kernels
    assert (kernel.architecture, kernel.shared_bytes) == ("sm_75", 128)
    program = read_program(cubin, kernel)
    assert len(program.loops.loops) == 1
    opcodes = [i.opcode for i in program.instructions]
    assert (opcodes.count("BAR"), opcodes.count("LDS"), opcodes.count("STG")) == (2, 1, 1)
    assert 0 < kernel.registers < 32


def fatbin(cubins):
    """A container as nvcc embeds it, uncompressed: a header, and for each cubin a header and the cubin."""
    entries = b""
    for cubin in cubins:
        capability = int(read_cubin(cubin).architecture.removeprefix("sm_"))
        content = cubin + b"\0" * (-len(cubin) % 8)
        entries += struct.pack("<HHIQ8xHHI8xQ16x", 2, 0x101, 64, len(content), 0, 1, capability, 0x11) + content
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def _read_or_refuse(data):
    try:
        read_cubin(data)
    except MachineCodeError as error:
        assert "\n" not in str(error)


@given(st.floats(0, 1, exclude_max=True))
def test_a_truncated_cubin_is_refused(share):
    data = cubin_of(RESOURCES, "sm_90")
    with pytest.raises(MachineCodeError):
        read_cubin(data[: int(share * len(data))])


def _elf(sections, content):
    """A cubin of these section headers (name, type, offset, size, link) and other content, in this order."""
    counts = (64, 0, 0, 64, len(sections), 0)
    header = struct.pack("<4s5B7x2HI3QI6H", b"\x7fELF", 2, 1, 1, 51, 7, 2, 190, 1, 0, 0, 64, 90, *counts)
    rows = (struct.pack("<2I4Q2I2Q", name, kind, 0, 0, *place, link, 0, 0, 24) for name, kind, *place, link in sections)
    return b"".join([header, *rows, content])


def test_sections_that_share_bytes_are_not_copied():
    size = 64 * 60_000
    with pytest.raises(MachineCodeError, match="sections"):  # 60,000 sections, each of the whole table: 230 GB
        read_cubin(_elf([(0, 3, 64, size, 0)] * 60_000, b"\0"))


def test_names_that_share_bytes_are_not_copied():
    content = b"x" * 4_000_000 + b"\0"
    place = 64 + 64 * 60_000
    names = [(0, 3, place, len(content), 0)] + [(0, 1, 0, 0, 0)] * 59_999  # each has the 4 MB as its name
    with pytest.raises(MachineCodeError, match="names"):
        read_cubin(_elf(names, content))


def test_two_kernels_in_one_section_are_refused():
    cubin = bytearray(cubin_of(RESOURCES, "sm_90"))
    functions = [s for s in read_elf(bytes(cubin)).symbols if s.is_kernel]
    first, second = (cubin.rfind(struct.pack("<H2Q", s.section, s.value, s.size)) for s in functions[:2])
    cubin[second : second + 2] = cubin[first : first + 2]
    with pytest.raises(MachineCodeError, match="two kernels"):
        read_cubin(bytes(cubin))


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x7fELF"]))
def test_arbitrary_bytes_are_refused(data, start):
    with pytest.raises(MachineCodeError):
        read_cubin(start + data)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_damaged_cubin_is_read_or_refused(changes):
    """Bytes change in the header, in the tables at the end, and in between."""
    data = bytearray(cubin_of(RESOURCES, "sm_80"))
    for place, value in changes:
        data[(place % 64) if place % 3 == 0 else (-place % len(data) if place % 3 == 1 else place % len(data))] = value
    _read_or_refuse(bytes(data))


def test_a_name_that_would_grow_without_bounds_stays_mangled():
    doubled = "".join(f"1{'abcdefghijklmnopqrstuvwxyz'[n]}IS{n or ''}_S{n or ''}_E" for n in range(15))
    name = f"_Z1kI{doubled}Evv"
    assert len(declaration(name)) <= MAX_DEMANGLED


def test_targets_of_branches_are_read_in_one_pass():
    """Zero targets each, as many as an attribute has room for."""
    assert _indirect_targets([(0x34, (0,) * 65_535)] * 400) == {0: ()}
    assert _indirect_targets([(0x34, (16, 0, 2, 32, 48, 64, 0, 1, 80))]) == {16: (32, 48), 64: (80,)}
