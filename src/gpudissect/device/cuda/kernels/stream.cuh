// What a block of a stream tells: when it began and ended, how many cycles that were, and a sum of what it read.
#pragma once
#include "job.cuh"

struct StreamReport {
    u64 begin, end;  // global timer, ns
    u64 cycles;      // of this block's SM between them
    u64 sum;         // CLUSTER: of the words it read, their low 32 bits; TMA: copies that did not hold what they should
    u32 sm;          // %smid
    u32 rank;        // CLUSTER: its rank in its cluster
};

__device__ __forceinline__ u64 stream_ns() {
    u64 ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

__device__ __forceinline__ u64 stream_clock() {
    u64 cycles;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
    return cycles;
}

__device__ __forceinline__ u32 stream_sm() {
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}
