"""Kernels and arrays of Python packages, which objects with the same names and attributes stand for."""

from __future__ import annotations

import sys
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.errors import UsageError
from gpudissect.explanation import values as values_of_arguments
from gpudissect.explanation.parameters import check_parameters, parameters_of
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.python_kernels import python_kernel
from gpudissect.explanation.values import arguments_of

TRITON_PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry add(.param .u64 .ptr .global .align 1 p0, .param .f32 p1, .param .u32 p2,
  .param .u64 .ptr .global .align 1 p3, .param .u64 .ptr .global .align 1 p4)
.reqntid 256
{
  ret;
}
"""
NUMBA_PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry nb(.param .b64 a0, .param .b64 a1, .param .b64 a2, .param .b64 a3, .param .b64 a4, .param .b64 a5,
  .param .b64 a6, .param .b64 a7, .param .b64 a8, .param .b64 s)
{
  ret;
}
"""


def instance(package, kind, /, **attributes):
    """An object of a type of a package."""
    return type(kind, (), {"__module__": package, **attributes})()


def compiled(**changes):
    """A compiled kernel of Triton: add(x, scale, n, BLOCK)."""
    known = {"name": "add", "num_warps": 4, "shared": 512, "num_ctas": 1}
    known |= {"profile_scratch_size": 0} | {
        name: value for name, value in changes.items() if name not in ("asm", "src")
    }
    signature = changes.get("src") or {"x": "*fp32", "scale": "fp32", "n": "i32", "BLOCK": "constexpr"}
    return instance(
        "triton.compiler.compiler",
        "CompiledKernel",
        asm=changes.get("asm", {"ptx": TRITON_PTX, "cubin": b""}),
        metadata=namedtuple("KernelMetadata", known)(**known),
        src=SimpleNamespace(signature=signature),
    )


def passed(kernel, text, given, grid=7):
    """The arguments of the kernel in the PTX, checked with its parameters."""
    module = parse_ptx(text)
    parameters = parameters_of(module, module.function(kernel.name))
    found = arguments_of(kernel.values(given, grid), parameters)
    check_parameters(found, parameters)
    return [argument.spec for argument in found]


def test_triton(tmp_path):
    found = python_kernel(compiled(), None)
    assert (found.name, found.block, found.shared_bytes, found.ending) == ("add", (256, 1, 1), 512, ".ptx")
    assert found.write(tmp_path).name == "add.ptx" and (tmp_path / "add.ptx").read_text() == TRITON_PTX
    x = np.zeros(64, np.float32)
    expected = ["p1:f32[64]=content", "p2:f32=2.0", "p3:i32=64", "scratch1:u64=0", "scratch2:u64=0"]
    assert passed(found, TRITON_PTX, [x, 2, 64]) == passed(found, TRITON_PTX, [x, 2.0, 64, 1024]) == expected
    with pytest.raises(UsageError, match="2 arguments for a kernel with 5"):
        passed(found, TRITON_PTX, [x, 2])
    scratch = python_kernel(compiled(global_scratch_size=128), None)
    assert passed(scratch, TRITON_PTX, [x, 2, 64], (5, 2))[3:] == ["scratch1:u8[1280]=zeros", "scratch2:u64=0"]
    without = TRITON_PTX.replace(".reqntid 256\n", "")
    assert python_kernel(compiled(asm={"ptx": without}), None).block == (128,)


def test_cupy(tmp_path, monkeypatch):
    options = {"code": "source", "options": ("-DN=1",), "file_path": None, "enable_cooperative_groups": False}
    found = python_kernel(instance("cupy._core.raw", "RawKernel", name="plain", **options), None)
    assert (found.name, found.ending, found.options, found.block) == ("plain", ".cu", ("-DN=1",), None)
    found = python_kernel(instance("cupy._core.raw", "RawKernel", name="_Z5scaleIfEvPT_PKS0_", **options), None)
    assert found.name == "scale<float>"
    headers = tmp_path / "cupy" / "_core" / "include"
    headers.mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__file__=str(tmp_path / "cupy" / "__init__.py")))
    found = python_kernel(instance("cupy._core.raw", "RawKernel", name="plain", **options), None)
    assert found.options == ("-DN=1", f"-I{headers}")


