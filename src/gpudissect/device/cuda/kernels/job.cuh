// What the host tells a chase and what a chase tells the host. layout.py holds the same layouts for numpy.
#pragma once

using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;

struct Job {
    u64 start;       // address of the link to the first position, see Ring::first in lay.cu; unused on NOTHING
    u64 results;     // address of a Report, followed by the slots
    u64 ring;        // SHARED, CLUSTER: address of the ring that is copied to shared memory
    u64 turns;       // address of the turns taken before, see turns.cuh
    u32 ring_bytes;  // SHARED, CLUSTER: bytes of that ring; 0 on every other path
    u32 slots_at;    // byte offset of the slots in dynamic shared memory, a multiple of 8
    u32 slots;       // slots that are reported; shared memory holds one more, for what comes after the window
    u32 count;       // links of the ring
    u32 laps;        // laps in all, those before timing included; 0: this block idles
    i32 first;       // number of the first record: minus what comes before the window
    u32 hit_max, miss_min, miss_max;  // COUNT: the classes, in cycles
    u32 one;                          // 1, known only at run time: see the loops in chase.cu
    u32 turn_count;                   // turns taken before
    u32 sm;                           // PLACED: the SM that must run it
    u32 taken;                        // PLACED: written, 1 once a block on that SM has taken it
    u32 peer;                         // CLUSTER: rank of the block whose shared memory holds the ring
};

struct Report {
    u64 start, end;  // the link followed first, and the one that would be followed next: equal, or the chain is broken
    u64 base;        // SHARED, CLUSTER: address of the ring, which the links it recorded contain; 0 on every other path
    u64 sm;          // %smid
    u64 peer_sm;     // CLUSTER: %smid of the block whose shared memory holds the ring
    u64 cycles, ns;  // how long the block lived, on both clocks
};

// The job is read past the L1, so that it leaves nothing in the cache under test.
__device__ __forceinline__ Job fetch(const Job* jobs) {
    union {
        Job job;
        u64 words[sizeof(Job) / 8];
    } copy;
#if defined(TURNS) || defined(PLACED) || defined(PATH_CLUSTER)
    const u64* from = reinterpret_cast<const u64*>(jobs);  // all blocks are there for one chase
#else
    const u64* from = reinterpret_cast<const u64*>(jobs + blockIdx.x);
#endif
#pragma unroll
    for (u32 i = 0; i < sizeof(Job) / 8; ++i) copy.words[i] = __ldcg(from + i);
    return copy.job;
}
