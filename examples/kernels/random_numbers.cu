// Random numbers of Philox4x32-10 (Salmon et al. 2011): each thread combines those of several counters. Bound by
// 32-bit integer multiplication.

__device__ uint4 philox(uint4 counter, unsigned key_0, unsigned key_1)
{
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned long long p = 0xD2511F53ull * counter.x, q = 0xCD9E8D57ull * counter.z;
        counter = make_uint4((unsigned)(q >> 32) ^ counter.y ^ key_0, (unsigned)q,
                             (unsigned)(p >> 32) ^ counter.w ^ key_1, (unsigned)p);
        key_0 += 0x9E3779B9;
        key_1 += 0xBB67AE85;
    }
    return counter;
}

extern "C" __global__ void random_numbers(uint4 *out, unsigned seed, int n, int counters)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    uint4 mixed = make_uint4(0, 0, 0, 0);
    for (int k = 0; k < counters; k++) {
        uint4 numbers = philox(make_uint4(i, k, 0, 0), seed, 0);
        mixed = make_uint4(mixed.x ^ numbers.x, mixed.y ^ numbers.y, mixed.z ^ numbers.z, mixed.w ^ numbers.w);
    }
    out[i] = mixed;
}
