"""Kernels whose machine code the tests know by construction."""

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")

RESOURCES = """
struct Five { char bytes[5]; };
namespace space { template <class T> __global__ void scaled(T* data, T factor) { data[threadIdx.x] *= factor; } }
template __global__ void space::scaled<float>(float*, float);
extern "C" __global__ void __launch_bounds__(256) resources(Five five, double* out, short z, int4 quad) {
    __shared__ float buffer[96];
    volatile float local[100];
    for (int i = 0; i < 100; i++) local[(i * z) % 100] = i;
    buffer[threadIdx.x % 96] = local[z];
    __syncthreads();
    out[threadIdx.x] = buffer[5] + five.bytes[z] + quad.x;
    asm volatile("bar.sync 3, 64;");
}
"""