def test_cupy_kernel_of_a_file(tmp_path):
    (tmp_path / "m.ptx").write_text(TRITON_PTX)
    file = str(tmp_path / "m.ptx")
    kernel = instance("cupy._core.raw", "RawKernel", name="add", code=None, file_path=file, options=())
    found = python_kernel(kernel, None)
    assert (found.name, found.ending, found.code) == ("add", ".ptx", TRITON_PTX.encode())
    kernel = instance("cupy._core.raw", "RawKernel", name="add", code=None, file_path="missing.ptx", options=())
    with pytest.raises(UsageError, match=r"missing\.ptx"):
        python_kernel(kernel, None)


def test_object_code():
    cuda_core = pytest.importorskip("cuda.core")
    code = cuda_core.ObjectCode.from_ptx(TRITON_PTX.encode() + b"\0", symbol_mapping={"add<1>": b"add"})
    for name in (None, "add<1>", "add"):
        found = python_kernel(code, name)
        assert (found.name, found.ending, found.code) == ("add", ".ptx", TRITON_PTX.encode())
    found = python_kernel(cuda_core.ObjectCode.from_cubin(b"ELF\0\0"), "k")
    assert (found.ending, found.code) == (".cubin", b"ELF\0\0")
    with pytest.raises(UsageError, match="ltoir"):
        python_kernel(cuda_core.ObjectCode.from_ltoir(b"x"), None)


def numba_kernel(*signatures, ptx=NUMBA_PTX, **attributes):
    overloads = {signature: SimpleNamespace(entry_name="nb", cooperative=False) for signature in signatures}
    return instance(
        "numba.cuda.dispatcher",
        "CUDADispatcher",
        overloads=overloads,
        inspect_asm=lambda self, signature: f"{ptx}// {signature}",
        **{"extensions": [], **attributes},
    )


MATRIX, VECTOR = ("array(float32, 2d, C)", "float64"), ("array(float32, 1d, C)", "int64")


def test_numba_passes_several_parameters_for_an_array():
    found = python_kernel(numba_kernel(MATRIX), None)
    assert (found.name, found.block) == ("nb", None)
    specs = passed(found, NUMBA_PTX, [np.zeros((6, 4), np.float32), 3])
    numbers = [spec.partition("=")[2] for spec in specs]
    assert numbers == ["0", "0", "24", "4", "content", "6", "4", "16", "4", "3.0"]
    assert specs[4] == "p5:f32[24]=content" and specs[9].startswith("p10:f64")


def test_numba_versions_and_configured_kernels():
    both, vector = numba_kernel(MATRIX, VECTOR), np.zeros(6, np.float32)
    assert str(VECTOR).encode() in python_kernel(both, None, [vector, 3]).code
    assert str(MATRIX).encode() in python_kernel(both, None, [vector.reshape(2, 3), 3]).code
    with pytest.raises(UsageError, match="has 2 versions"):
        python_kernel(both, None, [3, 3])
    configured = instance(
        "numba.cuda.dispatcher", "_LaunchConfiguration", dispatcher=both, blockdim=(32, 4, 1), sharedmem=64
    )
    found = python_kernel(configured, None, [vector, 3])
    assert (found.block, found.shared_bytes) == ((32, 4, 1), 64)


@pytest.mark.parametrize(
    ("kernel", "fact"),
    [
        (object(), "not a kernel: object"),
        (instance("triton.runtime.jit", "JITFunction"), "warmup"),
        (instance("cuda.core._module", "Kernel"), "ObjectCode"),
        (instance("cupy._core.raw", "RawModule"), "get_function"),
        (compiled(asm={"amdgcn": ""}), "no PTX"),
        (compiled(num_ctas=2), "clusters"),
        (compiled(launch_cooperative_grid=True), "cooperatively"),
        (compiled(src={"x": "tensordesc<fp32[64]>"}), "tensor descriptor"),
        (instance("cupy._core.raw", "RawKernel", name="k", jitify=True), "jitify"),
        (numba_kernel(), "not compiled yet"),
        (numba_kernel(VECTOR, extensions=[1]), "extensions"),
        (numba_kernel(VECTOR, ptx=NUMBA_PTX + NUMBA_PTX), "several modules"),
    ],
)
def test_what_cannot_be_run_from_its_code_is_refused(kernel, fact):
    with pytest.raises(UsageError, match=fact):
        python_kernel(kernel, None)


