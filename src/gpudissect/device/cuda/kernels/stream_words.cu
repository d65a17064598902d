// Writes the words of a stream on global memory before it runs, and checks those that it left; sums up its reports.
#include "stream.cuh"
#include "words.cuh"

// Index of this thread in the grid, and the number of threads.
#define THREAD (blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x)
#define THREADS (gridDim.x * static_cast<u64>(blockDim.x))

#define DEPTH 4  // quads of words of a thread in flight: with fewer the check takes longer than the stream

__device__ __forceinline__ uint4 quad_at(u64 quad, u64 mask, u64 salt) {
    const u32 i = static_cast<u32>(4 * quad), m = static_cast<u32>(mask), s = static_cast<u32>(salt);
    return make_uint4(word_at(i, m, s), word_at(i + 1, m, s), word_at(i + 2, m, s), word_at(i + 3, m, s));
}

extern "C" __global__ void write_words(u32* to, u64 words, u64 mask, u64 salt) {
    uint4* const quads = reinterpret_cast<uint4*>(to);
#pragma unroll 4
    for (u64 i = THREAD; i < words / 4; i += THREADS) quads[i] = quad_at(i, mask, salt);
    const u64 rest = words / 4 * 4 + THREAD;
    if (rest < words) to[rest] = word_at(static_cast<u32>(rest), static_cast<u32>(mask), static_cast<u32>(salt));
}

__device__ __forceinline__ u32 differing(uint4 found, uint4 expected) {
    return (found.x != expected.x) + (found.y != expected.y) + (found.z != expected.z) + (found.w != expected.w);
}

// Counts wrong words.
extern "C" __global__ void check_words(const u32* in, u64 words, u64 mask, u64 salt, u64* wrong) {
    const uint4* const quads = reinterpret_cast<const uint4*>(in);
    const u64 quad_count = words / 4;
    u64 count = 0;
    for (u64 first = THREAD; first < quad_count; first += DEPTH * THREADS) {
        uint4 found[DEPTH];
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k)
            if (first + k * THREADS < quad_count) found[k] = __ldcg(quads + first + k * THREADS);
#pragma unroll
        for (u32 k = 0; k < DEPTH; ++k) {
            const u64 i = first + k * THREADS;
            if (i >= quad_count) break;
            count += differing(found[k], quad_at(i, mask, salt));
        }
    }
    const u64 rest = 4 * quad_count + THREAD;
    if (rest < words) {
        count += __ldcg(in + rest) != word_at(static_cast<u32>(rest), static_cast<u32>(mask), static_cast<u32>(salt));
    }
    if (count != 0) atomicAdd(wrong, count);
}

struct StreamSummary {
    u64 first_begin, last_begin, first_end, last_end;  // global timer, ns; before the first report the `first` are ~0
    u64 block_ns, cycles;                              // of all blocks together
    u64 missing, wrong;                                // blocks that did not run; words, counted by `check_words`
    u32 blocks_by_sm[1024];
};

// Sums up the reports of a run. Of every block remain its rank and sum, and its cycles unless that is a null pointer.
extern "C" __global__ void summarize(const StreamReport* reports, u64 blocks, StreamSummary* summary, u64* outcomes,
                                     u64* cycles) {
    u64 first_begin = ~0ull, last_begin = 0, first_end = ~0ull, last_end = 0, block_ns = 0, all_cycles = 0, missing = 0;
    for (u64 i = THREAD; i < blocks; i += THREADS) {
        const StreamReport report = reports[i];
        first_begin = min(first_begin, report.begin);
        last_begin = max(last_begin, report.begin);
        first_end = min(first_end, report.end);
        last_end = max(last_end, report.end);
        block_ns += report.end - report.begin;
        all_cycles += report.cycles;
        // A block with nothing to do may end as it begins.
        missing += report.begin == 0 || report.cycles == 0 || report.end < report.begin;
        atomicAdd(summary->blocks_by_sm + report.sm % 1024, 1u);
        outcomes[i] = static_cast<u64>(report.rank) << 32 | report.sum;
        if (cycles != nullptr) cycles[i] = report.cycles;
    }
    if (THREAD >= blocks) return;
    atomicMin(&summary->first_begin, first_begin);
    atomicMax(&summary->last_begin, last_begin);
    atomicMin(&summary->first_end, first_end);
    atomicMax(&summary->last_end, last_end);
    atomicAdd(&summary->block_ns, block_ns);
    atomicAdd(&summary->cycles, all_cycles);
    if (missing != 0) atomicAdd(&summary->missing, missing);
}
