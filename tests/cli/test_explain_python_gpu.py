"""``gd.explain`` of kernels and arrays of Triton, CuPy, Numba, cuda.core and torch on a real GPU."""

import numpy as np
import pytest

import gpudissect as gd
from gpudissect.explanation.profile import read_profile
from tests.cli.test_explain import H100, H200

pytestmark = pytest.mark.gpu
ELEMENTS = 1 << 22
SOURCE = """
template <class T> __global__ void scale(T* out, const T* in, T f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = f * in[i];
}
extern "C" __global__ void add(float* out, const float* x, const float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
"""


@pytest.fixture(scope="module")
def machine():
    """A result of the first GPU's model."""
    from gpudissect.device.cuda.driver import gpu_limits

    name = gpu_limits(0).name
    found = next((path for path in (H200, H100) if path.exists() and gd.load(path).device.name == name), None)
    return found or pytest.skip(f"no result of {name}")


@pytest.fixture
def checked(machine, tmp_path):
    """Explains a kernel, and checks that it ran and that instrumented copies computed the same."""

    def check(kernel, /, **options):
        found = gd.explain(kernel, machine=machine, profile=tmp_path / "p.json", **options)
        profile = read_profile(tmp_path / "p.json")
        results = profile.results
        assert (results.varying, results.different_counted, results.different_traced) == ((), (), ())
        assert profile.counts and profile.warps and found.point.measured and found.point.error is not None
        return found, profile

    return check


def test_triton(checked):
    torch, triton = pytest.importorskip("torch"), pytest.importorskip("triton")
    from tests.support import triton_kernels

    x, y = (torch.rand(ELEMENTS, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    kernel = triton_kernels.add[(ELEMENTS // 1024,)](x, y, out, ELEMENTS, BLOCK=1024)
    found, _ = checked(kernel, grid=ELEMENTS // 1024, args=[x, y, out, ELEMENTS])
    assert found.block == (128, 1, 1) and any(line.source_line for line in found.lines)
    half = [each.to(torch.bfloat16) for each in (x, y, out)]
    kernel = triton_kernels.add.warmup(*half, ELEMENTS, BLOCK=1024, grid=(1,))
    _, profile = checked(kernel, grid=(ELEMENTS // 1024,), args=[*half, ELEMENTS, 1024])
    assert profile.allocations[0].bytes == 2 * ELEMENTS
    rows = torch.rand((4096, 1000), device="cuda")
    kernel = triton_kernels.softmax[(512,)](torch.empty_like(rows), rows, 1000, 4096, 1000, BLOCK=1024)
    found, _ = checked(kernel, grid=512, args=[torch.empty_like(rows), rows, 1000, 4096, 1000])
    assert found.shared_bytes == kernel.metadata.shared and triton.__version__


def test_cupy(checked):
    cupy = pytest.importorskip("cupy")
    x, y = (cupy.random.rand(ELEMENTS, dtype=cupy.float32) for _ in range(2))
    add = cupy.RawKernel(SOURCE, "add", options=("-DN=1",))
    checked(add, grid=ELEMENTS // 256, block=256, args=[cupy.empty_like(x), x, y, ELEMENTS])
    module = cupy.RawModule(code=SOURCE, name_expressions=["scale<double>"])
    scale = module.get_function("scale<double>")
    arguments = [cupy.empty(ELEMENTS), cupy.ones(ELEMENTS), 2.0, np.int32(ELEMENTS)]
    _, profile = checked(scale, grid=ELEMENTS // 256, block=256, args=arguments)
    assert profile.allocations[0].bytes == 8 * ELEMENTS


def test_numba(checked, monkeypatch):
    if not hasattr(np, "row_stack"):  # which numba-cuda 0.x still needs, and NumPy 2.5 has no more
        monkeypatch.setattr(np, "row_stack", np.vstack, raising=False)
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit
    def scale(out, x, factor):
        i, j = cuda.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            out[i, j] = factor * x[i, j]

    x = cuda.to_device(np.random.rand(2048, 1024).astype(np.float32))
    out = cuda.device_array_like(x)
    configured = scale[(128, 64), (16, 16)]
    configured(out, x, 2.0)
    found, profile = checked(configured, grid=(128, 64), args=[out, x, 2])
    assert found.block == (16, 16, 1)
    same, _ = checked(scale, grid=(128, 64), block=(16, 16), args=[out, x, 2.0])
    assert same.registers == found.registers
    counted = profile.block_counts()
    assert max(count.threads for count in counted.values()) == 2048 * 1024


def test_cuda_core(checked):
    core = pytest.importorskip("cuda.core")
    program = core.Program(SOURCE, "c++", core.ProgramOptions(std="c++17", arch="compute_90"))
    code = program.compile("ptx", name_expressions=("scale<float>",))
    out, x = np.zeros(ELEMENTS, np.float32), np.ones(ELEMENTS, np.float32)
    arguments = [out, x, 2.0, ELEMENTS]
    found, _ = checked(code, kernel="scale<float>", grid=ELEMENTS // 256, block=256, args=arguments)
    assert found.kernel == "scale"
