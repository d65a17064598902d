// Blocks read, write, copy or add to global memory, through the L1 (-DPATH_GLOBAL) or past it (-DPATH_GLOBAL_L2), or
// read it through the read-only cache (-DPATH_READONLY) or as texels of WIDTH bytes (-DPATH_TEXTURE), in tiles of
// blockDim.x x ILP x WIDTH bytes: block b has tiles b, b + stride, ..., the same ones in every pass, and so have blocks
// b + stride, b + 2 stride, ..., of later waves.
// Further macros: see tile.cuh; -DTHREADS is the maximum for a block, which leaves enough registers.
#include "stream.cuh"

// ld.relaxed compiles to the same machine code as ld.global.ca (scope .cta) and .cg (scope .gpu), but the assembler
// reorders the latter, and then waits for the first before it issues the last.
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
#elif defined(PATH_READONLY)
#define LOAD_BY "ld.global.nc"
#elif !defined(PATH_TEXTURE)
#error "compile with one of -DPATH_GLOBAL, -DPATH_GLOBAL_L2, -DPATH_READONLY, -DPATH_TEXTURE"
#endif
#ifdef PATH_TEXTURE
struct Texel {
    unsigned long long texture;
    unsigned texel;
    __device__ __forceinline__ Texel operator+(unsigned step) const { return {texture, texel + step}; }
    __device__ __forceinline__ void operator+=(unsigned step) { texel += step; }
};
#define ADDRESS Texel
#define STEP 1
#define FROM(source, first) {source, static_cast<u32>(first)}
#else
#define ADDRESS u64
#define FROM(source, first) (source) + (first)
#endif
#define ADDRESS_IN "l"
#include "tile.cuh"

#define MAX_SM_THREADS 2048  // of any GPU

extern "C" __global__ void __launch_bounds__(THREADS)
    stream_global(StreamReport* reports, u64 source, u64 target, u64 tiles_, u64 stride_, u64 passes_,
                  u64 salt) {
    const u32 tiles = static_cast<u32>(tiles_), stride = static_cast<u32>(stride_), passes = static_cast<u32>(passes_);
    const u32 index = blockIdx.x % stride, count = index < tiles ? (tiles - index - 1) / stride + 1 : 0;
    const u32 tile = blockDim.x * (ILP * STEP);
    const u64 step = static_cast<u64>(stride) * tile;  // to the next tile of this block
    const u64 first = static_cast<u64>(index) * tile + first_access();
#if defined(TRANSFER_READ)
    Access sums{};
#elif defined(TRANSFER_WRITE)
    Access written = first_words(static_cast<u32>(salt));
#endif
    __syncthreads();
    const u64 begin = timer_ns(), begin_cycles = sm_cycles();
#pragma unroll 1
    for (u32 pass = 0; pass < passes; ++pass) {
        ADDRESS from = FROM(source, first);
        u64 to = target + first;
#pragma unroll 1
        for (u32 left = count; left != 0; --left) {
#if defined(TRANSFER_READ)
            read_tile(from, sums);
#elif defined(TRANSFER_WRITE)
            write_tile(to, written);
#elif defined(TRANSFER_ADD)
            add_to_tile(to, static_cast<u32>(salt));
#else
            copy_tile(from, to);
#endif
            from += step;
            to += step;
        }
#ifdef TRANSFER_WRITE
        next_words(written);
#endif
    }
#ifdef TRANSFER_READ
    // A barrier that needs the sum of every thread waits for every load.
    const u32 sum = sum_of(sums), all = __syncthreads_or(sum != 0);
#else
    // Every store of the run has reached the L2, where all SMs see it, before the last block ends: the last two waves
    // of blocks wait for their stores, and those of earlier waves have had the time. A block that another replaces does
    // not wait, since its SM would be idle meanwhile (on an H200 short blocks would write 2 % less).
    const u64 remaining = static_cast<u64>(gridDim.x - blockIdx.x) * blockDim.x;
#ifdef TRANSFER_ADD  // also in the memory of another GPU
    if (remaining <= 2 * MAX_SM_THREADS * sm_numbers()) __threadfence_system();
#else
    if (remaining <= 2 * MAX_SM_THREADS * sm_numbers()) __threadfence();
#endif
    __syncthreads();
    const u32 sum = 0, all = 0;
#endif
    const u64 end = timer_ns(), end_cycles = sm_cycles();
    StreamReport* const report = reports + blockIdx.x;
    if (all && sum != 0) atomicAdd(&report->sum, sum);
    if (threadIdx.x == 0) write_report(report, begin, end, end_cycles - begin_cycles, 0);
}
