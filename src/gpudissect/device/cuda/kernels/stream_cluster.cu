// Every block reads the shared memory of the next block of its cluster, again and again: -DWIDTH bytes a load (4, 8 or
// 16), -DILP loads of a thread in flight, -DTHREADS threads (so many registers are left for what they load). What they
// read is summed up, so that the host can tell that it was read, all of it and from the right block.
#include "cluster.cuh"
#include "stream.cuh"
#include "words.cuh"

// (A generic load, as in path.cuh: it is what ld.shared::cluster becomes.)
#define LOAD_BY "ld"
#define ADDRESS u64
#define ADDRESS_IN "l"
#include "access.cuh"

extern __shared__ __align__(16) u64 memory[];

// Word i of the block of this rank: stream_ring.py knows it, too.
__device__ __forceinline__ u32 word_of(u32 rank, u32 i) { return i + (rank + 1) * WORD_STEP; }

// `footprint` is a multiple of what all threads read in a round.
extern "C" __global__ void __launch_bounds__(THREADS) stream_cluster(StreamReport* reports, u64 footprint, u64 passes) {
    const u32 rank = cluster_rank();
    const u32 next = rank + 1 == cluster_blocks() ? 0 : rank + 1;
    u32* const own = reinterpret_cast<u32*>(memory);
    for (u32 i = threadIdx.x; i < footprint / 4; i += blockDim.x) own[i] = word_of(rank, i);
    meet();
    const u64 begin = timer_ns(), born = sm_cycles();
    const u64 window = window_of(memory, next);
    const u32 round = blockDim.x * WIDTH * ILP;
    u32 sum = 0;
    for (u64 pass = 0; pass < passes; ++pass) {
#pragma unroll 1
        for (u64 at = window + threadIdx.x * WIDTH; at < window + footprint; at += round) {
            Access got[ILP];
#pragma unroll
            for (u32 k = 0; k < ILP; ++k) got[k] = load(at + k * blockDim.x * WIDTH);
#pragma unroll
            for (u32 k = 0; k < ILP; ++k)
#pragma unroll
                for (u32 w = 0; w < ACCESS_WORDS; ++w) sum += got[k].words[w];
        }
    }
    // A barrier that needs the sum of every thread waits for every load.
    const u32 all = __syncthreads_or(sum != 0);
    const u64 end = timer_ns(), died = sm_cycles();
    StreamReport* const report = reports + blockIdx.x;
    if (all) atomicAdd(&report->sum, sum);
    if (threadIdx.x == 0) tell(report, begin, end, died - born, rank);
    meet();
}
