// Before and after a stream on global memory: words are laid, and those that it left are looked at.
#include "words.cuh"

// Number of this thread of all, and how many there are.
#define THREAD (blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x)
#define THREADS (gridDim.x * static_cast<u64>(blockDim.x))

extern "C" __global__ void lay_words(u32* to, u64 words, u64 mask, u64 salt) {
#pragma unroll 4
    for (u64 i = THREAD; i < words; i += THREADS)
        to[i] = word_at(static_cast<u32>(i), static_cast<u32>(mask), static_cast<u32>(salt));
}

// Counts words that are not as they should be, and leaves none of them as it should be: the next run cannot pass for
// having written what was there before. (So each run finds the L2 as one that wrote would leave it.)
extern "C" __global__ void check_words(u32* in, u64 words, u64 mask, u64 salt, u64* wrong) {
    u64 own = 0;
#pragma unroll 4
    for (u64 i = THREAD; i < words; i += THREADS) {
        const u32 due = word_at(static_cast<u32>(i), static_cast<u32>(mask), static_cast<u32>(salt));
        own += __ldcg(in + i) != due;
        in[i] = ~due;
    }
    if (own != 0) atomicAdd(wrong, own);
}
