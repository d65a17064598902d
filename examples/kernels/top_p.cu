// Sampling from the most probable words (top p, Holtzman et al. 2020) without sorting: a block keeps the 32000 powers
// of a row in registers, and bisects for the least power that is allowed. The word is found by a scan.

constexpr int WORDS = 32000, THREADS = 1024, EACH = (WORDS + THREADS - 1) / THREADS, WARPS = THREADS / 32;

__device__ float sum_of_block(float value, float *warp_values)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(~0u, value, distance);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warp_values[threadIdx.x / 32] = value;
    __syncthreads();
    value = warp_values[threadIdx.x % 32];
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(~0u, value, distance);
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
top_p(const float *scores, const float *draws, int *words, float p, float inverse_temperature, int rounds)
{
    __shared__ float warp_values[WARPS];
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    scores += (size_t)blockIdx.x * WORDS;
    float power[EACH], largest = -3e38f, total = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int word = thread + e * THREADS;
        power[e] = word < WORDS ? scores[word] * inverse_temperature : -3e38f;
        largest = fmaxf(largest, power[e]);
    }
    for (int distance = 16; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, distance));
    if (lane == 0)
        warp_values[warp] = largest;
    __syncthreads();
    largest = warp_values[lane];
    for (int distance = 16; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, distance));
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        power[e] = __expf(power[e] - largest);
        total += power[e];
    }
    float wanted = p * sum_of_block(total, warp_values), low = 0, high = 1;
    for (int round = 0; round < rounds; round++) {
        float middle = 0.5f * (low + high), above = 0;
#pragma unroll
        for (int e = 0; e < EACH; e++)
            above += power[e] >= middle ? power[e] : 0;
        if (sum_of_block(above, warp_values) >= wanted)
            low = middle;
        else
            high = middle;
    }
    float own = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++)
        own += power[e] >= low ? power[e] : 0;
    float upto = own;
    for (int distance = 1; distance < 32; distance *= 2) {
        float other = __shfl_up_sync(~0u, upto, distance);
        if (lane >= distance)
            upto += other;
    }
    __syncthreads();
    if (lane == 31)
        warp_values[warp] = upto;
    __syncthreads();
    float all = 0;
    for (int w = 0; w < WARPS; w++) {
        upto += w < warp ? warp_values[w] : 0;
        all += warp_values[w];
    }
    float target = draws[blockIdx.x] * all, before = upto - own;
    if (before <= target && target < upto) {
        int chosen = thread;
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (power[e] >= low && before <= target) {
                chosen = thread + e * THREADS;
                before += power[e];
            }
        words[blockIdx.x] = chosen;
    }
}
