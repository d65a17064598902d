// Every block reads, writes or copies `footprint` bytes of its own shared memory (COPY: to those behind them) in tiles
// of blockDim.x x ILP x WIDTH bytes. Accesses of a group are contiguous, so there are no bank conflicts. (Volatile:
// neither the compiler nor the assembler may move an access out of the loop over the passes.) Further macros: see
// tile.cuh; -DTHREADS is the maximum for a block, which leaves enough registers.
#include "stream.cuh"

#define LOAD_BY "ld.volatile.shared"
#define STORE_BY "st.volatile.shared"
#define ADDRESS u32
#define ADDRESS_IN "r"
#include "tile.cuh"

extern __shared__ __align__(128) u32 memory[];

// Writes words 0 to `count` - 1 of a pattern without repetition.
__device__ __forceinline__ void write_words(u32* to, u32 count, u32 salt) {
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) to[i] = word_at(i, ~0u, salt);
}

// Number of wrong words among those that this thread checks.
__device__ __forceinline__ u32 wrong_words(const u32* in, u32 count, u32 mask, u32 salt) {
    u32 wrong = 0;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) wrong += in[i] != word_at(i, mask, salt);
    return wrong;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    stream_shared(StreamReport* reports, u64 footprint_, u64 passes_, u64 salt_) {
    const u32 footprint = static_cast<u32>(footprint_), passes = static_cast<u32>(passes_);
    const u32 salt = static_cast<u32>(salt_) + blockIdx.x;
    const u32 count = footprint / 4, tile = blockDim.x * (ILP * WIDTH);
    const u32 base = static_cast<u32>(__cvta_generic_to_shared(memory));
    const u32 first = base + first_access(), end_of_tiles = base + footprint;
    write_words(memory, count, ~salt);  // what READ and COPY read, and WRITE overwrites
#if defined(TRANSFER_READ)
    Access sums{};
#elif defined(TRANSFER_WRITE)
    Access written = first_words(salt);
#elif defined(TRANSFER_COPY)
    write_words(memory + count, count, salt);
#endif
    __syncthreads();
    const u64 begin = timer_ns(), begin_cycles = sm_cycles();
#pragma unroll 1
    for (u32 pass = 0; pass < passes; ++pass) {
#pragma unroll 1
        for (u32 at = first; at < end_of_tiles; at += tile) {
#if defined(TRANSFER_READ)
            read_tile(at, sums);
#elif defined(TRANSFER_WRITE)
            write_tile(at, written);
#else
            copy_tile(at, at + footprint);
#endif
        }
#ifdef TRANSFER_WRITE
        next_words(written);
#endif
    }
#ifdef TRANSFER_READ
    // A barrier that needs the sum of every thread waits for every load.
    const u32 sum = sum_of(sums), all = __syncthreads_or(sum != 0);
#else
    __syncthreads();
    const u32 all = 1;
#endif
    const u64 end = timer_ns(), end_cycles = sm_cycles();
#if defined(TRANSFER_WRITE)
    const u32 sum = wrong_words(memory, count, PATTERN_MASK, salt + passes - 1);
#elif defined(TRANSFER_COPY)
    const u32 sum = wrong_words(memory + count, count, ~0u, ~salt);
#endif
    StreamReport* const report = reports + blockIdx.x;
    if (all && sum != 0) atomicAdd(&report->sum, sum);
    if (threadIdx.x == 0) write_report(report, begin, end, end_cycles - begin_cycles, 0);
}
