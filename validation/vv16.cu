// Code of VV16 for machine code: listing 3.4, and a kernel with the instruction mix of table 3.2.

extern "C" __global__ void add(float *a, float *b, float *c)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    c[i] = a[i] + b[i];
}

// 100 additions, 5 reciprocal square roots, 20 reads of shared memory, half of them with 2-way bank conflicts, and 10
// loads, half of them with a stride of 2. All are one chain of additions; the addresses of a kind are far apart, so that
// no two accesses are joined.
extern "C" __global__ void sample_mix(const float *x, float *out, float step)
{
    extern __shared__ float words[];
    constexpr int APART = 512, KINDS = 5;
    int lane = threadIdx.x;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < KINDS; k++) {
        sum += x[lane + APART * k];
        sum += x[2 * lane + APART * (k + KINDS)];
        for (int half = 0; half < 2; half++) {
            sum += words[lane + APART * (2 * k + half)];
            sum += words[2 * lane + APART * (2 * (k + KINDS) + half)];
        }
        asm("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(sum));
#pragma unroll
        for (int n = 0; n < 14; n++)
            sum += step;
    }
    out[lane] = sum;
}
