// What a block of a stream tells: when it began and ended, how many cycles that were, and a sum of what it read.
#pragma once
#include "now.cuh"

struct StreamReport {
    u64 begin, end;  // global timer, ns
    u64 cycles;      // of this block's SM between them
    u64 sum;         // CLUSTER: of the words it read, their low 32 bits; TMA: copies that did not hold what they should
    u32 sm;          // %smid
    u32 rank;        // CLUSTER: its rank in its cluster
};
