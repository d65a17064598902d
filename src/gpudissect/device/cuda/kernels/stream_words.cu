// Before and after a stream on global memory: words are laid, and those that it left are looked at.
#include "words.cuh"

// Number of this thread of all, and how many there are.
#define THREAD (blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x)
#define THREADS (gridDim.x * static_cast<u64>(blockDim.x))

#define DEEP 4  // quads of words of a thread under way: with fewer the check takes longer than what it checks

__device__ __forceinline__ uint4 quad_at(u64 quad, u64 mask, u64 salt) {
    const u32 i = static_cast<u32>(4 * quad), m = static_cast<u32>(mask), s = static_cast<u32>(salt);
    return make_uint4(word_at(i, m, s), word_at(i + 1, m, s), word_at(i + 2, m, s), word_at(i + 3, m, s));
}

extern "C" __global__ void lay_words(u32* to, u64 words, u64 mask, u64 salt) {
    uint4* const quads = reinterpret_cast<uint4*>(to);
#pragma unroll 4
    for (u64 i = THREAD; i < words / 4; i += THREADS) quads[i] = quad_at(i, mask, salt);
    const u64 rest = words / 4 * 4 + THREAD;
    if (rest < words) to[rest] = word_at(static_cast<u32>(rest), static_cast<u32>(mask), static_cast<u32>(salt));
}

__device__ __forceinline__ u32 differing(uint4 is, uint4 due) {
    return (is.x != due.x) + (is.y != due.y) + (is.z != due.z) + (is.w != due.w);
}

// Counts words that are not as they should be, and leaves none of them as it should be: the next run cannot pass for
// having written what was there before. (So each run finds the L2 as one that wrote would leave it.)
extern "C" __global__ void check_words(u32* in, u64 words, u64 mask, u64 salt, u64* wrong) {
    uint4* const quads = reinterpret_cast<uint4*>(in);
    const u64 count = words / 4;
    u64 own = 0;
    for (u64 first = THREAD; first < count; first += DEEP * THREADS) {
        uint4 is[DEEP];
#pragma unroll
        for (u32 k = 0; k < DEEP; ++k)
            if (first + k * THREADS < count) is[k] = __ldcg(quads + first + k * THREADS);
#pragma unroll
        for (u32 k = 0; k < DEEP; ++k) {
            const u64 i = first + k * THREADS;
            if (i >= count) break;
            const uint4 due = quad_at(i, mask, salt);
            own += differing(is[k], due);
            quads[i] = make_uint4(~due.x, ~due.y, ~due.z, ~due.w);
        }
    }
    const u64 rest = 4 * count + THREAD;
    if (rest < words) {
        const u32 due = word_at(static_cast<u32>(rest), static_cast<u32>(mask), static_cast<u32>(salt));
        own += __ldcg(in + rest) != due;
        in[rest] = ~due;
    }
    if (own != 0) atomicAdd(wrong, own);
}
