// Samples a token per row of logits of a language model: the largest logit after Gumbel noise is added, which
// follows from a hash of the row, the token and a seed. One row per block.

__device__ unsigned hash(unsigned x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

__device__ void keep_larger(float &value, int &word, float other_value, int other_word)
{
    if (other_value > value || (other_value == value && other_word < word)) {
        value = other_value;
        word = other_word;
    }
}

extern "C" __global__ void gumbel_sampling(const float *logits, int *samples, float *scores, int words,
                                           float temperature, unsigned seed)
{
    __shared__ float warp_values[32];
    __shared__ int warp_words[32];
    const float *row = logits + (size_t)blockIdx.x * words;
    unsigned row_seed = hash(seed + blockIdx.x);
    float inverse = 1 / temperature;
    float best = -3e38f;
    int best_word = 0;
    for (int word = threadIdx.x; word < words; word += blockDim.x) {
        float uniform = ((hash(row_seed ^ word) >> 8) + 0.5f) * 0x1p-24f;
        float noise = -__logf(-__logf(uniform));
        keep_larger(best, best_word, row[word] * inverse + noise, word);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(0xffffffff, best, offset);
        int other_word = __shfl_xor_sync(0xffffffff, best_word, offset);
        keep_larger(best, best_word, other, other_word);
    }
    if (threadIdx.x % 32 == 0) {
        warp_values[threadIdx.x / 32] = best;
        warp_words[threadIdx.x / 32] = best_word;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < blockDim.x / 32; warp++)
            keep_larger(best, best_word, warp_values[warp], warp_words[warp]);
        samples[blockIdx.x] = best_word;
        scores[blockIdx.x] = best;
    }
}
