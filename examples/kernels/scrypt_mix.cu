// ROMix of the password hash scrypt (RFC 7914) with r = 1: each thread fills its own table with `steps` blocks of 128
// bytes, then mixes blocks of the table at places that depend on the data. Steps are a power of 2.

__device__ __forceinline__ unsigned rotate(unsigned x, int by)
{
    return __funnelshift_l(x, x, by);
}

__device__ __forceinline__ void quarter(unsigned &a, unsigned &b, unsigned &c, unsigned &d)
{
    b ^= rotate(a + d, 7);
    c ^= rotate(b + a, 9);
    d ^= rotate(c + b, 13);
    a ^= rotate(d + c, 18);
}

// Salsa20/8 of the exclusive or of two halves of a block, which replaces the first.
__device__ __forceinline__ void salsa(unsigned *to, const unsigned *other)
{
    unsigned x[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        x[i] = to[i] ^= other[i];
#pragma unroll 1
    for (int round = 0; round < 8; round += 2) {
        quarter(x[0], x[4], x[8], x[12]);
        quarter(x[5], x[9], x[13], x[1]);
        quarter(x[10], x[14], x[2], x[6]);
        quarter(x[15], x[3], x[7], x[11]);
        quarter(x[0], x[1], x[2], x[3]);
        quarter(x[5], x[6], x[7], x[4]);
        quarter(x[10], x[11], x[8], x[9]);
        quarter(x[15], x[12], x[13], x[14]);
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
        to[i] += x[i];
}

__device__ __forceinline__ void block_mix(unsigned (&block)[32])
{
    salsa(block, block + 16);
    salsa(block + 16, block);
}

extern "C" __global__ void __launch_bounds__(64)
    scrypt_mix(const uint4 *__restrict__ input, uint4 *table, uint4 *__restrict__ out, int count, unsigned steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    unsigned block[32];
    uint4 *own = table + (size_t)i * steps * 8;
#pragma unroll
    for (int q = 0; q < 8; q++) {
        uint4 words = input[(size_t)i * 8 + q];
        block[4 * q] = words.x, block[4 * q + 1] = words.y, block[4 * q + 2] = words.z, block[4 * q + 3] = words.w;
    }
    for (unsigned step = 0; step < steps; step++) {
#pragma unroll
        for (int q = 0; q < 8; q++)
            own[step * 8 + q] = make_uint4(block[4 * q], block[4 * q + 1], block[4 * q + 2], block[4 * q + 3]);
        block_mix(block);
    }
    for (unsigned step = 0; step < steps; step++) {
        const uint4 *from = own + (block[16] & (steps - 1)) * 8;
#pragma unroll
        for (int q = 0; q < 8; q++) {
            uint4 words = from[q];
            block[4 * q] ^= words.x, block[4 * q + 1] ^= words.y, block[4 * q + 2] ^= words.z;
            block[4 * q + 3] ^= words.w;
        }
        block_mix(block);
    }
#pragma unroll
    for (int q = 0; q < 8; q++)
        out[(size_t)i * 8 + q] = make_uint4(block[4 * q], block[4 * q + 1], block[4 * q + 2], block[4 * q + 3]);
}
