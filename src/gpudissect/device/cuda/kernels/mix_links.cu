// Writes the links of a mix in global memory, and measures the SM's clock. -DWIDTH as in memory.cuh.
#include "mix.cuh"
#include "permutation.cuh"

// Writes an address, or its lower half, unless it is there already. See write_word in chains.cu.
__device__ void write_link(u64 address, u64 target) {
#if WIDTH == 4
    u32* const word = reinterpret_cast<u32*>(address);
    if (__ldcg(word) != static_cast<u32>(target)) *word = static_cast<u32>(target);
#else
    u64* const word = reinterpret_cast<u64*>(address);
    if (__ldcg(word) != target) *word = target;
#endif
}

// Words `stride` bytes apart, each its own address. One warp.
extern "C" __global__ void write_words(u64 memory, u64 stride) {
    const u64 address = memory + threadIdx.x * stride;
    write_link(address, address);
}

// Tiles of a word for each lane, `stride` bytes apart; a word leads to that of the same lane `chains` tiles later.
extern "C" __global__ void write_tiles(u64 memory, u64 tiles, u64 chains, u64 stride) {
    for (u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x; i < 32 * tiles; i += gridDim.x * blockDim.x) {
        const u64 next = (i / 32 + chains) % tiles;
        write_link(memory + i * stride, memory + (next * 32 + i % 32) * stride);
    }
}

// Lines in random order, all in one cycle.
extern "C" __global__ void write_lines(u64 memory, u64 lines, u64 half) {
    const u32 count = static_cast<u32>(lines), bits = static_cast<u32>(half);
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const u64 line = permuted(i, count, bits, 0), next = permuted(i + 1 == count ? 0 : i + 1, count, bits, 0);
        write_link(memory + line * 128, memory + next * 128);
    }
}

// Measures the rate of the SM's clock over some cycles. One thread, right after the mix.
extern "C" __global__ void measure_clock(GridBarrier* barrier, u64 cycles) {
    const u64 first_ns = next_ns(), first = sm_cycles();
    while (sm_cycles() - first < cycles) {
    }
    const u64 last_ns = next_ns(), last = sm_cycles();
    barrier->cycles = last - first;
    barrier->ns = last_ns - first_ns;
}