def test_numba_arguments_that_cannot_be_passed_are_refused():
    found = python_kernel(numba_kernel(VECTOR), None)
    vector = np.zeros(4, np.float32)
    for given, fact in ((["x:f32[4]", 1], "not a text"), ([3, 1], "is a int"), ([vector, (1, 2)], "argument 2")):
        with pytest.raises(UsageError, match=fact):
            found.values(given, 1)


class Tensor:
    """A tensor of torch, on a GPU."""

    def __init__(self, data, *, is_readable=True, is_contiguous=True):
        self.data, self.is_readable, self._is_contiguous = data, is_readable, is_contiguous
        self.nbytes = data.nbytes

    def __dlpack__(self):
        raise BufferError("on a GPU")

    def is_contiguous(self):
        return self._is_contiguous

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        if not self.is_readable:
            raise TypeError("unsupported ScalarType BFloat16")
        return self.data

    def reshape(self, size):
        return self

    def view(self, kind):
        return SimpleNamespace(numpy=lambda: self.data.view(kind))


class OnGpu:
    """An array of CuPy."""

    def __init__(self, data, strides=None):
        self.data, self.nbytes = data, data.nbytes
        self.__dict__["interface"] = {"shape": data.shape, "typestr": data.dtype.str, "strides": strides}

    __cuda_array_interface__ = property(lambda self: self.interface)

    def get(self):
        return self.data


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (Tensor(np.arange(6, dtype=np.int64)), "p1:i64[6]=content"),
        (OnGpu(np.ones((2, 3), np.float16)), "p1:f16[6]=content"),
        (OnGpu(np.ones((2, 3), np.float16), (6, 2)), "p1:f16[6]=content"),
        (np.ones(3, bool), "p1:u8[3]=content"),
        (np.ones(3, np.complex64), "p1:u8[24]=content"),
        (np.ones(3, ">f4"), "p1:f32[3]=content"),
    ],
)
def test_arrays_are_copied_from_the_gpu(value, spec):
    (found,) = arguments_of([value], [])
    original = value if isinstance(value, np.ndarray) else value.data
    assert found.spec == spec
    assert found.content.tobytes() == original.astype(original.dtype.newbyteorder("=")).tobytes()


def test_types_that_numpy_lacks_are_passed_as_bytes(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(uint8=np.uint8))
    (found,) = arguments_of([Tensor(np.arange(4, dtype=np.uint16), is_readable=False)], [])
    assert found.spec == "p1:u8[8]=content"


@pytest.mark.parametrize(
    ("value", "fact"),
    [
        (Tensor(np.zeros(4), is_contiguous=False), "strides"),
        (OnGpu(np.zeros((4, 4)), (8, 32)), "strides"),
        (np.zeros((4, 4)).T, "strides"),
        (np.zeros(8)[::2], "strides"),
        (np.zeros(0), "0 elements"),
        (np.array([None]), "object"),
        (instance("x", "Lost", __dlpack__=None), "a Lost that cannot be copied: TypeError"),
    ],
)
def test_arrays_that_cannot_be_passed_are_refused(value, fact):
    with pytest.raises(UsageError, match=fact):
        arguments_of([value], [])


def test_large_arrays_are_refused_before_they_are_copied(monkeypatch):
    monkeypatch.setattr(values_of_arguments, "MAX_COPIED_BYTES", 100)
    value = OnGpu(np.zeros(16))
    monkeypatch.setattr(OnGpu, "get", lambda self: pytest.fail("it was copied"))
    with pytest.raises(UsageError, match="128 B, of which at most 100 B"):
        arguments_of([value], [])
