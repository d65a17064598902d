// Attention of one query per head, as when a language model writes a word: scores of the keys, a key per warp, their
// softmax, and the mean of the values with it. A block has a head of 64 dimensions and 256 threads.

constexpr int HEAD = 64, KEYS = 1024, THREADS = 256, WARPS = THREADS / 32, GROUPS = THREADS / HEAD;

extern "C" __global__ void attention(const float *queries, const float *keys, const float *values, float *out,
                                     float scale)
{
    __shared__ float scores[KEYS], warp_values[WARPS], sums[GROUPS][HEAD];
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    size_t head = blockIdx.x, first = head * KEYS * HEAD;
    float2 query = reinterpret_cast<const float2 *>(queries + head * HEAD)[lane];
    float largest = -3e38f;
    for (int i = warp; i < KEYS; i += WARPS) {
        float2 key = reinterpret_cast<const float2 *>(keys + first + i * HEAD)[lane];
        float score = query.x * key.x + query.y * key.y;
        for (int distance = 16; distance > 0; distance /= 2)
            score += __shfl_xor_sync(~0u, score, distance);
        score *= scale;
        largest = fmaxf(largest, score);
        if (lane == 0)
            scores[i] = score;
    }
    if (lane == 0)
        warp_values[warp] = largest;
    __syncthreads();
    for (int w = 0; w < WARPS; w++)
        largest = fmaxf(largest, warp_values[w]);
    __syncthreads();
    float total = 0;
    for (int i = thread; i < KEYS; i += THREADS) {
        float power = __expf(scores[i] - largest);
        scores[i] = power;
        total += power;
    }
    for (int distance = 16; distance > 0; distance /= 2)
        total += __shfl_xor_sync(~0u, total, distance);
    if (lane == 0)
        warp_values[warp] = total;
    __syncthreads();
    int dimension = thread % HEAD, group = thread / HEAD;
    float sum = 0;
    for (int i = group; i < KEYS; i += GROUPS)
        sum += scores[i] * values[first + i * HEAD + dimension];
    sums[group][dimension] = sum;
    __syncthreads();
    if (group == 0) {
        total = 0;
        for (int w = 0; w < WARPS; w++)
            total += warp_values[w];
        for (int g = 1; g < GROUPS; g++)
            sum += sums[g][dimension];
        out[head * HEAD + dimension] = sum / total;
    }
}
