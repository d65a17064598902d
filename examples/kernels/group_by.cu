// Sum, count and maximum of the amounts in each of 1000 groups, as in SQL's GROUP BY: a block aggregates its rows with
// atomic operations in shared memory and writes its own results, which another kernel combines.

constexpr int GROUPS = 1000;

extern "C" __global__ void group_by(const unsigned short *groups, const unsigned *amounts, unsigned long long *sums,
                                    unsigned *counts, unsigned *largest, int rows)
{
    __shared__ unsigned long long block_sums[GROUPS];
    __shared__ unsigned block_counts[GROUPS], block_largest[GROUPS];
    for (int group = threadIdx.x; group < GROUPS; group += blockDim.x) {
        block_sums[group] = 0;
        block_counts[group] = 0;
        block_largest[group] = 0;
    }
    __syncthreads();
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
        int group = groups[row];
        unsigned amount = amounts[row];
        atomicAdd(&block_sums[group], (unsigned long long)amount);
        atomicAdd(&block_counts[group], 1u);
        atomicMax(&block_largest[group], amount);
    }
    __syncthreads();
    for (int group = threadIdx.x; group < GROUPS; group += blockDim.x) {
        sums[blockIdx.x * GROUPS + group] = block_sums[group];
        counts[blockIdx.x * GROUPS + group] = block_counts[group];
        largest[blockIdx.x * GROUPS + group] = block_largest[group];
    }
}
