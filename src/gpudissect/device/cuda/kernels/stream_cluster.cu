// Every block reads the shared memory of the next block of its cluster repeatedly: -DWIDTH bytes a load (4, 8 or 16),
// -DILP loads of a thread in flight, -DTHREADS threads (which leaves enough registers). The words are summed up, so
// that the host can check that all of them were read from the right block.
#include "cluster.cuh"
#include "stream.cuh"
#include "words.cuh"

// (A generic load, as in path.cuh: it is what ld.shared::cluster compiles to.)
#define LOAD_BY "ld"
#define ADDRESS u64
#define ADDRESS_IN "l"
#include "access.cuh"

extern __shared__ __align__(16) u64 memory[];

// Word i of the block of this rank, as in stream/backends.py.
__device__ __forceinline__ u32 word_of(u32 rank, u32 i) { return i + (rank + 1) * WORD_STEP; }

// `footprint` is a multiple of the tile that all threads read at once.
extern "C" __global__ void __launch_bounds__(THREADS) stream_cluster(StreamReport* reports, u64 footprint, u64 passes) {
    const u32 rank = cluster_rank();
    const u32 next = rank + 1 == cluster_blocks() ? 0 : rank + 1;
    u32* const words = reinterpret_cast<u32*>(memory);
    for (u32 i = threadIdx.x; i < footprint / 4; i += blockDim.x) words[i] = word_of(rank, i);
    cluster_barrier();
    const u64 begin = timer_ns(), begin_cycles = sm_cycles();
    const u64 window = window_of(memory, next);
    const u32 tile = blockDim.x * WIDTH * ILP;
    u32 sum = 0;
    for (u64 pass = 0; pass < passes; ++pass) {
#pragma unroll 1
        for (u64 at = window + threadIdx.x * WIDTH; at < window + footprint; at += tile) {
            Access loaded[ILP];
#pragma unroll
            for (u32 k = 0; k < ILP; ++k) loaded[k] = load(at + k * blockDim.x * WIDTH);
#pragma unroll
            for (u32 k = 0; k < ILP; ++k)
#pragma unroll
                for (u32 w = 0; w < ACCESS_WORDS; ++w) sum += loaded[k].words[w];
        }
    }
    // A barrier that needs the sum of every thread waits for every load.
    const u32 all = __syncthreads_or(sum != 0);
    const u64 end = timer_ns(), end_cycles = sm_cycles();
    StreamReport* const report = reports + blockIdx.x;
    if (all) atomicAdd(&report->sum, sum);
    if (threadIdx.x == 0) write_report(report, begin, end, end_cycles - begin_cycles, rank);
    cluster_barrier();
}
