// Four parity shards of ten data shards by a Reed-Solomon code over GF(256), as in distributed storage: each thread
// encodes four bytes of each shard and multiplies by tables of logarithms and powers in shared memory.

constexpr int DATA = 10, PARITY = 4;

extern "C" __global__ void reed_solomon(const unsigned *__restrict__ data, const unsigned char *log_table,
                                        const unsigned char *power_table, const unsigned char *log_matrix,
                                        unsigned *parity, int words)
{
    __shared__ unsigned char logs[256], powers[512], matrix[DATA * PARITY];
    for (int i = threadIdx.x; i < 512; i += blockDim.x) {
        powers[i] = power_table[i];
        if (i < 256)
            logs[i] = log_table[i];
        if (i < DATA * PARITY)
            matrix[i] = log_matrix[i];
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= words)
        return;
    unsigned sums[PARITY] = {};
    for (int shard = 0; shard < DATA; shard++) {
        unsigned word = data[(size_t)shard * words + i];
#pragma unroll
        for (int shift = 0; shift < 32; shift += 8) {
            unsigned byte = (word >> shift) & 255;
            if (byte == 0)
                continue;
            int log = logs[byte];
#pragma unroll
            for (int p = 0; p < PARITY; p++)
                sums[p] ^= powers[log + matrix[shard * PARITY + p]] << shift;
        }
    }
    for (int p = 0; p < PARITY; p++)
        parity[(size_t)p * words + i] = sums[p];
}
