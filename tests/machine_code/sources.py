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

LOOP = """
extern "C" __global__ void scale(float* data, int n, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        data[i] = data[i + k] * factor;
    }
}
"""

INSTRUCTIONS = """
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
extern "C" {
__global__ void integers(int* o, const int* a, u32 n, i64 k) {
    int i = threadIdx.x, x = a[i], y = a[i + 32];
    i64 z = (i64)x * y + k;
    o[0] = x / y; o[1] = x % y; o[2] = (int)(z / k); o[3] = __popc(x) + __clz(y) + __brev(x) + __ffs(y);
    o[4] = __byte_perm(x, y, n); o[5] = min(x, y) + max(x, (int)n) + abs(x); o[6] = __mulhi(x, y) + __umulhi(n, y);
    o[7] = __funnelshift_l(x, y, n); o[8] = (z >> n) + (z << 3); o[9] = z > k ? x : y; o[10] = (x & y) | (~x & n) ^ y;
    o[11] = (int)__umul64hi(z, k); ((i64*)o)[20] = z * k + z / 3; ((u64*)o)[21] = (u64)z % (u64)k;
}
__global__ void floats(float* o, const float* a, double* d, int n) {
    int i = threadIdx.x;
    float x = a[i], y = a[i + 1];
    double p = d[i], q = d[i + 1];
    o[0] = x / y; o[1] = sqrtf(x) + rsqrtf(y) + __sinf(x) + __expf(x) + __logf(y); o[2] = fminf(x, y) + fabsf(x);
    o[3] = (float)p + (float)n; o[4] = (int)x + (int)(i64)y + (u32)q; o[5] = rintf(x) + floorf(y);
    d[2] = p / q; d[3] = sqrt(p) + fma(p, q, p); d[4] = p > q ? p : q; d[5] = (double)n + (double)x + (double)(i64)n;
    d[6] = fmin(p, q) + floor(q); ((i64*)o)[20] = (i64)p + (i64)x; o[6] = x < y; o[7] = powf(x, y); d[7] = sin(p);
}
__global__ void memory(
    char* c, short* s, int2* i2, int4* i4, const float4* __restrict__ f4, float* f, u64* l, double* d) {
    __shared__ float sh[1024];
    __shared__ int4 s4[64];
    __shared__ double sd[32];
    __shared__ u64 sl[4];
    int t = threadIdx.x;
    c[t] = c[t + 1] + 1; s[t] = s[t + 1]; i2[t] = i2[t + 1]; i4[t] = i4[t + 2];
    float4 v = f4[t];
    f[t] = v.x + v.y; sh[t] = v.z; s4[t % 64] = i4[t + 9]; sd[t] = d[t];
    __syncthreads();
    f[t + 9] = sh[t ^ 1]; i4[t + 3] = s4[t ^ 3];
    atomicAdd(&sh[t % 7], v.w); atomicAdd(f, 1.f); l[3] = atomicCAS(l, l[1], l[2]); atomicExch(l + 4, l[3]);
    double old = atomicAdd(d, 2.0);
    d[4] = old + sd[t ^ 1]; atomicAdd(&sd[3], old); l[8] = atomicCAS(sl, l[1], l[2]);
    float local[64], sum = 0;
    for (int i = 0; i < 64; i++) local[i] = f[i * t];
    for (int i = 0; i < t; i++) sum += local[(i * t) % 64];
    f[3] = sum; __threadfence(); *(volatile float*)(f + 6) = sum;
    int* generic = t % 2 ? (int*)sh : (int*)f;
    generic[t] = 7; atomicAdd(generic + 1, 2); i4[8].y = generic[3];
}
__global__ void warps(int* o, float* f, u64* l) {
    int t = threadIdx.x, p;
    float x = f[t];
    x += __shfl_sync(~0u, x, 3); x += __shfl_up_sync(~0u, x, 1); x += __shfl_xor_sync(~0u, x, t & 3);
    o[0] = __ballot_sync(~0u, x > 1); o[1] = __any_sync(~0u, x > 2) + __all_sync(~0u, x < 3);
    o[2] = __syncthreads_count(x > 1) + __syncthreads_or(x < 0);
    if (t < 7) { o[t] = __activemask(); x += __shfl_xor_sync(0x7f, x, 1); }
    o[5] = __match_any_sync(~0u, t / 3); o[6] = __match_all_sync(~0u, o[8], &p); o[7] = p;
    o[9] = clock(); l[0] = clock64(); f[t] = x; l[5] = __match_any_sync(~0u, l[9]);
    __nanosleep(20);
}
__global__ void matrices(u32* p, float* f) {
    int t = threadIdx.x;
    u32 a0 = p[t], a1 = p[t + 1], b0 = p[t + 4];
    float c0 = f[t], c1 = f[t + 1], c2 = f[t + 2], c3 = f[t + 3];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(b0));
    f[t] = c0; f[t + 1] = c1; f[t + 2] = c2; f[t + 3] = c3;
}
__global__ void calls(float* y, int n);
}
__device__ __noinline__ float repeated(float x, int n) { for (int i = 0; i < n; i++) x = x * x + 1; return x; }
extern "C" __global__ void calls(float* y, int n) { float v = repeated(y[0], n); y[0] = v + repeated(v, n + 1); }
extern "C" __global__ void cases(float* y, int n) {
    float v = y[0];
    switch (n) {
        case 0: v += 1; break;
        case 1: v *= 3; break;
        case 2: v = sinf(v); break;
        case 3: v = v * v + 2; break;
        case 4: v = __expf(v); break;
        case 5: v = __logf(v); break;
        case 6: v = v * v * v; break;
    }
    y[0] = v;
}
"""

NEST = """
extern "C" __global__ void nest(float* data, int n, int m, int l) {
    int i = 0, j, k;
#pragma unroll 1
    do {
        j = 0;
#pragma unroll 1
        do {
            k = 0;
#pragma unroll 1
            do { data[k] += data[i] * data[j]; } while (++k < l);
            data[j] = data[i];
        } while (++j < m);
    } while (++i < n);
}
"""

CHAIN = """
extern "C" __global__ void chain(float* data, int n, float a, float b) {
    float x = data[threadIdx.x];
#pragma unroll 1
    do { x = x * a + b; x = x * b + a; x = x * a + a; } while (--n);
    data[threadIdx.x] = x;
}
"""
