// Every block reads, writes or copies `footprint` bytes of its own shared memory (COPY: to those behind them), tile
// after tile of blockDim.x x ILP x WIDTH bytes. A team's accesses lie together, so no two lanes meet in a bank.
// (Volatile: neither the compiler nor the assembler may take an access out of the loop over the passes.)
// Further macros: see round.cuh; -DTHREADS is the most threads a block may have, which is what leaves enough registers.
#include "stream.cuh"

#define LOAD_BY "ld.volatile.shared"
#define STORE_BY "st.volatile.shared"
#define ADDRESS u32
#define ADDRESS_IN "r"
#include "round.cuh"

extern __shared__ __align__(128) u32 memory[];

// Lay words 0 to `count` - 1 of a whole, unrepeated pattern.
__device__ __forceinline__ void lay(u32* to, u32 count, u32 salt) {
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) to[i] = word_at(i, ~0u, salt);
}

// How many of the words that this thread looks at are not as they should be.
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
    lay(memory, count, ~salt);  // what READ and COPY read, and what WRITE must not leave
#if defined(TRANSFER_READ)
    Access sums{};
#elif defined(TRANSFER_WRITE)
    Access put = first_words(salt);
#elif defined(TRANSFER_COPY)
    lay(memory + count, count, salt);
#endif
    __syncthreads();
    const u64 begin = timer_ns(), born = sm_cycles();
#pragma unroll 1
    for (u32 pass = 0; pass < passes; ++pass) {
#pragma unroll 1
        for (u32 at = first; at < end_of_tiles; at += tile) {
#if defined(TRANSFER_READ)
            read_round(at, sums);
#elif defined(TRANSFER_WRITE)
            write_round(at, put);
#else
            copy_round(at, at + footprint);
#endif
        }
#ifdef TRANSFER_WRITE
        next_words(put);
#endif
    }
#ifdef TRANSFER_READ
    // A barrier that needs the sum of every thread waits for every load.
    const u32 sum = sum_of(sums), all = __syncthreads_or(sum != 0);
#else
    __syncthreads();
    const u32 all = 1;
#endif
    const u64 end = timer_ns(), died = sm_cycles();
#if defined(TRANSFER_WRITE)
    const u32 sum = wrong_words(memory, count, PATTERN_MASK, salt + passes - 1);
#elif defined(TRANSFER_COPY)
    const u32 sum = wrong_words(memory + count, count, ~0u, ~salt);
#endif
    StreamReport* const report = reports + blockIdx.x;
    if (all && sum != 0) atomicAdd(&report->sum, sum);
    if (threadIdx.x == 0) tell(report, begin, end, died - born, 0);
}
