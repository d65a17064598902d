// The job of a chase and its report. layout.py has the same layouts for numpy.
#pragma once

using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;

struct Job {
    u64 start;         // address of the link to the first position, see chains.cu; unused on NOTHING
    u64 results;       // address of a Report, followed by the slots
    u64 chain;         // SHARED, CLUSTER: address of the chain that is copied to shared memory
    u64 prior;         // address of the accesses before the chase, see prior.cuh
    u32 chain_bytes;   // SHARED, CLUSTER: bytes of that chain; 0 on every other path
    u32 slots_offset;  // byte offset of the slots in dynamic shared memory, a multiple of 8
    u32 slots;         // slots that are reported; shared memory holds one more, for records after the window
    u32 count;         // links of the chain
    u32 laps;          // all laps, those before timing included; 0: this block idles
    i32 first;         // number of the first record: minus the records before the window
    u32 hit_max, miss_min, miss_max;  // COUNT: the classes, in cycles
    u32 one;                          // 1, known only at run time: see the loops in chase.cu
    u32 prior_count;                  // PRIOR: number of prior accesses
    u32 sm;                           // ON_SM: the SM that must run it
    u32 taken;                        // ON_SM: written, 1 once a block on that SM has taken it
    u32 peer;                         // CLUSTER: rank of the block whose shared memory holds the chain
};

struct Report {
    u64 start, end;  // the link followed first, and the one that would be followed next: equal, or the chain is broken
    u64 base;        // SHARED, CLUSTER: address of the chain, which recorded links include; 0 on every other path
    u64 sm;          // %smid
    u64 peer_sm;     // CLUSTER: %smid of the block whose shared memory holds the chain
    u64 cycles, ns;  // lifetime of the block, on both clocks
};

// The index of a thread, unlike threadIdx.x hidden from the compiler: where it knows that this is 0, it moves timed loads
// to the uniform datapath.
__device__ __forceinline__ u32 thread_index() {
    u32 index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

// The job bypasses the L1, so that it leaves nothing in the cache under test.
__device__ __forceinline__ Job fetch(const Job* jobs) {
    union {
        Job job;
        u64 words[sizeof(Job) / 8];
    } copy;
#if defined(PRIOR) || defined(ON_SM) || defined(PATH_CLUSTER)
    const u64* from = reinterpret_cast<const u64*>(jobs);  // all blocks serve one chase
#else
    const u64* from = reinterpret_cast<const u64*>(jobs + blockIdx.x);
#endif
#pragma unroll
    for (u32 i = 0; i < sizeof(Job) / 8; ++i) copy.words[i] = __ldcg(from + i);
    return copy.job;
}
