// Blocks read, write or copy global memory, through the L1 (-DPATH_GLOBAL) or past it (-DPATH_GLOBAL_L2), in turns at
// tiles of blockDim.x x ILP x WIDTH bytes: block b has tiles b, b + around, ..., the same ones in every pass, and so have
// blocks b + around, b + 2 around, ..., which come later.
// Further macros: see round.cuh; -DTHREADS is the most threads a block may have, which is what leaves enough registers.
#include "stream.cuh"

// ld.relaxed makes the very machine code of ld.global.ca (scope .cta) and .cg (scope .gpu), but these the assembler would
// put into another order, and then wait for the first before it starts the last.
#if defined(PATH_GLOBAL)
#if __CUDA_ARCH__ >= 700
#define LOAD_BY "ld.relaxed.cta.global"
#else
#define LOAD_BY "ld.global.ca"
#endif
#define STORE_BY "st.global.wb"
#elif defined(PATH_GLOBAL_L2)
#if __CUDA_ARCH__ >= 700
#define LOAD_BY "ld.relaxed.gpu.global"
#else
#define LOAD_BY "ld.global.cg"
#endif
#define STORE_BY "st.global.cg"
#else
#error "compile with one of -DPATH_GLOBAL, -DPATH_GLOBAL_L2"
#endif
#define ADDRESS u64
#define ADDRESS_IN "l"
#include "round.cuh"

#define MOST_THREADS_AT_ONCE 2048  // of an SM, of any GPU

extern "C" __global__ void __launch_bounds__(THREADS)
    stream_global(StreamReport* reports, u64 source, u64 target, u64 tiles_, u64 around_, u64 passes_,
                  u64 salt) {
    const u32 tiles = static_cast<u32>(tiles_), around = static_cast<u32>(around_), passes = static_cast<u32>(passes_);
    const u32 place = blockIdx.x % around, own = place < tiles ? (tiles - place - 1) / around + 1 : 0;
    const u32 tile = blockDim.x * (ILP * WIDTH);
    const u64 step = static_cast<u64>(around) * tile;  // to the next tile of this block
    const u64 first = static_cast<u64>(place) * tile + first_access();
#if defined(TRANSFER_READ)
    Access sums{};
#elif defined(TRANSFER_WRITE)
    Access put = first_words(static_cast<u32>(salt));
#endif
    __syncthreads();
    const u64 begin = timer_ns(), born = sm_cycles();
#pragma unroll 1
    for (u32 pass = 0; pass < passes; ++pass) {
        u64 from = source + first, to = target + first;
#pragma unroll 1
        for (u32 left = own; left != 0; --left) {
#if defined(TRANSFER_READ)
            read_round(from, sums);
#elif defined(TRANSFER_WRITE)
            write_round(to, put);
#else
            copy_round(from, to);
#endif
            from += step;
            to += step;
        }
#ifdef TRANSFER_WRITE
        next_words(put);
#endif
    }
#ifdef TRANSFER_READ
    // A barrier that needs the sum of every thread waits for every load.
    const u32 sum = sum_of(sums), all = __syncthreads_or(sum != 0);
#else
    // Every store of the run has reached the L2, which is where all SMs see it, before the last block's end: the last
    // ones wait for theirs, and for two generations of blocks before them there was time. A block that another follows
    // does not, for its place would be idle meanwhile (on an H200 short blocks would write 2 % less).
    const u64 to_come = static_cast<u64>(gridDim.x - blockIdx.x) * blockDim.x;
    if (to_come <= 2 * MOST_THREADS_AT_ONCE * sm_numbers()) __threadfence();
    __syncthreads();
    const u32 sum = 0, all = 0;
#endif
    const u64 end = timer_ns(), died = sm_cycles();
    StreamReport* const report = reports + blockIdx.x;
    if (all && sum != 0) atomicAdd(&report->sum, sum);
    if (threadIdx.x == 0) tell(report, begin, end, died - born, 0);
}
