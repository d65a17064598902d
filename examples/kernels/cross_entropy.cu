// Cross-entropy loss of the tokens of a language model, one row of logits per block: the largest logit and the sum of
// exponentials are found in one pass. Rows with a negative label have no loss. Blocks have 512 threads.

constexpr int THREADS = 512;

__device__ void combine(float &largest, float &sum, float other_largest, float other_sum)
{
    float both = fmaxf(largest, other_largest);
    sum = sum * expf(largest - both) + other_sum * expf(other_largest - both);
    largest = both;
}

extern "C" __global__ void cross_entropy(const float *__restrict__ logits, const int *__restrict__ labels,
                                         float *__restrict__ losses, float *__restrict__ log_sums, int words)
{
    __shared__ float warp_largest[THREADS / 32], warp_sum[THREADS / 32];
    const float *row = logits + (size_t)blockIdx.x * words;
    float largest = -3e38f, sum = 0;
    for (int i = threadIdx.x; i < words; i += THREADS)
        combine(largest, sum, row[i], 1.0f);
    for (int offset = 16; offset > 0; offset /= 2) {
        float other_largest = __shfl_down_sync(0xffffffff, largest, offset);
        float other_sum = __shfl_down_sync(0xffffffff, sum, offset);
        combine(largest, sum, other_largest, other_sum);
    }
    if (threadIdx.x % 32 == 0) {
        warp_largest[threadIdx.x / 32] = largest;
        warp_sum[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < THREADS / 32; warp++)
            combine(largest, sum, warp_largest[warp], warp_sum[warp]);
        float log_sum = largest + logf(sum);
        int label = labels[blockIdx.x];
        losses[blockIdx.x] = label >= 0 ? log_sum - row[label] : 0.0f;
        log_sums[blockIdx.x] = log_sum;
    }
}
