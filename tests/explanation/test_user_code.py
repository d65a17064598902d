"""Device code in files of users: which kernel, its PTX, and whether machine code was assembled from it."""

import shutil
import sys
from contextlib import nullcontext

import pytest

from gpudissect import child_processes
from gpudissect.device.cuda.compile import first_errors
from gpudissect.errors import DeviceError, KernelFailed, MachineCodeError, PtxError, UsageError
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.source import lines_of_ptx
from gpudissect.explanation.user_code import assemble, errors_in_source, read_text, read_user_code
from gpudissect.machine_code import device_code
from gpudissect.machine_code.device_code import read_device_code, read_embedded_ptx
from gpudissect.machine_code.tools import run_tool
from tests.support.ptx import ptx_of

SOURCE = r"""
template <class T> __global__ void scale(T* out, T f) { out[threadIdx.x] *= f; }
template __global__ void scale<float>(float*, float);
template __global__ void scale<double>(double*, double);
"""
FLOAT, DOUBLE = "_Z5scaleIfEvPT_S0_", "_Z5scaleIdEvPT_S0_"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("code")
    (folder / "k.cu").write_text(SOURCE)
    for capability in ("80", "90"):
        ptx = ptx_of(SOURCE, f"compute_{capability}")
        (folder / f"k{capability}.ptx").write_text(ptx)
        (folder / f"k{capability}.cubin").write_bytes(assemble(ptx, f"sm_{capability}").data)
    images = {"ptx": "kind=ptx,sm={0},file=k{0}.ptx", "elf": "kind=elf,sm={0},file=k{0}.cubin"}
    contents = {
        "both": ("elf90", "ptx90", "ptx80"),
        "old": ("ptx80", "elf80"),
        "new": ("ptx90", "elf90"),
        "machine": ("elf90", "elf80"),
    }
    for name, parts in contents.items():
        chosen = [f"--image3={images[part[:3]].format(part[3:])}" for part in parts]
        run_tool("fatbinary", [f"--create={name}.fatbin", "-64", *chosen], folder)
    whole = (folder / "both.fatbin").read_bytes()
    (folder / "truncated.fatbin").write_bytes(whole[: len(whole) // 2])
    (folder / "truncated.cubin").write_bytes((folder / "k90.cubin").read_bytes()[:2000])
    return folder


@pytest.mark.parametrize("file", ["k.cu", "k90.ptx", "both.fatbin"])
@pytest.mark.parametrize(("name", "kernel"), [("scale<float>", FLOAT), (DOUBLE, DOUBLE)])
def test_a_kernel_is_found_in_source_ptx_and_machine_code(files, file, name, kernel):
    code = read_user_code(files / file, name, "sm_90")
    assert (code.kernel, code.module.target) == (kernel, "sm_90")
    assert (code.machine_code is not None) == (file == "both.fatbin") and code.tools["ptxas"]
    with pytest.raises(MachineCodeError, match="2 kernels"):
        read_user_code(files / file, None, "sm_90")


def test_the_newest_ptx_that_the_gpu_can_run_is_taken(files):
    assert read_user_code(files / "both.fatbin", FLOAT, "sm_86").module.target == "sm_80"
    assert read_user_code(files / "old.fatbin", FLOAT, "sm_90").module.target == "sm_80"
    assert len(read_embedded_ptx(files / "both.fatbin", "sm_100")) == 1
    assert read_embedded_ptx(files / "both.fatbin", "sm_75") == ()


@pytest.mark.parametrize(
    ("file", "architecture", "facts"),
    [
        ("machine.fatbin", "sm_90", ("no PTX of scale<float>", "arch=compute_90,code=[sm_90,compute_90]", "--profile")),
        ("k90.cubin", "sm_90", ("no PTX", "-gencode")),
        ("k90.cubin", "sm_100", ("no machine code for sm_100", "found: sm_90")),
        ("new.fatbin", "sm_80", ("no machine code for sm_80", "found: sm_90")),
        ("truncated.cubin", "sm_90", ("truncated cubin",)),
        ("truncated.fatbin", "sm_90", ("fatbin",)),
        ("missing.so", "sm_90", ("missing.so", "No such file")),
    ],
)
def test_what_is_missing_is_named_in_one_line(files, file, architecture, facts):
    with pytest.raises(UsageError) as error:
        read_user_code(files / file, "scale<float>", architecture)
    assert all(fact in str(error.value) for fact in facts), error.value


def test_a_template_without_an_instance_is_no_kernel(tmp_path):
    path = tmp_path / "t.cu"
    path.write_text(SOURCE.partition("template __global__")[0])
    with pytest.raises(MachineCodeError, match="--kernel 'NAME<ARGUMENTS>'"):
        read_user_code(path, None, "sm_90")
    assert read_user_code(path, "scale<unsigned char>", "sm_90").kernel == "_Z5scaleIhEvPT_S0_"


def test_without_nvrtc_and_nvcc_both_ways_to_a_compiler_are_named(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setattr("gpudissect.explanation.user_code.run_tool", failing)
    with pytest.raises(KernelFailed, match=r"no compiler of the host.*\.\[cuda13\]"):
        read_user_code(files / "k.cu", FLOAT, "sm_90")
    monkeypatch.setattr("gpudissect.explanation.user_code.find_tool", failing)
    with pytest.raises(DeviceError, match=r"\.\[cuda13\]"):
        read_user_code(files / "k.cu", FLOAT, "sm_90")


def failing(*_):
    raise MachineCodeError("no compiler of the host")


@pytest.mark.skipif(shutil.which("g++") is None, reason="nvcc needs a compiler of the host")
def test_without_nvrtc_a_source_is_compiled_by_nvcc(tmp_path, monkeypatch):
    (tmp_path / "k.cu").write_text('extern "C" __global__ void one(float* x) { x[0] = 1; }')
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert set(read_user_code(tmp_path / "k.cu", None, "sm_90").tools) == {"nvcc", "ptxas"}


def test_headers_of_cccl_are_named_by_their_package():
    error = 'info.h(50): catastrophic error: cannot open source file "{}"'
    assert "nvidia-cuda-cccl" in first_errors(error.format("nv/target"))
    assert "-IDIR" in first_errors(error.format("cstdio"))


@pytest.mark.skipif(shutil.which("g++") is None, reason="nvcc needs a compiler of the host")
def test_a_source_with_headers_of_the_host_is_compiled_by_nvcc(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(f"#include <cstdio>\n{SOURCE}int main() {{ printf(VALUE); }}\n")
    code = read_user_code(path, "scale<float>", "sm_90", ['-DVALUE="x"'])
    assert code.kernel == FLOAT and set(code.tools) == {"nvcc", "ptxas"}
    assert set(lines_of_ptx(code.module).values()) == {("program.cu", 3)}
    path.write_text("#include <cstdio>\n__global__ void k() { wrong; }\n")
    with pytest.raises(KernelFailed, match=r"^nvcc cannot compile the source: program.cu.*wrong.*nvcc was used"):
        read_user_code(path, None, "sm_90")


@pytest.mark.parametrize(
    ("body", "target"),
    [
        ("wgmma.fence.sync.aligned;", "sm_90a"),
        ("setmaxnreg.dec.sync.aligned.u32 40;", "sm_90a"),
        ("membar.gl;", "sm_90"),
    ],
)
def test_a_source_with_instructions_of_hopper_alone_is_compiled_for_it(tmp_path, body, target):
    (tmp_path / "body.h").write_text(f'#define BODY asm volatile("{body}")\n')
    (tmp_path / "k.cu").write_text('#include "body.h"\nextern "C" __global__ void k() { BODY; }\n')
    module = read_user_code(tmp_path / "k.cu", None, "sm_90").module
    assert module.target == target
    assert assemble(module.text, "sm_90").kernels


@pytest.mark.parametrize(
    ("limit", "value", "facts"),
    [
        ("TIME_LIMIT_S", 1, ("compiling k.cu took more than 1 s",)),
        ("MEMORY_LIMIT_BYTES", 1 << 29, ("the compiler failed on k.cu", "memory")),
    ],
)
def test_a_source_may_not_take_any_time_or_memory(tmp_path, monkeypatch, limit, value, facts):
    endless = "".join(f"#define a{i} a{i - 1} a{i - 1}\n" for i in range(1, 30)) + "__global__ void k(int x) { a29 }"
    large = '__device__ int big[300000000] = {1}; extern "C" __global__ void k(int* x) { *x = big[*x]; }'
    (tmp_path / "k.cu").write_text(f"#define a0 x+=1;\n{endless}" if limit == "TIME_LIMIT_S" else large)
    monkeypatch.setattr(child_processes, limit, value)
    with pytest.raises(KernelFailed) as error:
        read_user_code(tmp_path / "k.cu", None, "sm_90")
    assert all(fact in str(error.value) for fact in facts), error.value


def test_only_a_missing_header_is_left_to_nvcc(tmp_path, monkeypatch):
    monkeypatch.setattr("gpudissect.explanation.user_code.run_tool", failing)
    path = tmp_path / "k.cu"
    for name, is_missing in (("/dev/zero", False), (str(tmp_path), False), ("nope.h", True)):
        path.write_text(f'#include "{name}"\n')
        with pytest.raises(KernelFailed) as error:
            read_user_code(path, None, "sm_90")
        assert ("nvcc was used" in str(error.value)) == is_missing


def test_a_byte_order_mark_is_no_part_of_a_source(tmp_path):
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(int* x) { *x = 1; }', encoding="utf-8-sig")
    assert read_text(tmp_path / "k.cu").startswith("extern")
    assert read_user_code(tmp_path / "k.cu", "k", "sm_90").kernel == "k"


HEADER = ".version 8.0\n.target {}\n.address_size 64\n"
KERNEL = ".visible .entry k(.param .u64 p) {\n.reg .b32 %r<3>;\nmov.u32 %r1, 7;\nfoo.u32 %r1, %r2;\nret;\n}\n"


@pytest.mark.parametrize("edit", [lambda module: module.text, with_source_lines])
def test_an_error_of_ptxas_names_file_and_line_of_the_user(tmp_path, edit):
    path = tmp_path / "mine.ptx"
    path.write_text(HEADER.format("sm_90") + KERNEL)
    code = read_user_code(path, None, "sm_90")
    with pytest.raises(PtxError, match=rf"^{path}, line 7: .*'foo'$"), errors_in_source(code, "sm_90"):
        assemble(edit(code.module), "sm_90", kernel="k")


@pytest.mark.parametrize(
    ("target", "is_usable"),
    [("sm_80", True), ("sm_90a", True), ("sm_80a", False), ("sm_100", False), ("sm_100f", False)],
)
def test_ptx_for_another_gpu_is_refused_before_ptxas(tmp_path, target, is_usable):
    path = tmp_path / "k.ptx"
    path.write_text(HEADER.format(target) + KERNEL)
    with nullcontext() if is_usable else pytest.raises(UsageError, match=f"PTX for {target} does not run on sm_90"):
        read_user_code(path, None, "sm_90")


def test_ptx_of_a_newer_compiler_is_assembled_as_the_newest_that_is_known():
    text = HEADER.format("sm_90") + KERNEL.replace("foo.u32 %r1, %r2;\n", "")
    assert assemble(text.replace("8.0", "99.9"), "sm_90").kernels[0].name == "k"


@pytest.mark.parametrize(("machine", "sections"), [(0, 3), (62, 0)])
def test_an_empty_elf_file_is_refused_before_a_tool_reads_it(tmp_path, monkeypatch, machine, sections):
    monkeypatch.setattr("gpudissect.machine_code.device_code.run_tool", failing)
    header = bytearray(64)
    header[:6], header[18:20], header[60:62] = b"\x7fELF\2\1", machine.to_bytes(2, "little"), bytes([sections, 0])
    (tmp_path / "x.so").write_bytes(header)
    with pytest.raises(MachineCodeError, match=r"no device code in 'x\.so'"):
        read_device_code(tmp_path / "x.so")


def test_a_tool_without_a_message_is_named_with_its_exit_code(tmp_path, monkeypatch):
    monkeypatch.setattr("gpudissect.machine_code.tools.find_tool", lambda name: "false")
    with pytest.raises(MachineCodeError, match=r"^nvcc failed \(exit code 1\)$"):
        run_tool("nvcc", [])


def test_device_code_that_is_too_large_uncompressed_is_not_read(files, monkeypatch):
    monkeypatch.setattr(device_code, "MAX_CUBIN_BYTES", 100)
    with pytest.raises(MachineCodeError, match="bytes of uncompressed device code; at most 100 are read"):
        read_device_code(files / "both.fatbin")
    with pytest.raises(MachineCodeError, match="bytes of uncompressed device code"):
        read_embedded_ptx(files / "both.fatbin", "sm_100")
