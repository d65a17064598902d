// AES-128 (FIPS 197) in counter mode, 16 bytes per thread, with a table of 256 entries in shared memory. An entry has
// the products of an element of the S-box with the first column of MixColumns. Blocks have 256 threads.

__device__ unsigned rotate(unsigned x, int bits)
{
    return x << bits | x >> 32 - bits;
}

__device__ unsigned mix(const unsigned *table, unsigned a, unsigned b, unsigned c, unsigned d)
{
    return table[a & 255] ^ rotate(table[b >> 8 & 255], 8) ^ rotate(table[c >> 16 & 255], 16) ^
           rotate(table[d >> 24], 24);
}

__device__ unsigned substitute(const unsigned *table, unsigned a, unsigned b, unsigned c, unsigned d)
{
    return table[a & 255] >> 8 & 255 | table[b >> 8 & 255] & 0xff00 | table[c >> 16 & 255] & 0xff0000 |
           (table[d >> 24] & 0xff00) << 16;
}

extern "C" __global__ void aes(const unsigned *table, const uint4 *keys, const uint4 *in, uint4 *out, unsigned nonce0,
                               unsigned nonce1, unsigned nonce2, unsigned first, int n)
{
    __shared__ unsigned shared_table[256];
    shared_table[threadIdx.x] = table[threadIdx.x];
    __syncthreads();
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    uint4 key = keys[0];
    unsigned a = nonce0 ^ key.x, b = nonce1 ^ key.y, c = nonce2 ^ key.z, d = __byte_perm(first + i, 0, 0x0123) ^ key.w;
    for (int round = 1; round < 10; round++) {
        key = keys[round];
        unsigned next_a = mix(shared_table, a, b, c, d) ^ key.x, next_b = mix(shared_table, b, c, d, a) ^ key.y;
        unsigned next_c = mix(shared_table, c, d, a, b) ^ key.z, next_d = mix(shared_table, d, a, b, c) ^ key.w;
        a = next_a, b = next_b, c = next_c, d = next_d;
    }
    key = keys[10];
    uint4 text = in[i];
    text.x ^= key.x ^ substitute(shared_table, a, b, c, d);
    text.y ^= key.y ^ substitute(shared_table, b, c, d, a);
    text.z ^= key.z ^ substitute(shared_table, c, d, a, b);
    text.w ^= key.w ^ substitute(shared_table, d, a, b, c);
    out[i] = text;
}
