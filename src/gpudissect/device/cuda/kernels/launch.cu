// Kernels for what starting one costs: one that does nothing, one that notes when it began, and one that keeps the GPU
// busy while others are queued behind it.
#include "now.cuh"

extern "C" __global__ void nothing() {}

extern "C" __global__ void mark(u64* at) {
    const u64 now = timer_ns();
    if (threadIdx.x == 0) *at = now;
}

extern "C" __global__ void hold(u64 ns) {
    const u64 begin = timer_ns();
    while (timer_ns() - begin < ns) {
    }
}
