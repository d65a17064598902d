// Blocks read, write or copy global memory, through the L1 (-DPATH_GLOBAL) or past it (-DPATH_GLOBAL_L2), in turns at
// tiles of blockDim.x x ILP x WIDTH bytes: block b has tiles b, b + gridDim.x, ..., the same ones in every pass.
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

extern "C" __global__ void __launch_bounds__(THREADS)
    stream_global(StreamReport* reports, u64 source, u64 target, u64 tiles_, u64 passes_, u64 salt) {
    const u32 tiles = static_cast<u32>(tiles_), passes = static_cast<u32>(passes_);
    const u32 own = blockIdx.x < tiles ? (tiles - blockIdx.x - 1) / gridDim.x + 1 : 0;  // tiles of this block
    const u32 tile = blockDim.x * (ILP * WIDTH);
    const u64 step = static_cast<u64>(gridDim.x) * tile;
    const u64 first = static_cast<u64>(blockIdx.x) * tile + first_access();
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
    // Every store has reached the L2, which is where all SMs see it, before a thread comes to the barrier.
    __threadfence();
    __syncthreads();
    const u32 sum = 0, all = 0;
#endif
    const u64 end = timer_ns(), died = sm_cycles();
    StreamReport* const report = reports + blockIdx.x;
    if (all && sum != 0) atomicAdd(&report->sum, static_cast<u64>(sum));
    if (threadIdx.x == 0) {
        report->begin = begin;
        report->end = end;
        report->cycles = died - born;
        report->sm = sm_number();
        report->rank = 0;
    }
}
