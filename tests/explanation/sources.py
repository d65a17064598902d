"""Kernels on integers for the tests of PTX: each takes an output, an input and a number."""

KERNELS = r"""
typedef unsigned u32;
typedef unsigned long long u64;
#define KERNEL extern "C" __global__ void
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
__device__ __noinline__ u32 triangle_of(u32 x) { u32 s = 0; for (u32 k = 0; k < x; k++) s += k ^ x; return s; }
KERNEL grid_loop(u32* out, const u32* in, u32 n) {
    u32 sum = 0;
#pragma unroll 1
    for (u32 i = THREAD; i < n; i += gridDim.x * blockDim.x) sum += in[i % 64] * 3;
    out[THREAD] = sum;
}
KERNEL triangle(u32* out, const u32* in, u32 n) {
    u32 sum = 1;
#pragma unroll 1
    for (u32 k = 0; k < threadIdx.x % 7; k++) sum = sum * 5 + in[k];
    out[THREAD] = sum + n;
}
KERNEL window(u32* out, const u32* in, u32 n) {
    __shared__ u32 a[32][65];
    u32 column = threadIdx.x, first = threadIdx.y;
    a[first][column] = a[first + 16][column] = in[column];
    __syncthreads();
#pragma unroll 1
    for (u32 row = n % 7 + first; row < 32; row += blockDim.y)
        if (column > n % 5 && column <= row) a[row][column] -= a[row][n % 5] * column;
    __syncthreads();
    out[THREAD * 2 + first] = a[first][column];
}
KERNEL divergent(u32* out, const u32* in, u32 n) {
    u32 x = in[THREAD % 64];
    if (x % 3 == 0) { out[THREAD] = x / 3; __threadfence(); }
    else if (x % 3 == 1) { out[THREAD] = in[x % 64] + n; }
    else { x = x * x; out[THREAD] = in[(x >> 3) % 64] - x; }
}
KERNEL early_exit(u32* out, const u32* in, u32 n) {
    if (THREAD >= n) return;
    out[THREAD] = in[THREAD % 64];
    if (threadIdx.x % 2) return;
    out[THREAD] += 7;
}
KERNEL cases(u32* out, const u32* in, u32 n) {
    u32 x = in[THREAD % 64];
    switch (x % 9) {
        case 0: x += in[1]; break;
        case 1: x *= 3; break;
        case 2: out[THREAD + 256] = 1; x = x << 3; break;
        case 3: x = x * x + 2; break;
        case 4: x = ~x; break;
        case 5: x = x / 5; break;
        case 6: x = x * x * x; break;
    }
    out[THREAD] = x;
}
KERNEL reduction(u32* out, const u32* in, u32 n) {
    __shared__ u32 part[64];
    part[threadIdx.x] = in[THREAD % 64];
    __syncthreads();
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
KERNEL histogram(u32* out, const u32* in, u32 n) {
    __shared__ u32 bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[in[THREAD % 64] % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
KERNEL nest(u32* out, const u32* in, u32 n) {
    u32 sum = 0;
#pragma unroll 1
    for (u32 i = 0; i < 5; i++) {
        if (i == threadIdx.x % 4) continue;
#pragma unroll 1
        for (u32 k = 0; k < 6; k++) {
            if (k > threadIdx.x % 5 + i) break;
            sum += in[i * k];
        }
    }
    out[THREAD] = sum;
}
KERNEL calls(u32* out, const u32* in, u32 n) {
    u32 x = triangle_of(threadIdx.x % 5);
    if (x > 3) x += triangle_of(x % 4);
    out[THREAD] = x;
}
KERNEL assembly(u32* out, const u32* in, u32 n) {
    u32 x = in[threadIdx.x % 64], y = 5;
    asm volatile("{ .reg .pred p; .reg .u32 t; mov.u32 t, 0; setp.gt.u32 p, %0, 100;\n AGAIN: @p bra DONE;"
        " add.u32 %0, %0, 40; setp.gt.u32 p, %0, 100; bra AGAIN; /* } ; */ DONE: add.u32 %0, %0, t; }" : "+r"(x));
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %0, 110;\n @p bra DONE; add.u32 %0, %0, 1; DONE: }" : "+r"(x));
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 105; @!p ld.global.u32 %0, [%2+4]; @p st.global.u32 [%3], %1; }"
        : "+r"(y) : "r"(x), "l"(in), "l"(out + THREAD) : "memory");
    out[THREAD + 256] = x + y;
}
template <int N> __device__ u32 power(u32 x) { u32 p = 1; for (int i = 0; i < N; i++) p *= x + i; return p; }
template <int N> __global__ void powers(u32* out, const u32* in, u32 n) { out[THREAD] = power<N>(in[n % 64]); }
template __global__ void powers<3>(u32*, const u32*, u32);
KERNEL local_memory(u32* out, const u32* in, u32 n) {
    u32 ring[16], sum = 0;
    for (u32 k = 0; k < 16; k++) ring[k] = in[k + threadIdx.x % 8];
    for (u32 k = 0; k < threadIdx.x % 4 + 1; k++) sum += ring[(sum + k) % 16];
    out[THREAD] = sum;
}
KERNEL generic(u32* out, const u32* in, u32 n) {
    __shared__ u32 buffer[64];
    buffer[threadIdx.x] = threadIdx.x;
    __syncthreads();
    volatile u32* place = in[threadIdx.x % 64] % 2 ? buffer : out;
    place[threadIdx.x] = 9;
    out[THREAD + 256] = place[threadIdx.x] + buffer[threadIdx.x ^ 1];
}
KERNEL vectors(uint4* out, const uint4* in, u32 n) {
    uint4 x = in[threadIdx.x % 16];
    x.x += x.w; x.y ^= x.z;
    out[THREAD % 16] = x;
}
KERNEL collatz(u32* out, const u32* in, u32 n) {
    u32 x = in[THREAD % 64] % 97 + 1, steps = 0;
    while (x != 1) { x = x % 2 ? 3 * x + 1 : x / 2; steps++; }
    out[THREAD] = steps;
}
KERNEL unrolled(u32* out, const u32* in, u32 n) {
    u32 x = in[0], p = 0;
    for (u32 k = 0; k < n; k++) { x = x * 1664525 + 1013904223; p ^= x; out[k % 128] = p; }
}
KERNEL arithmetic(u32* out, const u32* in, u32 n) {
    u32 x = in[THREAD % 64];
    for (u32 k = 0; k < n; k++) x = x * 1664525 + 1013904223;
    out[THREAD] = x;
}
KERNEL votes(u32* out, const u32* in, u32 n) {
    u32 x = in[threadIdx.x % 64];
    if (threadIdx.x % 32 < 20) x += __popc(__ballot_sync(0xfffff, x % 2)) + __shfl_xor_sync(0xfffff, x, 1);
    out[THREAD] = x;
}
"""
NAMES = (
    *("grid_loop", "triangle", "divergent", "early_exit", "cases", "reduction", "histogram", "nest", "calls"),
    *("assembly", "_Z6powersILi3EEvPjPKjj", "local_memory", "generic", "vectors", "collatz", "unrolled", "arithmetic"),
    *("votes", "window"),
)
COPIES = r"""
extern "C" __global__ void copies(unsigned* out, const uint4* in) {
    __shared__ uint4 buffer[64];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16; cp.async.wait_all;"
        :: "r"((unsigned)__cvta_generic_to_shared(&buffer[threadIdx.x])), "l"(in + threadIdx.x) : "memory");
    __syncthreads();
    out[threadIdx.x] = buffer[threadIdx.x ^ 1].y;
}
"""
