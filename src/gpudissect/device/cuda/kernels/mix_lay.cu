// What the chains of a mix go through in global memory, and the rate of the SM's clock. -DWIDTH as in memory.cuh.
#include "mix.cuh"
#include "permutation.cuh"

// Writes an address, or its lower half, unless it is there already. See put in lay.cu.
__device__ void link(u64 at, u64 to) {
#if WIDTH == 4
    u32* const there = reinterpret_cast<u32*>(at);
    if (__ldcg(there) != static_cast<u32>(to)) *there = static_cast<u32>(to);
#else
    u64* const there = reinterpret_cast<u64*>(at);
    if (__ldcg(there) != to) *there = to;
#endif
}

// Words `stride` bytes apart, each its own address. One warp.
extern "C" __global__ void lay_words(u64 memory, u64 stride) {
    const u64 own = memory + threadIdx.x * stride;
    link(own, own);
}

// Tiles of a word for each lane, `stride` bytes apart; a word leads to that of the same lane `chains` tiles on.
extern "C" __global__ void lay_tiles(u64 memory, u64 tiles, u64 chains, u64 stride) {
    for (u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x; i < 32 * tiles; i += gridDim.x * blockDim.x) {
        const u64 next = (i / 32 + chains) % tiles;
        link(memory + i * stride, memory + (next * 32 + i % 32) * stride);
    }
}

// Lines in random order, all in one ring.
extern "C" __global__ void lay_lines(u64 memory, u64 lines, u64 half) {
    const u32 count = static_cast<u32>(lines), bits = static_cast<u32>(half);
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const u64 here = permuted(i, count, bits, 0), next = permuted(i + 1 == count ? 0 : i + 1, count, bits, 0);
        link(memory + here * 128, memory + next * 128);
    }
}

// How many cycles the SM's clock makes in some nanoseconds. One thread, right after the mix.
extern "C" __global__ void mix_clock(Meeting* meeting, u64 cycles) {
    const u64 first_ns = next_ns(), first = sm_cycles();
    while (sm_cycles() - first < cycles) {
    }
    const u64 last_ns = next_ns(), last = sm_cycles();
    meeting->cycles = last - first;
    meeting->ns = last_ns - first_ns;
}
