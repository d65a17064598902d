// Kernels that measure launches: an empty one, one that stores the time when it begins, and one that keeps the GPU busy
// while others are queued.
#include "clocks.cuh"

extern "C" __global__ void empty() {}

extern "C" __global__ void mark(u64* time) {
    const u64 now = timer_ns();
    if (threadIdx.x == 0) *time = now;
}

extern "C" __global__ void hold(u64 ns) {
    const u64 begin = timer_ns();
    while (timer_ns() - begin < ns) {
    }
}
