"""``explain --grid --block`` on a real GPU: kernels of several kinds of files, and kernels that fail."""

from pathlib import Path

import pytest

from gpudissect.explanation.profile import read_profile
from gpudissect.results.files import load
from tests.cli.test_explain import H100, H200
from tests.support.ptx import ptx_of

pytestmark = pytest.mark.gpu
ELEMENTS = 1 << 22
SOURCE = r"""
template <class T> __global__ void scale(T* out, const T* in, T f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = f * in[i];
}
template __global__ void scale<float>(float*, const float*, float, int);
template __global__ void scale<double>(double*, const double*, double, int);
namespace ns {
struct Box { float low[3], high[3]; };
__global__ void tile(float* out, const float* in, Box box, short a, double b, int nx, int ny, int nz, char c, long d) {
    extern __shared__ float buffer[];
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z, t = threadIdx.y * blockDim.x + threadIdx.x, i = (z * ny + y) * nx + x;
    buffer[t * 64] = in[i];
    __syncthreads();
    out[i] = x < nx && z < nz ? buffer[(t ^ 1) * 64] * box.high[1] + a + float(b) + c + d : 0;
}
}
extern "C" __global__ void crash(float* out) { out[(1ull << 44) + threadIdx.x] = 1; }
extern "C" __global__ void endless(volatile float* out) { while (out[0] >= 0) ; }
"""
ARGUMENTS = (f"out:f32[{ELEMENTS}]", f"in:f32[{ELEMENTS}]=random", "f:f32=2", f"n:i32={ELEMENTS}")
BOX = ("box:f32x6=1:2:3:4:5:6", "a:i16=1", "b:f64=0.5", "nx:i32=256", "ny:i32=128", "nz:i32=128", "c:i8=1", "d:i64=1")


@pytest.fixture(scope="module")
def machine():
    """A result of the first GPU's model."""
    from gpudissect.device.cuda.driver import gpu_limits

    name = gpu_limits(0).name
    found = next((path for path in (H200, H100) if path.exists() and load(path).device.name == name), None)
    return found or pytest.skip(f"no result of {name}")


@pytest.fixture
def explain(gpudissect, machine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(SOURCE)

    def run(file, kernel, arguments=(), grid="16384", block="256", *more):
        given = [word for argument in arguments for word in ("--arg", argument)]
        words = ["explain", file, "--grid", grid, "--block", block, *given, "--machine", machine, *more]
        return gpudissect(*words, *(["--kernel", kernel] if kernel else []))

    return run


@pytest.mark.parametrize("file", ["k.cu", "k.ptx"])
def test_source_and_ptx(explain, file):
    Path("k.ptx").write_text(ptx_of(SOURCE, "compute_90", "-lineinfo"))
    code, out, err = explain(file, "scale<float>", ARGUMENTS, "16384", "256", "--profile", "p.json")
    assert code == 0 and "error" in out and "measured" in out, err
    profile = read_profile(Path("p.json"))
    assert profile.counts and profile.warps and len(profile.sweep) > 4 and profile.lines is not None
    assert not profile.notes


def test_ten_arguments_three_dimensions_and_much_shared_memory(explain):
    arguments = (*ARGUMENTS[:2], *BOX)
    code, out, err = explain(
        "k.cu", "ns::tile", arguments, "8,16,128", "32,8", "--shared", "64KiB", "--profile", "p.json"
    )
    assert code == 0 and "Predicted time" in out, err
    profile = read_profile(Path("p.json"))
    assert profile.launch.blocks == 8 * 16 * 128 and profile.launch.shared_bytes == 65536
    assert (profile.results.different_counted, profile.results.different_traced) == ((), ())


@pytest.mark.parametrize(
    ("kernel", "facts"),
    [
        ("crash", ("CUDA_ERROR_", "GPU context is lost", "nothing was measured")),
        ("endless", ("did not end within 2 s", "--limit", "nothing was measured")),
    ],
)
def test_a_kernel_that_fails_costs_one_line(explain, kernel, facts):
    code, out, err = explain("k.cu", kernel, ["out:f32[64]"], "1", "32", "--limit", "2", "--profile", "p.json")
    assert (code, out, err.count("\n")) == (3, "", 1) and all(fact in err for fact in facts), err
    assert not Path("p.json").exists()
