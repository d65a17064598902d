// Occurrences of a pattern in a text, such as a sequence of DNA: each position of a tile of 4096 is compared with the
// pattern until a byte differs. A block writes its number of occurrences. The text goes on behind the last position.

constexpr int THREADS = 256, TILE = 4096, MAX_LENGTH = 64;

extern "C" __global__ void string_search(const unsigned char *text, const unsigned char *pattern, int *counts,
                                         int length)
{
    __shared__ unsigned char shared_pattern[MAX_LENGTH];
    __shared__ int warp_counts[THREADS / 32];
    if (threadIdx.x < length)
        shared_pattern[threadIdx.x] = pattern[threadIdx.x];
    __syncthreads();
    int count = 0;
    for (int i = threadIdx.x; i < TILE; i += THREADS) {
        const unsigned char *start = text + size_t(TILE) * blockIdx.x + i;
        int equal = 0;
        while (equal < length && start[equal] == shared_pattern[equal])
            equal++;
        count += __popc(__ballot_sync(~0u, equal == length));
    }
    if (threadIdx.x % 32 == 0)
        warp_counts[threadIdx.x / 32] = count;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < THREADS / 32; w++)
            count += warp_counts[w];
        counts[blockIdx.x] = count;
    }
}
