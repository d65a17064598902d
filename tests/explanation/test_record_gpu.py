"""On a real GPU: a kernel is recorded; one that crashes and one that never ends cost one line."""

import numpy as np
import pytest

from gpudissect.errors import KernelFailed
from gpudissect.explanation import jobs, record
from gpudissect.explanation.arguments import parse_arguments
from gpudissect.explanation.kernel_process import KernelProcess
from gpudissect.explanation.packing import ELSEWHERE
from gpudissect.explanation.profile import Launch
from gpudissect.explanation.ptx import parse_ptx
from tests.support.ptx import ptx_of

pytestmark = pytest.mark.gpu
ELEMENTS = 1 << 22
LAUNCH = Launch(grid=(ELEMENTS // 256, 1, 1), block=(256, 1, 1))
KERNELS = r"""
typedef unsigned u32;
#define KERNEL extern "C" __global__ void
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
KERNEL scale(float* out, const float* in, float factor, u32 n) { u32 i = THREAD; if (i < n) out[i] = factor * in[i]; }
KERNEL crash(float* out, const float* in, float factor, u32 n) { if (factor > 0) out[(1ull << 44) + THREAD] = in[0]; }
KERNEL endless(float* out, const float* in, float factor, u32 n) {
    while (*(const volatile float*)in >= 0) if (factor < 0) out[0] = factor;
}
"""
ARGUMENTS = (f"out:f32[{ELEMENTS}]", f"in:f32[{ELEMENTS}]=random", "factor:f32=2", f"n:u32={ELEMENTS}")


@pytest.fixture
def kernels():
    process = KernelProcess(0)
    yield process
    process.close()


def architecture():
    from cuda.bindings import driver

    driver.cuInit(0)
    names = driver.CUdevice_attribute
    parts = names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
    return "".join(str(driver.cuDeviceGetAttribute(part, 0)[1]) for part in parts)


def prepare(folder, kernel):
    folder.mkdir()
    capability = architecture()
    module = parse_ptx(ptx_of(KERNELS, f"compute_{capability}"))
    record.prepare(folder, module, kernel, LAUNCH, parse_arguments(ARGUMENTS), f"sm_{capability}")
    return folder


def test_a_kernel_is_recorded(kernels, tmp_path):
    folder = prepare(tmp_path / "scale", "scale")
    kernels.measure(folder, 120.0)
    profile = record.finish(folder, {})
    counts = list(profile.block_counts().values())
    assert counts[0].threads == ELEMENTS and counts[0].warps == ELEMENTS // 32
    assert (profile.results.different_counted, profile.results.different_traced, profile.notes) == ((), (), ())
    assert profile.results.is_repeatable and len(profile.sweep) > profile.blocks_per_sm > 0
    for point in profile.sweep:
        bandwidth = 8 * ELEMENTS / (1e-9 * point.ns)
        assert 1e9 < bandwidth < 3e13 and point.ns_low <= point.ns <= point.ns_high
    for warp in profile.warps:
        trace = warp.trace()
        start = 4 * (256 * warp.block + 32 * warp.warp)
        assert (trace.offsets == start + 4 * np.arange(32)).all() and ELSEWHERE not in trace.allocations
        assert sorted(trace.allocations[:, 0]) == [0, 1]
    assert len(profile.to_json()) < 300_000


def test_kernels_that_fail_cost_one_line_each(kernels, tmp_path):
    crash, endless, scale = (prepare(tmp_path / name, name) for name in ("crash", "endless", "scale"))
    jobs.write_job(endless, jobs.read_job(endless).model_copy(update={"limit_s": 1.0}))
    with pytest.raises(KernelFailed, match="CUDA_ERROR_"):
        kernels.measure(crash, 60.0)
    with pytest.raises(KernelFailed, match="1 s"):
        kernels.measure(endless, 60.0)
    kernels.measure(scale, 60.0)
