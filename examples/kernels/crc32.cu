// Checksums (CRC-32) of chunks of bytes, one chunk per thread. The table of 256 entries is copied to shared memory.

extern "C" __global__ void crc32(const unsigned *table, const unsigned *words, unsigned *checksums, int chunks,
                                 int words_per_chunk)
{
    __shared__ unsigned shared_table[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        shared_table[i] = table[i];
    __syncthreads();
    int chunk = threadIdx.x + blockDim.x * blockIdx.x;
    if (chunk >= chunks)
        return;
    unsigned crc = ~0u;
    for (int k = 0; k < words_per_chunk; k++) {
        unsigned word = words[chunk * words_per_chunk + k];
        for (int byte = 0; byte < 4; byte++) {
            crc = crc >> 8 ^ shared_table[(crc ^ word) & 255];
            word >>= 8;
        }
    }
    checksums[chunk] = ~crc;
}
